#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one step of delay costs AdamW and Muon: held-out loss with 1f1b and with 2bw, on two devices.

    bench/schedulers/delay.py [--penstock build/release/penstock] [--steps 300] [--seeds 1]

A GPT of 0.2 M parameters learns the text of docs/. Rows: optimizer and its highest learning rate.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATES = {"adamw": ("3e-4", "1e-3", "3e-3", "1e-2"), "muon": ("1e-3", "3e-3", "1e-2", "3e-2")}
CONFIG = """
model = {{ use = "gpt", layers = 4, dim = 64, heads = 4, context = 64 }}
data = {{ train = "text.txt" }}
cluster = {{ devices = 2 }}
partitioner = {{ use = "uniform" }}
train = {{ steps = {steps}, batch = 16, microbatch = 4, eval_batches = 16, momentum = 0.95, clip = 0, warmup = {warmup} }}
"""


def held_out(options, folder, optimizer, rate, scheduler, seed):
    sets = (f"train.optimizer={optimizer}", f"train.lr={rate}", f"scheduler.use={scheduler}", f"train.seed={seed}")
    command = [options.penstock, "train", "run.toml", "--json", "--quiet"]
    done = subprocess.run(command + [word for one in sets for word in ("--set", one)], cwd=folder,
                          stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(sets)}: exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])["eval_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(ROOT / "build/release/penstock"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    options.penstock = str(pathlib.Path(options.penstock).resolve())
    print("| optimizer | `lr` | 1f1b | 2bw | difference |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
        (pathlib.Path(folder) / "text.txt").write_text(text)
        (pathlib.Path(folder) / "run.toml").write_text(CONFIG.format(steps=options.steps, warmup=options.steps // 10))
        for optimizer, rates in RATES.items():
            for rate in rates:
                means = [sum(held_out(options, folder, optimizer, rate, scheduler, seed)
                             for seed in range(1, options.seeds + 1)) / options.seeds for scheduler in ("1f1b", "2bw")]
                print(f"| `{optimizer}` | {rate} | {means[0]:.3f} | {means[1]:.3f} | {means[1] - means[0]:+.3f} |", flush=True)


if __name__ == "__main__":
    main()
