# SPDX-License-Identifier: Apache-2.0
"""The devices that published rows ran on: a file of configs/clusters for each, and what follows
from the framework that ran there. Facts that predictions rest on, with their sources:

nanotron (`h100`), commit 9055c664 of January 2025; the playbook came out a month later:
  attention     flash_attn_varlen_func (models/llama.py), norms in one kernel (TritonRMSNorm)
  parts         tp_mode REDUCE_SCATTER, which is sequence parallelism; gathers and scatters run
                beside products, tp_linear_async_communication (scripts/scaling_benchmarks.py);
                what is gathered is gathered again backward, tp_recompute_allgather
  gradients     accumulated in f32, ACCUMULATE_GRAD_IN_FP32 (scripts/scaling_benchmarks.py)
  zero 0        DistributedDataParallel: all-reduces of f32 buckets during the last backward pass
                (trainer.py, make_ddp; optim/gradient_accumulator.py, fp32_accum_hook)
  zero 1        no DistributedDataParallel: one all-reduce of the whole f32 buffer after the last
                backward pass, "reduce_scatter=False" (trainer.py); then each replica updates its
                piece and gathers bf16 weights (optim/zero.py). penstock scatters sums instead, half
                the bytes, so it says too little here
  transfers     two messages of metadata before each tensor (parallel/pipeline_parallel/p2p.py)
  stages        nanotron cuts by the cost of layers and head (models/base.py)
Megatron-LM's tests (`a100-ci`, `h100-ci`), model_config.yaml in tests/functional_tests/test_cases:
  attention     bert and t5: "--attention-backend: unfused"; gpt: what Transformer Engine chooses,
                which is fused
  gradients     "--deterministic-mode", "--no-gradient-accumulation-fusion"; neither
                --overlap-grad-reduce nor --use-distributed-optimizer; sums in f32, as bf16 needs
                (arguments.py, accumulate_allreduce_grads_in_fp32)
  besides       "--log-params-norm", "--log-num-zeros-in-grad": passes over all parameters and
                gradients at each step; dropout of 0.1 (arguments.py), fused with bias and residual
                sum. Here there is neither
  models        gpt: "--position-embedding-type: rope", here a table of positions; t5: positions
                in a table and GELU, here distances and ReLU
llm.c (`a100-llmc`), train_gpt2.cu: one process a device, kernels fused by hand, cuDNN's attention
  ("USE_CUDNN=1" in scripts), nothing recomputed ("-r 0"), bf16 gradients, scattered layer by layer
  beside the last backward pass (llmc/zero.cuh)
Decentralized_FM_alpha (`v100-f16`): blocks of Hugging Face's GPT-2, attention and feed-forward part
  each recomputed (modules/gpt_modules.py), on p3 nodes of AWS
Megatron-DeepSpeed of vTrain (`vtrain`): attention not fused, no sequence parallelism
"""
import dataclasses
import pathlib
import tomllib

CLUSTERS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "clusters"
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclasses.dataclass
class Devices:
    """keys are of the whole config; scores: attention keeps them; models: other keys by model."""
    file: str
    keys: dict = dataclasses.field(default_factory=dict)
    sequence: bool = False
    scores: bool = True
    models: dict = dataclasses.field(default_factory=dict)


FUSED = {"cluster.softmax_traffic": 0}
UNFUSED = {"cluster.softmax_traffic": 12}
# Kernels fused by hand, and no host in the way; efficiency is fitted to the one row given.
BY_HAND = FUSED | {"cluster.loss_traffic": 0, "cluster.launch_overhead": "5 us",
                   "cluster.host_overhead": 0, "cluster.transfer_overhead": 0, "cluster.step_overhead": 0,
                   "cluster.efficiency": 0.62}
# Deterministic kernels and logs of each step, by the four rows given.
CI = {"cluster.transfer_overhead": "0.8 ms"}
A100_CI = CI | {"cluster.host_overhead": "250 us", "cluster.step_overhead": "25 ms"}
H100_CI = CI | {"cluster.host_overhead": "185 us", "cluster.step_overhead": "15 ms"}
# An eager framework on V100, by the three rows given; the file describes a whole run by one figure.
V100 = UNFUSED | {"cluster.efficiency": 0.8, "cluster.launch_overhead": "67 us",
                  "cluster.host_overhead": "150 us", "cluster.transfer_overhead": "5 ms",
                  "cluster.loss_traffic": 1}
DEVICES = {
    "h100": Devices("h100", sequence=True, scores=False),
    "a100-ci": Devices("a100-80gb", A100_CI, models={"gpt": FUSED}),
    "h100-ci": Devices("h100", H100_CI, models={"gpt": FUSED, "bert": UNFUSED, "t5": UNFUSED}),
    "a100-llmc": Devices("a100-80gb", BY_HAND, scores=False),
    "v100-f16": Devices("v100-16gb", V100),
    "vtrain": Devices("a100-80gb"),
    "a100-80gb": Devices("a100-80gb"),
    # Jean Zay's nodes of four V100 with 32 GB
    "v100-32gb": Devices("v100-16gb", {"cluster.node_size": 4, "cluster.memory": "30.5 GiB"}),
}


def keys_of(job, changes):
    """The config's keys for the devices of a job, with those that the command line changes."""
    devices = DEVICES[job["device"]]
    keys = devices.keys | devices.models.get(job["model"], {})
    if job.get("node_size"):
        keys = keys | {"cluster.node_size": job["node_size"]}
    return keys | {f"cluster.{key}": value for key, value in job.get("extra", {}).items()} | changes


def has_scores(job):
    devices = DEVICES[job["device"]]
    return devices.scores and devices.models.get(job["model"]) != FUSED


def cluster_file(job):
    return CLUSTERS / f"{DEVICES[job['device']].file}.toml"


def memory(job):
    """Bytes of one device, of a job whose keys are known."""
    described = tomllib.loads(cluster_file(job).read_text())["cluster"]["memory"]
    number, unit = job["keys"].get("cluster.memory", described).split()
    return float(number) * UNITS[unit]
