#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Search times and bottlenecks of partitioners on PipeDream's published profiles.

    bench/partitioners/profiles.py FOLDER [--penstock build/release/penstock]

FOLDER holds the graph.txt files of PipeDream's repository (profiler/image_classification/profiles,
profiler/translation/profiles), renamed vgg16.txt, resnet50.txt, ...; they are read where they are.
Every row is one question that all partitioners get in the same words: the same graph, devices,
replica counts and cost model, so bottlenecks can be compared. Times of a sample are those of the
whole mini-batch that was profiled. Seconds are the search alone, the fastest of --runs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

# profile, devices
CASES = [("vgg16", 4), ("resnet50", 8), ("resnet101", 16), ("densenet121", 8), ("gnmt", 8),
         ("gnmt_large", 16), ("inception_v3", 4)]
PARTITIONERS = [("graphpipe", {}), ("stage-graph", {}), ("chain-dp", {}),
                ("pipedream", {"objective": "reference"}),
                ("pipedream", {"objective": "reference", "states": "antichain"}),
                ("piper", {}), ("greedy", {})]
LIMIT_S = 120


def problem(graph, devices, replicas):
    """Straight, or with replicas whose gradients cross links of 10 Gbit/s once per 64 batches."""
    degrees = [d for d in (1, 2, 4, 8, 16) if d <= devices] if replicas else [1]
    return {"format": "penstock-problem", "version": 1, "graph_file": os.path.basename(graph), "devices": devices,
            "mini_batch": 64 * degrees[-1], "micro_batches": [degrees[-1]], "degrees": degrees,
            "p2p_bandwidth": 1.25e9, "allreduce_bandwidth": 1.25e9, "comm_model": "max"}


def ask(penstock, name, options, question, folder):
    """(milliseconds per batch, seconds) or a word why not."""
    path = os.path.join(folder, "problem.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(question, options=options), file)
    try:
        run = subprocess.run([penstock, "partition", name, "--problem", path, "--json"],
                             capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"> {LIMIT_S} s"
    answer = json.loads(run.stdout)
    if run.returncode != 0:
        return answer["error"]["message"].split(": ", 1)[-1][:60]
    return answer["bottleneck_us_per_sample"] / 1e3, answer["search_seconds"]


def best_of(runs, *question):
    answers = [ask(*question) for _ in range(runs)]
    if isinstance(answers[0], str):
        return answers[0]
    return answers[0][0], min(a[1] for a in answers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--penstock", default="build/release/penstock")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model, devices in CASES:
            source = os.path.join(arguments.folder, model + ".txt")
            graph = os.path.join(folder, model + ".json")
            if not os.path.exists(source):
                print(f"{model}: no {source}", file=sys.stderr)
                continue
            subprocess.run([arguments.penstock, "import", "pipedream-profile", source, "--batch",
                            "1", "-o", graph, "-q"], check=True, stdout=subprocess.DEVNULL)
            for replicas in (False, True):
                question = problem(graph, devices, replicas)
                print(f"\n{model}, {devices} devices, "
                      f"{'replicas' if replicas else 'one device per stage'}")
                for name, options in PARTITIONERS:
                    label = " ".join([name] + [f"{k}={v}".lower() for k, v in options.items()])
                    got = best_of(arguments.runs, arguments.penstock, name, options, question,
                                  folder)
                    if isinstance(got, str):
                        print(f"  {label:<48} {got}")
                    else:
                        print(f"  {label:<48} {got[0]:10.3f} ms {got[1]:9.4f} s")


if __name__ == "__main__":
    main()
