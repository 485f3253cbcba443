#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's GPT (gpt.py) by several processes over gloo that share each operator, "tensor", and
the tokens between them, "sequence" (torch.distributed.tensor.parallel), or the samples, with weights,
gradients and optimizer state in shards, "shard" (fully_shard); rank 0 prints seconds of each step, and
processor seconds of all processes, as JSON. scripts/record_torch_parallel.py uses the same model."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput,
                                               RowwiseParallel, SequenceParallel, parallelize_module)

import gpt


def plan_of(layers, sequence):
    """Columns, then rows, of each block; the rest is whole, or with `sequence` of a part's tokens."""
    rows = Shard(1) if sequence else Replicate()
    plan = {}
    for i in range(layers):
        for name in ("c_attn", "c_fc"):
            plan[f"blocks.{i}.{name}"] = ColwiseParallel(input_layouts=rows)
        for name in ("c_proj", "mlp_proj"):
            plan[f"blocks.{i}.{name}"] = RowwiseParallel(output_layouts=rows)
        if sequence:
            plan |= {f"blocks.{i}.{name}": SequenceParallel(use_local_output=True) for name in ("ln_1", "ln_2")}
    if sequence:
        plan["embedding"] = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=rows)
        plan["ln_f"] = SequenceParallel(use_local_output=True)
        plan["head"] = PrepareModuleInput(input_layouts=rows, desired_input_layouts=Replicate(),
                                          use_local_output=True)
    return plan


def divide(net, way):
    """Divides the model over all processes."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    if way == "shard":
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
    else:
        parallelize_module(net, mesh, plan_of(len(net.blocks), way == "sequence"))


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


def join(rank, job):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=job["stages"])


def worker(rank, job):
    model, train = job["model"], job["train"]
    join(rank, job)
    net = gpt.Stage(model, 0, model["layers"])
    divide(net, job["way"])
    optimizer = gpt.optimizer_of(net, train)
    n_micro = train["batch"] // train["microbatch"]
    seconds, spent = [], []
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (train["batch"], model["context"] + 1))
        dist.barrier()
        begin, begun = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        for part in data.split(train["microbatch"]):
            if job["way"] == "shard":
                part = part.chunk(dist.get_world_size())[rank]
            loss = gpt.loss_of(net(part[:, :-1]), part[:, 1:]) / n_micro
            loss.backward()
        if train["clip"] > 0:
            clip(net, train["clip"])
        optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        spent.append(time.process_time() - begun)
    spent = torch.tensor(spent)
    dist.all_reduce(spent)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "processor_seconds": spent.tolist()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    mp.spawn(worker, args=(job,), nprocs=job["stages"])
