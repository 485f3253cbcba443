#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a PyTorch module, node by node, and writes what penstock needs to plan for it.

    python penstock_from_torch.py my_module:make_model --input 8x3x224x224 --batch-sizes 1,2,4,8 -o graph.json

`make_model` is a function without arguments, or a class, that gives a torch.nn.Module. The module is traced
with torch.fx, or with torch.export where that fails, and every node of the trace is run on its own:

- times: median over repeats, after warm-up, for every batch size, on one thread of the CPU (--threads).
  Operators that are equal (type, attributes, shapes) are measured once. Forward; backward to the inputs;
  backward to the parameters (the time that both backward passes take together, less the first).
  What Python and PyTorch spend on starting an operator is part of them; what autograd spends on
  starting a backward pass, which a training step does once and this does for every node, is not.
- spreads: distance of the quartiles over the median, told on standard error with the medians; where
  one of what takes a hundredth of the step or more is large, a warning says so.
- bytes: parameters (a tied one counts at its first user), the output, and what autograd keeps for the
  backward pass: each storage once, at the node that made it. Parameters and buffers are not kept things.
- modules: in whose forward a node runs, so that cuts can be told as split points of
  torch.distributed.pipelining. With --by-modules all cuts of a plan are some: nodes are put together
  that PyTorch cannot split between.
- operators that would work in place are run out of place, because each is run many times.

As a function: graph = profile(model, (example,), batch_sizes=[1, 2, 4]); json.dump(graph, file).
Needs torch 2.1 or later and nothing else. The file's format: docs/formats.md of penstock.
"""
import argparse
import contextlib
import copy
import importlib
import importlib.util
import inspect
import io
import json
import logging
import operator
import os
import statistics
import sys
import time

try:
    import torch
    from torch.utils._pytree import tree_flatten, tree_map
except ImportError as missing:
    if __name__ != "__main__":
        raise
    print(f"penstock_from_torch: PyTorch cannot be imported by {sys.executable} ({missing}); "
          "https://pytorch.org says how to install it", file=sys.stderr)
    sys.exit(2)

LARGE_SPREAD = 0.2

IN_PLACE = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul,
            operator.itruediv: operator.truediv}


class ProfileError(Exception):
    """What the user can do something about."""


class TooFewSamples(ProfileError):
    """Batch norm has no variance of one value."""


def first_line(why):
    """Of an exception: PyTorch's messages can be many lines, and those of others none."""
    lines = str(why).strip().splitlines()
    return f"{type(why).__name__}: {lines[0].strip()}" if lines else type(why).__name__


