#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput of the quickstart model, or of Llama blocks (--config bench/torch/llama.toml),
against PyTorch on this machine, same threads, same dtype, in one run: rounds alternate between the
two, each ratio is that of the median step times, beside it that of the processor times of these
steps, which other work on the machine touches less.

  bench/torch/compare.py [--python /path/to/python-with-torch] [--config CONFIG] [--dtype f32|bf16] [--rounds 3]
                         [--steps 12]

Needs Python 3.11 with torch (pip install torch) and build/release/penstock. One stage: PyTorch eager,
one thread. Two stages: torch.distributed.pipelining over gloo, two processes of one thread each,
against two devices of one thread each, once for each schedule that both have: 1F1B, and ZBV, which
splits the backward pass (Qi et al., 2024). The last line is of the fastest of each. --dtype bf16: weights,
their gradients and updates are f32 on both sides; PyTorch's forward pass is under torch.autocast."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARM_UP = 3


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:3]))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def processor_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def penstock(config, dtype, stages, steps, clip, schedule):
    """Seconds and processor seconds of each step; the latter as its line comes."""
    command = [ROOT / "build/release/penstock", "train", config, "--json",
               "--set", f"cluster.devices={stages}", "--set", f"train.steps={steps}",
               "--set", f"scheduler.use={schedule}", "--set", f"run.dtype={dtype}",
               "--set", "train.warmup=0", "--set", f"train.clip={clip}",
               "--set", "train.eval_every=0", "--set", "train.eval_batches=0",
               "--set", "train.sample=0"]
    rows, spent = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE) as child:
        for line in map(json.loads, child.stdout):
            if "loss_hex" in line:
                rows.append(line["seconds"])
                spent.append(processor_seconds(child.pid))
        err = child.stderr.read()
    if child.returncode != 0:
        sys.exit(f"penstock failed:\n{err[-2000:]}")
    return list(zip(rows[1:], (b - a for a, b in zip(spent, spent[1:]))))[WARM_UP - 1:]


def torch_run(python, script, job):
    rows = json.loads(run([python, HERE / script, json.dumps(job)]))
    return list(zip(rows["seconds"], rows["processor_seconds"]))[WARM_UP:]


def medians(rows):
    return [statistics.median(column) for column in zip(*rows)]


def tell(what, tokens, ours, theirs):
    print(f"{what:24} penstock {tokens / ours[0]:9.0f} tokens/s   PyTorch {tokens / theirs[0]:9.0f} tokens/s   "
          f"ratio {theirs[0] / ours[0]:.2f}   of processor time {theirs[1] / ours[1]:.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--config", type=lambda text: pathlib.Path(text).resolve(),
                        default=ROOT / "configs/quickstart.toml")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    config = tomllib.loads(args.config.read_text())
    model = {"vocab": 256, **config["model"]}
    train = {"clip": 1.0, **config["train"]}
    tokens = train["batch"] * model["context"]
    version = run([args.python, "-c", "import torch; print(torch.__version__)"]).strip()
    print(f"model {model}\n{args.dtype}, torch {version}, {args.rounds} rounds of {args.steps} steps")
    best = []
    for stages, script, clip, schedule, their_schedule in (
            (1, "run_eager.py", train["clip"], "1f1b", ""), (2, "run_pipeline.py", 0.0, "1f1b", "1F1B"),
            (2, "run_pipeline.py", 0.0, "zbv", "ZBVZeroBubble")):
        ours, theirs = [], []
        for turn in range(args.rounds):
            job = {"model": model, "train": {**train, "clip": clip}, "steps": args.steps,
                   "threads": 1, "stages": stages, "dtype": args.dtype,
                   "schedule": their_schedule, "port": 29500 + turn}
            theirs += torch_run(args.python, script, job)
            ours += penstock(args.config, args.dtype, stages, args.steps, clip, schedule)
        both = medians(ours), medians(theirs)
        tell(f"{stages} stage(s) {their_schedule}", tokens, *both)
        best += [both] if stages > 1 else []
    tell("2 stages, fastest", tokens, *map(min, zip(*best)))


main()
