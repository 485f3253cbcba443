#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graph pipelines against sequential ones on the models and the machine of the GraphPipe paper.

    bench/partitioners/graph_pipeline.py [--penstock build/release/penstock] [--part PART,...]
                                         [--devices 4,8,16,32] [--models mmt,dlrm,candle-uno]
                                         [--memory 14.5] [--jobs 2]

Every plan is a real one: memory as it is allocated, transfers over the links of
configs/clusters/summit-v100.toml, step time simulated. Both sides try every micro-batch size that
is a power of two and at least 1/256 of the mini-batch, and for the best three of them the
scheduler's `eager` as well; what does not fit is no candidate. Sequential: pipedream (both
objectives), piper where it does not refuse, chain-dp and stage-graph's own chains, all with 1f1b;
graph: stage-graph with per-stage, and for the best three sizes with 1f1b, too, which holds more.

PART: models, ablation, branches, sequential, memory. --memory: GiB of a device.
Mini-batches grow with the devices: 16 samples for each (mmt), 64 (dlrm), 256 (candle-uno).
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MMT = {"use": "mmt", "branches": 4, "layers": 8, "dim": 1024, "heads": 16, "context": 256,
       "vocab": 256}
DLRM = {"use": "dlrm", "dense": 7, "sparse": 7, "features": 4096, "layers": 4, "width": 4096,
        "entries": 1000000, "vector": 64, "bag_size": 100, "bag": "concat", "top_layers": 4}
CANDLE = {"use": "candle-uno", "variant": "uno", "drugs": 3, "rnaseq": 942, "descriptors": 5270,
          "fingerprints": 2048, "layers": 4, "top_layers": 2, "width": 4096}
MODELS = {"mmt": (MMT, 16), "dlrm": (DLRM, 64), "candle-uno": (CANDLE, 256)}
SEQUENTIAL = {"pipedream": {"use": "pipedream"},
              "pipedream, reference": {"use": "pipedream", "objective": "reference"},
              "piper": {"use": "piper"},
              "chain-dp": {"use": "chain-dp"},
              "chains": {"use": "stage-graph", "force_chain": True}}
MOST = 256  # micro-batches of a step: with more of them launches take most of the time
PAPERS = ("pipedream", "pipedream, reference", "piper")
GRAPH = {"graph": {"use": "stage-graph"}}


def toml(value):
    return json.dumps(value)


def powers(most):
    return [1 << i for i in range(most.bit_length()) if 1 << i <= most]


class Bench:
    def __init__(self, arguments):
        self.penstock = arguments.penstock
        self.memory = arguments.memory
        self.folder = tempfile.mkdtemp(prefix="graph-pipeline-")
        self.pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)
        listed = subprocess.run([self.penstock, "plugins", "--json"], capture_output=True,
                                text=True, check=True).stdout
        self.plugins = [plugin["id"] for plugin in json.loads(listed)["plugins"]]
        self.count = 0

    def config(self, model, devices, batch, b, partitioner, scheduler, memory):
        partitioner = dict(partitioner)
        if partitioner["use"] in ("stage-graph", "chain-dp"):
            partitioner["microbatch"] = str(b)
        tables = {"model": model, "data": {"kind": "synthetic"},
                  "train": {"batch": batch, "microbatch": b, "optimizer": "sgd", "clip": 0.0,
                            "degrees": powers(devices)},
                  "run": {"device": "emulated"},
                  "cluster": {"devices": devices, "memory": f"{memory} GiB"},
                  "partitioner": partitioner, "scheduler": scheduler}
        lines = [f'include = {toml(str(ROOT / "configs/clusters/summit-v100.toml"))}']
        for name, table in tables.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {toml(value)}" for key, value in table.items()]
        lines += ["[[memopt]]", 'use = "none"']
        return "\n".join(lines) + "\n"

    def plan(self, model, devices, batch, b, partitioner, scheduler, memory=None):
        """Samples per second and what the plan is like, or None."""
        self.count += 1
        path = pathlib.Path(self.folder) / f"{self.count}.toml"
        path.write_text(self.config(model, devices, batch, b, partitioner, scheduler,
                                    memory or self.memory), encoding="utf-8")
        run = subprocess.run([self.penstock, "plan", str(path), "--json"], capture_output=True,
                             text=True, check=False)
        path.unlink()
        answer = json.loads(run.stdout)
        if run.returncode != 0:
            kind = answer["error"]["kind"]
            if kind not in ("plan.infeasible", "plan.memory", "plan.unsupported", "plan.mismatch"):
                print(f"{partitioner}, b = {b}: {answer['error']['message']}", file=sys.stderr)
            return None
        graph = partitioner["use"] == "stage-graph" and not partitioner.get("force_chain")
        return {"rate": batch / answer["step_us"] * 1e6, "b": b,
                "depth": int(answer["remarks"]["depth"]) if graph else len(answer["stages"]),
                "stages": len(answer["stages"]),
                "peak": max(d["peak_bytes"] for d in answer["devices"]) / 2**30,
                "eager": bool(scheduler.get("eager")), "search": answer["search_seconds"],
                "partitioner": partitioner, "scheduler": scheduler["use"], "graph": graph}

    def best(self, model, devices, batch, partitioner, scheduler, memory=None, sizes=None,
             others=()):
        """The fastest over micro-batch sizes; a future. others: schedulers for the best three."""
        def search():
            found = []
            for b in sizes or [b for b in powers(batch) if b * MOST >= batch]:
                plan = self.plan(model, devices, batch, b, partitioner, {"use": scheduler}, memory)
                found += [plan] if plan else []
            found.sort(key=lambda plan: -plan["rate"])
            for plan in found[:3]:
                for table in [{"use": scheduler, "eager": True}, *others]:
                    again = self.plan(model, devices, batch, plan["b"], partitioner, table, memory)
                    found += [again] if again else []
            return max(found, key=lambda plan: plan["rate"]) if found else None
        return self.pool.submit(search)

    def sequential(self, *question, **more):
        return {name: self.best(*question, options, "1f1b", **more)
                for name, options in SEQUENTIAL.items() if options["use"] in self.plugins}

    def graph(self, *question, **more):
        return self.best(*question, GRAPH["graph"], "per-stage", **more,
                         others=({"use": "1f1b"}, {"use": "1f1b", "eager": True}))


