# SPDX-License-Identifier: Apache-2.0
"""Traces modules for costed_test.txt, and holds exported split points against torch.distributed.pipelining.

usage: torch_split.py trace SOURCE        writes Net.json, Loop.json with SOURCE/tools/penstock_from_torch.py
       torch_split.py split STEM ...      STEM is NAME-DEVICES, with STEM.json (a plan) and STEM.split.json

Each stage that pipeline() makes must have as many bytes of parameters as the plan's stage has by the graph.
"""
import json
import sys

import torch
from torch import nn


class Block(nn.Module):
    """Each as wide inside as no other, so that no two stages are taken for each other."""

    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(Block(16, 64 + 4 * i) for i in range(4))
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Loop(Net):
    """torch.fx does not trace the loop, torch.export does."""

    def forward(self, tokens):
        for _ in range(tokens.shape[1] - 7):
            tokens = tokens + 1 - 1
        return super().forward(tokens)


def trace(source):
    sys.path.insert(0, source + "/tools")
    import penstock_from_torch as tool
    even = tool.Row()
    even.forward = even.to_inputs = even.to_weights = 10.0
    for kind in (Net, Loop):
        graph = tool.profile(kind(), (torch.zeros(4, 8, dtype=torch.int64),), [1, 2], 1, 2)
        for node in graph["nodes"]:  # in place of what was measured, so that cuts are the same each time
            node["times"] = [tool.time_row(size, even) for size in (1, 2)]
        with open(f"{kind.__name__}.json", "w") as file:
            json.dump(tool.by_modules(graph), file)


def split(stem):
    from torch.distributed.pipelining import SplitPoint, pipeline
    kind = {"Net": Net, "Loop": Loop}[stem.partition("-")[0]]
    with open(f"{stem}.split.json") as file:
        spec = {path: SplitPoint[where] for path, where in json.load(file).items()}
    with open(f"{stem}.json") as file:
        stages = json.load(file)["stages"]
    with open(f"{kind.__name__}.json") as file:
        bytes_of = {node["name"]: node["param_bytes"] for node in json.load(file)["nodes"]}
    pipe = pipeline(kind(), mb_args=(torch.zeros(2, 8, dtype=torch.int64),), split_spec=spec)
    found = [sum(p.numel() * p.element_size() for p in pipe.get_stage_module(i).parameters())
             for i in range(pipe.num_stages)]
    planned = [sum(bytes_of.get(name, 0) for name in stage["nodes"]) for stage in stages]
    if found != planned:
        sys.exit(f"{stem}: stages with {found} bytes of parameters instead of {planned}")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if sys.argv[1] == "trace":
        trace(sys.argv[2])
    else:
        for stem in sys.argv[2:]:
            split(stem)
