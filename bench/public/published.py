#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions of configs/clusters/a100-80gb.toml against what others have published.

  bench/public/published.py [--build build/release] [--cluster FILE] [--set KEY=VALUE ...]
                            [--rows] [CSV ...]

In here are times of passes, peaks of memory and step times of the paper on zero bubbles, and a step
of the one on Megatron, on one node to four. More step times come from CSV files of vTrain (Bang et
al., MICRO 2024), which are not part of this project: https://github.com/VIA-Research/vTrain, folder
data. Their columns are "# GPUs", "global batch", "micro batch", "hidden size", "attention heads",
"# layers", "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism" and
"iteration time (ms)". Rows on one node with tensor parallelism, which penstock does not plan, are
left out. On several nodes they have a table of their own, where this script adds what penstock does
not say of them: an approximation, for what it tells of the rest. --rows prints every row."""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "configs" / "clusters" / "a100-80gb.toml"
VTRAIN = "https://github.com/VIA-Research/vTrain, folder data"
# Its nodes seem to have four adapters of 200 Gbit/s, not eight: the one row that we have whose
# groups of tensor parallelism span two nodes says 98 GB/s, and a ring of NCCL over two nodes of 8
# A100 with four of them was measured at 91 (github.com/NVIDIA/nccl-tests, issue 100).
VTRAIN_LINK = "cluster.node_link_bandwidth=91 GB/s"
# Columns of vTrain's files, and the names they have here.
COLUMNS = {"# GPUs": "devices", "global batch": "batch", "micro batch": "microbatch",
           "hidden size": "dim", "attention heads": "heads", "# layers": "layers",
           "sequence length": "context", "tensor parallelism": "tensor",
           "data parallelism": "replicas", "pipeline parallelism": "stages",
           "iteration time (ms)": "measured"}

# Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024: GPT on A100-SXM4-80GB, sequences of 1024
# tokens, a stage a device, one layer less in the first and the last. Milliseconds of F, B and W of
# a stage at the fewest micro-batches (table of profiled times); GB at the peak of the fullest
# device, and sequences per second and device at some numbers of micro-batches (table of throughput
# and memory), for 1F1B. Nodes have 8 devices.
ZERO_BUBBLE = [
    {"name": "1.5B", "layers": 22, "dim": 2304, "heads": 24, "stages": 8, "microbatch": 6,
     "count": 24, "passes": (18.522, 18.086, 9.337), "peak": 30,
     "rates": {24: 11.8, 32: 12.5, 64: 13.6}},
    {"name": "6.2B", "layers": 30, "dim": 4096, "heads": 32, "stages": 8, "microbatch": 3,
     "count": 24, "passes": (29.718, 29.444, 19.927), "peak": 39,
     "rates": {24: 3.50, 32: 3.70, 64: 4.03}},
    {"name": "14.6B", "layers": 46, "dim": 5120, "heads": 40, "stages": 16, "microbatch": 1,
     "count": 48, "passes": (11.347, 11.248, 8.132), "peak": 32,
     "rates": {48: 1.40, 64: 1.49, 128: 1.64}},
    {"name": "28.3B", "layers": 62, "dim": 6144, "heads": 48, "stages": 32, "microbatch": 1,
     "count": 96, "passes": (10.419, 10.207, 7.715), "peak": 43,
     "rates": {96: 0.76, 128: 0.80, 256: 0.88}},
]

# Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM", SC 2021, table 1: its one model without tensor parallelism; operations per second
# and device by the paper's equation 3, which counts recomputation. The micro-batch is not given.
MEGATRON = {"name": "1.7B", "layers": 24, "dim": 2304, "heads": 24, "context": 2048, "vocab": 51200,
            "batch": 512, "microbatch": 8, "replicas": 32, "stages": 1, "memopt": "full"}
MEGATRON_FLOPS = 137e12


def stages(layers, count, ends=0):
    """Patterns of the manual partitioner: equal numbers of layers, `ends` less in the first stage
    and in the last."""
    each = (layers + 2 * ends) // count
    bounds = [0] + [each * (s + 1) - ends for s in range(count - 1)] + [layers]
    lists = [[f"h.{i}.*" for i in range(bounds[s], bounds[s + 1])] for s in range(count)]
    lists[0].insert(0, "w*")
    lists[-1] = ["*"]
    return "; ".join(", ".join(patterns) for patterns in lists)


def share_of_group(job, cluster):
    """Lines of [cluster] by which penstock plans a device for each group of tensor parallelism: as
    many times as fast, in nodes of as many times fewer. Norms and sums are whole on every device of
    a group, as they are in truth."""
    tensor = job.get("tensor", 1)
    return {} if tensor == 1 else {
        "node_size": max(int(cluster["node_size"]) // tensor, 1),
        "bf16_flops": float(cluster["bf16_flops"]) * tensor,
        "softmax_traffic": float(cluster["softmax_traffic"]) / tensor}


def config(job, options):
    """The config of a job: a GPT in 16 bits, Adam, stages of equal numbers of layers."""
    group = share_of_group(job, options.described)
    return f"""include = {json.dumps(str(options.cluster))}
