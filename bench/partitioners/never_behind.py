#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where another partitioner's step is shorter than stage-graph's.

    bench/partitioners/never_behind.py [--penstock build/release/penstock] [--problems 60] [--seed 0]
                                       [--models mlp.toml,...] [--devices 2,4] [--schedulers 1f1b,...]

Problems are random series-parallel graphs and pairs of towers with a join, 8 to 50 operators on 2 to 8
devices, half of them with one micro-batch size, some judged by a scheduler (cost "planned"); then the
small models of configs/models on emulated devices, with schedulers that take graphs of stages. Every
partitioner gets the same question. A line for each that stage-graph loses by more than a rounding: its
step over the best one, and whose that is. Exit code 1 where there is one. pipedream-2bw is no rival in
problems: it counts replicas of its own.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RIVALS = ["graphpipe", "chain-dp", "pipedream", "piper", "dapple", "dawnpiper", "vpipe", "tideline",
          "greedy", "uniform"]
MODELS = ["dlrm-small", "mmt-small", "candle-uno-small", "gpt-small", "t5-small", "resnet-small"]


def series_parallel(rng, left, source, edges, names):
    """Adds about `left` nodes behind `source`; the last one."""
    while left > 0:
        if left < 4 or rng.random() < .5:
            names.append(f"n{len(names)}")
            edges += [(source, names[-1])] if source else []
            source, left = names[-1], left - 1
            continue
        if source is None:
            source = series_parallel(rng, 1, None, edges, names)
            left -= 1
        branches = rng.randint(2, min(4, left - 1))
        share = [1] * branches
        for _ in range(left - 1 - branches):
            share[rng.randrange(branches)] += 1
        ends = [series_parallel(rng, n, source, edges, names) for n in share]
        names.append(f"n{len(names)}")
        edges += [(end, names[-1]) for end in ends]
        source, left = names[-1], 0
    return source


def towers(height):
    names = [f"n{i}" for i in range(2 * height + 1)]
    edges = [(names[i], names[i + 1]) for i in range(2 * height - 1) if i != height - 1]
    return names, edges + [(names[height - 1], names[-1]), (names[2 * height - 1], names[-1])]


def node(rng, name):
    us = round(rng.choice([rng.uniform(1, 10), rng.randint(1, 5) * 2, rng.uniform(.1, 30)]), 3)
    return {"name": name, "forward_us": us, "backward_input_us": us, "backward_weight_us": us,
            "fixed_us": rng.choice([0, 0, 1, 4]), "param_bytes": rng.randint(0, 40) * 1000,
            "saved_bytes": rng.randint(1, 50) * 100, "output_bytes": rng.randint(1, 20) * 100}


def problem(seed):
    rng = random.Random(seed)
    devices, n = rng.choice([2, 3, 4, 6, 8]), rng.choice([8, 12, 20, 30, 50])
    names, edges = [], []
    if rng.random() < 1 / 3:
        names, edges = towers(n // 2)
    else:
        series_parallel(rng, n, None, edges, names)
    asked = {"format": "penstock-problem", "version": 1, "devices": devices, "mini_batch": 64,
             "micro_batches": rng.choice([[4], [1, 2, 4, 8, 16]]),
             "comm_model": rng.choice(["none", "sum", "max"]),
             "graph": {"batch": 1, "nodes": [node(rng, name) for name in names],
                       "edges": [{"from": a, "to": b} for a, b in edges]}}
    if asked["comm_model"] != "none":
        asked["p2p_bandwidth"] = asked["allreduce_bandwidth"] = rng.choice([1e8, 1e9, 1e10])
    if rng.random() < .6:
        asked["degrees"] = [d for d in (1, 2, 4, 8) if d <= devices]
    if rng.random() < .4:
        asked |= {"cost": "planned", "scheduler": rng.choice(["1f1b", "per-stage"])}
    return asked


def step_of(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(run.stdout)
    if run.returncode not in (0, 1, 2):
        sys.exit(f"{' '.join(command)}: {answer}")
    if run.returncode != 0 and answer["error"]["kind"] == "plan.mismatch":
        raise LookupError
    return answer.get("step_us") if run.returncode == 0 else None


def judge(label, question):
    """True: stage-graph loses, or has no plan where another has one."""
    ours, found = None, []
    with contextlib.suppress(LookupError):
        ours = question("stage-graph")
        for name in RIVALS:
            with contextlib.suppress(LookupError):
                step = question(name)
                found += [(step, name)] if step else []
    if not found or (ours and ours <= min(found)[0] * (1 + 1e-6)):
        return False
    print(f"{label}: {f'{ours / min(found)[0]:.4f}' if ours else 'no plan'}, {min(found)[1]}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(ROOT / "build/release/penstock"))
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--devices", default="2,4")
    parser.add_argument("--schedulers", default="1f1b")
    options = parser.parse_args()
    lost = asked = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.problems):
            path = pathlib.Path(folder) / "problem.json"
            path.write_text(json.dumps(problem(seed)), encoding="utf-8")
            lost += judge(f"problem {seed}", lambda name, path=path: step_of(
                [options.penstock, "partition", name, "--problem", str(path), "--json"]))
            asked += 1
    models = filter(None, options.models.split(","))
    for model, devices, scheduler in itertools.product(models, options.devices.split(","),
                                                       options.schedulers.split(",")):
        lost += judge(f"{model}, {devices} devices, {scheduler}", lambda name: step_of(
            [options.penstock, "plan", str(ROOT / f"configs/models/{model}.toml"), "--json", "--set",
             f"partitioner.use={name}", "--set", f"scheduler.use={scheduler}", "--set",
             "memopt.use=none", "--set", "run.device=emulated", "--set", f"cluster.devices={devices}"]))
        asked += 1
    print(f"{lost} of {asked} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
