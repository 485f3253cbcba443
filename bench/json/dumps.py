#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a whole `penstock schedule --json` with that of Python's json.dumps of the same answer, loaded before.

    bench/json/dumps.py [--penstock build/release/penstock] [--rounds 9] [-d 64] [-m 2048] [--limit 0.7]

Rounds alternate, so that a busy machine slows both. Time is that of the processor (user and system), and the ratio that of the
medians; wall time, which others on the machine lengthen, is printed beside it. Exit code 1: the ratio is above --limit.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def child_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(clock, work):
    """Seconds of the processor and of the wall, and what the work returned."""
    cpu, wall = clock(), time.perf_counter()
    done = work()
    return clock() - cpu, time.perf_counter() - wall, done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(ROOT / "build/release/penstock"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("-d", "--devices", default="64")
    parser.add_argument("-m", "--microbatches", default="2048")
    parser.add_argument("--limit", type=float, default=0.7)
    options = parser.parse_args()
    command = [options.penstock, "schedule", "1f1b", "-d", options.devices, "-m", options.microbatches, "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    ours, theirs = [], []
    with open(os.devnull, "w", encoding="utf-8") as sink:
        for _ in range(options.rounds):
            ours.append(timed(child_cpu, lambda: subprocess.run(command, stdout=sink, check=True))[:2])
            theirs.append(timed(time.process_time, lambda: json.dumps(answer))[:2])
    for name, at in (("processor", 0), ("wall", 1)):
        both = [statistics.median(times[at] for times in each) for each in (ours, theirs)]
        print(f"{name}: penstock {both[0]:.3f} s, json.dumps {both[1]:.3f} s, ratio {both[0] / both[1]:.2f}")
        if at == 0:
            ratio = both[0] / both[1]
    sys.exit(0 if ratio <= options.limit else f"the ratio is above {options.limit}")


if __name__ == "__main__":
    main()
