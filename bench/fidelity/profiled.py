#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps as `penstock plan` predicts them, from operators that it measures, against steps that were run, on the cpu device.

  bench/fidelity/profiled.py [--build build/release] [--devices 1,2] [--rounds 3] [--seconds 1.5]
                             [--only WORD] [--slices] [--file] [--realtime] [--passes]

Each case goes through rounds of plan (which measures its operators anew), simulated step, run, one right behind the
other, for a shared machine is faster one minute than the next. Measured is the median over the steps
behind five of warm-up, the error that of the median round. A case none of whose runs was even
(from the 10th percentile of its steps to the 90th no more than 5 % of the median) is marked *.
--slices takes cases of slices of sequences instead of the others, --file predicts from what
`penstock profile` wrote. --realtime, for a busy machine and root, lets penstock run before all else,
and the thread that reads data before its devices. --passes compares instructions, too, by their
medians, those of each slice apart. Exit code 1 where the mean error is above 8 % or the 90th
percentile above 15 %."""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM_UP = 5
PASSES = ("F", "B", "W", "BW", "R")
GOAL_MEAN, GOAL_MOST = 0.08, 0.15

# Config, what differs from it, and the numbers of devices (None: those of --devices).
ONE_F_ONE_B = {"scheduler": {"use": "1f1b"}}
FULL = {"memopt": [{"use": "full"}]}
CASES = [
    ("quickstart", {"train": {"sample": 0}}, None),
    ("quickstart", {"train": {"sample": 0}, "scheduler": {"use": "gpipe"}}, [2]),
    ("quickstart", {"train": {"sample": 0}, "scheduler": {"use": "zb-h1"}}, [2]),
    ("quickstart", {"train": {"sample": 0}} | FULL, [2]),
    ("quickstart", {"train": {"sample": 0, "degrees": [2]}}, [2]),
    ("resnet", {}, None),
    ("resnet", {"scheduler": {"use": "gpipe"}, "memopt": [{"use": "none"}]}, [2]),
    ("resnet", {"scheduler": {"use": "zb-h2"}, "memopt": [{"use": "none"}]}, [2]),
    ("mlp", {}, None),
    ("mlp", {"model": {"hidden": 512}} | ONE_F_ONE_B, None),
    ("mmt", {}, None),
    ("mmt", {"scheduler": {"use": "zbv"}, "partitioner": {"use": "chain-dp"}}, [2]),
    ("models/bert-small", {"model": {"dim": 128, "context": 64}}, None),
    ("models/bert-small", {"model": {"dim": 128, "context": 64}} | FULL, [2]),
    ("models/t5-small", {"model": {"dim": 128, "head_dim": 64, "ff": 256, "context": 48,
                                   "targets": 48}}, None),
    ("models/dlrm-small", {"model": {"width": 256, "entries": 2048, "vector": 32},
                           "train": {"batch": 128, "microbatch": 32}}, None),
    ("models/candle-uno-small", {"model": {"width": 256}, "train": {"batch": 64, "microbatch": 16}},
     None),
]
# Attention of long sequences: the last slice computes some times what the first does.
LONG = {"model": {"context": 512}, "train": {"sample": 0, "batch": 8, "microbatch": 1}}
SLICES = [
    ("quickstart", {"train": {"sample": 0}, "scheduler": {"use": "seq1f1b", "slices": 2}}, None),
    ("quickstart", LONG | {"scheduler": {"use": "seq1f1b", "slices": 4}}, None),
    ("quickstart", LONG | {"scheduler": {"use": "seq1f1b", "slices": 8}}, None),
    ("quickstart", LONG | {"scheduler": {"use": "seq1f1b", "slices": 8}} | FULL, [2]),
    ("quickstart", LONG | {"scheduler": {"use": "seq1f1b", "slices": 8, "split": True}}, [2]),
    ("models/llama-small", {"model": {"dim": 128, "head_dim": 32, "ff": 352, "context": 512, "window": 192},
                            "train": {"batch": 8, "microbatch": 1},
                            "scheduler": {"use": "seq1f1b", "slices": 8}}, None),
]


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def config(name, changes, devices):
    """The tables of a case, without the machine and its times."""
    tables = tomllib.loads((ROOT / "configs" / f"{name}.toml").read_text())
    for table, keys in changes.items():
        if isinstance(keys, list):
            tables[table] = keys
        elif "use" in keys and table != "model":
            tables[table] = keys  # another plugin: its parameters alone
        else:
            tables[table] = tables.get(table, {}) | keys
    tables["train"] |= {"eval_every": 0, "eval_batches": 0}
    tables["cluster"] = {"devices": devices}
    return tables


def write(path, tables):
    lines = []
    for table, keys in tables.items():
        for section in keys if isinstance(keys, list) else [keys]:
            lines += [f"[[{table}]]" if isinstance(keys, list) else f"[{table}]"]
            lines += [f"{key} = {toml(value)}" for key, value in section.items()]
    path.write_text("\n".join(lines) + "\n")


class Runner:
    def __init__(self, options):
        self.options = options
        self.program = str(pathlib.Path(options.build) / "penstock")

    def __call__(self, *args, cache):
        """cache: folder for what is measured."""
        command = [self.program] + [str(arg) for arg in args]
        environment = {key: value for key, value in os.environ.items() if key != "PENSTOCK_NO_PROFILE"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment | {"XDG_CACHE_HOME": str(cache)}, preexec_fn=self.rise)
        timer = threading.Timer(0.08, lambda: self.rise(process.pid, 20))  # its first thread alone
        timer.start()
        out, err = process.communicate()
        timer.cancel()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n"
                               f"{out[-1500:]}\n{err[-1500:]}")
        return [json.loads(line) for line in out.splitlines()]

    def rise(self, thread=0, priority=10):
        try:
            if self.options.realtime:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
        except ProcessLookupError:
            pass  # it has ended


def durations(path, slices):
    """Of a trace: a list for each rank, kind, stage and slice (-1: no pass of one)."""
    found = collections.defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event["pid"] < 100000 and event.get("cat") != "wait":
            stage = event.get("args", {}).get("stage")
            kind = event["name"].split(" ")[0] if stage is None or event["cat"] == "comm" \
                else event["cat"]
            part = event["args"]["microbatch"] % slices if slices > 1 and kind in PASSES else -1
            found[event["pid"], kind, -1 if stage is None else stage, part].append(event["dur"])
    return found


def one_round(penstock, folder, tables):
    """Predicted and measured step in us, and whether the run was even."""
    plan, job = folder / "plan.json", folder / "job.toml"
    write(job, tables)
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        return measured_round(penstock, folder, job, plan, cache)


def measured_round(penstock, folder, job, plan, cache):
    profile = []
    if penstock.options.file:
        penstock("profile", job, "-o", folder / "profile.json", "--json", cache=cache)
        profile = ["--set", f"profile.file={folder / 'profile.json'}"]
    answer = penstock("plan", job, "-o", plan, "--json", *profile, cache=cache)[0]
    assert answer["operator_times"] in ("measured", "file"), "a case describes its devices"
    simulated = penstock("simulate", plan, "--json", "--trace", folder / "simulated.json", cache=cache)[0]
    predicted = simulated["step_us"]
    steps = min(max(int(penstock.options.seconds * 1e6 / predicted), 20), 1000) + WARM_UP
    sets = [*profile, "--set", f"train.steps={steps}"]
    if penstock.options.passes:
        sets += ["--set", f"output.trace={folder / 'run.json'}", "--set", "output.trace_steps=50"]
    *lines, _ = penstock("train", job, "--plan", plan, "--json", "-q", *sets, cache=cache)
    times = [line["seconds"] * 1e6 for line in lines if "seconds" in line][WARM_UP:]
    deciles = statistics.quantiles(times, n=10)
    measured = statistics.median(times)
    return predicted, measured, deciles[-1] - deciles[0] <= 0.05 * measured


def one(penstock, folder, name, changes, devices):
    tables = config(name, changes, devices)
    rounds = [one_round(penstock, folder, tables) for _ in range(penstock.options.rounds)]
    rounds.sort(key=lambda row: row[0] / row[1])
    predicted, measured, _ = rounds[len(rounds) // 2]
    return {"predicted": predicted, "measured": measured, "error": predicted / measured - 1,
            "least": rounds[0][0] / rounds[0][1] - 1, "most": rounds[-1][0] / rounds[-1][1] - 1,
            "even": any(even for *_, even in rounds)}


def label(name, changes):
    words = [name.removeprefix("models/")]
    for table, keys in changes.items():
        if table == "memopt":
            words.append("recompute" if keys[0]["use"] == "full" else "keep all")
        elif table == "train" and "degrees" in keys:
            words.append(f"{keys['degrees'][0]} replicas")
        elif "use" in keys:
            words.append(keys["use"])
            words += [f"{keys['slices']} slices"] if "slices" in keys else []
            words += ["B and W"] if keys.get("split") else []
        elif table == "model":
            words += [f"{key} {value}" for key, value in keys.items()]
    return ", ".join(words)


def show_passes(folder):
    slices = json.loads((folder / "plan.json").read_text()).get("slices", 1)
    simulated, run = (durations(folder / file, slices) for file in ("simulated.json", "run.json"))
    for key in sorted(set(simulated) | set(run)):
        ran, said = sorted(run.get(key, [0])), simulated.get(key, [0])
        print(f"    rank {key[0]} {key[1]} {'' if key[2] < 0 else key[2]}"
              f"{'' if key[3] < 0 else f' slice {key[3]}'}: "
              f"predicted {statistics.median(said):.1f} us, ran {statistics.median(ran):.1f} us "
              f"(from {ran[0]:.1f}), {len(ran)} times")


def summary(rows):
    errors = sorted(abs(row["error"]) for row in rows)
    mean, most = statistics.mean(errors), errors[min(int(0.9 * len(errors)), len(errors) - 1)]
    print(f"\n{len(rows)} cases, {sum(row['even'] for row in rows)} of them with an even run: "
          f"mean error {100 * mean:.1f} %, 90th percentile {100 * most:.1f} %, "
          f"worst {100 * errors[-1]:.1f} %, "
          f"mean with its sign {100 * statistics.mean(row['error'] for row in rows):+.1f} %")
    return mean <= GOAL_MEAN and most <= GOAL_MOST


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--devices", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run, about")
    parser.add_argument("--only", default="", help="cases with this word in their name")
    parser.add_argument("--slices", action="store_true", help="cases of slices of sequences alone")
    parser.add_argument("--file", action="store_true", help="predict from what `penstock profile` wrote")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--passes", action="store_true")
    options = parser.parse_args()
    penstock = Runner(options)
    rows = []
    print("| case | devices | predicted | measured | error | of all rounds |\n"
          "| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, changes, only_devices in SLICES if options.slices else CASES:
            for devices in only_devices or map(int, options.devices.split(",")):
                if options.only not in label(name, changes):
                    continue
                row = one(penstock, pathlib.Path(folder), name, changes, devices)
                rows.append(row)
                print(f"| {label(name, changes)} | {devices} | {row['predicted'] / 1e3:.3f} ms "
                      f"| {row['measured'] / 1e3:.3f} ms | {100 * row['error']:+.1f} %"
                      f"{'' if row['even'] else ' *'} "
                      f"| {100 * row['least']:+.1f} to {100 * row['most']:+.1f} % |", flush=True)
                if options.passes:
                    show_passes(pathlib.Path(folder))
    if not rows:
        sys.exit("no such case")
    sys.exit(0 if summary(rows) else 1)


if __name__ == "__main__":
    main()
