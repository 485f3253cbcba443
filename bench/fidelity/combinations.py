#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sixty combinations predicted and run: are they in the same order, and is the best of them chosen?

  bench/fidelity/combinations.py [--build build/release] [--repeat 3] [--steps 10] [--microbatches 1,2,4,8,16]
                                 [--config FILE] [--least N] [--realtime] [--csv FILE]

Partitioners x schedulers x memory optimizers x micro-batches of the quickstart's model on two devices,
through `penstock compare --run` with nothing measured before, so that it measures the operators first.
Measured is the median of interleaved rounds. Kendall's tau (b, for equal predictions) over all pairs, and
over those whose 95 % intervals of the measured step do not overlap; how far the best prediction's run is
behind the best run. --config takes another file and its [compare]. --realtime, for a busy machine and root, lets penstock run before all else. Exit code 1 where tau
over all pairs is below 0.9, the choice more than 3 % behind, or fewer than --least combinations ran."""
import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL_TAU, GOAL_BEHIND = 0.9, 0.03
CONFIG = """
include = "{root}/configs/quickstart.toml"
train = {{ eval_every = 0, eval_batches = 0, sample = 0 }}
cluster = {{ devices = 2 }}
[compare]
methods = [{methods}]
microbatches = [{sizes}]
"""
EVEN, UNEVEN = '"chain-dp"', '{ use = "manual", stages = "wte, h.0.*, h.1.*, h.2.*; *" }'
ORDERS = [(EVEN, '"1f1b"'), (EVEN, '"zb-h1"'), (EVEN, '{ use = "interleaved", chunks = 2 }'), (EVEN, '"zbv"'),
          (UNEVEN, '"1f1b"'), (UNEVEN, '"zb-h1"')]


def config_text(sizes):
    methods = [f'{{ name = "{len(ORDERS) * j + i}", partitioner = {partitioner}, scheduler = {scheduler}, memopt = "{memopt}" }}'
               for j, memopt in enumerate(["none", "full"]) for i, (partitioner, scheduler) in enumerate(ORDERS)]
    return CONFIG.format(root=ROOT, methods=", ".join(methods), sizes=sizes)


def compare(options, config, cache):
    command = ["chrt", "-f", "1"] if options.realtime else []
    command += [str(options.build / "penstock"), "compare", config, "--run", "--json",
                "--repeat", str(options.repeat), "--steps", str(options.steps)]
    command += ["-o", options.csv] if options.csv else []
    environment = {key: value for key, value in os.environ.items() if key != "PENSTOCK_NO_PROFILE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment | {"XDG_CACHE_HOME": cache})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)["records"]


def tau(pairs):
    """Kendall's tau-b of pairs of (difference of predictions, difference of measurements)."""
    signs = [(math.copysign(1, p) if p else 0, math.copysign(1, m) if m else 0) for p, m in pairs]
    untied = [sum(1 for pair in signs if pair[side]) for side in (0, 1)]
    return sum(p * m for p, m in signs) / math.sqrt(untied[0] * untied[1]) if all(untied) else math.nan


def differences(rows, keep):
    return [(a["predicted_step_us"] - b["predicted_step_us"], a["measured_step_us"] - b["measured_step_us"])
            for a, b in itertools.combinations(rows, 2) if keep(a, b)]


def apart(a, b):
    return a["measured_low_us"] > b["measured_high_us"] or a["measured_high_us"] < b["measured_low_us"]


def show(rows):
    print("| partitioner | scheduler | memory | micro-batch | predicted | measured | 95 % | error |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        step, low, high = (row[f"measured_{key}_us"] / 1e3 for key in ("step", "low", "high"))
        print(f"| {row['partitioner']} | {row['scheduler']} | {row['memopt']} | {row['microbatch']} "
              f"| {row['predicted_step_us'] / 1e3:.2f} ms | {step:.2f} ms | {low:.2f} to {high:.2f} "
              f"| {100 * row['prediction_error']:+.1f} % |")


def judge(rows):
    """rows: by prediction."""
    fastest = min(rows, key=lambda row: row["measured_step_us"])
    behind = rows[0]["measured_step_us"] / fastest["measured_step_us"] - 1
    everything, told = differences(rows, lambda a, b: True), differences(rows, apart)
    errors = [row["prediction_error"] for row in rows]
    print(f"\n{len(rows)} combinations. Kendall's tau {tau(everything):.3f} over {len(everything)} pairs, "
          f"{tau(told):.3f} over the {len(told)} whose intervals do not overlap.\n"
          f"The best prediction's run is {100 * behind:.1f} % behind the best run"
          f"{'' if apart(rows[0], fastest) or behind == 0 else ', their intervals overlap'}.\n"
          f"Error of predictions: mean {100 * statistics.mean(map(abs, errors)):.1f} %, "
          f"with its sign {100 * statistics.mean(errors):+.1f} %, worst {100 * max(errors, key=abs):+.1f} %.")
    return tau(everything) >= GOAL_TAU and behind <= GOAL_BEHIND


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--config")
    parser.add_argument("--microbatches", default="1,2,4,8,16", help="of the combinations: twelve for each")
    parser.add_argument("--csv", help="what compare -o writes")
    parser.add_argument("--realtime", action="store_true")
    for name, value in [("repeat", 3), ("steps", 10), ("least", 60)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    if options.repeat < 2:
        parser.error("--repeat must be at least 2, for intervals")
    with tempfile.TemporaryDirectory() as folder:
        config = options.config or f"{folder}/job.toml"
        if not options.config:
            pathlib.Path(config).write_text(config_text(options.microbatches))
        records = compare(options, config, folder)
    for record in records:
        if record["state"] != "done":
            print(f"{record['partitioner']}/{record['scheduler']}/{record['memopt']}, micro-batch "
                  f"{record['microbatch']}: {record['state']}: {record.get('error', {}).get('message', '')}")
    rows = sorted((r for r in records if "measured_low_us" in r), key=lambda row: row["predicted_step_us"])
    if len(rows) < 2:
        sys.exit("too few combinations ran")
    show(rows)
    good = judge(rows)
    sys.exit(0 if good and len(rows) >= options.least else 1)


if __name__ == "__main__":
    main()
