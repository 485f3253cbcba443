#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills runs that save checkpoints, and makes their files fail, many times over; after each time the
newest complete checkpoint must be there, sound, and the right one. Needs a build with
PENSTOCK_FAULTS (the preset dev, asan or tsan).

    scripts/kill_checkpoints.py --build build/dev [-n 2000] [--seed S] [--mpi EVERY] [--folder DIR]

First one run saves every step and keeps all: what each step's values are. Then each trial goes on
with --resume auto where the one before was ended, saving behind every step, and is ended

    kill     by SIGKILL after a random time
    point    by SIGKILL at the random hit of a point of saving, or of a call of the system
    fault    or one call fails (EIO, ENOSPC), is cut short, or the disk is full from then on; the run
             may survive that
    full     with --fill: or its disk has room for less than a checkpoint or two
    rank     with --mpi, each so many trials: one of two processes, or both, by SIGKILL

Then: no complete checkpoint that was there is gone, but for what is to be kept no longer; `penstock
check` finds all sound; the newest one's checksums are those of the uninterrupted run at that step; and the
next trial goes on from it, or from the one before, where a read is made to fail. When the run is
complete the next trial begins anew.

Prints what was done and found; exit code 1 if there was a violation. "Half-written" are runs that
were killed during a save: they left a folder .partial-*.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 60
CONFIG = """[model]
use = "mlp"
layers = 3
hidden = 256
[data]
kind = "synthetic"
[train]
steps = %d
batch = 8
microbatch = 4
eval_batches = 0
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
""" % STEPS
# Points and about how often a run of some steps comes by.
POINTS = {"ckpt.snapshot": 20, "ckpt.shard": 20, "ckpt.manifest": 20, "ckpt.commit": 20, "ckpt.rename": 20,
          "ckpt.retire": 20, "write": 400, "fsync": 150, "rename": 60, "close": 200, "open": 200, "mkdir": 20,
          "unlink": 60, "read": 200}
FAULTS = ["fail:EIO", "fail:ENOSPC", "disk-full"]
MAY_BE_SHORT = ["write", "read"]
# What a run that meets a fault may end with: it went on, failed, or could not begin.
CODES = {0, 1, 2, 3, 4}


class Violation(Exception):
    pass


