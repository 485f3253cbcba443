#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest batch that each method plans, over the models of configs/papers/dawnpiper-*.toml.

    bench/memopt/largest.py FOLDER [--penstock PATH] [--memory "10.5 GiB"] [MODEL ...]

Prints tables in Markdown: the largest micro-batch of every method (penstock tune --objective
max-batch), samples per second there and at the largest one that vPipe trains, ratios to vPipe and
to PipeDream's cuts, and their geometric means. What was asked is kept in FOLDER and not asked again.
Plans are simulated, so figures are the same on every machine; seconds are processor time.
"""
import argparse
import json
import math
import os
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = ["bert-large", "bert-48", "gpt2-medium", "gpt2-xl", "t5-large", "amoebanet-18-208",
          "amoebanet-36-544"]
METHODS = ["DawnPiper", "DawnPiper as published", "vPipe", "PipeDream", "GPipe"]
MICROBATCHES = 32


def ask(args, path, command):
    """The JSON answer of a penstock command, from `path` if it is there."""
    if os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([args.penstock] + command + ["--json"], stdout=subprocess.PIPE,
                          check=False)
    if not done.stdout:
        sys.exit("largest.py: no answer of penstock " + " ".join(command))
    answer = json.loads(done.stdout)
    answer["cpu_seconds"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    with open(path + ".part", "w") as file:
        json.dump(answer, file)
    os.rename(path + ".part", path)
    return answer


def settings(args, microbatch=None):
    options = []
    if args.memory:
        options += ["--set", 'cluster.memory="%s"' % args.memory]
    if microbatch:
        options += ["--set", "train.microbatch=%d" % microbatch,
                    "--set", "train.batch=%d" % (MICROBATCHES * microbatch)]
    return options


def measure(args, model):
    """Per method: largest micro-batch, samples/s there, samples/s at vPipe's largest."""
    config = os.path.join(ROOT, "configs/papers/dawnpiper-%s.toml" % model)
    tag = model + ("-" + args.memory.replace(" ", "") if args.memory else "")
    tuned = ask(args, os.path.join(args.folder, tag + ".json"),
                ["tune", config, "--objective", "max-batch"] + settings(args))
    rows = {r["method"]: [r["max_microbatch"], r["at_max"].get("samples_per_second", 0), 0]
            for r in tuned["records"]}
    common = rows["vPipe"][0]
    if common:
        compared = ask(args, os.path.join(args.folder, "%s-at-%d.json" % (tag, common)),
                       ["compare", config] + settings(args, common))
        for record in compared["records"]:
            rows[record["method"]][2] = record.get("samples_per_second", 0)
    return rows, tuned["cpu_seconds"]


def cell(row):
    size, at_max, at_common = row
    if not size:
        return "none"
    return "%d (%s, %s)" % (size, "%.4g" % at_max, "%.4g" % at_common if at_common else "–")


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0


def print_ratios(all_rows):
    print("\n| model | batch over vPipe | over PipeDream | over as published | speed over vPipe |")
    print("| --- | --- | --- | --- | --- |")
    columns = [[], [], [], []]
    for model, rows in all_rows.items():
        best = rows["DawnPiper"]
        ratios = [best[0] / rows[of][0] if rows[of][0] else None
                  for of in ("vPipe", "PipeDream", "DawnPiper as published")]
        ratios.append(best[2] / rows["vPipe"][2] if rows["vPipe"][2] else None)
        for column, ratio in zip(columns, ratios):
            column += [ratio] if ratio else []
        print("| %s | %s |" % (model, " | ".join("%.2f" % r if r else "–" for r in ratios)))
    print("| geometric mean | %s |" % " | ".join("%.2f" % mean(c) for c in columns))
    print("| best | %s |" % " | ".join("%.2f" % max(c, default=0) for c in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/penstock"))
    parser.add_argument("--memory", help="of a device, instead of what the configs say")
    args = parser.parse_intermixed_args()
    all_rows = {}

    os.makedirs(args.folder, exist_ok=True)
    print("Largest micro-batch (samples/s there, samples/s at vPipe's largest):\n")
    print("| model | %s | seconds |" % " | ".join(METHODS))
    print("| --- |%s" % (" --- |" * (len(METHODS) + 1)))
    for model in args.models:
        rows, seconds = measure(args, model)
        all_rows[model] = rows
        print("| %s | %s | %.0f |" % (model, " | ".join(cell(rows[m]) for m in METHODS), seconds),
              flush=True)
    print_ratios(all_rows)


if __name__ == "__main__":
    main()
