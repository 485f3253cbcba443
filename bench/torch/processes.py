# SPDX-License-Identifier: Apache-2.0
"""Processes that train together over gloo: how they find each other, and how their steps are timed."""
import json
import os
import time

import torch
import torch.distributed as dist


def join(rank, job):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=job["devices"])


def train(rank, job, step):
    """Calls step(tokens) for each step; rank 0 prints its seconds, and processor seconds of all
    processes, as JSON."""
    model, batch = job["model"], job["train"]["batch"]
    seconds, spent = [], []
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (batch, model["context"] + 1))
        dist.barrier()
        begin, begun = time.perf_counter(), time.process_time()
        step(data)
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        spent.append(time.process_time() - begun)
    spent = torch.tensor(spent)
    dist.all_reduce(spent)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "processor_seconds": spent.tolist()}), flush=True)
    dist.destroy_process_group()
