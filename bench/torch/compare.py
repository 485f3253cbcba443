#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput of the quickstart model, or of Llama blocks (--config bench/torch/llama.toml),
against PyTorch on this machine, same threads, same dtype, in one run: rounds alternate between the
two, each ratio is that of the median step times.

  bench/torch/compare.py [--python /path/to/python-with-torch] [--config CONFIG] [--rounds 3] [--steps 12]

Needs Python 3.11 with torch (pip install torch) and build/release/penstock. One stage: PyTorch eager,
one thread. Two stages: torch.distributed.pipelining 1F1B over gloo, two processes of one thread each,
against two devices of one thread each."""
import argparse
import json
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


def penstock(config, stages, steps, clip):
    out = run([ROOT / "build/release/penstock", "train", config, "--json",
               "--set", f"cluster.devices={stages}", "--set", f"train.steps={steps}",
               "--set", "train.warmup=0", "--set", f"train.clip={clip}",
               "--set", "train.eval_every=0", "--set", "train.eval_batches=0",
               "--set", "train.sample=0"])
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["seconds"] for line in lines if "step" in line and "seconds" in line][WARM_UP:]


def torch_run(python, script, job):
    return json.loads(run([python, HERE / script, json.dumps(job)]))["seconds"][WARM_UP:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--config", type=lambda text: pathlib.Path(text).resolve(),
                        default=ROOT / "configs/quickstart.toml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    config = tomllib.loads(args.config.read_text())
    model = {"vocab": 256, **config["model"]}
    train = {"clip": 1.0, **config["train"]}
    tokens = train["batch"] * model["context"]
    version = run([args.python, "-c", "import torch; print(torch.__version__)"]).strip()
    print(f"model {model}\ntorch {version}, {args.rounds} rounds of {args.steps} steps")
    for stages, script, clip in ((1, "run_eager.py", train["clip"]), (2, "run_pipeline.py", 0.0)):
        ours, theirs = [], []
        for turn in range(args.rounds):
            job = {"model": model, "train": {**train, "clip": clip}, "steps": args.steps,
                   "threads": 1, "stages": stages, "port": 29500 + turn}
            theirs += torch_run(args.python, script, job)
            ours += penstock(args.config, stages, args.steps, clip)
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{stages} stage(s): penstock {tokens / a:9.0f} tokens/s   "
              f"{script.removeprefix('run_').removesuffix('.py')} {tokens / b:9.0f} tokens/s   "
              f"ratio {b / a:.2f}")


main()
