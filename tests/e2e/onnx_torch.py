#!/usr/bin/env python3
"""Models that PyTorch exports train as PyTorch trains them.

    onnx_torch.py penstock FOLDER [--record FOLDER]

Exports small models in training mode, trains each for 20 steps with PyTorch and, from the file, with penstock, on the same
samples (the synthetic data, drawn here anew), and compares the losses: 1e-4 relative. --record keeps files and losses, which
tests/e2e/onnx_test.txt holds penstock against where there is no PyTorch. Exit code 77: PyTorch, onnx or transformers is missing.
"""

import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
try:
    import numpy as np
    import onnx
    import torch
    from torch import nn
    import safetensors.torch
    import transformers
except ImportError as missing:
    other = os.environ.get("PENSTOCK_TORCH_PYTHON", "/opt/torch/bin/python")
    if os.access(other, os.X_OK) and not os.path.samefile(other, sys.executable) and "--again" not in sys.argv:
        os.execv(other, [other, *sys.argv, "--again"])
    print(f"skipped: {missing}")
    sys.exit(77)

STEPS, BATCH, SEED = 20, 4, 1
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(seed, stream, counter):
    """core/base/philox.h: four words of Philox4x32-10; counter: a number, or an array."""
    counter = np.asarray(counter, np.uint64)
    low, shift = np.uint64(M32), np.uint64(32)
    c = [counter & low, counter >> shift, np.uint64(stream & M32), np.uint64(stream >> 32 & M32)]
    k = [seed & M32, seed >> 32 & M32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [b >> shift ^ c[1] ^ np.uint64(k[0]), b & low, a >> shift ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
    return [int(x) for x in c] if counter.ndim == 0 else np.stack(c)


def key(stream, index=0):
    return (SEED ^ (stream ^ index << 24) << 32) & M64


LABEL, PATTERN, NOISE, TOKENS, MASK = 0x6C61626C, 0x70617474, 0x6E6F6973, 0x746F6B65, 0x6D61736B


def uniform(words):
    return (words >> np.uint64(8)).astype(np.float32) * np.float32(1 / 16777216)


def walk(index, vocab, n):
    """n tokens, and the one behind them."""
    token = philox(key(LABEL), index, 0)[0] % vocab
    tokens = []
    for t in range(n + 1):
        tokens.append(token)
        bits = philox(key(TOKENS), index, t)
        token = bits[1] % vocab if bits[0] < 0x20000000 else (5 * token + 7) % vocab
    return np.array(tokens)


def hidden(index, tokens, vocab):
    """What BERT reads, and what it is to find."""
    tokens, targets = tokens.copy(), np.full(len(tokens), -100)
    forced = philox(key(MASK), index, M64)[0] % len(tokens)
    for t in range(len(tokens)):
        bits = philox(key(MASK), index, t)
        if bits[0] >= 644245094 and t != forced:
            continue
        targets[t] = tokens[t]
        if bits[1] < 429496730:
            tokens[t] = bits[2] % vocab
        elif bits[1] >= 858993459:
            tokens[t] = vocab - 1
    return tokens, targets


def image(index, height, width, channels, classes):
    """[channels, height, width], and its class."""
    label = philox(key(LABEL), index, 0)[0] % classes
    e = np.arange(height * width * channels)
    row, column, channel = e // channels // width, e // channels % width, e % channels
    cell = (row // 4 * ((width + 3) // 4) + column // 4) * channels + channel
    pattern = philox(key(PATTERN), label, cell // 4)[cell % 4, e]
    noise = philox(key(NOISE), index, e // 4)[e % 4, e]
    x = np.float32(2) * uniform(pattern) - np.float32(1) + (np.float32(2) * uniform(noise) - np.float32(1))
    return np.ascontiguousarray(x.reshape(height, width, channels).transpose(2, 0, 1)), label


class Gpt(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.m = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=vocab, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0, attn_implementation="eager"))

    def forward(self, ids):
        return self.m(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits


class Bert(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.m = transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=vocab, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=16, hidden_dropout_prob=0, attention_probs_dropout_prob=0, attn_implementation="eager"))

    def forward(self, ids):
        return self.m(input_ids=ids).logits


class T5(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.m = transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=vocab, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0, decoder_start_token_id=0))

    def forward(self, ids, shifted):
        return self.m(input_ids=ids, decoder_input_ids=shifted, use_cache=False).logits


class Encoder(nn.Module):
    """As PyTorch's tutorials write it: layers that begin as copies of one, positions in a buffer."""

    def __init__(self, vocab):
        super().__init__()
        self.tokens = nn.Embedding(vocab, 16)
        at, step = torch.arange(16.0).unsqueeze(1), torch.exp(torch.arange(0, 16, 2) * (-9.2 / 16))
        self.register_buffer("places", torch.stack([torch.sin(at * step), torch.cos(at * step)], 2).flatten(1))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, vocab)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(16)
        return self.head(self.layers(self.tokens(ids) * 4 + self.places, mask=mask, is_causal=True))


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x):
        h = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(h + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's resnet18, narrow."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        layers, n = [], width
        for i in range(4):
            layers.append(nn.Sequential(Block(n, width << i, 1 if i == 0 else 2), Block(width << i, width << i, 1)))
            n = width << i
        self.layers, self.avgpool, self.fc = nn.Sequential(*layers), nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(n, classes)

    def forward(self, x):
        x = self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Odd(nn.Module):
    """What no fused operator is for."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 1, (1, 2), groups=1), nn.Conv2d(8, 8, 3, 2, 1, dilation=1, groups=4)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8).reshape(1, 8, 1, 1))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.nn.functional.silu(self.first(x)) * self.scale
        x = nn.functional.avg_pool2d(torch.tanh(self.second(x)), 3, 2, 1)
        a, b = x.mean((2, 3)), x.amax((2, 3))
        return self.head(torch.cat([a.sigmoid() * b, (a - b).abs() ** 1.5], 1))


class Parts(nn.Module):
    """Modules that ONNX has operators for which are made of others; windows over rows."""

    def __init__(self):
        super().__init__()
        self.first, self.groups = nn.Conv2d(3, 8, 3, 1, 1), nn.GroupNorm(2, 8)
        self.second, self.alone = nn.Conv2d(2, 4, 3, 2, 1), nn.InstanceNorm2d(4, affine=True)
        self.prelu, self.shuffle = nn.PReLU(4), nn.PixelShuffle(2)
        self.row, self.norm, self.pool = nn.Conv1d(4, 6, 3, 2, 1), nn.BatchNorm1d(6), nn.MaxPool1d(2)
        self.whole, self.head = nn.LayerNorm([4, 16, 16]), nn.Linear(24, 5)

    def forward(self, x):
        x = self.shuffle(nn.functional.mish(self.groups(self.first(x))))
        x = self.whole(self.prelu(self.alone(self.second(x))))
        a = nn.functional.normalize(nn.functional.adaptive_max_pool2d(x, 1).flatten(1), dim=1)
        b = self.pool(nn.functional.selu(self.norm(self.row(nn.functional.celu(x * x, 0.5).flatten(2)))))
        return self.head(torch.cat([a.repeat(1, 3), nn.functional.softsign(b).mean(2), b.amin(2)], 1))


class Alike(nn.Module):
    """Parameters that begin alike and are several, one number that is trained, zeros that are not."""

    def __init__(self, vocab):
        super().__init__()
        self.tokens, self.first, self.second = nn.Embedding(vocab, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.load_state_dict(self.first.state_dict())
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.head, self.temperature = nn.Linear(16, vocab, bias=False), nn.Parameter(torch.tensor(0.5))
        self.head.weight.data.copy_(self.tokens.weight.data)
        self.register_buffer("shift", torch.zeros(16))

    def forward(self, ids):
        h = self.norm(self.first(self.tokens(ids) + self.shift))
        return self.head(self.last(self.second(torch.tanh(h)))) * self.temperature


class UNet(nn.Module):
    """Down and up again, three ways."""

    def __init__(self):
        super().__init__()
        self.down, self.low = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 6, 3, 2, 1)
        self.up, self.rows = nn.ConvTranspose2d(6, 4, 3, 2, 1, 1), nn.ConvTranspose1d(4, 2, 3, 2, 1, bias=False)
        self.near, self.smooth = nn.Upsample(size=(16, 16)), nn.Upsample(scale_factor=2, mode="bilinear")
        self.cubic, self.head = nn.Upsample(scale_factor=0.75, mode="bicubic", align_corners=True), nn.Linear(18, 5)

    def forward(self, x):
        a = torch.relu(self.down(x))
        b = torch.relu(self.low(a))
        c = torch.tanh(self.cubic(torch.cat([self.up(b), self.near(b), self.smooth(b)], 1)))
        d = torch.relu(self.rows(a.mean(2)))
        return self.head(torch.cat([c.mean((2, 3)), d.amax(2)], 1))


class Kinds(nn.Module):
    """Every kind of parameter, square where it may be: a layout that is wrong has the right shape."""

    def __init__(self):
        super().__init__()
        self.point, self.grouped = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(4, 4, 2, groups=2)
        self.depth, self.up = nn.Conv2d(4, 4, (3, 1), 2, groups=4), nn.ConvTranspose2d(4, 4, 3, 2)
        self.square, self.row = nn.Conv2d(4, 4, 4, 4), nn.ConvTranspose1d(4, 4, 4, bias=False)
        self.batch, self.layer = nn.BatchNorm2d(4), nn.LayerNorm(4)
        self.gain, self.shift = nn.Parameter(torch.rand(4, 1, 1) + 0.5), nn.Parameter(torch.rand(1))
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh()), nn.Linear(4, 4)])
        self.same, self.head = nn.Linear(4, 4, bias=False), nn.Linear(4, 5)
        self.same.weight = self.blocks[0][0].weight
        self.register_buffer("table", torch.rand(4, 4))
        self.register_buffer("steps", torch.arange(4.), persistent=False)

    def forward(self, x):
        x = self.batch(self.depth(self.grouped(self.point(x)))) * self.gain + self.shift
        x = self.row(self.square(self.up(x)).flatten(2)).transpose(1, 2)
        x = self.same(torch.tanh(self.blocks[1](self.blocks[0](x)))) @ self.table + self.steps
        return self.head(self.layer(x).mean(1))


class Padded(nn.Module):
    """Rows without a gradient, of a table that the head has, too, and of one whose rows are known."""

    def __init__(self, vocab):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, 16, padding_idx=7), nn.Embedding(16, 16, padding_idx=3)
        self.first, self.head = nn.Linear(16, 16), nn.Linear(16, vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.tokens.weight.data[7], self.places.weight.data[3] = 0.5, 0.25

    def forward(self, ids):
        h = torch.tanh(self.first(self.tokens(ids) + self.places(torch.arange(16))))
        return self.head(h + self.tokens(ids.flip(1)))


class Pooled(nn.Module):
    """Sums that are divided by another number than that of their elements; a softplus that is a line early."""

    def __init__(self):
        super().__init__()
        self.first, self.pool, self.head = nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, 2, 1, True, True, 5), nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.avg_pool2d(self.pool(self.first(x)), 2, divisor_override=3)
        return self.head(nn.functional.softplus(x, 2, 1).amax((2, 3)))


def token_batches(vocab, n):
    for step in range(STEPS):
        w = np.stack([walk(step * BATCH + i, vocab, n) for i in range(BATCH)])
        yield [torch.tensor(w[:, :-1])], torch.tensor(w[:, 1:])


def masked_batches(vocab, n):
    for step in range(STEPS):
        both = [hidden(step * BATCH + i, walk(step * BATCH + i, vocab, n)[:-1], vocab) for i in range(BATCH)]
        yield [torch.tensor(np.stack([a for a, _ in both]))], torch.tensor(np.stack([b for _, b in both]))


def copy_batches(vocab, n):
    for step in range(STEPS):
        x = np.stack([walk(step * BATCH + i, vocab, n)[:-1] for i in range(BATCH)])
        shifted = np.concatenate([np.zeros((BATCH, 1), x.dtype), x[:, :-1]], 1)
        yield [torch.tensor(x), torch.tensor(shifted)], torch.tensor(x)


def image_batches(size, classes):
    for step in range(STEPS):
        both = [image(step * BATCH + i, size, size, 3, classes) for i in range(BATCH)]
        yield [torch.tensor(np.stack([a for a, _ in both]))], torch.tensor([b for _, b in both])


CASES = {
    "gpt": (lambda: Gpt(64), lambda: token_batches(64, 16), ["ids"], {}),
    "bert": (lambda: Bert(64), lambda: masked_batches(64, 16), ["ids"], {"targets": "masked"}),
    "t5": (lambda: T5(64), lambda: copy_batches(64, 16), ["ids", "shifted"], {"inputs": ["shifted=shifted"]}),
    "encoder": (lambda: Encoder(64), lambda: token_batches(64, 16), ["ids"], {"frozen": ["places"]}),
    "resnet": (lambda: ResNet18(4, 10), lambda: image_batches(64, 10), ["image"], {}),
    "parts": (lambda: Parts(), lambda: image_batches(16, 5), ["image"], {}),
    "unet": (lambda: UNet(), lambda: image_batches(16, 5), ["image"], {}),
    "alike": (lambda: Alike(64), lambda: token_batches(64, 16), ["ids"], {"frozen": ["shift"]}),
    "kinds": (lambda: Kinds(), lambda: image_batches(16, 5), ["image"], {"frozen": ["table"]}),
    "padded": (lambda: Padded(64), lambda: token_batches(64, 16), ["ids"], {}),
    "pooled": (lambda: Pooled(), lambda: image_batches(16, 5), ["image"], {}),
    "odd": (lambda: Odd(), lambda: image_batches(16, 5), ["image"], {}),
}


HOWS = {"alike": ["dynamo", "optimized", "eval"], "kinds": ["dynamo"], "padded": ["dynamo"], "pooled": ["dynamo"]}
# Operator sets other than the exporters' own, in which operators have other attributes and inputs
OPSETS = {"parts": ["script13", "script15", "script20", "dynamo21", "dynamo23"], "unet": ["script11", "script15", "script20", "dynamo23"],
          "odd": ["script11", "script13", "script18", "dynamo21"], "encoder": ["script15", "script20"]}
ONLY_DYNAMO = ("padded", "pooled") # files of the older exporter do not say what these compute


def sample_loss(logits, targets):
    """The mean over samples of the mean over a sample's targets: what penstock's loss of a step is."""
    rows = logits.reshape(-1, logits.shape[-1])
    loss = nn.functional.cross_entropy(rows, targets.reshape(-1), ignore_index=-100, reduction="none").reshape(BATCH, -1)
    kept = (targets.reshape(BATCH, -1) != -100).float()
    return (loss.sum(1) / kept.sum(1)).mean()


def export(model, batch, names, path, how):
    """how: script, eval (what the older exporter does by itself, without dropout), dynamo, optimized; then an operator set."""
    digits = how.lstrip("abcdefghijklmnopqrstuvwxyz")
    how, opset = how[:len(how) - len(digits)], int(digits or 0) or None
    with torch.no_grad():
        if how in ("dynamo", "optimized"):
            torch.onnx.export(model, tuple(batch), path, input_names=names, output_names=["logits"], dynamo=True, optimize=how == "optimized", opset_version=opset,
                              external_data=False, verbose=False,
                              dynamic_shapes=tuple({0: torch.export.Dim("batch", min=2)} for _ in names))
        else:
            torch.onnx.export(model, tuple(batch), path, input_names=names, output_names=["logits"], dynamo=False, opset_version=opset,
                              training=getattr(torch.onnx.TrainingMode, "EVAL" if how == "eval" else "TRAINING"), do_constant_folding=False,
                              dynamic_axes={name: {0: "batch"} for name in names + ["logits"]})


def drop_traces(path):
    """Kept files need no places in sources."""
    file = onnx.load(path)
    for node in file.graph.node:
        for i in reversed([i for i, entry in enumerate(node.metadata_props) if entry.key == "pkg.torch.onnx.stack_trace"]):
            del node.metadata_props[i]
    onnx.save(file, path)


def torch_losses(model, batches, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = sample_loss(model(*inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


CONFIG = """model = { use = "onnx", file = "%s"%s }
data = { kind = "synthetic", seed = 1 }
cluster = { devices = 2 }
partitioner = { use = "uniform" }
scheduler = { use = "1f1b" }
[train]
steps = 20
batch = 4
microbatch = %d
optimizer = "momentum"
momentum = 0.9
lr = %g
schedule = "constant"
warmup = 0
weight_decay = 0
clip = 0
eval_batches = 0
"""


def penstock_losses(penstock, config):
    saved = config[:-5] + "-saved"
    shutil.rmtree(saved, ignore_errors=True)
    run = subprocess.run([penstock, "train", config, "--json", "--set", f"checkpoint.folder={saved}"], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{config}: exit code {run.returncode}\n{run.stderr}")
    return [line["loss"] for line in map(json.loads, run.stdout.splitlines()) if "loss" in line]


def check_weights(penstock, config, trained):
    """What penstock has trained is what PyTorch has, under its names and in its layout."""
    saved, out = config[:-5] + "-saved", config[:-5] + "-weights"
    run = subprocess.run([penstock, "export", "weights", saved, "-o", out], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{config}: exit code {run.returncode}\n{run.stderr}")
    found = safetensors.torch.load_file(os.path.join(out, "model.safetensors"))
    copy.deepcopy(trained).load_state_dict(found, strict=True)
    for key, wanted in trained.state_dict().items():
        # Those of the file are from the export, and PyTorch's running variances are not of the population.
        off = 0 if "running" in key or key.endswith("num_batches_tracked") else (found[key] - wanted).abs().max().item()
        if off > 1e-3 * max(1, wanted.abs().max().item()):
            raise SystemExit(f"{config}: {key} is off by {off}")


def digests(model):
    return {key: [list(t.shape), None if "running" in key else hashlib.sha256(t.detach().numpy().tobytes()).hexdigest()]
            for key, t in model.state_dict().items() if not key.endswith("num_batches_tracked")}


def main():
    penstock, folder = sys.argv[1], sys.argv[2]
    record = sys.argv[4] if "--record" in sys.argv else None
    os.makedirs(record or folder, exist_ok=True)
    torch.set_num_threads(1)
    worst = 0
    for name, (make, batches, names, keys) in CASES.items():
        if os.environ.get("ONLY", name) != name:
            continue
        torch.manual_seed(2)
        model = make().train()
        first = next(iter(batches()))[0]
        files = {} if name in ONLY_DYNAMO else {"script": f"{name}.onnx"}
        for file in files.values():
            export(model, first, names, os.path.join(record or folder, file), "script")
        begin = digests(model)
        for how in HOWS.get(name, []) if record else ["dynamo", *HOWS.get(name, []), *OPSETS.get(name, [])]:
            try:
                export(model, first, names, os.path.join(record or folder, f"{name}-{how}.onnx"), how)
                files[how] = f"{name}-{how}.onnx"
                if record:
                    drop_traces(os.path.join(record, files[how]))
            except torch.onnx.OnnxExporterError:
                if name not in ("t5", "parts"): # views, adaptive pools: not all releases decompose them
                    raise
                print(f"{name}: PyTorch {torch.__version__} does not export it with {how}")
        if name == "encoder" and not record: # biases that are all 0 are left out, which is told
            export(model, first, names, os.path.join(folder, "lost.onnx"), "optimized")
            with open(os.path.join(folder, "lost.toml"), "w") as config:
                config.write(CONFIG % ("lost.onnx", "", 2, 0.05))
            run = subprocess.run([penstock, "plan", os.path.join(folder, "lost.toml")], capture_output=True, text=True)
            if run.returncode != 2 or "self_attn.out_proj.bias\"; export with optimize=False" not in run.stderr:
                raise SystemExit(f"lost parameters are not told: {run.stderr}")
        model.train()
        for module in model.modules(): # exporting has run it: batch norm begins anew in both
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.reset_running_stats()
        norms = name in ("resnet", "parts", "kinds")
        lr = 2e-4 if norms else 0.05 # with larger steps batch norm over few samples multiplies rounding
        with torch.backends.mkldnn.flags(enabled=False): # with oneDNN's kernels PyTorch 2.15 ended in a corrupted heap here
            expected = torch_losses(model, batches(), lr)
        for how, file in files.items():
            where = os.path.join(record or folder, file[:-5])
            # With dynamo the file says what is a buffer.
            more = "".join(f", {k} = {json.dumps(v)}" for k, v in keys.items() if k != "frozen" or how.startswith(("script", "eval")))
            with open(where + ".toml", "w") as config:
                config.write(CONFIG % (file, more, 4 if norms else 2, lr))
            found = penstock_losses(penstock, where + ".toml")
            off = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
            print(f"{file}: {expected[0]:.4f} -> {expected[-1]:.4f}, off by {off:.1e}")
            if len(found) != STEPS or not off <= 1e-4:
                raise SystemExit(f"{file}: losses {found}\nexpected {expected}")
            worst = max(worst, off)
            check_weights(penstock, where + ".toml", model)
        if record:
            with open(os.path.join(record, name + ".json"), "w") as out:
                state = {"state": begin} if name == "kinds" else {}
                json.dump({"from": f"torch {torch.__version__}, transformers {transformers.__version__}", "losses": expected, **state}, out)
                out.write("\n")
    print(f"worst {worst:.1e}")


if __name__ == "__main__":
    main()
