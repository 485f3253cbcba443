#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emulated devices against the simulator: step time and memory of every scheduler in the plugin folder.

  bench/fidelity/fidelity.py [--build build/release] [--devices 2,4,8] [--steps 25] [--only NAME] [--nodes]

Each plan is made once, simulated, and run on emulated devices, whose step time is the median over the
steps after five of warm-up. --nodes puts two devices into a node, so that transfers share links.
Exit code 1 where the mean error is above 2 %, one above 5 %, or memory differs by a byte. A run that
is too uneven for its own median (a spread of more than 5 % of it between its 10th and 90th percentile)
is made again, three times at most, and marked * if that did not help: this machine was not up to it."""
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
    model = {"use": "gpt", "layers": max(2 * p * chunks, 8), "dim": 512, "heads": 8, "context": 256, "vocab": 8000}
    tables = {
        "model": model,
        "train": {"batch": m, "microbatch": 1, "optimizer": "adamw"},
        "run": {"device": "emulated", "dtype": "bf16"},
        "cluster": {"devices": p, "flops": 5e12, "bf16_flops": 20e12, "memory_bandwidth": "600 GB/s", "launch_overhead": "5 us",
                    "link_bandwidth": "6 GB/s", "link_latency": "15 us"},
        "partitioner": {"use": "chain-dp"},
        "scheduler": scheduler,
    }
    if nodes:
        tables["cluster"] |= {"node_size": 2, "node_link_bandwidth": "3 GB/s", "node_link_latency": "30 us"}
    if case.get("model") == "mmt":  # branches side by side; the last device takes larger micro-batches
        tables["model"] = {"use": "mmt", "branches": p - 1 or 1, "layers": 2, "dim": 512, "heads": 8, "context": 128, "vocab": 8000}
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
        raise RuntimeError(f"penstock {' '.join(map(str, args))}: exit code {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(penstock, path, plan, steps):
    """Median step time in us, the last record, and whether the run was even enough to count."""
    for _ in range(3):
        *lines, done = run(penstock, "train", path, "--plan", plan, "--json", "-q", "--set", f"train.steps={steps + 1}")
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
    measured, done, even = measure(penstock, path, plan, options.steps)
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
    return [p["id"] for p in run(penstock, "plugins", "--json")[0]["plugins"] if p["kind"] == "scheduler"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--devices", default="2,4,8")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--only")
    parser.add_argument("--nodes", action="store_true")
    options = parser.parse_args()
    penstock = str(pathlib.Path(options.build) / "penstock")
    if options.steps < WARM_UP + 5:
        parser.error(f"--steps: at least {WARM_UP + 5}")
    rows, memory = [], True
    print("| scheduler | devices | simulated | emulated | error | memory | slowed |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(shipped(penstock)):
            if options.only and name != options.only:
                continue
            for case in CASES.get(name, [{}]):
                for p in map(int, options.devices.split(",")):
                    row = one(penstock, pathlib.Path(folder), name, case, p, options)
                    label = f"`{name}`" + "".join(
                        f" {key} {toml(value)}" for key, value in (case.get("options", {}) | {k: case[k] for k in ("model",) if k in case}).items())
                    if case.get("chunks", 1) != 1:
                        label += f", {case['chunks']} stages each"
                    print(f"| {label} | {p} | {row['predicted'] / 1e3:.3f} ms | {row['measured'] / 1e3:.3f} ms | {100 * row['error']:+.2f} %"
                          f"{'' if row['even'] else ' *'} | {'equal' if row['memory'] and row['live'] else 'DIFFERS'} | {row['scale']:g}x |", flush=True)
                    memory = memory and row["memory"] and row["live"]
                    rows.append(row)
    errors = sorted(abs(row["error"]) for row in rows if row["even"])
    if not errors:
        sys.exit("no run was even enough to count")
    mean, worst = statistics.mean(errors), errors[-1]
    print(f"\n{len(rows)} plans, {len(errors)} of them counted: mean error {100 * mean:.2f} %, 90th percentile "
          f"{100 * errors[int(0.9 * (len(errors) - 1))]:.2f} %, worst {100 * worst:.2f} %; memory {'equal to the byte' if memory else 'DIFFERS'}")
    sys.exit(0 if mean <= 0.02 and worst <= 0.05 and memory else 1)


if __name__ == "__main__":
    main()