[model]
use = "gpt"
layers = {job["layers"]}
dim = {job["dim"]}
heads = {job["heads"]}
context = {job["context"]}
vocab = {job["vocab"]}
[data]
kind = "synthetic"
[train]
batch = {job["batch"]}
microbatch = {job["microbatch"] * job["replicas"]}
degrees = [{job["replicas"]}]
optimizer = "adam"
[run]
device = "emulated"
dtype = "bf16"
[cluster]
devices = {job["stages"] * job["replicas"]}
memory = 0
{"".join(f"{key} = {value}{chr(10)}" for key, value in group.items())}[partitioner]
use = "manual"
stages = "{stages(job["layers"], job["stages"], job.get("ends", 0))}"
[scheduler]
use = "1f1b"
split = {"true" if job.get("split") else "false"}
[[memopt]]
use = "{job.get("memopt", "none")}"
""" + ("" if job.get("memopt", "none") == "none" else 'unit = "layer"\nskip_last = false\n')


def simulate(options, job):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(config(job, options))
        file.flush()
        command = [options.penstock, "simulate", file.name, "--json"]
        for change in options.set:
            if change.removeprefix("cluster.").split("=")[0] not in share_of_group(
                    job, options.described):
                command += ["--set", change]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def with_scores(job, simulated):
    """Bytes at the peak of each stage, and what attention keeps that has no kernel of its own: two
    matrices of scores in 16 bits and a mask for every layer (Korthikanti et al., "Reducing
    Activation Recomputation in Large Transformer Models", 2022: 5 a s^2 b)."""
    scores = 5 * job["heads"] * job["context"] ** 2 * job["microbatch"]
    count, ends = job["stages"], job.get("ends", 0)
    each = (job["layers"] + 2 * ends) // count
    held = job["batch"] // job["microbatch"] // job["replicas"]
    peaks = []
    for stage in range(count):
        layers = each - (ends if stage in (0, count - 1) else 0)
        rank = simulated["ranks"][stage * job["replicas"]]
        peaks.append(rank["peak_bytes"] + scores * layers * min(count - stage, held))
    return peaks


def read(path):
    """All rows."""
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; vTrain's files are at {VTRAIN}")
    if not rows or not set(COLUMNS) <= set(rows[0]):
        sys.exit(f"{path}: no table of vTrain with a row; its files are at {VTRAIN}")
    return [{ours: float(row[theirs]) if ours == "measured" else int(row[theirs])
             for theirs, ours in COLUMNS.items()} | {"vocab": 51200} for row in rows]


def mark_recomputation(jobs, memory):
    """A model that some row could not hold otherwise recomputes in all its rows: they come of one
    script. Per device 18 bytes a parameter, and what layers keep of the micro-batches in flight
    (Korthikanti et al., 2022, table 2: s b h (10 + 24 / t + 5 a s / (h t)) bytes)."""
    def holds(job):
        layers, tensor = job["layers"] / job["stages"], job["tensor"]
        tokens = job["context"] * job["microbatch"]
        kept = tokens * (job["dim"] * (10 + 24 / tensor)
                         + 5 * job["heads"] * job["context"] / tensor)
        flying = min(job["stages"], job["batch"] // job["microbatch"] // job["replicas"])
        return layers * (18 * 12 * job["dim"] ** 2 / tensor + kept * flying) <= memory

    full = {(job["dim"], job["layers"]) for job in jobs if not holds(job)}
    for job in jobs:
        job["memopt"] = "full" if (job["dim"], job["layers"]) in full else "none"


def tensor_ms(job, cluster):
    """What config() cannot say of tensor parallelism: sums of activations over the group, two a
    layer and pass (Shoeybi et al., "Megatron-LM", 2019), a ring each; and that a device updates its
    share of the parameters alone."""
    tensor, layers = job["tensor"], job["layers"] / job["stages"]
    link = "link_bandwidth" if tensor <= cluster["node_size"] else "node_link_bandwidth"
    ring = 2 * (tensor - 1) / tensor / rate(cluster[link])
    sums = (6 if job.get("memopt") == "full" else 4) * layers
    count = job["batch"] // job["microbatch"] // job["replicas"] + job["stages"] - 1
    updated = 6 * 4 * 12 * job["dim"] ** 2 * layers / rate(cluster["memory_bandwidth"])
    return 1e3 * (count * sums * 2 * job["context"] * job["microbatch"] * job["dim"] * ring
                  - updated * (1 - 1 / tensor))


def rate(text):
    number, _, unit = str(text).partition(" ")
    if unit not in ("", "GB/s"):
        sys.exit(f"{text}: not understood here; say bytes per second, or GB/s")
    return float(number) * (1e9 if unit else 1)


def predict(options, job):
    """Milliseconds of a step."""
    return simulate(options, job)["step_us"] / 1e3 + tensor_ms(job, options.described)


def tau(pairs):
    """Kendall's, of predicted and measured times."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for i, a in enumerate(pairs) for b in pairs[:i]]
    return f"{(sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / len(signs):.3f}" \
        if signs else ""


def line(name, jobs):
    errors = [job["predicted"] / job["measured"] - 1 for job in jobs]
    if errors:
        print(f"| {name} | {len(jobs)} | {100 * statistics.mean(map(abs, errors)):.1f} % "
              f"| {100 * statistics.mean(errors):+.1f} % | {100 * max(map(abs, errors)):.1f} % "
              f"| {tau([(job['predicted'], job['measured']) for job in jobs])} |")


def print_steps(options, title, jobs, keys):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, ms in zip(jobs, pool.map(lambda job: predict(options, job), jobs)):
            job["predicted"] = ms
    if options.rows:
        for job in jobs:
            print(f"  {job}")
    print(f"\n| {title} | rows | mean error | bias | largest | tau |\n"
          "| --- | --- | --- | --- | --- | --- |")
    line("all", jobs)
    for key, text in keys:
        for value in sorted({job[key] for job in jobs}):
            line(f"{text} {value}", [job for job in jobs if job[key] == value])


def with_changes(options, changes):
    """The options with these --set, and with [cluster] as they leave it."""
    described = tomllib.loads(options.cluster.read_text())["cluster"] | dict(
        change.removeprefix("cluster.").split("=", 1) for change in changes)
    described["node_size"] = int(described["node_size"])
    return argparse.Namespace(**vars(options) | {"set": changes, "described": described})


def steps(options, path):
    options = with_changes(options, [VTRAIN_LINK] + options.set)
    jobs = read(path)
    mark_recomputation(jobs, options.memory)
    plain = [job for job in jobs if job["tensor"] == 1]
    groups = [job for job in jobs
              if job["tensor"] > 1 and job["devices"] > options.described["node_size"]]
    full = sum(job["memopt"] == "full" for job in plain + groups)
    print(f"\n{path}: {len(plain)} of {len(jobs)} rows are without tensor parallelism; of those "
          f"that follow {full} recompute")
    if plain:
        print_steps(options, "steps", plain,
                    (("dim", "width"), ("microbatch", "micro-batch"), ("stages", "stages"),
                     ("replicas", "replicas"), ("devices", "devices")))
    if groups:
        print_steps(options, "steps on several nodes, tensor parallelism approximated", groups,
                    (("dim", "width"), ("replicas", "replicas")))


def other_steps(options):
    """Steps of the papers that are in here."""
    jobs = [model | {"context": 1024, "vocab": 32000, "replicas": 1, "ends": 1,
                     "batch": model["microbatch"] * count, "devices": model["stages"],
                     "measured": 1e3 * model["microbatch"] * count / model["stages"] / rate}
            for model in ZERO_BUBBLE for count, rate in model["rates"].items()]
    m = MEGATRON
    work = 96 * m["batch"] * m["context"] * m["layers"] * m["dim"] ** 2 * (
        1 + m["context"] / 6 / m["dim"] + m["vocab"] / 16 / m["layers"] / m["dim"])
    jobs.append(m | {"devices": 32, "measured": 1e3 * work / 32 / MEGATRON_FLOPS})
    for job in jobs:
        job.update(tensor=1, nodes=-(-job["devices"] // 8))
    print_steps(options, "steps of other papers", jobs, (("nodes", "nodes"), ("name", "model")))


def zero_bubble(options):
    """Passes and peaks of the paper's models."""
    print("| model | F, ms | error | B, ms | error | W, ms | error | peak, GB | error |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    errors, peaks = [], []
    for model in ZERO_BUBBLE:
        job = model | {"context": 1024, "vocab": 32000, "replicas": 1, "ends": 1, "split": True,
                       "batch": model["microbatch"] * model["count"]}
        simulated = simulate(options, job)
        cells = []
        for op, published in zip("FBW", model["passes"]):
            event = next(e for e in simulated["timeline"][1] if e["op"] == op)
            ms = (event["end_us"] - event["start_us"]) / 1e3
            errors.append(ms / published - 1)
            cells.append(f"{ms:.2f} | {100 * errors[-1]:+.1f} %")
        peak = max(with_scores(job, simulate(options, job | {"split": False})))
        peaks.append(peak / 1e9 / model["peak"] - 1)
        print(f"| {model['name']} | {' | '.join(cells)} | {peak / 1e9:.1f} "
              f"| {100 * peaks[-1]:+.1f} % |")
    print(f"\nmean error of passes {100 * statistics.mean(map(abs, errors)):.1f} %, of peaks "
          f"{100 * statistics.mean(map(abs, peaks)):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--cluster", default=CLUSTER,
                        type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--memory", type=float, default=80e9, metavar="BYTES",
                        help="of a device; what needs more recomputes")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("csv", nargs="*")
    options = parser.parse_args()
    options.penstock = str(pathlib.Path(options.build) / "penstock")
    options = with_changes(options, options.set)
    zero_bubble(options)
    other_steps(options)
    if not options.csv:
        print(f"\nno more step times given; vTrain's are at {VTRAIN}")
    for path in options.csv:
        steps(options, path)


if __name__ == "__main__":
    main()
