#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's model with torch.distributed.pipelining, gloo, one process a device (so the head
is not tied), by the job's schedule: "1F1B", or "ZBVZeroBubble", where each has two stages of a V."""
import importlib
import json
import sys

import torch
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleZBVZeroBubble

from processes import join, train


def worker(rank, job):
    join(rank, job)
    world, model, how = job["devices"], job["model"], job["train"]
    zoo = importlib.import_module(model["use"])
    n, n_micro = model["layers"], how["batch"] // how["microbatch"]
    vee = job["schedule"] == "ZBVZeroBubble"
    n_stages = 2 * world if vee else world
    of_rank = [rank, n_stages - 1 - rank] if vee else [rank]
    net = torch.nn.ModuleList(zoo.Stage(model, i * n // n_stages, (i + 1) * n // n_stages) for i in of_rank)
    for part in net:
        part.forward = torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bf16")(part.forward)
    stages = [PipelineStage(part, i, n_stages, torch.device("cpu")) for part, i in zip(net, of_rank)]
    schedule = (ScheduleZBVZeroBubble(stages, n_micro, loss_fn=zoo.loss_of) if vee
                else Schedule1F1B(stages[0], n_micro, loss_fn=zoo.loss_of))
    optimizer = zoo.optimizer_of(net, how)

    def step(data):
        optimizer.zero_grad(set_to_none=True)
        target = {"target": data[:, 1:]} if n_stages - 1 in of_rank else {}
        schedule.step(*([data[:, :-1]] if rank == 0 else []), **target)
        optimizer.step()

    train(rank, job, step)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    mp.spawn(worker, args=(job,), nprocs=job["devices"])
