#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets every call of the system that a command makes fail, one after the other, and looks at what
becomes of the command. Needs a build with PENSTOCK_FAULTS (the preset dev, asan or tsan).

    scripts/walk_faults.py --build build/dev [-j 2] [--every N] [--commands a,b] [--points c,d]

First each command runs as it is, twice, and PENSTOCK_FAULT=count tells how often it comes by each
point. Then for each hit (each N-th with --every) and each way to fail: the answer and the files
must be those of the run without a fault, or there must be a message and the exit code for what
failed, and then each output is the whole new file or the untouched old one. Nobody dies of a signal
or a sanitizer, takes longer than the deadline, or leaves a process or a temporary file behind.

Prints a line for each command and point; exit code 1 if there was a violation.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

CONFIG = """[model]
use = "mlp"
[data]
kind = "synthetic"
[train]
steps = 2
batch = 16
microbatch = 4
[cluster]
devices = 2
[partitioner]
use = "uniform"
[scheduler]
use = "1f1b"
[[memopt]]
use = "full"
[compare]
schedulers = ["gpipe", "1f1b"]
memopts = ["none", "full"]
microbatches = [4]
"""

# A language model whose checkpoints are there, in ck, and as published weights, in hf.
LANGUAGE = """[model]
use = "gpt"
layers = 1
dim = 8
heads = 2
context = 8
[data]
kind = "text"
train = "/usr/share/common-licenses/GPL-2"
[train]
steps = 2
batch = 4
microbatch = 2
eval_batches = 0
sample = 0
[cluster]
devices = 2
[partitioner]
use = "uniform"
[scheduler]
use = "1f1b"
[checkpoint]
folder = "ck"
save_every = 1
busy = "wait"
"""

OLD = "what was there before\n"

# name: (arguments, outputs); config.toml, plan.json, chain.json, branches.json, gpt.toml, ck and hf are there.
COMMANDS = {
    "plan": ("plan config.toml -o out.json --stages-svg out.svg", ["out.json", "out.svg"]),
    "plan-json": ("plan config.toml --json", []),
    "plan-isolated": ("plan config.toml -o out.json --set plugins.isolate=always", ["out.json"]),
    "check": ("check plan.json", []),
    "check-json": ("check plan.json --json", []),
    "simulate": ("simulate plan.json --trace out.json.gz --svg out.svg",
                 ["out.json.gz", "out.svg"]),
    "simulate-json": ("simulate config.toml --json", []),
    "schedule": ("schedule 1f1b -d 3 -m 4 --pdf out.pdf --csv out.csv", ["out.pdf", "out.csv"]),
    "schedule-json": ("schedule v-half -d 3 -m 4 --json", []),
    "partition": ("partition graphpipe -p branches.json --svg out.svg", ["out.svg"]),
    "partition-json": ("partition chain-dp -p branches.json --json", []),
    "memopt": ("memopt dawnpiper -p chain.json --png out.png", ["out.png"]),
    "memopt-json": ("memopt dawnpiper -p chain.json --json", []),
    "compare": ("compare config.toml --jobs 1 -o out.csv --plans plans", ["out.csv"]),
    "compare-json": ("compare config.toml --jobs 1 --json --run --repeat 2 --steps 2", []),
    "tune": ("tune config.toml --jobs 1 -o out.json", ["out.json"]),
    "export": ("export pytorch-csv config.toml -o out.csv", ["out.csv"]),
    "export-pdf": ("export pdf plan.json -o out.pdf", ["out.pdf"]),
    "profile": ("profile config.toml -s 1 -r 1 -o out.json", ["out.json"]),
    "profile-json": ("profile config.toml -s 1 -r 1 --json", []),
    "plugins": ("plugins list", []),
    "plugins-info": ("plugins info 1f1b --json", []),
    "plugins-check": ("plugins check 1f1b --only answers", []),
    "plugins-new": ("plugins new scheduler mine", []),
    "train": ("train config.toml --set output.trace=out.json", ["out.json"]),
    "train-json": ("train config.toml --json", []),
    "train-mpi": ("train config.toml --json --set run.transport=mpi", []),
    "train-save": ("train config.toml --set checkpoint.folder=new --set checkpoint.save_every=1 "
                   "--set checkpoint.busy=wait", []),
    "train-resume": ("train gpt.toml --json --set train.steps=3 --set checkpoint.folder=ck "
                     "--resume auto", []),
    "check-folder": ("check ck", []),
    "check-folder-json": ("check ck --json", []),
    "export-weights": ("export weights ck/step-000000000002 -o new", []),
    "evaluate": ("evaluate gpt.toml --from ck --batches 1", []),
    "evaluate-json": ("evaluate gpt.toml --from hf --batches 1 --json", []),
    "generate": ("generate gpt.toml --from ck --length 3", []),
    "generate-json": ("generate gpt.toml --from hf --length 3 --json", []),
}
RANKS = {"train-mpi": 2}
# Hits of a child process are counted where the same work is done in one.
COUNTED_AS = {"plan-isolated": ["plan"]}

