#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch computes for every operator and for a small GPT: tests/data/torch/*.json.

Operands are f32 numbers, the arithmetic is f64, so that the recorded values are exact for a test of
f32 kernels. Arrays are flat, sample after sample, channels last; shapes are per sample. Run with
any Python that has torch (CPU is enough); the output depends on the seeds below only.
"""
import json
import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "torch"
EPS, MOMENTUM = torch.tensor([1e-5, 0.1]).tolist()  # as f32 holds them
LR, DECAY, MUON_MOMENTUM = torch.tensor([0.02, 0.1, 0.95]).tolist()
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


def record_loss():
    """Label smoothing is PyTorch's; z-loss is PaLM's: a factor times the squared log of the softmax's sum."""
    r = Recorder("loss", 7)
    targets = torch.randint(0, 11, (3, 5), generator=r.g)
    targets[0, 2] = targets[2, 4] = targets[2, 0] = -1

    def losses(x, smoothing, z_loss):
        """Per sample."""
        found = []
        for a, b in zip(x, targets):
            square = torch.logsumexp(a, -1)[b != -1].square().mean()
            found.append(F.cross_entropy(a, b, ignore_index=-1, label_smoothing=smoothing) + z_loss * square)
        return torch.stack(found)

    smoothing, z_loss = torch.tensor([0.1, 0.03]).tolist()  # as f32 holds them
    for name, s, z, training in (("smoothing", smoothing, 0, True), ("z-loss", 0, z_loss, True),
                                 ("both", smoothing, z_loss, True), ("evaluation", smoothing, z_loss, False)):
        x = rand(r.g, 3, 5, 11, scale=3.0)
        (losses(x, s, z).sum() / 3).backward()
        y = losses(x, s, z) if training else losses(x, 0, 0)
        r.cases.append({
            "name": f"cross-entropy, {name}", "kind": "cross-entropy", "attributes": {"smoothing": s, "z_loss": z},
            "training": training, "samples": 3,
            "x": [{"shape": [5, 11], "values": numbers(x)}, {"shape": [5], "values": numbers(targets)}],
            "p": [], "y": numbers(y), "dx": [numbers(x.grad), None], "dp": []})
    r.write()


def record_muon():
    """torch.optim.Muon in f64 in the place of its bf16. Weights are (in, out) here, and (out, in) there."""
    class InDouble:
        """What the optimizer's module takes for torch."""
        bfloat16 = torch.float64

        def __getattr__(self, name):
            return getattr(torch, name)

    g = torch.Generator().manual_seed(8)
    torch.optim._muon.torch = InDouble()  # pylint: disable=protected-access
    cases = []
    for rows, columns in ((6, 10), (10, 6), (7, 7)):
        for adjust in ("original", "match_rms_adamw"):
            start = rand(g, rows, columns).detach()
            grads = [rand(g, rows, columns).detach() for _ in range(3)]
            w = torch.nn.Parameter(start.t().clone())
            optimizer = torch.optim.Muon([w], lr=LR, weight_decay=DECAY, momentum=MUON_MOMENTUM, adjust_lr_fn=adjust)
            steps = []
            for grad in grads:
                w.grad = grad.t().clone()
                optimizer.step()
                steps.append(numbers(w.t()))
            cases.append({"name": f"{rows}x{columns}, {adjust}", "rows": rows, "columns": columns, "adjust": adjust,
                          "lr": LR, "momentum": MUON_MOMENTUM, "weight_decay": DECAY, "weights": numbers(start),
                          "grads": [numbers(grad) for grad in grads], "steps": steps})
    torch.optim._muon.torch = torch  # pylint: disable=protected-access
    write("muon", {"torch": torch.__version__, "seed": 8, "cases": cases})


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
                   record_loss, record_muon, record_gpt):
        record()
