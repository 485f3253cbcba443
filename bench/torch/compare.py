#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput of the quickstart model, or of that of --config (bench/torch/llama.toml: Llama blocks;
gpt.toml: a GPT of 42 million parameters), against PyTorch on this machine, same threads, same dtype, in one run: rounds
alternate between the two, each ratio is that of the median step times, beside it that of the processor times of these
steps, which other work on the machine touches less.

  bench/torch/compare.py [--python /path/to/python-with-torch] [--config CONFIG] [--dtype f32|bf16] [--rounds 3]
                         [--steps 12] [--only WORDS]

Needs Python 3.11 with torch (pip install torch) and build/release/penstock. One stage: PyTorch eager,
one thread. All others are two devices of one thread each, against two processes of one thread each over gloo.
Two stages: torch.distributed.pipelining, once for each schedule that both have: 1F1B, and ZBV, which
splits the backward pass (Qi et al., 2024); then a line of the fastest of each. Two parts, of GPT:
torch.distributed.tensor.parallel, without and with SequenceParallel. Two replicas: ZeRO 3 against fully_shard.
--only: lines with these words in their names. --dtype bf16: weights, their gradients and updates are f32 on both
sides; PyTorch's forward pass is under torch.autocast."""
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
TENSOR = ["cluster.devices=2", "parallel.tensor=2"]
ROWS = [  # name, PyTorch's script, whether both clip, what penstock is told, what the script is told
    ("1 stage", "run_eager.py", True, ["cluster.devices=1"], {}),
    ("2 stages, 1F1B", "run_pipeline.py", False, ["cluster.devices=2"], {"schedule": "1F1B"}),
    ("2 stages, ZBV", "run_pipeline.py", False, ["cluster.devices=2", "scheduler.use=zbv"],
     {"schedule": "ZBVZeroBubble"}),
    ("2 parts", "run_parts.py", True, TENSOR, {"way": "tensor"}),
    ("2 parts, sequence", "run_parts.py", True, [*TENSOR, "parallel.sequence=true", "parallel.gathered=keep"], {"way": "sequence"}),
    ("2 replicas, shards", "run_parts.py", True,
     ["cluster.devices=2", "train.degrees=[2]", "parallel.zero=3"], {"way": "shard"}),
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:3]))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def processor_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def penstock(config, sets):
    """Seconds and processor seconds of each step; the latter as its line comes."""
    command = [ROOT / "build/release/penstock", "train", config, "--json"]
    for text in ["scheduler.use=1f1b", "train.warmup=0", "train.eval_every=0", "train.eval_batches=0",
                 "train.sample=0", *sets]:
        command += ["--set", text]
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
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    config = tomllib.loads(args.config.read_text())
    model = {"vocab": 256, **config["model"]}
    train = {"clip": 1.0, **config["train"]}
    tokens = train["batch"] * model["context"]
    version = run([args.python, "-c", "import torch; print(torch.__version__)"]).strip()
    print(f"model {model}\n{args.dtype}, torch {version}, {args.rounds} rounds of {args.steps} steps")
    stages = []
    for name, script, clips, sets, told in ROWS:
        if args.only not in name or (script == "run_parts.py" and model["use"] != "gpt"):
            continue
        ours, theirs, clip = [], [], train["clip"] if clips else 0.0
        for turn in range(args.rounds):
            job = {"model": model, "train": {**train, "clip": clip}, "steps": args.steps, "threads": 1,
                   "devices": 2, "dtype": args.dtype, "port": 29500 + turn, **told}
            theirs += torch_run(args.python, script, job)
            ours += penstock(args.config, [*sets, f"train.steps={args.steps}", f"run.dtype={args.dtype}",
                                           f"train.clip={clip}"])
        both = medians(ours), medians(theirs)
        tell(name, tokens, *both)
        stages += [both] if name.startswith("2 stages") else []
        if len(stages) == 2:
            tell("2 stages, fastest", tokens, *map(min, zip(*stages)))
            stages = []


main()