# What these answer is measured: all but its words differs from run to run.
MEASURED = ("profile", "profile-json")

# These list a combination that failed with its reason, and go on.
LISTING = ("compare", "compare-json", "tune")

# These go on where a checkpoint cannot be saved, the newest or a plugin's description not be read, and say so.
GOING_ON = {"train-save": "was not saved|an old checkpoint was not removed", "compare": "not stated",
            "train-resume": "was not saved|is skipped|an old checkpoint was not removed", "compare-json": "not stated"}
# These train to the end where this file is lost, and fail then, with exit code 1.
LOSING = {"train": "out.json"}
# These tell every defect, with exit code 1.
TELLING = {"check-folder": ": damaged", "check-folder-json": '"defects":[{'}
# These tell what is wrong with a plugin, with these exit codes.
TELLING_PLUGINS = {"plugins": ((0,), " refused "), "plugins-check": ((3,), "FAIL  ")}

# Point: (ways to fail, {exit code: kind of error}). "+fail": from then on for ever. A plugin that
# gets no memory says so; so does whoever asked for a library that does not load, or for a device or
# transport that lacks something.
MEMORY = {3: r"plugin\.memory", 4: r"machine\.memory"}
INPUT = {2: r"config\.file|input\.path|plugin\.|output\.write|machine\.|checkpoint\.(damaged|none)",
         3: r"plugin\.(load|crash)", 4: r"machine\."}
OUTPUT = {2: r"output\.write", 3: r"plugin\.crash", 4: r"machine\."}
POINTS = {
    "alloc": (["fail", "+fail"], MEMORY),
    "mmap": (["fail", "+fail"], MEMORY),
    "thread": (["fail", "+fail"], {4: "machine.threads"}),
    "spawn": (["fail", "+fail"], {4: r"machine\."}),
    "open": (["fail", "+fail", "fail:EACCES", "disk-full"], INPUT),
    "read": (["fail", "+fail", "fail:EINTR", "short:1"], INPUT),
    "write": (["fail", "+fail", "fail:EINTR", "short:1", "disk-full"], OUTPUT),
    "fsync": (["fail", "+fail"], OUTPUT),
    "close": (["fail", "+fail"], OUTPUT),
    "rename": (["fail", "+fail"], OUTPUT),
    "mkdir": (["fail", "disk-full"], OUTPUT),
    "unlink": (["fail"], OUTPUT),
    "dl.open": (["fail"], {3: r"plugin\.load", 4: r"machine\."}),
    "dl.symbol": (["fail"], {3: r"plugin\.", 4: r"machine\."}),
}
POINTS["ckpt.snapshot"] = (["fail", "+fail"], {1: "run.device"})
for checkpoint_point in ("shard", "manifest", "commit", "rename", "retire"):
    POINTS["ckpt." + checkpoint_point] = (["fail", "+fail"], OUTPUT)
POINTS["ckpt.load"] = (["fail", "+fail"], {2: r"checkpoint\.damaged"})
POINTS["arena"] = (["fail"], {4: r"machine\.memory"})
EXECUTOR = ("arena", "instr", "pass", "send", "recv", "copy", "reduce", "meet", "update") # know their rank
for executor_point in EXECUTOR[1:]:
    POINTS[executor_point] = (["fail"], {1: "run.fault"})

