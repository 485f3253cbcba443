#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emulated devices against the simulator: step time and memory of every scheduler of the plugins.

  bench/fidelity/fidelity.py [--build build/release] [--devices 2,4,8] [--steps 25] [--only NAME]
                             [--slow 1] [--nodes]

Each plan is made once, simulated, and run on emulated devices, whose step time is the median over
the steps after five of warm-up. --slow multiplies the scale that penstock would choose: a machine
that is busy otherwise needs more. --nodes puts two devices into a node, so that transfers share
links. A run too uneven for its own median (from its 10th to its 90th percentile more than 5 % of
it) is made again, twice at most, and does not count (marked *) if that did not help. Exit code 1
where the mean error is above 2 %, one above 5 %, or memory differs by a byte."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM_UP = 5

# Stages per device; what else differs from the common case.
V = {"chunks": 2}
CASES = {
    "gpipe": [{}],
    "1f1b": [{}, {"options": {"split": True}}],
    "2bw": [{}],
    "per-stage": [{}, {"model": "mmt"}],
    "interleaved": [V, {"chunks": 3}],
    "group-interleaved": [V],
    "looped-bfs": [V],
    "interleaved-zb": [V],
    "zbv": [V],
    "v-zb": [V],
    "v-min": [V],
    "v-half": [V],
    "1f1b-v": [V],
    "dualpipev": [V],
    "dualpipe": [{}],
    "chimera": [{}],
    "hanayo": [V],
    "v-adaptive": [V],
    "optimal": [{"small": True}],
    "csv": [{"order_of": "interleaved", "chunks": 2}],
}
PLACED = {"interleaved", "group-interleaved", "looped-bfs", "interleaved-zb"}  # take `chunks`


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def config(name, case, p, nodes):
    """The config of a case, and its micro-batches."""
    chunks = case.get("chunks", 1)
    m = 2 * p if not case.get("small") else min(2 * p, 4)
    scheduler = {"use": name} | case.get("options", {})
    if name in PLACED:
        scheduler["chunks"] = chunks
    model = {"use": "gpt", "layers": max(2 * p * chunks, 8), "dim": 512, "heads": 8, "context": 256,
             "vocab": 8000}
    tables = {
        "model": model,
        "train": {"batch": m, "microbatch": 1, "optimizer": "adamw"},
        "run": {"device": "emulated", "dtype": "bf16"},
        "cluster": {"devices": p, "flops": 5e12, "bf16_flops": 20e12, "memory_bandwidth": "600 GB/s",
                    "launch_overhead": "5 us", "link_bandwidth": "6 GB/s", "link_latency": "15 us"},
        "partitioner": {"use": "chain-dp"},
        "scheduler": scheduler,
    }
    if nodes:
        tables["cluster"] |= {"node_size": 2, "node_link_bandwidth": "3 GB/s",
                              "node_link_latency": "30 us"}
    if case.get("model") == "mmt":  # branches side by side; the last device takes two samples at once
        tables["model"] = {"use": "mmt", "branches": p - 1, "layers": 2, "dim": 512, "heads": 8,
                           "context": 128, "vocab": 8000}
        tables["train"]["batch"] = 4 * p
        stages = [f"branch.{i}.*" for i in range(p - 1)] + ["*"]
        tables["partitioner"] = {"use": "manual", "stages": "; ".join(stages),
                                 "microbatch_sizes": ", ".join(["1"] * (p - 1) + ["2"])}
    return tables


def write(path, tables):
    lines = []
    for table, keys in tables.items():
        lines += [f"[{table}]"] + [f"{key} = {toml(value)}" for key, value in keys.items()]
    path.write_text("\n".join(lines) + "\n")