def tensors_of(value):
    return [t for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()


def shape_of(tensor):
    return (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad,
            isinstance(tensor, torch.nn.Parameter))


def attributes_of(module):
    return type(module), tuple(sorted((key, repr(value)) for key, value in vars(module).items()
                                      if not key.startswith("_")))


def resize(tensor, samples):
    """The first `samples` samples, beginning anew where there are not as many."""
    rows = torch.arange(samples, device=tensor.device) % tensor.shape[0]
    return tensor.index_select(0, rows)


# --- tracing ------------------------------------------------------------------------------------


def undo_in_place(traced):
    for module in traced.modules():
        if getattr(module, "inplace", False):
            module.inplace = False
    for node in traced.graph.nodes:
        if node.kwargs.get("inplace", False):
            node.kwargs = {**node.kwargs, "inplace": False}
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        plain = name[:-1] if name.endswith("_") and not name.endswith("__") else None
        if node.op == "call_function" and node.target in IN_PLACE:
            node.target = IN_PLACE[node.target]
        elif isinstance(node.target, torch._ops.OpOverload):  # of torch.export
            packet, _, overload = name.partition(".")
            if packet.endswith("_") and hasattr(torch.ops.aten, packet[:-1]):
                node.target = getattr(getattr(torch.ops.aten, packet[:-1]), overload)
        elif node.op == "call_method" and plain and hasattr(torch.Tensor, plain):
            node.target = plain
        elif node.op == "call_function" and plain and hasattr(torch, plain):
            node.target = getattr(torch, plain)
    traced.recompile()
    return traced


@contextlib.contextmanager
def silence():
    """What PyTorch tells its own developers when it gives up."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def trace(model, inputs):
    """A GraphModule and the name of what made it."""
    try:
        return undo_in_place(torch.fx.symbolic_trace(model)), "torch.fx"
    except Exception as why:  # whatever the model's own code raises on proxies
        first = first_line(why)
    try:
        with silence():
            program = torch.export.export(model, inputs)
        return undo_in_place(program.module()), "torch.export"
    except Exception as why:
        raise ProfileError(f"the module cannot be traced: torch.fx: {first}; torch.export: {first_line(why)}; "
                           "give a part of it without branches that depend on values, or profile the "
                           "module as an ONNX file (docs/onnx.md of penstock)") from None


def name_nodes(traced):
    """Node to a unique name: the module's path where it is one."""
    names, used = {}, {}
    for node in traced.graph.nodes:
        name = str(node.target) if node.op == "call_module" else node.name
        used[name] = used.get(name, 0) + 1
        names[node] = name if used[name] == 1 else f"{name}:{used[name]}"
    return names


def module_of(node):
    """Path of the module in whose forward the node runs; "" for the whole."""
    if node.op == "call_module":
        return str(node.target)
    stack = node.meta.get("nn_module_stack") or {"": ""}
    key, value = list(stack.items())[-1]
    path = value[0] if isinstance(value, tuple) else key
    return str(path).removeprefix("L['self']").lstrip(".").partition("@")[0]


def op_of(traced, node):
    if node.op == "call_module":
        return type(traced.get_submodule(node.target)).__name__
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", node.name)
    return name.partition(".")[0]


# --- measuring ----------------------------------------------------------------------------------


class Clock:
    def __init__(self, device, warmup, repeats):
        self.warmup, self.repeats = warmup, repeats
        self.wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        leaf = torch.ones((), device=device, requires_grad=True)
        nothing = leaf.view_as(leaf)
        self.start_us = 0.0
        self.start_us = min(self.backward_us([nothing], [leaf])[0] for _ in range(10))

    def median_us(self, function):
        """And its spread."""
        times = []
        for i in range(self.warmup + self.repeats):
            self.wait()
            begin = time.perf_counter()
            function()
            self.wait()
            if i >= self.warmup:
                times.append((time.perf_counter() - begin) * 1e6)
        return statistics.median(times), spread_of(times)

    def backward_us(self, outputs, inputs):
        seeds = [torch.ones_like(t) for t in outputs]
        median, spread = self.median_us(lambda: torch.autograd.grad(
            outputs, inputs, seeds, retain_graph=True, allow_unused=True))
        return max(0.0, median - self.start_us), spread


def spread_of(times):
    """Distance of the quartiles over the median; 0 of a single time."""
    median = statistics.median(times)
    if len(times) < 2 or median == 0:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return (high - low) / median


class Row:
    """What one node showed at one batch size."""

    def __init__(self):
        self.forward = self.to_inputs = self.to_weights = 0.0
        self.spread = 0.0  # the largest of its passes
        self.kind = None
        self.param_bytes = self.saved_bytes = self.output_bytes = 0
        self.has_tensors = False

    def take_times(self, other):
        self.forward, self.to_inputs, self.to_weights = other.forward, other.to_inputs, other.to_weights
        self.spread = other.spread

    def step(self):
        return self.forward + self.to_inputs + self.to_weights


class Profiler(torch.fx.Interpreter):
    """Runs nodes one after the other, each with an autograd graph of its own."""

    def __init__(self, traced, clock):
        super().__init__(traced, garbage_collect_values=False)  # storages keep their addresses
        self.clock = clock
        self.rows = {}
        self.measured = {}  # kind to the row that was measured for all of it
        self.makers = {}  # storage to the row of the node that made it
        self.weights = {storage_of(t) for t in [*traced.parameters(), *traced.buffers()]}
        self.kept, self.alive, self.charged = set(), [], set()

    def run_node(self, node):
        if node.op in ("placeholder", "get_attr", "output"):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        leaves = []

        def detach(value):
            if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
                return value
            leaf = value.detach().requires_grad_(value.requires_grad)
            if leaf.requires_grad:
                leaves.append(leaf)
            return leaf

        def call():
            return getattr(self, node.op)(node.target, *taken)

        params = [t for t in tensors_of((args, kwargs)) if isinstance(t, torch.nn.Parameter)]
        if node.op == "call_module":
            params += self.fetch_attr(node.target).parameters()
        taken = tree_map(detach, (args, kwargs))
        row = self.rows[node] = Row()
        try:
            saved = []
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda t: (saved.append(t.detach()), t)[1], lambda t: t):
                output = call()
            if self.clock is not None and tensors_of(output):
                row.kind = self.kind_of(node, taken)
                if row.kind in self.measured:
                    row.take_times(self.measured[row.kind])
                else:
                    self.measure(row, call, leaves, params)
                    self.measured[row.kind] = row
        except Exception as why:  # whatever the operator raises
            kind = TooFewSamples if "more than 1 value per channel" in str(why) else ProfileError
            raise kind(f"node {node.name} ({node.target}) failed on its own: {first_line(why)}") from None
        self.count(row, output, saved, params)
        return output

    def kind_of(self, node, taken):
        """Equal for nodes that run the same operator with the same attributes on the same shapes."""
        what, target = node.op, node.target
        if node.op == "call_module":
            module = self.fetch_attr(node.target)
            own = [*module.named_parameters(), *module.named_buffers()]
            target = tuple(attributes_of(part) for part in module.modules()), \
                tuple((name, shape_of(t)) for name, t in own)
        values, tree = tree_flatten(taken)
        return (what, target, repr(tree), tuple(
            shape_of(v) if isinstance(v, torch.Tensor) else (type(v), repr(v)) for v in values))

    def measure(self, row, call, leaves, params):
        outputs = [t for t in tensors_of(call()) if t.requires_grad]
        wanted = [p for p in params if p.requires_grad]
        row.forward, row.spread = self.clock.median_us(call)
        if outputs and leaves:
            row.to_inputs, spread = self.clock.backward_us(outputs, leaves)
            row.spread = max(row.spread, spread)
        if outputs and wanted:
            both, spread = self.clock.backward_us(outputs, leaves + wanted)
            row.to_weights = max(0.0, both - row.to_inputs)
            row.spread = max(row.spread, spread)

    def count(self, row, output, saved, params):
        outputs = tensors_of(output)
        self.alive += outputs + saved
        row.has_tensors = bool(outputs)
        row.output_bytes = bytes_of(outputs)
        for tensor in outputs:
            self.makers.setdefault(storage_of(tensor), row)
        for tensor in saved:
            storage = storage_of(tensor)
            if storage not in self.weights and storage not in self.kept:
                self.kept.add(storage)
                # Where no node made it, it is data, or something only this node's backward reads.
                self.makers.get(storage, row).saved_bytes += tensor.untyped_storage().nbytes()
        for param in params:
            if id(param) not in self.charged:
                self.charged.add(id(param))
                row.param_bytes += bytes_of([param])


