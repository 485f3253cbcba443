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
                   record_maps, record_general, record_gpt):
        record()
