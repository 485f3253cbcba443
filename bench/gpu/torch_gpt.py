#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT with PyTorch on one device; argument and answer are JSON. In bf16 weights stay f32 and
autocast rounds, as penstock does; attention is PyTorch's fused one; the optimizer is the fused AdamW
where the device has it."""
import contextlib
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "torch"))
import gpt  # noqa: E402


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    job = json.loads(sys.argv[1])
    model, train, device = job["model"], job["train"], job["device"]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if job["dtype"] == "tf32" else "highest")
    net = gpt.Stage(model, 0, model["layers"]).to(device)

    def loss_of(tokens, targets):
        return gpt.loss_of(net(tokens), targets)

    # With the loss: a compiler can fuse what rounds and sums the logits.
    if job["compile"]:
        loss_of = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(net.parameters(), lr=train["lr"], betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=device == "cuda")
    rounds = (torch.autocast(device, dtype=torch.bfloat16) if job["dtype"] == "bf16"
              else contextlib.nullcontext())
    n_micro = train["batch"] // train["microbatch"]
    seconds, loss = [], None
    for _ in range(job["steps"]):
        data = torch.randint(0, model["vocab"], (train["batch"], model["context"] + 1))
        wait(device)
        begin = time.perf_counter()
        data = data.to(device)
        optimizer.zero_grad(set_to_none=True)
        for part in data.split(train["microbatch"]):
            with rounds:
                loss = loss_of(part[:, :-1], part[:, 1:]) / n_micro
            loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), train["clip"])
        optimizer.step()
        wait(device)
        seconds.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    print(json.dumps({"seconds": seconds, "loss": float(loss) * n_micro, "peak_bytes": peak,
                      "parameters": sum(p.numel() for p in net.parameters()),
                      "torch": torch.__version__}))


main()
