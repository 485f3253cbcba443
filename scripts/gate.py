#!/usr/bin/env python3
"""The gate of a change that is to change nothing: what penstock answers, before and after it.

    scripts/gate.py record  FOLDER [--build build/dev]     answers of this build into FOLDER
    scripts/gate.py compare FOLDER [--build build/dev]     this build's against those; exit code 1 where one differs

Answers are exit codes, standard output under --json, plan files and loss bits: of every config and problem in
configs/ with every command that takes it, of every strategy with every other on small models, with much memory and with
little, of every scheduler on its own. Operators have described costs, not measured ones. Times that a clock measured are left
out, and paths of this checkout. A few minutes on two cores; --only TEXT takes the cases whose names hold TEXT, --skip TEXT
leaves such cases out, --jobs N runs so many at once.
"""

import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLOCKS = {"seconds", "blocked_seconds", "busy_seconds", "exposed_seconds", "idle_seconds", "copy_stall_seconds", "search_seconds",
          "step_seconds", "tokens_per_second", "samples_per_second", "mfu", "memory_limit", "provenance"}
SHORT = ["--set", "train.steps=3", "--set", "train.eval_every=0", "--set", "train.sample=0"]
LIMIT_S = 600


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                          env={**os.environ, "PENSTOCK_PLUGIN_PATH": "", "PENSTOCK_NO_PROFILE": "1"}, check=False)
    return done.returncode, done.stdout, done.stderr


def plugins(penstock):
    listed = json.loads(run([penstock, "plugins", "list", "--json"], ROOT)[1])["plugins"]
    kinds = {}
    for plugin in listed:
        kinds.setdefault(plugin["kind"], []).append(plugin["id"])
    return {kind: sorted(set(ids)) for kind, ids in kinds.items()}


def configs():
    """Configs that say what to plan, by their names below configs/; clusters/ are parts of others."""
    files = sorted((ROOT / "configs").rglob("*.toml"))
    return [f for f in files if f.parent.name != "clusters"]


def strategies(partitioner, scheduler, memopt):
    return ["--set", f"partitioner.use={partitioner}", "--set", f"scheduler.use={scheduler}",
            "--set", f"memopt.use={memopt}"]


def cases_of_configs():
    for file in configs():
        name = str(file.relative_to(ROOT / "configs"))
        yield f"plan {name}", ["plan", file, "-o", "plan.json"]
        yield f"simulate {name}", ["simulate", file]
        text = file.read_text()
        if "[compare]" in text and "papers" not in name:
            yield f"compare {name}", ["compare", file]
        if file.parent.name in ("configs", "problems") and "emulated" not in text:
            yield f"train {name}", ["train", file, *SHORT]


def cases_of_strategies(ids):
    """Every pair of strategies with a third one that goes with most; of a branching model fewer."""
    memory = [(p, "1f1b", m) for p in ids["partitioner"] for m in ids["memopt"]]
    order = [(p, s, "none") for p in ids["partitioner"] for s in ids["scheduler"]]
    order += [("chain-dp", s, m) for s in ids["scheduler"] for m in ids["memopt"]]
    for name, cap, threes in (("quickstart", "9 MiB", memory + order), ("mmt", "2500 KiB", memory)):
        file = ROOT / "configs" / f"{name}.toml"
        for three in sorted(set(threes)):
            for little in ("", cap):  # part of them fit there, part do not
                extra = ["--set", f"cluster.memory={little}"] if little else []
                yield (f"plan {name} {' '.join(three)} {little}".strip(),
                       ["plan", file, "-o", "plan.json", *strategies(*three), *extra])


def cases_of_losses(ids):
    file = ROOT / "configs" / "quickstart.toml"
    for scheduler in ids["scheduler"]:
        yield f"train quickstart {scheduler}", ["train", file, *SHORT, "--set", f"scheduler.use={scheduler}"]
    for memopt in ids["memopt"]:
        yield (f"train quickstart {memopt}",
               ["train", file, *SHORT, "--set", f"memopt.use={memopt}", "--set", "cluster.memory=9 MiB"])


def cases_of_problems(ids):
    for file in sorted((ROOT / "configs" / "problems").glob("*.json")):
        for kind, command in (("partitioner", "partition"), ("memopt", "memopt")):
            for one in ids[kind]:
                yield f"{command} {one} {file.name}", [command, one, "--problem", file]
    for scheduler in ids["scheduler"]:
        for devices, microbatches, comm in ((2, 4, "0"), (4, 8, "0"), (4, 12, "0.5")):
            yield (f"schedule {scheduler} {devices} {microbatches} {comm}",
                   ["schedule", scheduler, "--devices", str(devices), "--microbatches", str(microbatches),
                    "--comm", comm])


def strip(value):
    """Without what a clock measured, and when and by which files."""
    if isinstance(value, dict):
        return {key: strip(one) for key, one in value.items() if key not in CLOCKS}
    return [strip(one) for one in value] if isinstance(value, list) else value


def lines_of(text):
    """One line a value, so that a difference is found and read."""
    out = []
    for line in text.splitlines():
        try:
            out += json.dumps(strip(json.loads(line)), indent=0, sort_keys=True).splitlines()
        except json.JSONDecodeError:
            out.append(line)
    return "\n".join(out)


def answer(penstock, arguments):
    with tempfile.TemporaryDirectory() as folder:
        try:
            code, out, err = run([penstock, *map(str, arguments), "--json"], folder)
        except subprocess.TimeoutExpired:
            return f"no answer within {LIMIT_S} s\n"
        plan = pathlib.Path(folder) / "plan.json"
        text = f"exit {code}\n{lines_of(out)}\n{lines_of(plan.read_text()) if plan.exists() else ''}"
        if code < 0:
            text += err
    return re.sub(re.escape(str(ROOT)) + r"/?", "", text)


def first_difference(before, after):
    olds, news = before.splitlines(), after.splitlines()
    for at, (old, new) in enumerate(zip(olds, news)):
        if old != new:
            return f"line {at + 1}: {old[:90]} -> {new[:90]}"
    return f"{len(olds)} lines -> {len(news)} lines"


def file_of(folder, name):
    return folder / (re.sub(r"[^A-Za-z0-9.-]+", "_", name) + ".gz")


def handle(mode, folder, name, text):
    """Records an answer, or says how it differs from the recorded one."""
    file = file_of(folder, name)
    if mode == "record":
        file.write_bytes(gzip.compress(text.encode(), mtime=0))
        return None
    if not file.exists():
        return "not recorded"
    before = gzip.decompress(file.read_bytes()).decode()
    return None if before == text else first_difference(before, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["record", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "dev")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="\0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    penstock = given.build.resolve() / "penstock"
    if not penstock.exists():
        sys.exit(f"gate.py: {penstock} is not there; build it, or name the build with --build")
    given.folder.mkdir(parents=True, exist_ok=True)
    ids = plugins(penstock)
    cases = [case for cases in (cases_of_configs(), cases_of_problems(ids), cases_of_losses(ids),
                                cases_of_strategies(ids)) for case in cases if given.only in case[0] and given.skip not in case[0]]
    differ = 0
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        answers = pool.map(lambda case: answer(penstock, case[1]), cases)
        for (name, _), text in zip(cases, answers):
            said = handle(given.mode, given.folder, name, text)
            if said is not None:
                differ += 1
                print(f"{name}: {said}", flush=True)
    if given.mode == "record":
        print(f"{len(cases)} answers recorded in {given.folder}")
    else:
        print(f"{len(cases)} answers, {differ} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