def run(penstock, *args):
    done = subprocess.run([penstock, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"penstock {' '.join(map(str, args))}: exit code {done.returncode}\n"
                           f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(penstock, path, plan, options):
    """Median step time in us, the last record, and whether the run was even enough to count."""
    sets = ["--set", f"train.steps={options.steps + 1}"]
    if options.slow > 1:
        scale = run(penstock, "train", path, "--plan", plan, "--json", "-q", "--set",
                    "train.steps=1")[-1]["emulated_scale"]
        sets += ["--set", f"run.emulated_scale={scale * options.slow}"]
    for _ in range(3):
        *lines, done = run(penstock, "train", path, "--plan", plan, "--json", "-q", *sets)
        times = [line["seconds"] * 1e6 for line in lines][WARM_UP:-1]  # the last may be a drain
        deciles = statistics.quantiles(times, n=10)
        median = statistics.median(times)
        even = deciles[-1] - deciles[0] <= 0.05 * median
        if even:
            break
    return median, done, even


def one(penstock, folder, name, case, p, options):
    path, plan = folder / "case.toml", folder / "case.json"
    tables = config(name, case, p, options.nodes)
    if "order_of" in case:
        order = dict(tables, scheduler={"use": case["order_of"], "chunks": case["chunks"]})
        write(path, order)
        run(penstock, "export", "pytorch-csv", path, "-o", folder / "order.csv", "--json")
        tables["scheduler"] = {"use": name, "file": str(folder / "order.csv")}
    write(path, tables)
    run(penstock, "plan", path, "-o", plan, "--json")
    simulated = run(penstock, "simulate", plan, "--json")[0]
    measured, done, even = measure(penstock, path, plan, options)
    predicted_peaks = done["predicted_peak_bytes"]
    peaks = [rank["peak_bytes"] for rank in simulated["ranks"]]
    return {
        "predicted": simulated["step_us"],
        "measured": measured,
        "error": simulated["step_us"] / measured - 1,
        "scale": done["emulated_scale"],
        "memory": done["peak_bytes"] == predicted_peaks,
        "live": all(live is None or live <= arena for live, arena in zip(peaks, predicted_peaks)),
        "even": even,
    }


def shipped(penstock):
    plugins = run(penstock, "plugins", "--json")[0]["plugins"]
    return sorted(plugin["id"] for plugin in plugins if plugin["kind"] == "scheduler")


def label_of(name, case):
    words = [f"`{name}`"]
    words += [f"{key} = {toml(value)}" for key, value in case.get("options", {}).items()]
    if "model" in case:
        words.append("branches")
    if case.get("chunks", 1) > 1:
        words.append(f"{case['chunks']} stages each")
    return ", ".join(words)


def show(label, p, row):
    print(f"| {label} | {p} | {row['predicted'] / 1e3:.3f} ms | {row['measured'] / 1e3:.3f} ms "
          f"| {100 * row['error']:+.2f} %{'' if row['even'] else ' *'} "
          f"| {'equal' if row['memory'] and row['live'] else 'DIFFERS'} | {row['scale']:g} |",
          flush=True)


def summary(rows):
    errors = sorted(abs(row["error"]) for row in rows if row["even"])
    if not errors:
        sys.exit("no run was even enough to count")
    mean, worst = statistics.mean(errors), errors[-1]
    memory = all(row["memory"] and row["live"] for row in rows)
    print(f"\n{len(rows)} plans, {len(errors)} of them counted: mean error {100 * mean:.2f} %, "
          f"90th percentile {100 * errors[int(0.9 * (len(errors) - 1))]:.2f} %, "
          f"worst {100 * worst:.2f} %; memory {'equal to the byte' if memory else 'DIFFERS'}")
    return mean <= 0.02 and worst <= 0.05 and memory


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--devices", default="2,4,8")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--slow", type=float, default=1)
    parser.add_argument("--only")
    parser.add_argument("--nodes", action="store_true")
    options = parser.parse_args()
    penstock = str(pathlib.Path(options.build) / "penstock")
    if options.steps < WARM_UP + 5:
        parser.error(f"--steps: at least {WARM_UP + 5}")
    rows = []
    print("| scheduler | devices | simulated | emulated | error | memory | times slower |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in shipped(penstock):
            if options.only and name != options.only:
                continue
            for case in CASES.get(name, [{}]):
                for p in map(int, options.devices.split(",")):
                    rows.append(one(penstock, pathlib.Path(folder), name, case, p, options))
                    show(label_of(name, case), p, rows[-1])
    sys.exit(0 if summary(rows) else 1)


if __name__ == "__main__":
    main()
