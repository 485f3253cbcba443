#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training throughput on one GPU: penstock, and PyTorch on the same card in the same run.

  bench/gpu/throughput.py BUILD [--python PYTHON] [--models gpt2-124m,gpt2-350m] [--rounds 2]
                          [--steps 10] [--device cuda|cpu] [--dtype bf16] [--peak FLOPS]
                          [--no-torch] [--set KEY=VALUE] [--tiny]

GPT-2 of 1024 tokens with its vocabulary rounded up to 50304, AdamW, norms clipped, no dropout, the
same samples per step and per micro-batch on both sides. Rounds alternate; each figure is the median
over the steps of all rounds so far behind the warm-up: of a model and side the last line counts.
PyTorch eager, and torch.compile; without torch only penstock is measured, and the answer says so.
--set: a setting of penstock, named in the side. --tiny: a model for a test of this program."""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import common

WARM_UP = 4
VOCAB = 50304
MODELS = {
    "gpt2-124m": {"layers": 12, "dim": 768, "heads": 12, "context": 1024, "vocab": VOCAB,
                  "batch": 64, "microbatch": 16},
    "gpt2-350m": {"layers": 24, "dim": 1024, "heads": 16, "context": 1024, "vocab": VOCAB,
                  "batch": 32, "microbatch": 8},
    "tiny": {"layers": 2, "dim": 32, "heads": 2, "context": 16, "vocab": 64, "batch": 4,
             "microbatch": 2},
}
LR = 1e-4


def split(entry):
    train = {"batch": entry["batch"], "microbatch": entry["microbatch"], "lr": LR, "clip": 1.0}
    return {key: value for key, value in entry.items() if key not in train}, train


def tables(model, train, device, dtype):
    return {"model": {"use": "gpt", **model}, "data": {"kind": "synthetic"},
            "train": {**train, "optimizer": "adamw", "beta2": 0.95, "weight_decay": 0.1,
                      "eval_every": 0, "eval_batches": 0},
            "run": {"device": device, "dtype": dtype},
            "cluster": {"devices": 1}, "partitioner": {"use": "uniform"},
            "scheduler": {"use": "1f1b"}, "memopt": [{"use": "none"}]}


class Penstock:
    def __init__(self, args, folder):
        self.name = " ".join(["penstock", *args.set])
        self.more = [word for setting in args.set for word in ("--set", setting)]
        self.run, self.args, self.folder = common.Penstock(args.build), args, folder

    def __call__(self, model, train):
        config = self.folder / "throughput.toml"
        common.write_config(config, tables(model, train, self.args.device, self.args.dtype))
        seconds, last = self.run.step_seconds(config, self.args.steps, WARM_UP, *self.more)
        return seconds, {"loss": last["final_loss"], "peak_bytes": last["peak_bytes"][0]}


class Torch:
    def __init__(self, args, compiled):
        self.args, self.compiled = args, compiled
        self.name = "torch.compile" if compiled else "torch eager"

    def __call__(self, model, train):
        job = {"model": model, "train": train, "device": self.args.device,
               "dtype": self.args.dtype, "compile": self.compiled,
               "steps": self.args.steps + WARM_UP}
        script = pathlib.Path(__file__).with_name("torch_gpt.py")
        answer = json.loads(common.run([self.args.python, script, json.dumps(job)], 240))
        if answer["parameters"] != common.gpt_parameters(model):
            raise common.Failed(f"torch has {answer['parameters']} parameters, counted are "
                                f"{common.gpt_parameters(model)}")
        return answer["seconds"][WARM_UP:], {key: answer[key]
                                             for key in ("loss", "peak_bytes", "torch")}


def torch_sides(args):
    try:
        common.run([args.python, "-c", "import torch"])
    except (common.Failed, OSError):
        common.emit(bench="throughput", side="torch", skipped=f"{args.python} has no torch")
        return []
    return [Torch(args, False)] + ([] if args.no_compile else [Torch(args, True)])


def measure(args, name, sides, peak):
    model, train = split(MODELS[name])
    seconds, about = {side.name: [] for side in sides}, {}
    failed = False
    for _ in range(args.rounds):
        for side in sides:
            try:
                taken, about[side.name] = side(model, train)
                seconds[side.name] += taken
            except common.Failed as failure:
                common.emit(bench="throughput", model=name, side=side.name, failed=str(failure))
                failed = True
                continue
            medians = {side: statistics.median(values) for side, values in seconds.items() if values}
            rate = train["batch"] * model["context"] / medians[side.name]
            ours = medians.get(sides[0].name)
            common.emit(bench="throughput", model=name, dtype=args.dtype, side=side.name,
                        step_s=medians[side.name], tokens_per_s=rate,
                        mfu=common.mfu(model, rate, peak),
                        ratio=ours and medians[side.name] / ours, **about[side.name])
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--models", default="gpt2-124m,gpt2-350m")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "tf32", "f32"))
    parser.add_argument("--peak", type=float, help="dense FLOP/s of the card")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    names = ["tiny"] if args.tiny else args.models.split(",")
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    peak = args.peak or common.peak_of(common.gpu_name())
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        sides = [Penstock(args, pathlib.Path(folder)), *([] if args.no_torch else torch_sides(args))]
        for name in names:
            ok = measure(args, name, sides, peak) and ok
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