class Trials:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.penstock = str(pathlib.Path(options.build).resolve() / "penstock")
        self.checkpoints = folder / "ck"
        self.done = collections.Counter()
        self.ends, self.found = collections.Counter(), collections.Counter()
        (folder / "run.toml").write_text(CONFIG)
        self.truth = self.straight()

    def run(self, *words, **more):
        return subprocess.run([self.penstock, *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              check=False, **more)

    def sums(self, path):
        tensors = json.loads((path / "manifest.json").read_text())["tensors"]
        return {tensor["name"]: tensor.get("xxh3") or [piece["xxh3"] for piece in tensor["pieces"]] for tensor in tensors}

    def straight(self):
        """Checksums of every step of a run that nothing happens to."""
        ended = self.run("train", "run.toml", "-q", "--set", "checkpoint.keep_last=1000")
        if ended.returncode != 0:
            sys.exit(ended.stderr)
        truth = {self.step(path): self.sums(path) for path in self.checkpoints.glob("step-*")}
        shutil.rmtree(self.checkpoints)
        assert len(truth) == STEPS
        return truth

    @staticmethod
    def step(path):
        return int(path.name[5:])

    def newest(self):
        """The newest complete one; 0: there is none."""
        return max((self.step(path) for path in self.checkpoints.glob("step-*") if (path / "COMMIT").exists()), default=0)

    def judge(self, before):
        """The state of the folder; the newest step."""
        step = self.newest()
        if step < before:
            raise Violation(f"step {before} was complete, and now the newest is {step}")
        if step == 0:
            return 0
        path = self.checkpoints / f"step-{step:012d}"
        checked = self.run("check", str(path))
        if checked.returncode != 0:
            raise Violation(f"step {step}: {checked.stdout}{checked.stderr}")
        checked = self.run("check", "ck")
        if checked.returncode != 0:
            raise Violation(f"not all that is left is sound: {checked.stdout}{checked.stderr}")
        if self.sums(path) != self.truth[step]:
            raise Violation(f"step {step} has other values than the run that was not interrupted")
        return step

    def killed(self, was):
        self.found["were killed"] += was
        self.found["half-written"] += was and any(self.checkpoints.glob(".partial-*"))

    def set_aside(self, err):
        """The newest step, behind what a run could not read: that is kept, sound, under another name."""
        for name in re.findall(r"is now ck/(damaged-\S+)", err):
            path = self.checkpoints / name
            if self.sums(path) != self.truth[int(name.split("-")[1])] or self.run("check", str(path)).returncode != 0:
                raise Violation(f"{name} is not what was saved")
            self.found["could not be read"] += 1

    def resumed(self, out, err, before, unreadable=False):
        """It says where it goes on, unless it ended before it could. From an older one, where a read fails; the step that it
        begins behind."""
        first = out.splitlines()[0] if out else ""
        if not first.startswith('{"resumed"'):
            return before
        step = json.loads(first)["step"]
        if step != before and not (unreadable and "is skipped" in err):
            raise Violation(f"step {before} is there, and it goes on from {first}")
        self.set_aside(err)
        self.found["went on"] += 1
        return step

    @contextlib.contextmanager
    def room(self, size):
        """The disk has room for so many bytes more."""
        filler = self.folder / "filler"
        with open(filler, "wb") as file:
            free = os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_frsize
            os.posix_fallocate(file.fileno(), 0, max(free - size, 1))
        try:
            yield
        finally:
            filler.unlink()

    def one_process(self, chance, before):
        kind = chance.choice(["kill", "point", "fault"] + ["full"] * self.options.fill)
        room = self.room(chance.randint(0, 4 << 20)) if kind == "full" else contextlib.nullcontext()
        environment = dict(os.environ)
        fault = ""
        if kind in ("point", "fault"):
            point = chance.choice(list(POINTS))
            action = "kill" if kind == "point" else chance.choice(FAULTS)
            if kind == "fault" and point in MAY_BE_SHORT and chance.random() < 0.3:
                action = f"short:{chance.randint(1, 5000)}"
            fault = f"{point}:{chance.randint(1, POINTS[point])}:{action}"
            environment["PENSTOCK_FAULT"] = fault
            if kind == "fault":
                self.found[action.partition(":")[0 if action.startswith("short") else 2] or action] += 1
        with room, subprocess.Popen([self.penstock, "train", "run.toml", "--json", "--resume", "auto"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
            if kind == "kill":
                time.sleep(chance.uniform(0, self.options.seconds))
                process.kill()
            out, err = process.communicate(timeout=120)
        self.done[kind] += 1
        self.killed(process.returncode == -signal.SIGKILL)
        self.ends[process.returncode] += 1
        if process.returncode not in CODES | {-signal.SIGKILL}:
            raise Violation(f"{fault or kind}: exit code {process.returncode}: {err}")
        return self.resumed(out, err, before, fault.startswith(("read:", "open:")))

    def processes(self, chance, before):
        words = [self.options.mpiexec, "-n", "2", "--oversubscribe", "--bind-to", "none", self.penstock, "train",
                 "run.toml", "--json", "--resume", "auto", "--set", "run.transport=mpi"]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_btl_vader_single_copy_mechanism="none")
        with subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment) as process:
            time.sleep(0.4 + chance.uniform(0, 2 * self.options.seconds))
            children = subprocess.getoutput(f"pgrep -P {process.pid} -x penstock").split()
            chosen = children if chance.random() < 0.5 else children[:1] if chance.random() < 0.5 else children[1:]
            for child in chosen:
                with contextlib.suppress(ProcessLookupError):  # the launcher ends one whose peer has died
                    os.kill(int(child), signal.SIGKILL)
            try:
                # On a busy machine there may be no process yet: then the run goes to its end.
                out, err = process.communicate(timeout=60 if chosen else 600)
            except subprocess.TimeoutExpired:
                # Open MPI's launcher may stand still when its processes have died.
                left = subprocess.run(["pgrep", "-P", str(process.pid), "-x", "-r", "D,R,S", "penstock"], check=False,
                                      stdout=subprocess.DEVNULL)
                process.kill()
                out, err = process.communicate()
                if left.returncode == 0:
                    raise Violation("a process outlives one that was killed") from None
                self.found["launchers stood still"] += 1
        self.done["rank"] += 1
        self.killed(bool(chosen))
        return self.resumed(out, err, before)

    def trial(self, number):
        chance = random.Random(f"{self.options.seed}/{number}")
        before = self.newest()
        if before == STEPS:
            shutil.rmtree(self.checkpoints)
            self.done["complete runs"] += 1
            before = 0
        if self.options.mpi and number % self.options.mpi == 0:
            before = self.processes(chance, before)
        else:
            before = self.one_process(chance, before)
        return self.judge(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("-n", type=int, default=2000, help="trials")
    parser.add_argument("--seed", default=None, help="of what happens when")
    parser.add_argument("--seconds", type=float, default=0.5, help="longest life before a SIGKILL")
    parser.add_argument("--mpi", type=int, default=0, help="each so many trials runs two processes; 0: none does")
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--folder", help="where to work: its disk is what is tried")
    parser.add_argument("--fill", action="store_true", help="fill that disk in some trials: a small one, for this alone")
    options = parser.parse_args()
    options.seed = options.seed or str(random.randrange(1 << 32))
    begin, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="penstock-kill-", dir=options.folder) as folder:
        trials = Trials(options, pathlib.Path(folder))
        for number in range(1, options.n + 1):
            try:
                trials.trial(number)
            except Violation as violation:
                wrong += 1
                print(f"trial {number} of seed {options.seed}: {violation}", flush=True)
                shutil.rmtree(trials.checkpoints, ignore_errors=True)
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(trials.done.items()))
    ends = ", ".join(f"{n} with {code}" for code, n in sorted(trials.ends.items()))
    found = ", ".join(f"{n} {what}" for what, n in sorted(trials.found.items()))
    print(f"seed {options.seed}: {options.n} trials ({counts}) in {time.monotonic() - begin:.0f} s; {found}; ended {ends}; "
          f"{wrong} violations")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
