#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `penstock tune` finds the optimum of a grid.

Small cases: every combination of a grid is tried by `penstock compare`; `penstock tune` gets half as many trials.
Large cases: all plugins with their parameters; `tune` and points by chance alone get the same number of trials.
Devices are described, not measured, so that the figures depend on the code alone.

    bench/tune/optimum.py [--small 0-23] [--large 0-7] [--keep FILE] [--trials N] [--jobs N] [--penstock PROGRAM]

--keep: a line for each case that is done; what is there already is not done again, so that parts may be run apart.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

MODELS = [
    'use = "gpt", layers = {n}, dim = 64, heads = 4, context = 64, vocab = 512',
    'use = "gpt", layers = {n}, dim = 256, heads = 4, context = 32, vocab = 256',
    'use = "bert", layers = {n}, dim = 128, heads = 4, context = 64',
    'use = "mlp", layers = {n}, hidden = 512, inputs = 64, classes = 16',
    'use = "llama", layers = {n}, dim = 128, heads = 4, context = 64',
]
STRATEGIES = {
    "partitioners": ["uniform", "greedy", "pipedream", "dapple", "chain-dp", "tideline", "stage-graph", "vpipe", "piper",
                     "graphpipe", "dawnpiper"],
    "schedulers": ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-auto", "v-half", "v-min", "zbv",
                   "hanayo", "group-interleaved", "1f1b-v", "interleaved-zb", "chimera", "dualpipev"],
    "memopts": ["none", "full", "selective", "sqrt", "offload", "rotor", "adapipe", "two-ended", "bpipe"],
}
AXES = ["partitioner", "scheduler", "memopt", "devices", "microbatch", "replicas"]


def case(number):
    """A job: model, devices, links and memory by the number alone."""
    chance = random.Random(number)
    devices = chance.choice([4, 8])
    return {
        "model": "{ " + MODELS[number % len(MODELS)].format(n=chance.choice([4, 6, 8])) + " }",
        "data": '{ kind = "synthetic" }',
        "train": "{ steps = 1, batch = 16, microbatch = 2 }",
        "run": '{ device = "emulated" }',
        "profile": '{ measure = "never" }',
        "partitioner": '{ use = "uniform" }',
        "scheduler": '{ use = "1f1b" }',
        "memopt": '[{ use = "none" }]',
        "cluster": "{ devices = %d, memory = %d, flops = %g, link_bandwidth = %g, link_latency = %g }"
        % (devices, chance.choice([12, 24, 48, 256]) << 20, 10 ** chance.uniform(10, 13), 10 ** chance.uniform(8, 10.5),
           10 ** chance.uniform(-6, -4.5)),
    }, devices


def grid(number, devices):
    chance = random.Random(1000 + number)
    lists = {key: chance.sample(words, n) for (key, words), n in zip(STRATEGIES.items(), (3, 4, 2))}
    lists.update(devices=[devices // 2, devices], microbatches=[1, 2, 4], replicas=[1, 2], zero=[0])
    return lists


class Bench:
    def __init__(self, asked, folder):
        self.program, self.trials, self.jobs, self.folder = os.path.abspath(asked.penstock), asked.trials, asked.jobs, folder

    def write(self, name, job, section="", lists=()):
        with open(f"{self.folder}/{name}", "w") as file:
            file.writelines(f"{key} = {value}\n" for key, value in job.items())
            file.write(section + "".join(f"{key} = {json.dumps(value)}\n" for key, value in dict(lists).items()))

    def ask(self, *words):
        started = time.monotonic()
        done = subprocess.run([self.program, *map(str, words), "--json", "-j", self.jobs], cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout), time.monotonic() - started

    def small(self, number):
        job, devices = case(number)
        lists = grid(number, devices)
        for section in ("compare", "tune"):
            self.write(section + ".toml", job, f"[{section}]\n", lists)
        every, _ = self.ask("compare", "compare.toml")
        n, optimum = every["combinations"], best_of(every)
        if optimum == 0:
            return None
        some, _ = self.ask("tune", "tune.toml", "--trials", n // 2, "--seed", number)
        all_ = self.ask("tune", "tune.toml", "--trials", n)[0] if number % 4 == 0 else every
        return {"combinations": n, "fit": len(every["order"]), "optimum": optimum, "found": tried_best(some, every),
                "with all": tried_best(all_, every)}

    def large(self, number):
        self.write("all.toml", case(number)[0])
        words = ["tune", "all.toml", "--trials", self.trials, "--seed", number]
        tuned, seconds = self.ask(*words)
        if not tuned["order"]:
            return None
        chance, _ = self.ask(*words, "--random")
        return {"combinations": tuned["searched"]["combinations"], "trials": self.trials, "tune": best_of(tuned),
                "seconds": round(seconds, 1), "chance": best_of(chance)}


def tried_best(answer, every):
    """Of the combinations that were tried, by what `compare` says of them: what tune refines does not count."""
    rates = {tuple(r[axis] for axis in AXES): r.get("samples_per_second", 0) for r in every["records"]}
    return max((rates[tuple(r[axis] for axis in AXES)] for r in answer["records"]), default=0)


def best_of(answer):
    return max((answer["records"][i]["samples_per_second"] for i in answer["order"]), default=0)


def numbers(text):
    """\"0-23\", \"5\" or \"\": none."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else range(0)


def read(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as file:
        return {tuple(line["case"]): line["result"] for line in map(json.loads, file)}


def judge(results):
    small = [r for (kind, _), r in results.items() if kind == "small" and r]
    large = [r for (kind, _), r in results.items() if kind == "large" and r]
    hits = sum(r["found"] >= r["optimum"] for r in small)
    missed = sum(r["with all"] < r["optimum"] for r in small)
    behind = sum(r["tune"] < r["chance"] * (1 - 1e-9) for r in large)
    worst = min((r["found"] / r["optimum"] for r in small), default=1)
    print(f"optimum found: {hits} of {len(small)} with half of the trials (at worst {worst:.4f} of it), missed "
          f"{missed} times with all; behind chance: {behind} of {len(large)}")
    return behind > 0 or missed > 0 or hits < 0.95 * len(small)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default="build/release/penstock")
    parser.add_argument("--small", default="0-23")
    parser.add_argument("--large", default="0-7")
    parser.add_argument("--keep")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", default="2")
    asked = parser.parse_args()
    kept, results = read(asked.keep), {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(asked, folder)
        for kind in ("small", "large"):
            for number in numbers(getattr(asked, kind)):
                key = (kind, number)
                results[key] = kept[key] if key in kept else getattr(bench, kind)(number)
                print(kind, number, results[key] or "nothing fits", flush=True)
                if asked.keep and key not in kept:
                    with open(asked.keep, "a") as file:
                        file.write(json.dumps({"case": key, "result": results[key]}) + "\n")
    return judge(results)


if __name__ == "__main__":
    sys.exit(main())