# What differs from run to run: times, and a rank that follows from them.
VARIES = [
    (re.compile(r'("\w*seconds?\w*"|"measured_\w+_us"|"prediction_error"|"others"):[\d.e+-]+'), r"\1"),
    (re.compile(r'("best"):\{[^}]*\}|("round_step_us"):\[.*?\]\]|("load"):\[[^]]*\]|("time"):"[^"]*"'), ""),
    # Of a plugin that cannot be looked at closely the plan is made in a process of its own.
    (re.compile(r'"isolated":(?:true|false)|, in a separate process'), ""),
    (re.compile(r"plugins/\.\./"), ""), # realpath was told to fail
    (re.compile(r'"shipped":(?:true|false)|,"not_shipped":"[^"]*"'), ""),
    (re.compile(r"^measurements of .* is the machine busy\?$", re.M), ""),
    (re.compile(r'"order":\[[\d,]+\]'), ""),
    (re.compile(r"^(search(?:ed for)?|step|usage +device \d+|         device \d+ busy|trained \d+ steps in) .*$", re.M), r"\1"),
    (re.compile(r" +(search|[\d.]+ (?:us|ms|s))$", re.M), ""),
]


def same_text(text, command=None):
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    if command in MEASURED:
        text = re.sub(r"[^A-Za-z]+|\b(?:ns|us|ms|s)\b", " ", re.sub(r"[\d.]+(?:e[+-]\d+)?", " ", text))
        text = " ".join(text.split())
    return text


def same_bytes(a, b, command):
    if a.startswith(b"{") and b.startswith(b"{"):
        return same_text(a.decode(errors="replace"), command) == same_text(b.decode(errors="replace"), command)
    return a == b


