#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's model with torch.distributed.pipelining, gloo, one process a device (so the head
is not tied), by the job's schedule: "1F1B", or "ZBVZeroBubble", where each has two stages of a V;
rank 0 prints seconds of each step, and processor seconds of all processes, as JSON."""
import importlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleZBVZeroBubble


def worker(rank, job):
    world, model, train = job["stages"], job["model"], job["train"]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    zoo = importlib.import_module(model["use"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    n, n_micro = model["layers"], train["batch"] // train["microbatch"]
    vee = job["schedule"] == "ZBVZeroBubble"
    n_stages = 2 * world if vee else world
    of_rank = [rank, n_stages - 1 - rank] if vee else [rank]
    net = torch.nn.ModuleList(zoo.Stage(model, i * n // n_stages, (i + 1) * n // n_stages) for i in of_rank)
    for part in net:
        part.forward = torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bf16")(part.forward)
    stages = [PipelineStage(part, i, n_stages, torch.device("cpu")) for part, i in zip(net, of_rank)]
    schedule = (ScheduleZBVZeroBubble(stages, n_micro, loss_fn=zoo.loss_of) if vee
                else Schedule1F1B(stages[0], n_micro, loss_fn=zoo.loss_of))
    optimizer = zoo.optimizer_of(net, train)
    seconds, spent = [], []
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (train["batch"], model["context"] + 1))
        dist.barrier()
        begin, begun = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        target = {"target": data[:, 1:]} if n_stages - 1 in of_rank else {}
        schedule.step(*([data[:, :-1]] if rank == 0 else []), **target)
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
