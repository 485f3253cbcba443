#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts for passes of slices of sequences: each partitioner's step against the best near any of their cuts.

    bench/partitioners/slices.py [--penstock build/release/penstock] [--near 6]

A GPT of six layers on emulated devices. Partitioners are told the mean over the slices. The best is the
shortest simulated step of all cuts that differ by at most --near operators, at each border, from the cut
of a partitioner (on four devices half of that). Exit code 1 where chain-dp is behind.
"""
import argparse
import concurrent.futures
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTITIONERS = ["chain-dp", "stage-graph", "tideline", "dawnpiper", "pipedream", "piper", "dapple", "greedy"]
CASES = [(512, 2048, 8, 3), (16384, 2048, 8, 3), (4096, 512, 4, 3), (16384, 4096, 16, 2),
         (4096, 4096, 8, 4), (32768, 1024, 4, 2), (512, 4096, 4, 4), (16384, 1024, 16, 3)]
CONFIG = """
model = { use = "gpt", layers = 6, dim = 256, heads = 4, vocab = %d, context = %d }
data = { kind = "synthetic" }
train = { steps = 2, batch = 4, microbatch = 1, eval_batches = 0 }
run = { device = "emulated" }
partitioner = { use = "chain-dp" }
scheduler = { use = "seq1f1b", slices = %d }
cluster = { devices = %d, flops = 1e12, memory_bandwidth = 5e10, link_bandwidth = 1e10 }
memopt = [{ use = "none" }]
"""


class Planner:
    def __init__(self, program, folder, case):
        self.program, self.folder = program, pathlib.Path(folder)
        (self.folder / "job.toml").write_text(CONFIG % case)

    def plan(self, *sets, more=()):
        """The step in us."""
        arguments = [word for one in sets for word in ("--set", one)]
        done = subprocess.run([self.program, "plan", self.folder / "job.toml", "--json", *arguments, *more],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{sets}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)["step_us"]

    def cut(self, partitioner):
        """Its step, where its stages end, and all operators in order."""
        file = self.folder / "plan.json"
        step = self.plan(f"partitioner.use={partitioner}", more=("-o", file))
        stages = [stage["nodes"] for stage in json.loads(file.read_text())["stages"]]
        return step, tuple(itertools.accumulate(map(len, stages)))[:-1], sum(stages, [])

    def by_hand(self, cut, names):
        borders = [0, *cut, len(names)]
        stages = "; ".join(", ".join(names[a:b]) for a, b in itertools.pairwise(borders))
        return self.plan("partitioner.use=manual", f"partitioner.stages={json.dumps(stages)}")


def near(cuts, n, distance):
    around = (itertools.product(*(range(at - distance, at + distance + 1) for at in cut)) for cut in cuts)
    return sorted({cut for cut in itertools.chain(*around)
                   if all(a < b for a, b in itertools.pairwise((0, *cut, n)))})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(ROOT / "build/release/penstock"))
    parser.add_argument("--near", type=int, default=6)
    options = parser.parse_args()
    behind = 0
    print(f"| vocabulary | tokens | slices | devices | cuts | best | {' | '.join(PARTITIONERS)} |\n"
          f"|{' --- |' * (6 + len(PARTITIONERS))}")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            planner = Planner(options.penstock, folder, case)
            steps, cuts, names = zip(*(planner.cut(one) for one in PARTITIONERS))
            tried = near(cuts, len(names[0]), options.near // (2 if case[3] > 3 else 1))
            best = min(pool.map(lambda cut: planner.by_hand(cut, names[0]), tried))
        errors = [100 * (step / best - 1) for step in steps]
        behind += errors[0] > 0.005
        print(f"| {' | '.join(map(str, case))} | {len(tried)} | {best / 1e3:.1f} ms | "
              f"{' | '.join(f'{error:+.1f} %' for error in errors)} |", flush=True)
    sys.exit(1 if behind else 0)


if __name__ == "__main__":
    main()
