#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch computes for every operator, a small GPT and a small Llama:
tests/data/torch/*.json. The Llama is held against transformers where that is installed.

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
            "name": name, "kind": kind, "attributes": attributes or {},
            "samples": y.shape[0],
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


def record_maps():
    r = Recorder("maps", 7)

    def add(name, function, x, constants=()):
        r.add(name, "map", function, x, [], {"map": name, "constants": constants})

    def one(scale=2.0):
        return [rand(r.g, 2, 3, 5, scale=scale)]

    def positive(*shapes):
        return [(rand(r.g, *shape).detach().abs() + 0.25).float().double().requires_grad_()
                for shape in shapes or ((2, 3, 5),)]

    def two(*shapes):
        return [rand(r.g, *shape) for shape in shapes]

    # Samples come first: where an operand has fewer axes its own begin behind that one.

    def ties():
        """Halves, of which some are equal."""
        return [(rand(r.g, 2, *shape).detach() * 2).round().div(2).requires_grad_()
                for shape in ((3, 5), (5,))]

    add("affine", lambda x: 1.5 * x - 0.25, one(), (1.5, -0.25))
    add("power", lambda x: x ** 3, one(), (3,))
    add("power", lambda x: x ** -1.5, positive(), (-1.5,))
    add("clip", lambda x: x.clamp(-0.5, 1.25), one(), (-0.5, 1.25))
    add("leaky-relu", lambda x: F.leaky_relu(x, 0.125), one(), (0.125,))
    add("elu", lambda x: F.elu(x, 1.5), one(), (1.5,))
    add("hard-sigmoid", lambda x: (0.25 * x + 0.5).clamp(0, 1), one(), (0.25, 0.5))
    add("hard-swish", F.hardswish, one(3.0))
    for name in ("abs", "exp", "erf", "tanh", "sigmoid", "sin", "cos"):
        add(name, getattr(torch, name), one())
    for name in ("log", "sqrt", "reciprocal"):
        add(name, getattr(torch, name), positive())
    add("gelu-erf", F.gelu, one())
    add("softplus", F.softplus, one(6.0))
    add("sum", lambda a, b: a + b[:, None], two((2, 3, 1, 4), (2, 2, 1)))
    add("difference", torch.sub, two((2, 1, 5), (2, 3, 5)))
    add("product", torch.mul, two((2, 3, 5), (2, 3, 1)))
    add("quotient", torch.div, positive((2, 3, 1), (2, 1, 5)))
    add("pow", torch.pow, positive((2, 3, 5), (2, 3, 1)))
    add("min", lambda a, b: torch.minimum(a, b[:, None]), ties())
    add("max", lambda a, b: torch.maximum(a, b[:, None]), ties())
    r.write()


def record_general():
    r = Recorder("general", 8)
    r.add("parameter", "parameter", lambda p: p.expand(3, 4, 5), [], [rand(r.g, 4, 5)], samples=3)
    for name, axes, function in (("sum", 5, lambda x: x.sum((1, 3), keepdim=True)),
                                 ("mean", 3, lambda x: x.mean((2, 3), keepdim=True)),
                                 ("max", 2, lambda x: x.amax(2, keepdim=True))):
        x = rand(r.g, 2, 3, 4, 2)
        x.data[0, 1, 2] = x.data[0, 1, 3]  # maxima that share their gradient
        r.add(f"reduce: {name}", "reduce", function, [x], [], {"axes": axes, "reduce": name})
    r.add("softmax", "softmax", lambda x: x.softmax(-1), [rand(r.g, 2, 3, 7, scale=3.0)])
    r.add("log-softmax", "softmax", lambda x: x.log_softmax(1), [rand(r.g, 2, 7, 3, scale=3.0)],
          [], {"axis": 1, "logarithm": True})
    r.add("matmul", "matmul", lambda a, b: a @ b.mT[:, None],
          [rand(r.g, 2, 2, 3, 4), rand(r.g, 2, 5, 4)], [], {"swapped": [False, True]})
    r.add("matmul, swapped", "matmul", lambda a, b: a.mT @ b,
          [rand(r.g, 2, 3, 4, 5), rand(r.g, 2, 3, 4, 6)], [], {"swapped": [True, False]})
    r.add("transpose", "strided", lambda x: x.permute(0, 2, 3, 1), [rand(r.g, 2, 2, 3, 4)], [],
          {"form": {"dims": [3, 4, 2], "from": [1, 2, 0], "step": [1, 1, 1]}})
    r.add("pad", "strided", lambda x: F.pad(x, (2, 1, 0, 3), value=0.5), [rand(r.g, 2, 3, 4)], [],
          {"form": {"dims": [6, 7], "from": [0, 1], "start": [0, -2], "step": [1, 1],
                    "fill": 0.5}})
    r.add("slice", "strided", lambda x: x[:, :, 1:6:2], [rand(r.g, 2, 3, 7)], [],
          {"form": {"dims": [3, 3], "from": [0, 1], "start": [0, 1], "step": [1, 2]}})
    r.add("expand", "strided", lambda x: x.expand(2, 3, 4, 2), [rand(r.g, 2, 3, 1, 2)], [],
          {"form": {"dims": [3, 4, 2], "from": [0, 1, 2], "step": [1, 0, 1]}})
    places = torch.tensor([[1, 4, 1, 0], [3, 3, 3, 2]])
    r.add("gather", "gather",
          lambda x, t: torch.stack([a[:, i] for a, i in zip(x, t)]),
          [rand(r.g, 2, 3, 5, 2), places], [], {"axis": 1, "integers": 2})
    mask = torch.tensor([[[1, 0, 1, 0, 0]] * 3, [[0, 0, 1, 1, 0]] * 3])
    r.add("select", "map", lambda c, a, b: torch.where(c != 0, a, b[:, None]),
          [mask, rand(r.g, 2, 3, 5), rand(r.g, 2, 5)], [], {"map": "select", "integers": 1})

    def grouped(x, w, b):
        y = F.conv2d(x.movedim(-1, 1), w.permute(3, 2, 0, 1), b, (1, 2), (1, 2), (2, 1), 2)
        return y.movedim(1, -1)

    r.add("conv2d, groups, dilated", "conv2d", grouped, [rand(r.g, 2, 6, 7, 4)],
          [rand(r.g, 2, 3, 2, 6), rand(r.g, 6)],
          {"kernel": [2, 3], "stride": [1, 2], "pad": [1, 2], "dilation": [2, 1], "groups": 2})

    def uneven(x, w):
        x = F.pad(x.movedim(-1, 1), (1, 0, 0, 1))
        return F.conv2d(x, w.permute(3, 2, 0, 1), None, 2, 0, 1, 3).movedim(1, -1)

    r.add("conv2d, uneven padding", "conv2d", uneven, [rand(r.g, 2, 5, 4, 3)],
          [rand(r.g, 3, 3, 1, 3)], {"kernel": [3, 3], "stride": [2, 2], "pad": [0, 1],
                                    "pad_more": [1, -1], "groups": 3})
    r.add("maxpool2d, ceil mode", "maxpool2d",
          lambda x: F.max_pool2d(x.movedim(-1, 1), 3, 2, 0, 1, True).movedim(1, -1),
          [rand(r.g, 2, 6, 6, 2)], [], {"kernel": [3, 3], "stride": [2, 2], "pad_more": [1, 1]})
    r.add("avgpool2d, padding counts", "avgpool2d",
          lambda x: F.avg_pool2d(x.movedim(-1, 1), 3, 2, 1).movedim(1, -1),
          [rand(r.g, 2, 5, 7, 2)], [],
          {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1], "whole": True})
    r.add("concat", "concat", lambda *x: torch.cat(x, 1), [rand(r.g, 2, n, 2, 3) for n in (1, 3)],
          [], {"axis": 2})
    x = rand(r.g, 3, 5, scale=4.0)
    targets = torch.rand(3, 5, generator=r.g, dtype=torch.float64).float().double()
    losses = F.binary_cross_entropy_with_logits(x, targets, reduction="none").mean(1)
    (losses.sum() / 3).backward()
    r.cases.append({
        "name": "binary cross-entropy", "kind": "binary-cross-entropy", "attributes": {},
        "samples": 3, "x": [{"shape": [5], "values": numbers(t)} for t in (x, targets)], "p": [],
        "y": numbers(losses), "dx": [numbers(x.grad), None], "dp": []})
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
    write_model("gpt", 6, g, p, {"layers": layers, "heads": heads, "dim": dim, "vocab": vocab,
                                 "context": context},
                lambda p, tokens: gpt(p, tokens, layers, heads), samples)


def losses_of(logits, targets):
    return [F.cross_entropy(a, b, ignore_index=-1) for a, b in zip(logits, targets)]


def write_model(name, seed, g, p, config, model, samples):
    """Logits, losses and gradients; config: keys of [model]; model(p, tokens) -> logits. f32_error:
    how far f32 takes PyTorch itself from these numbers, in units of 2^-24 of the largest of a
    tensor."""
    tokens = torch.randint(0, config["vocab"], (samples, config["context"]), generator=g)
    targets = torch.randint(0, config["vocab"], (samples, config["context"]), generator=g)
    targets[1, :2] = -1
    rough = {k: v.detach().float().requires_grad_() for k, v in p.items()}
    logits = {}
    for which in (p, rough):
        logits[id(which)] = model(which, tokens)
        (sum(losses_of(logits[id(which)], targets)) / samples).backward()
    pairs = [(logits[id(p)], logits[id(rough)])] + [(p[k].grad, rough[k].grad) for k in p]
    error = max(((a - b.double()).abs().max() / a.abs().max()).item() for a, b in pairs)
    write(name, {
        "torch": torch.__version__, "seed": seed, **config, "samples": samples,
        "f32_error": round(error * 2 ** 24, 1), "tokens": numbers(tokens),
        "targets": numbers(targets),
        "losses": [numbers(v)[0] for v in losses_of(logits[id(p)], targets)],
        "logits": numbers(logits[id(p)]),
        "params": [{"name": k, "values": numbers(v), "gradient": numbers(v.grad)}
                   for k, v in p.items()]})


def llama_frequencies(c):
    """Of the pairs of a head; transformers' ROPE_INIT_FUNCTIONS in double."""
    result = []
    for i in range(0, c["head_dim"], 2):
        f = c["rope_theta"] ** (-i / c["head_dim"])
        if c["rope_scaling"] == "linear":
            f /= c["rope_factor"]
        elif c["rope_scaling"] == "llama3":
            turns = c["rope_original_context"] * f / (2 * math.pi)
            low, high = c["rope_low_freq_factor"], c["rope_high_freq_factor"]
            part = min(max((turns - low) / (high - low), 0), 1)
            f = (1 - part) * f / c["rope_factor"] + part * f
        result.append(f)
    return torch.tensor(result, dtype=torch.float64)


def llama(p, tokens, c):
    """The family of Llama with parameters by their published names, but for what is packed: queries,
    keys and values, gate and up. Matrices are (in, out)."""
    heads, kv, d = c["heads"], c["kv_heads"], c["head_dim"]
    eps = torch.tensor(c["eps"], dtype=torch.float32).item()
    angles = torch.outer(torch.arange(tokens.shape[1], dtype=torch.float64), llama_frequencies(c))
    cos, sin = (f(angles).repeat(1, 2).to(p["norm.weight"].dtype) for f in (torch.cos, torch.sin))
    ahead = torch.arange(tokens.shape[1])[:, None] - torch.arange(tokens.shape[1])[None, :]
    seen = (ahead >= 0) & (ahead < (c["window"] or len(ahead)))

    def norm(x, name):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * p[name + ".weight"]

    def turned(x):
        return x * cos + torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1) * sin

    x = F.embedding(tokens, p["embed_tokens.weight"])
    for i in range(c["layers"]):
        at = f"layers.{i}.self_attn."
        qkv = norm(x, f"layers.{i}.input_layernorm") @ p[at + "qkv.weight"]
        qkv = qkv + p[at + "qkv.bias"] if c["qkv_bias"] else qkv
        q, k, v = (t.reshape(*t.shape[:2], -1, d).transpose(1, 2)
                   for t in qkv.split((heads * d, kv * d, kv * d), 2))
        if c["qk_norm"]:
            q, k = norm(q, at + "q_norm"), norm(k, at + "k_norm")
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (turned(k), v))
        y = F.scaled_dot_product_attention(turned(q), k, v, attn_mask=seen)
        x = x + y.transpose(1, 2).flatten(2) @ p[at + "o_proj.weight"]
        h = norm(x, f"layers.{i}.post_attention_layernorm") @ p[f"layers.{i}.mlp.gate_up.weight"]
        gate, up = h.chunk(2, -1)
        x = x + (F.silu(gate) * up) @ p[f"layers.{i}.mlp.down_proj.weight"]
    head = p["embed_tokens.weight"].t() if c["tied"] else p["lm_head.weight"]
    return norm(x, "norm") @ head


LLAMA = {"layers": 2, "dim": 8, "heads": 4, "kv_heads": 2, "head_dim": 6, "ff": 10, "context": 7,
         "vocab": 17, "window": 5, "tied": False, "qkv_bias": True, "qk_norm": True, "eps": 1e-5,
         "rope_theta": 50.0, "rope_scaling": "llama3", "rope_factor": 8.0,
         "rope_low_freq_factor": 0.5, "rope_high_freq_factor": 1.5, "rope_original_context": 16}


def llama_parameters(g, c):
    dim, width = c["dim"], (c["heads"] + 2 * c["kv_heads"]) * c["head_dim"]
    p = {"embed_tokens.weight": rand(g, c["vocab"], dim)}
    for i in range(c["layers"]):
        at = f"layers.{i}."
        p[at + "self_attn.qkv.weight"] = rand(g, dim, width, scale=0.3)
        if c["qkv_bias"]:
            p[at + "self_attn.qkv.bias"] = rand(g, width, scale=0.1)
        p[at + "self_attn.o_proj.weight"] = rand(g, c["heads"] * c["head_dim"], dim, scale=0.3)
        p[at + "mlp.gate_up.weight"] = rand(g, dim, 2 * c["ff"], scale=0.3)
        p[at + "mlp.down_proj.weight"] = rand(g, c["ff"], dim, scale=0.3)
        for name, n in (("input_layernorm", dim), ("post_attention_layernorm", dim),
                        ("self_attn.q_norm", c["head_dim"]), ("self_attn.k_norm", c["head_dim"])):
            if c["qk_norm"] or not name.startswith("self"):
                p[f"{at}{name}.weight"] = rand(g, n, scale=0.2, shift=1.0)
    p["norm.weight"] = rand(g, dim, scale=0.2, shift=1.0)
    if not c["tied"]:
        p["lm_head.weight"] = rand(g, dim, c["vocab"], scale=0.3)
    return p


def published(p, c):
    """Parameters as transformers names and lays them out."""
    q, kv, result = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], {}
    for name, v in p.items():
        v = v.detach()
        v = v.t() if v.dim() == 2 and not name.startswith("embed") else v
        prefix = "" if name.startswith("lm_head") else "model."
        if ".qkv." in name:
            for part, w in zip("qkv", v.split((q, kv, kv))):
                result[prefix + name.replace("qkv", f"{part}_proj")] = w
        elif ".gate_up." in name:
            for part, w in zip(("gate", "up"), v.chunk(2)):
                result[prefix + name.replace("gate_up", f"{part}_proj")] = w
        else:
            result[prefix + name] = v
    return result


def check_llama():
    """That llama() computes what transformers does, which has norms and angles in f32."""
    try:
        import transformers
    except ImportError:
        print("transformers is not here: llama() is not held against it")
        return
    plain = {**LLAMA, "window": 0, "qkv_bias": False, "qk_norm": False, "rope_scaling": "none"}
    kinds = {"Llama": {"rope_scaling": "llama3"}, "Mistral": {"window": 5},
             "Qwen2": {"qkv_bias": True, "tied": True, "head_dim": 2}, "Qwen3": {"qk_norm": True}}
    for kind, changes in (*kinds.items(), ("Llama", {"rope_scaling": "linear"})):
        c = {**plain, **changes}
        g = torch.Generator().manual_seed(8)
        p = llama_parameters(g, c)
        rope = {"rope_type": {"none": "default"}.get(c["rope_scaling"], c["rope_scaling"]),
                "rope_theta": c["rope_theta"], "factor": c["rope_factor"],
                "low_freq_factor": c["rope_low_freq_factor"],
                "high_freq_factor": c["rope_high_freq_factor"],
                "original_max_position_embeddings": c["rope_original_context"]}
        used = {"default": 2, "linear": 3, "llama3": 6}[rope["rope_type"]]
        config = getattr(transformers, kind + "Config")(
            hidden_size=c["dim"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
            num_key_value_heads=c["kv_heads"], head_dim=c["head_dim"], intermediate_size=c["ff"],
            vocab_size=c["vocab"], rms_norm_eps=c["eps"], tie_word_embeddings=c["tied"],
            max_position_embeddings=64, sliding_window=c["window"] or None,
            rope_parameters=dict(list(rope.items())[:used]), attn_implementation="eager",
            pad_token_id=None, bos_token_id=None, eos_token_id=None)
        model = getattr(transformers, kind + "ForCausalLM")(config).double()
        weights = published(p, c)
        missing, unexpected = model.load_state_dict(weights, strict=False)
        if unexpected or set(missing) - ({"lm_head.weight"} if c["tied"] else set()):
            raise SystemExit(f"{kind}: missing {missing}, unexpected {unexpected}")
        tokens = torch.randint(0, c["vocab"], (3, c["context"]), generator=g)
        off = (model(tokens).logits - llama(p, tokens, c)).abs().max().item()
        print(f"{kind} {changes}: off by {off:.1e}")
        if off > 1e-5:
            raise SystemExit("llama() is not what transformers computes")


def record_llama():
    check_llama()
    g = torch.Generator().manual_seed(7)
    p = llama_parameters(g, LLAMA)
    write_model("llama", 7, g, p, LLAMA, lambda p, tokens: llama(p, tokens, LLAMA), 3)


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for record in (record_linear, record_norm, record_attention, record_image, record_other,
                   record_loss, record_muon, record_maps, record_general, record_gpt, record_decoder, record_llama):
        record()