def fastest(futures, names=None):
    """(name, plan) of the fastest."""
    found = [(name, future.result()) for name, future in futures.items()
             if names is None or name in names]
    found = [(name, plan) for name, plan in found if plan]
    return max(found, key=lambda pair: pair[1]["rate"]) if found else (None, None)


def number(rate):
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.1f}"


def cell(plan):
    if plan is None:
        return "does not fit"
    row = " 1f1b" if plan["graph"] and plan["scheduler"] == "1f1b" else ""
    return (f"{number(plan['rate'])} (b {plan['b']}{row}{' eager' if plan['eager'] else ''}, "
            f"depth {plan['depth']}, {plan['peak']:.1f} GiB)")


def ratio(plan, other):
    return f"{plan['rate'] / other['rate']:.2f}" if plan and other else "-"


def head(*columns):
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |", flush=True)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def compare(label, sequential, graph):
    paper_name, paper = fastest(sequential, PAPERS)
    name, chain = fastest(sequential)
    plan = graph.result()
    row(*label, f"{cell(paper)} {paper_name}", f"{cell(chain)} {name}", cell(plan),
        ratio(plan, paper), f"**{ratio(plan, chain)}**")


COMPARED = ("PipeDream, Piper: samples/s", "best sequential", "graph", "to the papers'",
            "to the best")


def models(bench, devices):
    """All asked at once, printed in order."""
    asked = [((name, d), bench.sequential(model, d, share * d), bench.graph(model, d, share * d))
             for name, (model, share) in MODELS.items() for d in devices]
    head("model", "devices", *COMPARED)
    for label, sequential, graph in asked:
        compare(label, sequential, graph)


def ablation(bench, devices):
    head("model", "best sequential", "its stages, graph of the same b", "graph, b free",
         "from side by side alone", "with b free")
    d = max(devices)
    for name, (model, share) in MODELS.items():
        who, chain = fastest(bench.sequential(model, d, share * d))
        same = bench.graph(model, d, share * d, sizes=[chain["b"]]).result()
        free = bench.graph(model, d, share * d).result()
        row(name, f"{cell(chain)} {who}", cell(same), cell(free), ratio(same, chain),
            ratio(free, chain))


def branches(bench, devices):
    asked = []
    for d in [d for d in devices if d <= 16]:
        for k in (2, 4, 8, 16):
            model = {"use": "candle-uno", "variant": "branches", "branches": k, "features": 4096,
                     "layers": 4, "top_layers": 2, "width": 4096}
            asked.append(((k, d), bench.sequential(model, d, 256 * d),
                          bench.graph(model, d, 256 * d)))
    head("branches", "devices", *COMPARED)
    for label, sequential, graph in asked:
        compare(label, sequential, graph)


def sequential_model(bench, devices):
    head("model", "devices", *COMPARED)
    for d in devices:
        model = dict(MMT, branches=1, layers=32)
        compare(("one branch of 32 layers", d), bench.sequential(model, d, 16 * d),
                bench.graph(model, d, 16 * d))


def memory(bench, devices):
    """The same with less memory: where the shorter path's fewer samples in flight count."""
    head("model", "memory", *COMPARED)
    d = max(devices)
    for name, (model, share) in MODELS.items():
        for gib in (14.5, 8, 4, 2, 1):
            compare((name, f"{gib} GiB"), bench.sequential(model, d, share * d, memory=gib),
                    bench.graph(model, d, share * d, memory=gib))


def main():
    parts = {"models": models, "ablation": ablation, "branches": branches,
             "sequential": sequential_model, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=str(ROOT / "build/release/penstock"))
    parser.add_argument("--part", default=",".join(parts))
    parser.add_argument("--devices", default="4,8,16,32")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--memory", type=float, default=14.5)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    for name in set(MODELS) - set(arguments.models.split(",")):
        del MODELS[name]
    bench = Bench(arguments)
    for part in arguments.part.split(","):
        print(f"\n{part}\n")
        parts[part](bench, [int(d) for d in arguments.devices.split(",")])


if __name__ == "__main__":
    main()
