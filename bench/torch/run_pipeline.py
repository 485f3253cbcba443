#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's model with torch.distributed.pipelining, Schedule1F1B, gloo, one process a
stage (so the head is not tied); rank 0 prints seconds of each step as JSON."""
import importlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def worker(rank, job):
    world, model, train = job["stages"], job["model"], job["train"]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    zoo = importlib.import_module(model["use"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    n = model["layers"]
    net = zoo.Stage(model, rank * n // world, (rank + 1) * n // world)
    stage = PipelineStage(net, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(
        stage, train["batch"] // train["microbatch"], loss_fn=zoo.loss_of
    )
    optimizer = zoo.optimizer_of(net, train)
    seconds = []
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (train["batch"], model["context"] + 1))
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(data[:, :-1])
        elif rank == world - 1:
            schedule.step(target=data[:, 1:])
        else:
            schedule.step()
        optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"seconds": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    mp.spawn(worker, args=(job,), nprocs=job["stages"])
