#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `penstock tune` finds the optimum of a grid.

Small cases: every combination of a grid is tried by `penstock compare`; `penstock tune` gets half as many trials.
Large cases: all plugins with their parameters; `tune` and points by chance alone get the same number of trials.
Devices are described, not measured, so that the figures depend on the code alone.

    bench/tune/optimum.py [--penstock build/release/penstock] [--small N] [--large N] [--trials N] [--jobs N]
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
]
STRATEGIES = {
    "partitioners": ["uniform", "greedy", "pipedream", "dapple", "chain-dp", "tideline", "stage-graph", "vpipe"],
    "schedulers": ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-auto", "v-half", "v-min", "zbv"],
    "memopts": ["none", "full", "selective", "sqrt", "offload", "rotor"],
}


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
    lists.update(devices=[devices // 2, devices], microbatches=[1, 2, 4], replicas=[1, 2])
    return lists


def penstock(arguments, folder):
    started = time.monotonic()
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout), time.monotonic() - started


AXES = ["partitioner", "scheduler", "memopt", "devices", "microbatch", "replicas"]


def tried_best(answer, every):
    """Of the combinations that were tried, by what `compare` says of them: what tune refines does not count."""
    rates = {tuple(r[axis] for axis in AXES): r.get("samples_per_second", 0) for r in every["records"]}
    return max((rates[tuple(r[axis] for axis in AXES)] for r in answer["records"]), default=0)


def best_of(answer):
    done = [answer["records"][i] for i in answer["order"]]
    return max((r["samples_per_second"] for r in done), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default="build/release/penstock")
    parser.add_argument("--small", type=int, default=24)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", default="2")
    asked = parser.parse_args()
    program = os.path.abspath(asked.penstock)
    hits = missed = behind = small = large = 0
    worst = 1.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.small):
            job, devices = case(number)
            lists = grid(number, devices)
            for section in ("compare", "tune"):
                with open(f"{folder}/{section}.toml", "w") as file:
                    file.writelines(f"{key} = {value}\n" for key, value in job.items())
                    file.write(f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lists.items()))
            command = [program, "tune", "tune.toml", "--json", "-j", asked.jobs, "--trials"]
            every, _ = penstock([program, "compare", "compare.toml", "--json", "-j", asked.jobs], folder)
            n, optimum = every["combinations"], best_of(every)
            if optimum == 0:
                print(f"small {number:2}: nothing fits", flush=True)
                continue
            small += 1
            some, _ = penstock(command + [str(n // 2)], folder)
            found = tried_best(some, every)
            if number % 4 == 0:
                all_, _ = penstock(command + [str(n)], folder)
                missed += tried_best(all_, every) < optimum
            hits += found >= optimum
            worst = min(worst, found / optimum)
            fits = sum(r["state"] == "done" for r in every["records"])
            print(f"small {number:2}: {n} combinations, {fits} fit; optimum {optimum:.1f}, with {n // 2} trials "
                  f"{found:.1f} samples/s", flush=True)
        for number in range(asked.large):
            job, _ = case(number)
            with open(f"{folder}/all.toml", "w") as file:
                file.writelines(f"{key} = {value}\n" for key, value in job.items())
            command = [program, "tune", "all.toml", "--json", "-j", asked.jobs, "--trials", str(asked.trials)]
            tuned, seconds = penstock(command, folder)
            if not tuned["order"]:
                print(f"large {number:2}: nothing fits", flush=True)
                continue
            large += 1
            chance, _ = penstock(command + ["--random", "--seed", str(number)], folder)
            behind += best_of(tuned) < best_of(chance) * (1 - 1e-9)
            print(f"large {number:2}: {tuned['searched']['combinations']} combinations, {asked.trials} trials: "
                  f"tune {best_of(tuned):.1f} in {seconds:.0f} s, by chance {best_of(chance):.1f} samples/s", flush=True)
    print(f"optimum found: {hits} of {small} with half of the trials (at worst {worst:.4f} of it), missed "
          f"{missed} times with all; behind chance: {behind} of {large}")
    return behind > 0 or missed > 0 or hits < 0.95 * small


if __name__ == "__main__":
    sys.exit(main())
