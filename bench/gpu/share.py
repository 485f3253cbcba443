#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole pipelines on one GPU: measured step time against the simulator's, and graph pipelines
against sequential ones.

  bench/gpu/share.py BUILD [--share 4] [--device cuda|cpu] [--steps 10] [--only WORD] [--tiny]

Four stages share the card: run.share tells penstock to give each its part of the multiprocessors. Times
come from `penstock profile` under the same share, the prediction from `penstock simulate`. On a cpu,
where this tests itself, nothing is shared, and lines say "share": null.

schedules: GPT, four stages: 1f1b, zb-h1, v-half, v-zb.
graph: the multi-branch transformer: pipedream's and chain-dp's chains under 1f1b (SPP) against
stage-graph under per-stage (GPP)."""
import argparse
import pathlib
import statistics
import sys
import tempfile

import common

WARM_UP = 4
SCHEDULERS = ("1f1b", "zb-h1", "v-half", "v-zb")
GPT = {"use": "gpt", "layers": 8, "dim": 1024, "heads": 16, "context": 512, "vocab": 8192}
MMT = {"use": "mmt", "branches": 4, "layers": 4, "dim": 512, "heads": 8, "context": 256,
       "vocab": 256}
TINY_GPT = GPT | {"dim": 32, "heads": 2, "context": 16, "vocab": 64}
TINY_MMT = MMT | {"branches": 2, "layers": 2, "dim": 32, "heads": 2, "context": 16}
PIPELINES = {"pipedream (SPP)": ({"use": "pipedream"}, "1f1b"),
             "chain-dp (SPP)": ({"use": "chain-dp"}, "1f1b"),
             "stage-graph (GPP)": ({"use": "stage-graph"}, "per-stage")}


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.penstock = common.Penstock(args.build)
        self.profiles = {}
        self.share = args.share if args.device == "cuda" else None
        self.more = ["--set", f"run.share={self.share}"] if self.share else []

    def tables(self, model, batch, microbatch, partitioner, scheduler):
        cuda = self.args.device == "cuda"
        return {"model": model, "data": {"kind": "synthetic"},
                "train": {"batch": batch, "microbatch": microbatch, "optimizer": "adamw",
                          "lr": 1e-4, "eval_every": 0, "eval_batches": 0},
                "run": {"device": self.args.device, "dtype": "bf16" if cuda else "f32"},
                "cluster": {"devices": self.args.share}, "partitioner": partitioner,
                "scheduler": {"use": scheduler}, "memopt": [{"use": "none"}]}

    def profile(self, name, tables):
        """Once for each model: times of operators do not depend on the plan."""
        if name not in self.profiles:
            bare = self.folder / f"{name}-bare.toml"
            files = self.folder / f"{name}.json", self.folder / f"{name}-cluster.toml"
            common.write_config(bare, tables)
            self.penstock("profile", bare, "-o", files[0], "-c", files[1], *self.more)
            self.profiles[name] = files
        return self.profiles[name]

    def case(self, kind, name, label, tables):
        """Whether it ran; one line."""
        full, plan = self.folder / "full.toml", self.folder / "plan.json"
        try:
            profile, cluster = self.profile(name, tables)
            common.write_config(full, tables | {"profile": {"file": str(profile)}}, cluster)
            self.penstock("plan", full, "-o", plan, *self.more)
            predicted = self.penstock("simulate", plan)[0]["step_us"] * 1e-6
            seconds, last = self.penstock.step_seconds(full, self.args.steps, WARM_UP, "--plan",
                                                       plan, *self.more)
        except common.Failed as failure:
            common.emit(bench="share", kind=kind, case=label, failed=str(failure))
            return None
        measured = statistics.median(seconds)
        common.emit(bench="share", kind=kind, case=label,
                    share=self.share, step_s=measured, predicted_s=predicted,
                    error=predicted / measured - 1,
                    peak_bytes=max(last["peak_bytes"]),
                    samples_per_s=tables["train"]["batch"] / measured)
        return measured

    def schedules(self):
        model, batch, b = (TINY_GPT, 16, 2) if self.args.tiny else (GPT, 64, 4)
        rows = [self.case("schedules", "gpt", scheduler,
                          self.tables(model, batch, b, {"use": "uniform"}, scheduler))
                for scheduler in SCHEDULERS]
        return None not in rows

    def graph(self):
        model, batch, b = (TINY_MMT, 16, 2) if self.args.tiny else (MMT, 64, 8)
        times = {label: self.case("graph", "mmt", label,
                                  self.tables(model, batch, b, partitioner, scheduler))
                 for label, (partitioner, scheduler) in PIPELINES.items()}
        chains = [t for label, t in times.items() if t is not None and "SPP" in label]
        graph = times["stage-graph (GPP)"]
        if chains and graph:
            common.emit(bench="share", kind="graph", case="GPP over the best SPP",
                        ratio=min(chains) / graph)
        return None not in times.values()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--share", type=int, default=4)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", default="", choices=("", "schedules", "graph"))
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, pathlib.Path(folder))
        for kind in ("schedules", "graph"):
            if args.only in ("", kind):
                ok = getattr(bench, kind)() and ok
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