def run(model, inputs, samples, clock):
    """Names in order, and by name: the traced graph, rows, what traced it."""
    inputs = tuple(resize(t, samples) for t in inputs)
    traced, by = trace(model, inputs)
    profiler = Profiler(traced, clock)
    profiler.run(*inputs)
    return traced, name_nodes(traced), profiler.rows, by


def check_arguments(model, inputs):
    """Before a tracer says it in its own words."""
    try:
        inspect.signature(model.forward).bind(*inputs)
    except TypeError as why:
        raise ProfileError(f"{type(model).__name__}.forward cannot be called with {len(inputs)} "
                           f"inputs: {why}") from None
    except ValueError:
        pass  # no signature to be had


def profile(model, inputs, batch_sizes=None, warmup=3, repeats=10, name=None, progress=None, threads=1,
            spreads=None):
    """A penstock-graph as a dict. All tensors of `inputs` have the samples in front; their number is
    the graph's batch. The model is copied, put into training mode, and stays on its device. `spreads`
    is called with the lines that tell medians and spreads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return profile_here(model, inputs, batch_sizes, warmup, repeats, name, progress, spreads)
    finally:
        torch.set_num_threads(before)


def profile_here(model, inputs, batch_sizes, warmup, repeats, name, progress, spreads):
    model = copy.deepcopy(model).train()
    batch = inputs[0].shape[0]
    sizes = sorted(set(batch_sizes or [batch]))
    if batch < 1 or sizes[0] < 1:
        raise ProfileError("there must be at least one sample")
    check_arguments(model, inputs)
    try:
        traced, names, rows, by = run(model, inputs, batch, None)
    except TooFewSamples as why:
        raise ProfileError(f"{str(why).splitlines()[0]}; batch norm trains on more than one value: "
                           f"give an --input of at least {2 * batch} samples") from None
    times = {}
    for size in list(sizes):
        if progress is not None:
            progress(size)
        try:
            _, found, measured, _ = run(model, inputs, size,
                                        Clock(inputs[0].device, warmup, repeats))
        except TooFewSamples:
            sizes.remove(size)
            if spreads is not None:
                spreads(f"remark: {size} samples are skipped: batch norm trains on more than one value")
            continue
        if list(found.values()) != list(names.values()):
            raise ProfileError(f"the trace for {size} samples has other nodes than that for {batch}")
        times[size] = {found[node]: row for node, row in measured.items()}
    if not sizes:
        raise ProfileError("batch norm trains on more than one value, and no larger batch size is given; "
                           "add one to --batch-sizes")
    if spreads is not None:
        for line in tell_spreads([(op_of(traced, node), times[sizes[-1]][names[node]]) for node in rows],
                                 sizes[-1]):
            spreads(line)
    nodes, edges = [], []
    for node, row in rows.items():
        if not row.has_tensors or not node.users:  # numbers, known once the batch is; statistics
            continue
        module = module_of(node)
        nodes.append({"name": names[node], "op": op_of(traced, node),
                      **({"module": module} if module else {}),
                      "times": [time_row(size, times[size][names[node]]) for size in sizes],
                      "param_bytes": row.param_bytes, "saved_bytes": row.saved_bytes,
                      "output_bytes": row.output_bytes})
        edges += [{"from": names[source], "to": names[node], "bytes": rows[source].output_bytes}
                  for source in node.all_input_nodes if source in rows and rows[source].has_tensors]
    if not nodes:
        raise ProfileError("the module has no operators")
    notes = (f"Measured by penstock_from_torch.py with PyTorch {torch.__version__} on "
             f"{device_name(inputs[0].device)}, traced by {by}; median of {repeats} runs of each "
             "kind of node on its own. Operators in place are out of place here.")
    return {"format": "penstock-graph", "version": 1, "name": name or type(model).__name__,
            "notes": notes, "batch": batch, "nodes": nodes, "edges": edges}


def by_modules(graph):
    """Nodes up to the end of a module are one: that is where torch.distributed.pipelining can split.
    Each is called as its last node, and reads what its nodes read of others."""
    nodes, last = graph["nodes"], {}
    for i, node in enumerate(nodes):
        path = node.get("module", "")
        while path:
            last[path] = i
            path = path.rpartition(".")[0]
    ends = [last.get(node.get("module", "")) == i for i, node in enumerate(nodes)]
    ends[-1] = True
    parts, part_of, begin = [], {}, 0
    for i in range(len(nodes)):
        if ends[i]:
            part = nodes[begin:i + 1]
            part_of |= {node["name"]: len(parts) for node in part}
            parts.append(part)
            begin = i + 1
    crossing = {}  # pairs of parts to what goes from one to the other, each result once
    for edge in graph["edges"]:
        pair = part_of[edge["from"]], part_of[edge["to"]]
        if pair[0] != pair[1]:
            crossing.setdefault(pair, {})[edge["from"]] = edge["bytes"]
    sent = [set(name for pair, names in crossing.items() if pair[0] == i for name in names)
            for i in range(len(parts))]
    return {**graph,
            "nodes": [sum_of(part, sent[i]) for i, part in enumerate(parts)],
            "edges": [{"from": parts[a][-1]["name"], "to": parts[b][-1]["name"],
                       "bytes": sum(names.values())} for (a, b), names in crossing.items()]}


def sum_of(part, sent):
    """Nodes as one, of which others read those results; where none does, the last."""
    rows = zip(*(node["times"] for node in part))
    return {**part[-1], "op": part[-1]["op"] if len(part) == 1 else "module",
            "times": [{key: row[0][key] if key == "batch" else round(sum(r[key] for r in row), 3)
                       for key in row[0]} for row in rows],
            "param_bytes": sum(node["param_bytes"] for node in part),
            "saved_bytes": sum(node["saved_bytes"] for node in part),
            "output_bytes": sum(node["output_bytes"] for node in part if node["name"] in sent)
            or part[-1]["output_bytes"]}


def tell_spreads(rows, samples):
    """Lines on pairs of an operator's type and its row: each kind's median and spread, the longest first."""
    kinds = {}
    for op, row in rows:
        if row.kind is not None:
            kinds.setdefault(row.kind, (op, row, []))[2].append(row)
    total = sum(row.step() for _, row, alike in kinds.values() for _ in alike)
    order = sorted(kinds.values(), key=lambda kind: -kind[1].step() * len(kind[2]))
    yield f"{samples} samples; of operators that are equal one was measured for all"
    yield "     times   median of F + B + W   spread   operator"
    for op, row, alike in order:
        yield f"{len(alike):10} {row.step():18.1f} us {100 * row.spread:7.1f}%   {op}"
    noisy = [(op, row) for op, row, alike in order
             if row.spread > LARGE_SPREAD and row.step() * len(alike) >= 0.01 * total]
    if noisy:
        op, worst = max(noisy, key=lambda pair: pair[1].spread)
        yield (f"warning: the times of {len(noisy)} of {len(order)} operators spread by more than "
               f"{100 * LARGE_SPREAD:.0f}% ({op} by {100 * worst.spread:.0f}%): is the machine busy? "
               "Measure again when it is idle, or with more --repeats")


def time_row(size, row):
    return {"batch": size, "forward_us": round(row.forward, 3),
            "backward_input_us": round(row.to_inputs, 3),
            "backward_weight_us": round(row.to_weights, 3)}


def device_name(device):
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


# --- command line -------------------------------------------------------------------------------


def load(where):
    """"package.module:name" or "file.py:name", called."""
    path, _, attribute = where.rpartition(":")
    if not path:
        raise ProfileError(f'"{where}" must be MODULE:FUNCTION')
    try:
        if path.endswith(".py"):
            spec = importlib.util.spec_from_file_location("profiled", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(path)
        model = getattr(module, attribute)()
    except (ImportError, OSError, AttributeError) as why:
        raise ProfileError(f"{where}: {why}") from None
    except Exception as why:  # whatever the user's own code raises
        raise ProfileError(f"{where}: {first_line(why)}") from None
    if not isinstance(model, torch.nn.Module):
        raise ProfileError(f"{where} gives {type(model).__name__}, not a torch.nn.Module")
    return model


def make_input(text, device):
    """"8x3x224x224" (normal numbers), "8x128:int64:50257" (whole numbers below the last)."""
    shape, *rest = text.split(":")
    try:
        dims = [int(d) for d in shape.split("x")]
        dtype = getattr(torch, rest[0]) if rest else torch.float32
        below = int(rest[1]) if len(rest) > 1 else 2
        if min(dims) < 1 or below < 1 or not isinstance(dtype, torch.dtype):
            raise ValueError
    except (ValueError, AttributeError):
        raise ProfileError(f'--input "{text}" must be like 8x3x224x224 or 8x128:int64:50257') from None
    if dtype.is_floating_point:
        return torch.randn(dims, device=device).to(dtype)
    return torch.randint(below, dims, device=device, dtype=dtype)


def write(text, path):
    """Whole or not at all. A device or pipe is written to: a rename would put a file in its place."""
    if path is None:
        sys.stdout.write(text)
        return
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w") as file:
            file.write(text)
        return
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "x") as file:  # with the mode that the user's files have
            file.write(text)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def as_text(graph):
    head = {key: value for key, value in graph.items() if key not in ("nodes", "edges")}
    lists = [f'"{key}": [\n' + ",\n".join(map(json.dumps, graph[key])) + "\n]"
             for key in ("nodes", "edges")]
    return json.dumps(head)[:-1] + ", " + ",\n".join(lists) + "}\n"


def parse(arguments):
    parser = argparse.ArgumentParser(description="Writes a PyTorch module as a penstock-graph.")
    parser.add_argument("model", help="MODULE:FUNCTION or FILE.py:FUNCTION that gives the module")
    parser.add_argument("--input", action="append", required=True, metavar="SHAPE[:DTYPE[:BELOW]]",
                        help="of an argument of forward, samples in front; may be repeated")
    parser.add_argument("--batch-sizes", metavar="LIST", help="samples to measure: 1,2,4")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    parser.add_argument("--threads", type=int, default=1,
                        help="of the CPU that PyTorch uses; 1, as a device of penstock has")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-modules", action="store_true",
                        help="cut only where a module ends, as torch.distributed.pipelining can")
    parser.add_argument("--name", help="of the model; its class")
    parser.add_argument("-o", "--output", help="file; standard output otherwise")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    try:
        if options.threads < 1:
            raise ProfileError("--threads must be at least 1")
        if options.repeats < 1 or options.warmup < 0:
            raise ProfileError("--repeats must be at least 1, --warmup at least 0")
        torch.manual_seed(options.seed)
        device = torch.device(options.device)
        model = load(options.model).to(device)
        inputs = tuple(make_input(text, device) for text in options.input)
        try:
            sizes = [int(n) for n in options.batch_sizes.split(",")] if options.batch_sizes else None
        except ValueError:
            raise ProfileError(f'--batch-sizes "{options.batch_sizes}" must be like 1,2,4') from None
        graph = profile(model, inputs, sizes, options.warmup, options.repeats, options.name,
                        lambda n: print(f"measuring {n} samples", file=sys.stderr), options.threads,
                        lambda line: print(line, file=sys.stderr))
        if options.by_modules:
            graph = by_modules(graph)
        write(as_text(graph), options.output)
    except ProfileError as why:  # torch.fx puts its own lines after the message
        print(f"penstock_from_torch: {str(why).splitlines()[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as why:  # of PyTorch, or of the user's own code
        print(f"penstock_from_torch: {first_line(why)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