class Walk:
    def __init__(self, options):
        self.options = options
        self.program = os.path.abspath(os.path.join(options.build, "penstock"))
        self.plugins = os.path.join(os.path.dirname(self.program), "plugins")
        self.root = tempfile.mkdtemp(prefix="walk-faults-")
        self.inputs = os.path.join(self.root, "inputs")
        self.clean = {}

    def prepare(self):
        problems = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "configs", "problems")
        os.mkdir(self.inputs)
        with open(os.path.join(self.inputs, "config.toml"), "w") as file:
            file.write(CONFIG)
        shutil.copy(os.path.join(problems, "four-layers.json"),
                    os.path.join(self.inputs, "chain.json"))
        shutil.copy(os.path.join(problems, "two-branches.json"),
                    os.path.join(self.inputs, "branches.json"))
        with open(os.path.join(self.inputs, "gpt.toml"), "w") as file:
            file.write(LANGUAGE)
        for words in ("plan config.toml -o plan.json -q", "train gpt.toml -q",
                      "export weights ck/step-000000000002 -o hf -q"):
            subprocess.run([self.program] + words.split(), cwd=self.inputs, check=True,
                           stdout=subprocess.DEVNULL)

    @staticmethod
    def below(folder):
        """Names of all its files."""
        return [os.path.relpath(os.path.join(base, name), folder)
                for base, _, names in os.walk(folder) for name in names]

    def run(self, command, fault):
        """The command in a folder of its own: code, stdout, stderr, files, and who is left."""
        words, outputs = COMMANDS[command]
        folder = tempfile.mkdtemp(dir=self.root)
        mark = "WALK_FAULTS=" + uuid.uuid4().hex
        environment = dict(os.environ, PENSTOCK_FAULT=fault, OMP_NUM_THREADS="1", PENSTOCK_NO_PROFILE="1",
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_btl_vader_single_copy_mechanism="none")
        environment.setdefault("ASAN_OPTIONS", "intercept_tls_get_addr=0")
        environment["WALK_FAULTS"] = mark.split("=")[1]
        argv = [self.program] + words.format(plugins=self.plugins).split()
        if command in RANKS:
            argv = ["mpirun", "-n", str(RANKS[command]), "--oversubscribe", "--bind-to", "none",
                    "--mca", "mpi_yield_when_idle", "1"] + argv
        shutil.copytree(self.inputs, folder, dirs_exist_ok=True)
        for name in outputs:
            with open(os.path.join(folder, name), "w") as file:
                file.write(OLD)
        limit = self.options.deadline * (4 if command in RANKS else 1)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            left = self.end_all(mark, process)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode(errors="replace"))
        files = {}
        for name in set(self.below(folder)) - set(self.below(self.inputs)):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
        shutil.rmtree(folder)
        return code, texts[0], texts[1], files, left

    @staticmethod
    def end_all(mark, process):
        """Whoever still runs of a command that has ended, and ends it."""
        left = []
        for attempt in range(50):
            left = []
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    try:
                        with open(f"/proc/{entry}/environ", "rb") as file:
                            if mark.encode() in file.read().split(b"\0"):
                                left.append(int(entry))
                    except OSError:
                        pass
            if process.poll() is None or not left:
                break
            time.sleep(0.02)  # the kernel may still be at it
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        process.wait()
        return left

    def count(self, command):
        """How often the command comes by each point: {(rank or None, point): hits}."""
        hits = collections.Counter()
        for counted in COUNTED_AS.get(command, []) + [command]:
            text = self.run(counted, "count")[2]
            for rank, point, n in re.findall(r"fault point rank=(\d+)/([a-z.]+): (\d+)", text):
                key = (int(rank) if command in RANKS or point in EXECUTOR else None, point)
                hits[key] = max(hits[key], int(n))
        return hits

    def begin(self, command):
        first = self.run(command, "")
        again = self.run(command, "")
        if first[0] != 0 or first[4]:
            raise SystemExit(f"{command} fails without a fault: {first}")
        if same_text(first[1], command) != same_text(again[1], command):
            raise SystemExit(f"{command} answers differently each time:\n{first[1]}\n{again[1]}")
        stable = {name for name in first[3] if first[3][name] == again[3].get(name)}
        self.clean[command] = (first[1], first[3], stable)
        return self.count(command)

    def judge(self, command, point, action, result):
        """ "same", "clean", or what is wrong."""
        code, out, err, files, left = result
        text, whole, stable = self.clean[command]
        outputs = COMMANDS[command][1]
        if code is None:
            return "no end within the deadline"
        if left:
            return f"processes left: {left}"
        if "Sanitizer" in err or "runtime error:" in err:
            return "a sanitizer's report"
        for name in set(files) - set(whole):
            # A run without memory ends at once, like one that is killed, and one that may open nothing any more does
            # not see what is in a folder: the next run clears up.
            if not (point == "unlink" and (name.endswith(".tmp") or "/.partial-" in name) or
                    (point == "alloc" and code == 4 or point == "open") and
                    ("/.partial-" in name or "/.retired-" in name) or
                    command in GOING_ON and ("/damaged-" in name or
                                             "/.retired-" in name and "an old checkpoint was not removed" in err)):
                return f"{name} left behind"
        if command in LISTING and code in (0, 1, 3) and self.is_listed(command, point, out):
            return "clean"
        codes, words = TELLING_PLUGINS.get(command, ((), ""))
        if code in codes and words in out:
            return "clean"
        if command in TELLING and code == 1 and TELLING[command] in out:
            return "clean"
        # Only a last save that fails is a failure of the run.
        if command in GOING_ON and code in (0, 1) and re.search(GOING_ON[command], err):
            return "clean"
        for name in outputs:
            data = files.get(name)
            if data is None:
                return f"{name} is gone"
            if data != OLD.encode() and name in stable and not same_bytes(data, whole[name], command):
                return f"{name} is neither old nor new"
        for name in set(files) - set(outputs):
            if name in stable and not same_bytes(files[name], whole[name], command):
                return f"{name} is not whole"
        if code == 0:
            if same_text(out, command) != same_text(text, command):
                return "exit code 0 with another answer"
            for name in whole:
                if files.get(name) in (None, OLD.encode()):
                    return f"exit code 0 without {name}"
            return "same"
        if command in LOSING and code == 1 and same_text(out, command) == same_text(text, command) and \
                re.search(rf"^penstock: {LOSING[command]}: cannot ", err, re.M):
            return "clean"
        return self.judge_failure(command, point, code, out, err)

    @staticmethod
    def is_listed(command, point, out):
        """Whether combinations failed, each with an error that the point may give."""
        if "--json" not in COMMANDS[command][0]:
            return "\nfailed: " in out and (POINTS[point][1] is not MEMORY or "of memory" in out)
        try:
            errors = [r["error"] for r in json.loads(out)["records"] if "error" in r]
        except (ValueError, KeyError):
            return False
        allowed = POINTS[point][1]
        return errors and all(re.match(allowed.get(e["code"], "never"), e["kind"]) for e in errors)

    @staticmethod
    def judge_failure(command, point, code, out, err):
        allowed = POINTS[point][1]
        if code not in allowed:
            return f"exit code {code}"
        if "--json" in COMMANDS[command][0]:
            try:
                error = json.loads(out.strip().splitlines()[-1])["error"]
            except (ValueError, IndexError, KeyError, TypeError):
                return None if code == 2 and "penstock: cannot write to standard output" in err \
                    else "no error in the answer"
            if error["code"] != code:
                return "another code in the answer"
            if not re.match(allowed[code], error["kind"]):
                return f"exit code {code}, kind {error['kind']}"
            return None
        lines = [line for line in err.splitlines() if line.startswith("penstock: ")]
        if len(lines) != 1 or len(lines[0]) < 20:
            return f"{len(lines)} messages"
        if allowed is MEMORY and "memory" not in lines[0]:
            return "a message that does not tell of memory"
        if re.search(r'no (partitioner|scheduler|memopt|model|data|operator|device|transport) "|internal', lines[0]):
            return "a message that tells of something else"
        return None

    def try_one(self, job):
        command, key, hit, action = job
        rank, point = key
        fault = ("" if rank is None else f"rank={rank}/") + f"{point}:{hit}"
        fault += "+:" + action[1:] if action[0] == "+" else ":" + action
        result = self.run(command, fault)
        verdict = self.judge(command, point, action, result) or "clean"
        return command, key, fault, verdict, result


