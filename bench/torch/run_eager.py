#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the job's model (gpt.py, llama.py) with PyTorch eager on one process; prints seconds and
processor seconds of each step as JSON. bf16: weights stay f32, products are of bf16 (autocast)."""
import importlib
import json
import sys
import time

import torch


def main():
    job = json.loads(sys.argv[1])
    model, train = job["model"], job["train"]
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    zoo = importlib.import_module(model["use"])
    net = zoo.Stage(model, 0, model["layers"])
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bf16")
    optimizer = zoo.optimizer_of(net, train)
    n_micro = train["batch"] // train["microbatch"]
    seconds, spent = [], []
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (train["batch"], model["context"] + 1))
        begin, begun = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        for part in data.split(train["microbatch"]):
            with mixed:
                loss = zoo.loss_of(net(part[:, :-1]), part[:, 1:]) / n_micro
            loss.backward()
        if train["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), train["clip"])
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        spent.append(time.process_time() - begun)
    print(json.dumps({"seconds": seconds, "processor_seconds": spent}))


main()
