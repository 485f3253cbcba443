#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch computes for every operator and for a small GPT: tests/data/torch/*.json.

Operands are f32 numbers, the arithmetic is f64, so that the recorded values are exact for a test of
f32 kernels. Arrays are flat, sample after sample, channels last; shapes are per sample. Run with
any Python that has torch (CPU is enough); the output depends on the seeds below only.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "torch"
EPS, MOMENTUM = torch.tensor([1e-5, 0.1]).tolist()  # as f32 holds them
torch.set_num_threads(1)


def numbers(t):
    return [float(f"{v:.9g}") for v in t.detach().double().reshape(-1).tolist()]


def rand(generator, *shape, scale=1.0, shift=0.0):
    """f32 numbers as a f64 tensor that wants a gradient."""
    t = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale + shift
    return t.float().double().requires_grad_()


class Recorder:
    """Cases of one file."""

    def __init__(self, name, seed):
        self.name, self.seed, self.cases = name, seed, []
        self.g = torch.Generator().manual_seed(seed)

    def add(self, name, kind, function, x, p=(), attributes=None, **extra):
        """function(*x, *p) -> y; x are batched tensors, p parameters."""
        y = function(*x, *p)
        dy = rand(self.g, *y.shape).detach()
        y.backward(dy)
        self.cases.append({
            "name": name, "kind": kind, "attributes": attributes or {}, "samples": x[0].shape[0],
            "x": [{"shape": list(t.shape[1:]), "values": numbers(t)} for t in x],
            "p": [{"shape": list(t.shape), "values": numbers(t)} for t in p],
            "y": numbers(y), "dy": numbers(dy),
            "dx": [numbers(t.grad) if t.grad is not None else None for t in x],
            "dp": [numbers(t.grad) for t in p], **extra})

    def write(self):
        write(self.name, {"torch": torch.__version__, "seed": self.seed, "cases": self.cases})


