#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest batch that each method plans, over the models of configs/papers/dawnpiper-*.toml.

    bench/memopt/largest.py FOLDER [--penstock PATH] [MODEL ...]
    bench/memopt/largest.py FOLDER --set [MODEL ...]
    bench/memopt/largest.py FOLDER --speeds [--at N] [MODEL ...]

Prints tables in Markdown: the largest micro-batch of every method (penstock tune --objective
max-batch), samples per second there and at the largest one that vPipe trains, ratios to vPipe and
to PipeDream's cuts, and their geometric means. A cell is a model with a mode, a number of devices
and their memory; --modes, --devices and --memory list what is crossed, and --set is all of it:
7 models, PipeDream's weight stashing, flushed 1F1B and 2BW, 8 and 4 devices of 11, 16, 40 and 80
GiB. --speeds asks less: the largest batch of vPipe alone, and the speed of tideline there; with --at
both methods at that batch. What was asked is kept in FOLDER, method by method, and not asked again, so a run that was
ended goes on where it was; it is asked again where its config has changed, or where it was not
answered within a smaller --limit. FOLDER belongs to one build: nothing in it tells builds apart. A
method that takes longer than --limit seconds of a core counts as not measured. Plans are simulated, so figures are the same on every machine; seconds are processor time.
"""
import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = ["bert-large", "bert-48", "gpt2-medium", "gpt2-xl", "t5-large", "amoebanet-18-208",
          "amoebanet-36-544"]
TIED = ["gpt2-medium", "gpt2-xl"]
METHODS = {
    "tideline": "",
    "DawnPiper": 'partitioner = "dawnpiper", memopt = "dawnpiper"',
    "vPipe": 'partitioner = "vpipe", memopt = "vpipe"',
    "PipeDream": 'partitioner = "pipedream", memopt = "none"',
    "GPipe": 'partitioner = "uniform", scheduler = "gpipe", memopt = "full"',
}
MODES = {"stashed": "pipedream", "flushed": "1f1b", "2bw": "2bw"}
MICROBATCHES = 32


class Cell:
    def __init__(self, model, mode, devices, memory, host, shared):
        self.model, self.mode, self.devices, self.memory = model, mode, devices, memory
        self.host, self.shared = host, shared

    def __str__(self):
        return ", ".join([self.model, self.mode, str(self.devices), self.memory] +
                         ([self.host] if self.host else []) + (["shared"] if self.shared else []))

    def methods(self):
        return [m for m in METHODS if m != "GPipe" or self.mode == "flushed"]

    def name(self):
        return str(self).replace(", ", "-").replace(" ", "").replace("/", "p")

    def config(self, methods, microbatch=1):
        """PipeDream's updates are made by each stage alone: no norm of all gradients, nothing tied."""
        alone = self.mode != "flushed"
        rows = ['{ name = "%s"%s }' % (m, ", " + METHODS[m] if METHODS[m] else "")
                for m in methods]
        return "\n".join(
            ['include = "%s/configs/papers/dawnpiper-%s.toml"' % (ROOT, self.model),
             "[model]\ntied = false" if alone and self.model in TIED else "",
             "[train]", "clip = 0" if alone else "",
             "microbatch = %d\nbatch = %d" % (microbatch, MICROBATCHES * microbatch),
             "[cluster]\ndevices = %d" % self.devices,
             'memory = "%s"' % self.memory,
             'host_bandwidth = "%s"' % self.host if self.host else "",
             "link_directions = 2" if self.shared else "",
             '[scheduler]\nuse = "%s"' % MODES[self.mode],
             "[compare]\nmicrobatches = [%d]\nmethods = [\n  %s,\n]\n" %
             (microbatch, ",\n  ".join(rows))])


