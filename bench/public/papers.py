# SPDX-License-Identifier: Apache-2.0
"""Passes, peaks and steps of two papers, which stand in their tables."""
import jobs
import rows

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
MEGATRON = {"id": "1.7B", "layers": 24, "dim": 2304, "heads": 24, "context": 2048, "vocab": 51200,
            "batch": 512, "microbatch": 8, "replicas": 32, "recompute": "full",
            "classes": ["nodes 4", "model 1.7B"]}
MEGATRON_FLOPS = 137e12
USUAL = rows.USUAL | {"set": "papers", "device": "a100-80gb", "model": "gpt", "ran": True}


def zero_bubble_job(model, count):
    job = {key: model[key] for key in ("layers", "dim", "heads", "stages", "microbatch")}
    return USUAL | job | {"id": f"{model['name']} x {count}", "context": 1024, "vocab": 32000,
                          "ends": 1, "batch": model["microbatch"] * count,
                          "classes": [f"nodes {-(-model['stages'] // 8)}",
                                      f"model {model['name']}"]}


def steps():
    """The jobs of steps that the papers tell; those of the fewest micro-batches have a peak."""
    found = []
    for model in ZERO_BUBBLE:
        for count, rate in model["rates"].items():
            job = zero_bubble_job(model, count)
            found.append(job | {"measured": 1e3 * job["batch"] / model["stages"] / rate} | (
                {"peaks": [("max", model["peak"] * 1e9)]} if count == model["count"] else {}))
    m = MEGATRON
    work = 96 * m["batch"] * m["context"] * m["layers"] * m["dim"] ** 2 * (
        1 + m["context"] / 6 / m["dim"] + m["vocab"] / 16 / m["layers"] / m["dim"])
    return found + [USUAL | m | {"measured": 1e3 * work / 32 / MEGATRON_FLOPS}]


def passes(options):
    """Rows of model, pass, predicted and published ms, of the second stage."""
    found = []
    for model in ZERO_BUBBLE:
        job = zero_bubble_job(model, model["count"]) | {"split_passes": True}
        timeline = jobs.ask(options, "simulate", job)["timeline"][1]
        for op, published in zip("FBW", model["passes"]):
            event = next(e for e in timeline if e["op"] == op)
            found.append((model["name"], op, (event["end_us"] - event["start_us"]) / 1e3,
                          published))
    return found