def numbers(first, every, hits):
    """Hits to try: the first ones, each N-th, and the last."""
    return sorted(set(range(1, min(first, hits) + 1)) | set(range(1, hits + 1, every)) | {hits})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build/dev", help="folder of the build")
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="commands at a time")
    parser.add_argument("--every", type=int, default=1, help="try each N-th hit of a point")
    parser.add_argument("--first", type=int, default=0, help="try so many first hits, whatever --every")
    parser.add_argument("--commands", default=",".join(c for c in COMMANDS if c not in RANKS),
                        help="all but train-mpi, unless named: " + ",".join(COMMANDS))
    parser.add_argument("--points", default=",".join(POINTS))
    parser.add_argument("--deadline", type=float, default=20, help="seconds for a command")
    options = parser.parse_args()
    walk = Walk(options)
    table = {}
    violations = 0
    try:
        walk.prepare()
        jobs = []
        for command in options.commands.split(","):
            for key, hits in sorted(walk.begin(command).items(), key=str):
                if key[1] in options.points.split(","):
                    table[command, key] = collections.Counter(hits=hits)
                    jobs += [(command, key, hit, action) for hit in numbers(options.first, options.every, hits)
                             for action in POINTS[key[1]][0]]
        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            for command, key, fault, verdict, result in pool.map(walk.try_one, jobs):
                row = table[command, key]
                row["tried"] += 1
                row[verdict if verdict in ("same", "clean") else "wrong"] += 1
                if verdict not in ("same", "clean"):
                    violations += 1
                    print(f"PENSTOCK_FAULT={fault} penstock {COMMANDS[command][0]}: {verdict}"
                          f" (exit code {result[0]})\n    " +
                          "\n    ".join((result[1][-300:] + result[2][-600:]).splitlines()[-6:]),
                          flush=True)
    finally:
        shutil.rmtree(walk.root, ignore_errors=True)
    print(f"{'command':<16}{'point':<18}{'hits':>7}{'tried':>7}{'same':>7}{'clean':>7}{'wrong':>7}")
    total = collections.Counter()
    for (command, (rank, point)), row in table.items():
        name = point if rank is None else f"rank={rank}/{point}"
        total.update(row)
        print(f"{command:<16}{name:<18}" + "".join(
            f"{row[c]:>7}" for c in ("hits", "tried", "same", "clean", "wrong")))
    print(f"{'all':<34}" + "".join(
        f"{total[c]:>7}" for c in ("hits", "tried", "same", "clean", "wrong")))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
