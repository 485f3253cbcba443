#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `compare --run` tell methods apart that are equal, and those that are not?

  bench/compare/false_alarms.py [--build build/release] [--times 20] [--repeat 3] [--steps 20]
                                [--config FILE] [--realtime]

Compares four methods that are all the same, again and again: an alarm is a comparison in which any
of them is told apart from the fastest. Then 1f1b that keeps everything beside gpipe that recomputes
everything: found is a comparison that tells them apart. Spread is how much slower the slowest of
the equal ones was than the fastest. --realtime, for a busy machine and root, lets penstock run
before all else. Exit code 1 where there are more alarms than chance allows (5 % of comparisons) or
a difference is not found in nine of ten."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = """
model = { use = "gpt", layers = 4, dim = 64, heads = 4, context = 64 }
data = { kind = "text", train = "/usr/share/common-licenses/GPL-2" }
train = { batch = 8, microbatch = 2, eval_batches = 0 }
cluster = { devices = 2 }
partitioner = { use = "uniform" }
scheduler = { use = "1f1b" }
memopt = [{ use = "none" }]
"""
EQUAL = '[{name="a"},{name="b"},{name="c"},{name="d"}]'
UNEQUAL = '[{name="kept"},{name="recomputed",scheduler="gpipe",memopt="full"}]'


def chance_of(n, k, p=0.05):
    """Of k or more of n, each with chance p."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def compare(options, config, methods):
    command = ["chrt", "-f", "1"] if options.realtime else []
    command += [options.build / "penstock", "compare", config, "--set", f"compare={{methods={methods}}}", "--run"]
    command += ["--json", "--repeat", str(options.repeat), "--steps", str(options.steps)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["records"]


def differ(records):
    return any(not r["best"]["same"] for r in records if "p" in r["best"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--config", help="whose methods are the config's own; the second part is left out")
    parser.add_argument("--realtime", action="store_true")
    for name, value in [("times", 20), ("repeat", 3), ("steps", 20)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = options.config or f"{folder}/job.toml"
        if not options.config:
            pathlib.Path(config).write_text(CONFIG)
        alarms, spreads = 0, []
        for _ in range(options.times):
            records = compare(options, config, EQUAL)
            alarms += differ(records)
            steps = [r["measured_step_us"] for r in records]
            spreads.append(max(steps) / min(steps) - 1)
        print(f"four equal methods: {alarms} false alarms in {options.times} comparisons of {options.repeat} rounds of "
              f"{options.steps} steps; spread {statistics.median(spreads):.1%}, at most {max(spreads):.1%}", flush=True)
        good = chance_of(options.times, alarms) > 0.05
        if not options.config:
            pairs = [compare(options, config, UNEQUAL) for _ in range(options.times)]
            found = sum(differ(records) for records in pairs)
            ratios = [r[1]["measured_step_us"] / r[0]["measured_step_us"] for r in pairs]
            print(f"gpipe with recomputation beside 1f1b: {statistics.median(ratios):.2f} x the step; "
                  f"found in {found} of {options.times}")
            good &= found >= 0.9 * options.times
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
