# SPDX-License-Identifier: Apache-2.0
"""Reads files of published rows; a format is known by its columns. A row becomes a dictionary:

  set, id, classes     file, name of the row, classes that it is counted in
  device               key of devices.DEVICES
  model, layers ...    sizes
  tensor, stages, replicas, zero, virtual, microbatch, batch, schedule, recompute, split, dtype
  measured             ms of a step, where there is one to compare with; ran: the row fits in memory
  peaks                pairs of a rank ("first", "last", "max" or its number) and bytes
  out                  the row ran out of memory
  good                 the source's own doubts do not concern the row
  refused              why the row cannot be a job"""
import csv
import json
import re

VTRAIN = {"# GPUs": "devices", "global batch": "batch", "micro batch": "microbatch",
          "hidden size": "dim", "attention heads": "heads", "# layers": "layers",
          "sequence length": "context", "tensor parallelism": "tensor",
          "data parallelism": "replicas", "pipeline parallelism": "stages",
          "iteration time (ms)": "measured"}
VTRAIN_CLASSES = {"dim": "width", "microbatch": "micro-batch", "stages": "stages",
                  "tensor": "tensor", "replicas": "replicas", "devices": "devices",
                  "nodes": "nodes"}
TRUTH = {"id", "class", "device", "model", "layers", "tp", "pp", "dp", "vp", "zero", "microbatch",
         "batch", "schedule", "split", "memory_rank", "step_ms", "step_ok", "peak_bytes", "peak_ok"}
NAMES = {"tp": "tensor", "pp": "stages", "dp": "replicas", "vp": "virtual"}
NUMBERS = ("node_size", "layers", "dim", "heads", "kv_heads", "ff", "vocab", "context", "targets",
           "tp", "pp", "dp", "zero", "vp", "microbatch", "batch")
USUAL = {"tensor": 1, "stages": 1, "replicas": 1, "zero": 0, "virtual": 1, "schedule": "1f1b",
         "recompute": "none", "dtype": "bf16", "good": True}


class Unknown(Exception):
    """A file of no format known here."""


def padded(words, tensor):
    """Megatron's tables of words (--make-vocab-size-divisible-by 128, times tensor)."""
    return -(-words // (128 * tensor)) * 128 * tensor


def split_of(text):
    """10-6h1: layers of each stage, and the stage of the head."""
    if not text:
        return None
    found = re.fullmatch(r"(\d+(?:-\d+)*)(?:h(\d+))?", text)
    if not found:
        raise Unknown(f"split {text} is not understood")
    counts = [int(count) for count in found[1].split("-")]
    return counts, int(found[2] or len(counts) - 1)


def truth_row(row):
    job = {NAMES.get(key, key): int(row[key]) for key in NUMBERS if row[key]}
    job |= {key: row[key] for key in ("id", "device", "model", "schedule")}
    job |= {"classes": [row["class"]], "recompute": row["recompute"] or "none",
            "dtype": row.get("dtype") or "bf16", "extra": json.loads(row.get("extra") or "{}"),
            "split": split_of(row["split"]), "good": row["step_ok"] == "1", "note": row["note"]}
    if row["tied"]:
        job["tied"] = row["tied"] == "true"
    job["ran"] = bool(row["step_ms"])
    job["out"] = not row["step_ms"] and not row["peak_bytes"]
    if job["ran"] and job["good"]:
        job["measured"] = float(row["step_ms"])
    if row["peak_bytes"] and row["peak_ok"] == "1":
        job["peaks"] = [(row["memory_rank"], int(row["peak_bytes"]))]
    return job


def vtrain_row(row):
    job = {ours: float(row[theirs]) if ours == "measured" else int(row[theirs])
           for theirs, ours in VTRAIN.items()}
    job |= {"device": "vtrain", "model": "gpt", "vocab": padded(51200, job["tensor"]), "ran": True,
            "nodes": -(-job["devices"] // 8)}
    job["id"] = "-".join(str(job[key]) for key in VTRAIN.values() if key != "measured")
    job["classes"] = [f"{text} {job[key]}" for key, text in VTRAIN_CLASSES.items()]
    return job


def bigscience_row(row):
    job = {key: int(row[key]) for key in ("layers", "dim", "heads", "context", "microbatch",
                                          "batch")}
    tensor = int(row["tp"])
    peaks = [pair.split(":") for pair in row["max_allocated_bytes_by_rank"].split(";")]
    stages = int(row["pp"])
    # GPT-2's 50,257 words; ranks stand in the order of penstock's: parts, replicas, stages.
    return job | {"id": row["file"], "device": "v100-32gb", "model": "gpt", "tensor": tensor,
                  "stages": stages, "replicas": len(peaks) // tensor // stages, "ran": True,
                  "vocab": padded(50257, tensor), "recompute": row["recompute"] or "none",
                  "classes": [], "peaks": [(int(rank), int(size)) for rank, size in peaks]}


def mlperf_row(row):
    return {"id": row["source"], "classes": [],
            "refused": "the source does not say how many parts and stages there are"}


FORMATS = [(TRUTH, truth_row), (set(VTRAIN), vtrain_row),
           ({"layers", "tp", "pp", "max_allocated_bytes_by_rank"}, bigscience_row),
           ({"system", "gpus", "global_batch", "step_s_median"}, mlperf_row)]


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
        job["recompute"] = "full" if (job["dim"], job["layers"]) in full else "none"


def read(path):
    """The jobs of a file."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = set(rows[0]) if rows else set()
    for needed, convert in FORMATS:
        if needed <= columns:
            jobs = [USUAL | convert(row) | {"set": path.stem} for row in rows]
            if convert is vtrain_row:
                mark_recomputation(jobs, 80e9)
            return jobs
    raise Unknown(f"{path}: no format known here; columns {', '.join(sorted(columns)) or 'none'}")