def write(name, data):
    text = json.dumps(data, separators=(",", ":"))
    (OUT / f"{name}.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


def activate(h, act):
    if act == "gelu":
        return F.gelu(h, approximate="tanh")
    if act == "silu":
        return F.silu(h)
    return F.relu(h) if act == "relu" else h


def record_linear():
    r = Recorder("linear", 1)
    for act in ("none", "relu", "gelu"):
        for transposed in (False, True):
            weight = rand(r.g, *((7, 10) if transposed else (10, 7)), scale=0.5)
            bias = rand(r.g, 7)

            def function(x, w, b, act=act, transposed=transposed):
                return activate(F.linear(x, w if transposed else w.t(), b), act)

            r.add(f"linear, {act}{', transposed' if transposed else ''}", "linear", function,
                  [rand(r.g, 2, 3, 10)], [weight, bias], {"act": act, "transposed": transposed})
    r.add("linear without bias", "linear", lambda x, w: x @ w, [rand(r.g, 3, 10)],
          [rand(r.g, 10, 4)])
    r.write()


def record_norm():
    r = Recorder("norm", 2)
    r.add("layernorm", "layernorm", lambda x, g, b: F.layer_norm(x, (12,), g, b, EPS),
          [rand(r.g, 2, 4, 12, shift=0.5)], [rand(r.g, 12), rand(r.g, 12)], {"eps": EPS})
    for act in ("none", "relu"):
        for training in (True, False):
            state = [rand(r.g, 5).detach(), (rand(r.g, 5).detach().abs() + 0.5).float().double()]
            before = [numbers(s) for s in state]

            def function(x, g, b, act=act, training=training, state=state):
                h = F.batch_norm(x.movedim(-1, 1), *state, g, b, training, MOMENTUM, EPS)
                return activate(h.movedim(1, -1), act)

            x = rand(r.g, 3, 2, 4, 5, shift=0.3)
            p = [rand(r.g, 5), rand(r.g, 5)]
            r.add(f"batchnorm, {act}, {'training' if training else 'evaluation'}", "batchnorm",
                  function, [x], p, {"eps": EPS, "momentum": MOMENTUM, "act": act},
                  training=training, state_before=before)
            r.cases[-1]["state_after"] = [numbers(s) for s in state]
    r.write()


def attention(qkv, heads, causal):
    batch, rows, width = qkv.shape
    q, k, v = (t.reshape(batch, rows, heads, -1).transpose(1, 2) for t in qkv.split(width // 3, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return y.transpose(1, 2).reshape(batch, rows, width // 3)


def record_attention():
    r = Recorder("attention", 3)
    for causal in (False, True):
        r.add(f"attention{', causal' if causal else ''}", "attention",
              lambda x, causal=causal: attention(x, 3, causal), [rand(r.g, 2, 6, 36)], [],
              {"heads": 3, "causal": causal})
    r.write()


def grouped_attention(qkv, heads, kv_heads, window):
    """Causal; each of kv_heads serves heads / kv_heads of them (Hugging Face's repeat_kv)."""
    batch, rows, width = qkv.shape
    depth = width // (heads + 2 * kv_heads)
    q, k, v = (t.reshape(batch, rows, -1, depth).transpose(1, 2) for t in
               qkv.split([heads * depth, kv_heads * depth, kv_heads * depth], 2))
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    t = torch.arange(rows)
    seen = t[None, :] <= t[:, None]
    if window:
        seen &= t[None, :] > t[:, None] - window
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return y.transpose(1, 2).reshape(batch, rows, heads * depth)


def rope_frequencies(head_dim, theta, scaling=None, factor=1.0, low=1.0, high=4.0, context=0):
    """modeling_rope_utils.py of transformers, in double."""
    f = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if scaling == "linear":
        return f / factor
    if scaling == "llama3":
        wavelen = 2 * torch.pi / f
        smooth = (context / wavelen - low) / (high - low)
        scaled = torch.where(wavelen > context / low, f / factor, f)
        medium = ~(wavelen < context / high) & ~(wavelen > context / low)
        return torch.where(medium, (1 - smooth) * f / factor + smooth * f, scaled)
    return f


def rotary(x, heads, head_dim, frequencies):
    """apply_rotary_pos_emb of transformers on the first heads of packed rows."""
    batch, rows, width = x.shape
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * torch.cat((frequencies,) * 2)
    h = x[..., :heads * head_dim].reshape(batch, rows, heads, head_dim)
    turned = torch.cat((-h[..., head_dim // 2:], h[..., :head_dim // 2]), -1)
    h = h * angle.cos()[:, None] + turned * angle.sin()[:, None]
    return torch.cat((h.reshape(batch, rows, -1), x[..., heads * head_dim:]), -1)


def qknorm(x, q_gain, k_gain, heads, kv_heads, eps):
    batch, rows, width = x.shape
    depth, n = q_gain.shape[0], (heads + kv_heads) * q_gain.shape[0]
    h = x[..., :n].reshape(batch, rows, -1, depth)
    h = torch.cat((F.rms_norm(h[:, :, :heads], (depth,), q_gain, eps),
                   F.rms_norm(h[:, :, heads:], (depth,), k_gain, eps)), 2)
    return torch.cat((h.reshape(batch, rows, n), x[..., n:]), -1)


def record_decoder():
    r = Recorder("decoder", 7)
    for heads, kv_heads, window in ((4, 2, 0), (3, 1, 0), (2, 2, 3), (4, 2, 2)):
        r.add(f"attention, {heads} heads share {kv_heads}, window {window}", "attention",
              lambda x, a=(heads, kv_heads, window): grouped_attention(x, *a),
              [rand(r.g, 2, 5, (heads + 2 * kv_heads) * 3)], [],
              {"heads": heads, "kv_heads": kv_heads, "window": window, "causal": True})
    for rope in ({"theta": 10000}, {"theta": 100, "scaling": "linear", "factor": 4},
                 {"theta": 500, "scaling": "llama3", "factor": 8, "low": 1, "high": 4,
                  "context": 64}):
        r.add(f"rotary, {rope.get('scaling', 'no scaling')}", "rotary",
              lambda x, rope=rope: rotary(x, 2, 6, rope_frequencies(6, **rope)),
              [rand(r.g, 2, 6, 15)], [], {"heads": 2, "head_dim": 6, "rope": rope})
    for act in ("silu", "gelu"):
        r.add(f"glu, {act}", "glu",
              lambda x, act=act: activate(x[..., :5], act) * x[..., 5:],
              [rand(r.g, 2, 3, 10, scale=2.0)], [], {"act": act})
    r.add("silu", "act", lambda x: activate(x, "silu"), [rand(r.g, 3, 4, 5, scale=2.0)], [],
          {"act": "silu"})
    r.add("rmsnorm", "rmsnorm", lambda x, g: F.rms_norm(x, (12,), g, EPS),
          [rand(r.g, 2, 3, 12, shift=0.5)], [rand(r.g, 12)], {"eps": EPS})
    r.add("qknorm", "qknorm", lambda x, q, k: qknorm(x, q, k, 3, 1, EPS),
          [rand(r.g, 2, 3, 23)], [rand(r.g, 5), rand(r.g, 5)],
          {"heads": 3, "kv_heads": 1, "eps": EPS})
    record_experts(r)
    r.write()


def route(logits, k, normalize, capacity):
    """Weights [batch, tokens, experts] (MixtralTopKRouter, Qwen3MoeTopKRouter of transformers); an
    expert takes the first tokens of a sample."""
    probs = logits.softmax(-1)
    top, chosen = probs.topk(k, -1)
    if normalize:
        top = top / top.sum(-1, keepdim=True)
    wanted = F.one_hot(chosen, logits.shape[-1]).sum(-2)
    if capacity:
        most = math.ceil(capacity * logits.shape[1] * k / logits.shape[-1])
        wanted = wanted * (wanted.cumsum(1) <= most)
    return torch.zeros_like(probs).scatter(-1, chosen, top) * wanted


def load_balancing_loss(logits, k):
    """load_balancing_loss_func of transformers, of one sample and layer."""
    probs = logits.softmax(-1)
    mask = F.one_hot(probs.topk(k, -1)[1], logits.shape[-1]).double()
    return (mask.mean(0) * probs.mean(0)).sum() * logits.shape[-1]


def experts(x, weights, up, down, act):
    """Every expert for every token: those with weight 0 add nothing."""
    gate, lifted = torch.einsum("btc,ecf->btef", x, up).chunk(2, -1)
    return torch.einsum("btef,efc,bte->btc", activate(gate, act) * lifted, down, weights)


def record_experts(r):
    for k, normalize, capacity in ((2, False, 0), (2, True, 0), (1, False, 1.0), (3, True, 0.5)):
        r.add(f"router, {k} of 4{', normalized' * normalize}, capacity {capacity}", "router",
              lambda x, a=(k, normalize, capacity): route(x, *a), [rand(r.g, 2, 5, 4)], [],
              {"experts_per_token": k, "normalize": normalize, "capacity": capacity})
    x, scale, weight = rand(r.g, 2, 5, 4), 0.25, torch.tensor(0.01).item()
    r.add("router, load balancing", "router", lambda x: route(x, 2, True, 0), [x], [],
          {"experts_per_token": 2, "normalize": True, "aux_loss": weight}, scale=scale)
    sum(scale * weight * load_balancing_loss(sample, 2) for sample in x).backward()
    r.cases[-1]["dx"] = [numbers(x.grad)]
    for act in ("silu", "gelu"):
        x, weights = rand(r.g, 2, 3, 4), route(rand(r.g, 2, 3, 3), 2, True, 0).float().double()
        weights = weights.detach().requires_grad_()
        r.add(f"experts, {act}", "experts", lambda *a, act=act: experts(*a, act), [x, weights],
              [rand(r.g, 3, 4, 10), rand(r.g, 3, 5, 4)], {"experts_per_token": 2, "act": act})
        r.cases[-1]["dx"][1] = numbers(weights.grad * (weights != 0))


def record_image():
    r = Recorder("image", 4)
    for stride, pad, kernel in (((1, 1), (1, 1), (3, 3)), ((2, 1), (0, 2), (2, 3)),
                                ((2, 2), (3, 3), (7, 7))):
        def function(x, w, b, stride=stride, pad=pad):
            y = F.conv2d(x.movedim(-1, 1), w.permute(3, 2, 0, 1), b, stride, pad)
            return y.movedim(1, -1)

        r.add(f"conv2d, kernel {kernel}, stride {stride}, padding {pad}", "conv2d", function,
              [rand(r.g, 2, 6, 7, 3)], [rand(r.g, *kernel, 3, 4, scale=0.3), rand(r.g, 4)],
              {"kernel": kernel, "stride": stride, "pad": pad})
    for stride, pad, kernel in (((2, 2), (1, 1), (3, 3)), ((1, 2), (0, 1), (2, 2))):
        def function(x, stride=stride, pad=pad, kernel=kernel):
            return F.max_pool2d(x.movedim(-1, 1), kernel, stride, pad).movedim(1, -1)

        r.add(f"maxpool2d, kernel {kernel}", "maxpool2d", function, [rand(r.g, 2, 6, 7, 3)], [],
              {"kernel": kernel, "stride": stride, "pad": pad})
    r.add("avgpool", "avgpool", lambda x: x.mean((1, 2)), [rand(r.g, 3, 4, 5, 6)])
    r.write()


def record_other():
    r = Recorder("other", 5)
    tokens = torch.randint(0, 9, (3, 6), generator=r.g)
    r.add("embedding", "embedding", lambda t, w, p: F.embedding(t, w) + p, [tokens],
          [rand(r.g, 9, 5), rand(r.g, 6, 5)])
    r.add("add", "add", lambda a, b: a + b, [rand(r.g, 2, 3, 4), rand(r.g, 2, 3, 4)])
    r.add("concat", "concat", lambda *x: torch.cat(x, -1),
          [rand(r.g, 2, 3, 4), rand(r.g, 2, 3, 1), rand(r.g, 2, 3, 6)])
    for act in ("relu", "gelu"):
        r.add(act, "act", lambda x, act=act: activate(x, act), [rand(r.g, 3, 4, 5, scale=2.0)], [],
              {"act": act})
    targets = torch.randint(0, 11, (3, 5), generator=r.g)
    targets[0, 2] = targets[2, 4] = targets[2, 0] = -1

    def losses(x, t):
        return torch.stack([F.cross_entropy(a, b, ignore_index=-1) for a, b in zip(x, t)])

    x = rand(r.g, 3, 5, 11, scale=3.0)
    (losses(x, targets).sum() / 3).backward()
    r.cases.append({
        "name": "cross-entropy", "kind": "cross-entropy", "attributes": {}, "samples": 3,
        "x": [{"shape": [5, 11], "values": numbers(x)},
              {"shape": [5], "values": numbers(targets)}],
        "p": [], "y": numbers(losses(x, targets)), "dx": [numbers(x.grad), None], "dp": []})
    r.write()


def gpt(p, tokens, layers, heads):
    """GPT-2 with parameters by their published names; matrices are (in, out), the head is tied."""
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], EPS)

    def linear(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    x = F.embedding(tokens, p["wte.weight"]) + p["wpe.weight"]
    for i in range(layers):
        h = attention(linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), heads, True)
        x = x + linear(h, f"h.{i}.attn.c_proj")
        h = F.gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + linear(h, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].t()


def record_gpt():
    g = torch.Generator().manual_seed(6)
    layers, heads, dim, vocab, context, samples = 2, 2, 8, 17, 6, 3
    p = {"wte.weight": rand(g, vocab, dim, scale=0.5), "wpe.weight": rand(g, context, dim)}
    for i in range(layers):
        for name, n_in, n_out in (("attn.c_attn", dim, 3 * dim), ("attn.c_proj", dim, dim),
                                  ("mlp.c_fc", dim, 4 * dim), ("mlp.c_proj", 4 * dim, dim)):
            p[f"h.{i}.{name}.weight"] = rand(g, n_in, n_out, scale=0.3)
            p[f"h.{i}.{name}.bias"] = rand(g, n_out, scale=0.1)
    for name in [f"h.{i}.ln_{k}" for i in range(layers) for k in (1, 2)] + ["ln_f"]:
        p[name + ".weight"] = rand(g, dim, scale=0.2, shift=1.0)
        p[name + ".bias"] = rand(g, dim, scale=0.2)
    tokens = torch.randint(0, vocab, (samples, context), generator=g)
    targets = torch.randint(0, vocab, (samples, context), generator=g)
    targets[1, :2] = -1
    logits = gpt(p, tokens, layers, heads)
    losses = [F.cross_entropy(a, b, ignore_index=-1) for a, b in zip(logits, targets)]
    (sum(losses) / samples).backward()
    write("gpt", {
        "torch": torch.__version__, "seed": 6, "layers": layers, "heads": heads, "dim": dim,
        "vocab": vocab, "context": context, "samples": samples, "tokens": numbers(tokens),
        "targets": numbers(targets), "losses": [numbers(v)[0] for v in losses],
        "logits": numbers(logits),
        "params": [{"name": k, "values": numbers(v), "gradient": numbers(v.grad)}
                   for k, v in p.items()]})


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for record in (record_linear, record_norm, record_attention, record_image, record_other,
                   record_gpt, record_decoder):
        record()
