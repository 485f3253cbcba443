#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's GPT (gpt.py) by several processes over gloo. "tensor": they share each operator; "sequence":
and the tokens between these (torch.distributed.tensor.parallel). "shard": they share the samples, and have weights,
gradients and optimizer state in shards (fully_shard). scripts/record_torch_parallel.py trains what is divided alike."""
import contextlib
import json
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleOutput, RowwiseParallel,
                                               SequenceParallel, loss_parallel, parallelize_module)

import gpt
from processes import join, train


def plan_of(layers, sequence):
    """Columns, then rows, of each block; tokens of the vocabulary; with `sequence` the rest of a part's tokens."""
    rows = Shard(1) if sequence else Replicate()
    plan = {"embedding.wte": RowwiseParallel(input_layouts=Replicate()),
            "head": ColwiseParallel(input_layouts=rows, use_local_output=False)}
    for i in range(layers):
        for name in ("c_attn", "c_fc"):
            plan[f"blocks.{i}.{name}"] = ColwiseParallel(input_layouts=rows)
        for name in ("c_proj", "mlp_proj"):
            plan[f"blocks.{i}.{name}"] = RowwiseParallel(output_layouts=rows)
    if sequence:
        norms = [f"blocks.{i}.{name}" for i in range(layers) for name in ("ln_1", "ln_2")]
        plan |= {name: SequenceParallel(use_local_output=True) for name in [*norms, "ln_f"]}
        plan["embedding"] = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=rows)
    return plan


def divide(net, way):
    """Divides the model over all processes; returns the context of its loss and backward pass."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    if way == "shard":
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
        return contextlib.nullcontext
    parallelize_module(net, mesh, plan_of(len(net.blocks), way == "sequence"))
    net.head.weight = net.embedding.wte.weight
    return loss_parallel


def clip(net, limit):
    """Clips the gradients together; returns their norm. torch has no norm over both kinds of tensors."""
    kinds = {True: [], False: []}
    for p in net.parameters():
        kinds[isinstance(p.grad, DTensor)].append(p)
    norms = []
    for parameters in kinds.values():
        if parameters:
            norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    norm = torch.stack(norms).norm()
    for parameters in kinds.values():
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def worker(rank, job):
    join(rank, job)
    model, how = job["model"], job["train"]
    shards = job["way"] == "shard"
    net = gpt.Stage(model, 0, model["layers"])
    of_parts = divide(net, job["way"])
    optimizer = gpt.optimizer_of(net, how)
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bf16")
    n_micro = how["batch"] // how["microbatch"]

    def step(data):
        optimizer.zero_grad(set_to_none=True)
        for i, part in enumerate(data.split(how["microbatch"])):
            if shards:
                part = part.chunk(job["devices"])[rank]
                net.set_requires_gradient_sync(i + 1 == n_micro)
            with of_parts():
                with mixed:
                    loss = gpt.loss_of(net(part[:, :-1]), part[:, 1:]) / n_micro
                loss.backward()
        if how["clip"] > 0:
            clip(net, how["clip"])
        optimizer.step()

    train(rank, job, step)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    mp.spawn(worker, args=(job,), nprocs=job["devices"])
