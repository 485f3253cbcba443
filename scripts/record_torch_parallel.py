#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records how PyTorch trains tests/data/published/gpt with two processes over gloo:
tests/data/torch/parallel.json, for tests/e2e/parallel_losses_test.txt.

A run is five steps of AdamW with clipped gradients on one batch, in f32: by one process ("alone"), with
operators in two parts ("tensor"), with norms and sums of tokens in parts as well ("sequence": both of
torch.distributed.tensor.parallel), with samples, weights and optimizer state in two shards ("shard":
fully_shard). bench/torch has the model and how it is divided.

Needs torch and safetensors; the output depends on the seed below only.
"""
import contextlib
import json
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "torch"))
import gpt  # noqa: E402
from processes import join  # noqa: E402
from run_parts import clip, divide  # noqa: E402

MODEL = {"layers": 2, "dim": 8, "heads": 2, "context": 8, "vocab": 19}
TRAIN = {"lr": 0.02, "clip": 0.5}
STEPS, PARTS, SAMPLES = 5, 2, 8


def batch():
    torch.manual_seed(61)
    return torch.randint(0, MODEL["vocab"], (2, SAMPLES, MODEL["context"])).unbind()


def by_parts(packed):
    """q, k and v of all heads, as q, k and v of the heads of each part."""
    return packed.unflatten(0, (3, PARTS, -1)).transpose(0, 1).flatten(0, 2)


def load(parts):
    """gpt.py's model with the published weights; those of transformers are inputs by outputs."""
    tensors = load_file(ROOT / "tests/data/published/gpt/model.safetensors")
    state = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("transformer.").replace("h.", "blocks.").replace(".attn.", ".")
        name = name.replace("mlp.c_proj", "mlp_proj").replace("mlp.", "")
        if name.startswith("w"):
            name = f"embedding.{name}"
        elif name.startswith("blocks.") and tensor.dim() == 2:
            tensor = tensor.t()
        state[name] = by_parts(tensor) if parts and "c_attn" in name else tensor
    net = gpt.Stage(MODEL, 0, MODEL["layers"])
    missing = net.load_state_dict(state, strict=False)
    assert missing.missing_keys == ["head.weight"] and not missing.unexpected_keys, missing  # tied
    return net


def train(way, rank):
    """The loss and the norm of each step."""
    net, (inputs, targets) = load(way in ("tensor", "sequence")), batch()
    of_parts = contextlib.nullcontext if way == "alone" else divide(net, way)
    if way == "shard":
        inputs, targets = inputs.chunk(PARTS)[rank], targets.chunk(PARTS)[rank]
    optimizer = gpt.optimizer_of(net, TRAIN)
    steps = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with of_parts():
            loss = gpt.loss_of(net(inputs), targets)
            loss.backward()
        norm = clip(net, TRAIN["clip"])
        optimizer.step()
        told = loss.detach().clone()
        if way == "shard":
            dist.all_reduce(told)
            told /= PARTS
        steps.append([told.item(), norm.item()])
    return steps


def write(found):
    for way, steps in found.items():  # all are the same training
        for (loss, norm), (alone, norm_alone) in zip(steps, found["alone"]):
            assert abs(loss - alone) <= 1e-5 * alone and abs(norm - norm_alone) <= 1e-4 * norm_alone, way
    inputs, targets = (t.tolist() for t in batch())
    whole = {"torch": torch.__version__, **TRAIN, "inputs": inputs, "targets": targets, **found}
    lines = [f'"{key}": {json.dumps(value)}' for key, value in whole.items()]
    (ROOT / "tests/data/torch/parallel.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def worker(rank):
    join(rank, {"port": 29520, "threads": 1, "devices": PARTS})
    found = {way: train(way, rank) for way in ("alone", "tensor", "sequence", "shard")}
    if rank == 0:
        write(found)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=PARTS)