def run(args, command):
    """Standard output, or None if it took longer than allowed."""
    def limited():
        os.nice(args.nice)
        if args.limit:
            resource.setrlimit(resource.RLIMIT_CPU, (args.limit, args.limit + 10))

    done = subprocess.run([args.penstock] + command + ["--json"], stdout=subprocess.PIPE,
                          preexec_fn=limited, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if done.returncode < 0 or done.returncode > 128 or not done.stdout:
        sys.exit("largest.py: no answer of penstock " + " ".join(command))
    return json.loads(done.stdout)


def read(path):
    """The text of a file; None if there is none."""
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.read()


def kept(args, path, config):
    """The answer that FOLDER has to this very question; None: there is none, or it was not found
    within a limit and there is more time now."""
    text = read(path + ".json")
    if text is None or read(path + ".toml") != config:
        return None
    answer = json.loads(text)
    found = answer["records"] is not None or 0 < args.limit <= answer.get("cpu_limit", 0)
    return answer if found else None


def ask(args, cell, tag, command, methods, microbatch=1):
    """The answer of a penstock command, from FOLDER if it is there."""
    path = os.path.join(args.folder, "%s-%s" % (cell.name(), tag.replace(" ", "-")))
    config = cell.config(methods, microbatch)
    answer = kept(args, path, config)
    if answer is not None:
        return answer
    if os.path.exists(path + ".json"):
        os.remove(path + ".json")  # before the config that it answers is gone
    with open(path + ".toml", "w") as file:
        file.write(config)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = run(args, command[:1] + [path + ".toml"] + command[1:]) or {"records": None}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer["cpu_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer["cpu_limit"] = args.limit
    with open(path + ".part", "w") as file:
        json.dump(answer, file)
    os.rename(path + ".part", path + ".json")
    return answer


def measure(args, cell):
    """Per method: largest micro-batch (None: not measured), samples/s there, at vPipe's largest.
    None and the reason where a model has no such mode."""
    rows, seconds = {}, 0
    for method in cell.methods():
        answer = ask(args, cell, method, ["tune", "--objective", "max-batch"], [method])
        seconds += answer["cpu_seconds"]
        best = answer["records"][0] if answer["records"] else {"max_microbatch": None}
        if best.get("at_max", {}).get("state") == "incompatible":
            return None, best["at_max"]["error"]["message"]
        rows[method] = [best["max_microbatch"],
                        best.get("at_max", {}).get("samples_per_second", 0), 0]
    common = rows["vPipe"][0]
    rows["vPipe"][2] = rows["vPipe"][1]
    if common:
        ours = ["tideline", "DawnPiper"]
        compared = ask(args, cell, "at-%d" % common, ["tune"], ours, common)
        for record in compared["records"] or []:
            rows[record["method"]][2] = record.get("samples_per_second", 0)
    return rows, seconds


def speeds(args, cell):
    """A batch, samples/s of vPipe and of tideline there; None and the reason where the model has
    no such mode."""
    if args.at:
        answer = ask(args, cell, "both-at-%d" % args.at, ["tune"], ["vPipe", "tideline"],
                     args.at)
        found = {r["method"]: r.get("samples_per_second", 0) for r in answer["records"] or []}
        return (args.at, found.get("vPipe", 0), found.get("tideline", 0)), None
    answer = ask(args, cell, "vPipe", ["tune", "--objective", "max-batch"], ["vPipe"])
    best = answer["records"][0] if answer["records"] else {"max_microbatch": None}
    if best.get("at_max", {}).get("state") == "incompatible":
        return None, best["at_max"]["error"]["message"]
    size, ours = best["max_microbatch"], 0
    if size:
        compared = ask(args, cell, "speed-at-%d" % size, ["tune"], ["tideline"], size)
        ours = max([r.get("samples_per_second", 0) for r in compared["records"] or []] + [0])
    return (size, best.get("at_max", {}).get("samples_per_second", 0), ours), None


def print_speeds(args, cells):
    print("| cell | %s: samples/s | tideline there | speed over vPipe |" %
          ("vPipe" if args.at else "vPipe's largest"))
    print("| --- | --- | --- | --- |")
    done = []
    for cell in cells:
        row, why = speeds(args, cell)
        if row is None:
            print("| %s | %s | | |" % (cell, why), flush=True)
            continue
        size, theirs, ours = row
        ratio = over(ours, theirs)
        done += [ratio] if ratio else []
        if size:
            theirs = "%d: %s" % (size, "%.4g" % theirs if theirs else "no plan found")
        else:
            theirs = "not measured" if size is None else "none"
        print("| %s | %s | %s | %s |" % (cell, theirs, "%.4g" % ours if ours else "no plan found",
                                         "%.2f" % ratio if ratio else "–"), flush=True)
    if done:
        print("| geometric mean, best of %d | | | %.2f, **%.2f** |" %
              (len(done), mean(done), max(done)))


def text(row):
    size, at_max, at_common = row
    if not size:
        return "not measured" if size is None else "none"
    return "%d (%s, %s)" % (size, "%.4g" % at_max, "%.4g" % at_common if at_common else "–")


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0


def over(a, b):
    return a / b if a and b else None


def ratios(rows):
    ours = rows["tideline"]
    return ([over(ours[0], rows[m][0]) for m in ("vPipe", "PipeDream", "DawnPiper")] +
            [over(ours[2], rows[m][2]) for m in ("vPipe", "DawnPiper")])


def print_ratios(done):
    print("\n| cell | batch over vPipe | over PipeDream | over DawnPiper | speed over vPipe | "
          "over DawnPiper |\n| --- | --- | --- | --- | --- | --- |")
    table = [ratios(rows) for _, rows in done]
    for (name, _), line in zip(done, table):
        print("| %s | %s |" % (name, " | ".join("%.2f" % r if r else "–" for r in line)))
    columns = [[r for r in column if r] for column in zip(*table)]
    for name, what in (("geometric mean", mean), ("best", max), ("cells", len)):
        print("| %s | %s |" % (name, " | ".join(
            ("%d" if what is len else "%.2f") % what(c) if c else "–" for c in columns)))


def only_we(done):
    """Cells that have no ratio because the other method trains not even one sample."""
    for other in ("vPipe", "PipeDream"):
        names = [name for name, rows in done if rows["tideline"][0] and rows[other][0] == 0]
        if names:
            print("\nNot one sample fits with %s, some do with tideline: %s." %
                  (other, ", ".join(names)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/penstock"))
    parser.add_argument("--set", action="store_true", help="all modes, devices and memories")
    parser.add_argument("--memory", help="of a device, comma-separated, e.g. \"11 GiB,16 GiB\"")
    parser.add_argument("--devices", help="comma-separated; 8")
    parser.add_argument("--modes", help="of stashed, flushed, 2bw, comma-separated; flushed")
    parser.add_argument("--host", default="", help="rate of host links; 12 GB/s, of the clusters")
    parser.add_argument("--shared", action="store_true",
                        help="copies to host memory and back share its link")
    parser.add_argument("--speeds", action="store_true",
                        help="only the speed at the largest batch of vPipe")
    parser.add_argument("--at", type=int, help="with --speeds: at this micro-batch instead")
    parser.add_argument("--limit", type=int, default=0, help="seconds of a core for each answer")
    parser.add_argument("--nice", type=int, default=0)
    args = parser.parse_intermixed_args()
    full = {"memory": "11 GiB,16 GiB,40 GiB,80 GiB", "devices": "8,4", "modes": "stashed,flushed,2bw"}
    alone = {"memory": "14.5 GiB", "devices": "8", "modes": "flushed"}
    for name, value in (full if args.set else alone).items():
        setattr(args, name, (getattr(args, name) or value).split(","))
    for name in args.modes:
        if name not in MODES:
            parser.error("--modes: %s, not %s" % (", ".join(MODES), name))
    return args


def print_largest(args, cells):
    done = []
    print("Largest micro-batch (samples/s there, samples/s at vPipe's largest):\n")
    print("| model, mode, devices, memory | %s | seconds |" % " | ".join(METHODS))
    print("| --- |%s" % (" --- |" * (len(METHODS) + 1)))
    for cell in cells:
        rows, seconds = measure(args, cell)
        name = str(cell)
        if rows is None:
            print("| %s | %s%s |" % (name, seconds, " |" * len(METHODS)), flush=True)
            continue
        done.append((name, rows))
        print("| %s | %s | %.0f |" % (name, " | ".join(
            text(rows[m]) if m in rows else "" for m in METHODS), seconds), flush=True)
    print_ratios(done)
    only_we(done)


def main():
    args = arguments()
    os.makedirs(args.folder, exist_ok=True)
    cells = [Cell(model, mode, int(devices), memory, args.host, args.shared) for memory in args.memory
             for mode in args.modes for devices in args.devices for model in args.models]
    (print_speeds if args.speeds or args.at else print_largest)(args, cells)


if __name__ == "__main__":
    main()
