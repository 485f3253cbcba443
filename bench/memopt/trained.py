#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest micro-batch that each method really trains, as the devices get smaller.

    bench/memopt/trained.py [--penstock PATH] [--steps N] [MiB ...]

configs/largest.toml on the devices of this machine: penstock tune finds the largest micro-batch of
each method, penstock compare --run trains it and measures the peak of every device, which is equal
to the planned one or marked. Prints a table in Markdown.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIG = os.path.join(ROOT, "configs/largest.toml")
METHODS = {
    "tideline": 'partitioner = "tideline", memopt = "two-ended"',
    "DawnPiper": 'partitioner = "dawnpiper", memopt = "dawnpiper"',
    "vPipe": 'partitioner = "vpipe", memopt = "vpipe"',
    "PipeDream": 'partitioner = "pipedream", memopt = "none"',
    "GPipe": 'partitioner = "uniform", scheduler = "gpipe", memopt = "full"',
}
MICROBATCHES = 8


def penstock(args, command):
    done = subprocess.run([args.penstock] + command + ["--json"], stdout=subprocess.PIPE,
                          check=False)
    if not done.stdout:
        sys.exit("trained.py: no answer of penstock " + " ".join(command))
    return json.loads(done.stdout)


def train(args, method, memory, size):
    """True if it ran, with the peaks that were planned."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write('include = "%s"\n[compare]\nmethods = [ { name = "one", %s } ]\n'
                     % (CONFIG, METHODS[method]))
        config.flush()
        answer = penstock(args, ["compare", config.name, "--run", "--steps", str(args.steps),
                                 "--set", 'cluster.memory="%d MiB"' % memory,
                                 "--set", "train.microbatch=%d" % size,
                                 "--set", "train.batch=%d" % (MICROBATCHES * size)])
    record = answer["records"][0]
    return record["state"] == "done" and record.get("memory_as_predicted", False)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", nargs="*", type=int, default=[40, 32, 26, 22, 19, 17],
                        metavar="MiB")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/penstock"))
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_intermixed_args()

    print("| memory of a device | %s |" % " | ".join(METHODS))
    print("| --- |%s" % (" --- |" * len(METHODS)))
    for memory in args.memory:
        tuned = penstock(args, ["tune", CONFIG, "--objective", "max-batch",
                                "--set", 'cluster.memory="%d MiB"' % memory])
        sizes = {r["method"]: r["max_microbatch"] for r in tuned["records"]}
        cells = []
        for method in METHODS:
            size = sizes[method]
            ran = size > 0 and train(args, method, memory, size)
            cells.append(str(size) if ran else "none" if size == 0 else "%d (failed)" % size)
        print("| %d MiB | %s |" % (memory, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
