#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ratchet: numbers of the tree that only go down.

    scripts/house.py [--build build/dev] [--check]

scripts/house.json holds the limit of each. A number above its limit is exit code 1; a feature that needs more raises the
limit in its own commit, which says why. A number below its limit lowers it in that file, for the commit that earned it;
with --check the file stays as it is.

    lines             those of `wc -l`, comments and blank lines included, by folder; product is all but tests and bench
    circle            files of core and verify in the largest set in which each reaches every other by calls
    folder_circles    sets of top folders that include each other
    ties              arrows by calls or tables from a file of core to a file of verify, train, models or tools
    verify_ties       the same from verify to any folder but core/base, core/graph and core/plan
    proof_shares      functions of core/graph and core/plan that the proof uses: by name, so that it only loses them
    riddles           comments of core and verify without a subject: "Of ...", "What ...", "The same ..."
    short_static      static functions of core and verify whose names have at most six letters: no verb and noun
    unlisted          sources that the README of their folder omits from its order of reading
    st                variables of the product called `st`, where others say `status`

Calls and tables are the symbols of a build's objects.
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import re
import signal
import subprocess
import sys

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads the first lines only is served
ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = ROOT / "scripts/house.json"
CODE = {".c", ".h", ".cpp", ".cu", ".cuh", ".inc", ".py", ".sh", ".cmake"}
C = {".c", ".h", ".cpp"}
CASES = {".txt"}  # test cases as text
CORE = {"core", "verify"}
DIVIDED = CORE | {"train"}  # folders that are counted by their own folders, too
NO_CORE = {"verify", "train", "models", "tools"}
ROOTS = ["include", "core", "verify", "train", "models", "tools/penstock", "plugins"]  # of quoted includes
RIDDLE = re.compile(r"/\* (?:Of|What|The same|Whether|Those|As above)\b")
STATIC = re.compile(r"^static [^=;(]*?\b([a-z]\w*)\(", re.MULTILINE)
ST = re.compile(r"\bpst_status st\b")
INCLUDE = re.compile(r'^#\s*include ["<]([^">]+)[">]', re.MULTILINE)


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePath(name) for name in names.split("\0") if name]


def is_code(path):
    if path.parts[0] == "tests" and "corpus" not in path.parts and path.suffix in CASES:
        return True
    return path.suffix in CODE or path.name == "CMakeLists.txt"


def top(path):
    return path.parts[0] if len(path.parts) > 1 else "."


def count(texts):
    """Numbers that the text of the tree gives."""
    numbers = collections.Counter(riddles=0, short_static=0, st=0)
    for path, text in texts.items():
        folder, n = top(path), text.count("\n")
        numbers[folder] += n if folder not in CORE or path.suffix in C else 0
        if folder in DIVIDED and len(path.parts) > 2 and path.suffix in C:
            numbers["/".join(path.parts[:2])] += n
        if folder in {"tests", "bench"}:
            continue
        numbers["product"] += n
        if path.suffix in C:
            numbers["st"] += len(ST.findall(text))
        if path.suffix in C and folder in CORE:
            numbers["riddles"] += len(RIDDLE.findall(text))
            numbers["short_static"] += sum(len(name) <= 6 for name in STATIC.findall(text))
    return numbers


def includes(texts):
    """top folder -> top folders whose headers its files include."""
    graph = collections.defaultdict(set)
    names = {str(path) for path in texts}
    for path, text in texts.items():
        for header in INCLUDE.findall(text):
            found = [f"{root}/{header}" for root in ROOTS if f"{root}/{header}" in names]
            if found and not (path.parent / header).as_posix() in names:
                graph[top(path)].add(found[0].split("/")[0])
    return {folder: used - {folder} for folder, used in graph.items() if folder not in {"tests", "bench"}}


def unlisted(paths):
    for path in paths:
        readme = ROOT / path.parent / "README.md"
        if path.suffix in {".c", ".cpp", ".cu"} and readme.exists() and "reading order" in readme.read_text():
            words = re.findall(r"[\w*]*\w[\w*]*", readme.read_text())
            if not any(fnmatch.fnmatch(path.stem, word) for word in words):
                yield path


def symbols(build):
    """What each object of core, verify, train, models and tools needs and defines: file -> symbols, symbol -> (file, kind)."""
    needs, defines = collections.defaultdict(set), {}
    for folder in sorted(CORE | NO_CORE):
        for path in sorted((build / folder).rglob("*.o")):
            name = re.sub(r"CMakeFiles/[^/]*\.dir/", "", str(path.relative_to(build))).removesuffix(".o")
            if not (ROOT / name).exists():
                continue  # left by an older tree
            for line in subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout.splitlines():
                symbol, kind = line.split()[:2]
                if kind == "U":
                    needs[name].add(symbol)
                elif kind in "TDBR":
                    defines[symbol] = name, kind
    if not defines:
        sys.exit(f"house.py: no objects below {build}; build first, or name another folder with --build")
    return needs, defines


def uses(needs, defines, kinds="TDBR"):
    """core/plan/lower.c -> files whose symbols of these kinds it uses."""
    return {name: {defines[s][0] for s in wanted if s in defines and defines[s][1] in kinds} - {name}
            for name, wanted in needs.items()}


def shares(needs, defines):
    return sorted({s for name, wanted in needs.items() if name.startswith("verify/prove/") for s in wanted
                   if defines.get(s, [""])[0].startswith(("core/graph/", "core/plan/"))})


def circles(graph):
    """Sets of more than one that reach each other, the largest first."""
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for name in graph.get(todo.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        reach[start] = seen
    sets = {frozenset([a] + [b for b in reach[a] if a in reach.get(b, ())]) for a in graph if a in reach[a]}
    return sorted((s for s in sets if len(s) > 1), key=lambda s: (-len(s), sorted(s)))


def measure(build):
    texts = {path: (ROOT / path).read_text(errors="replace") for path in tracked() if is_code(path)}
    numbers, (needs, defines) = count(texts), symbols(build)
    inner = {a: {b for b in used if b.startswith(("core/", "verify/"))}
             for a, used in uses(needs, defines, "T").items() if a.startswith(("core/", "verify/"))}
    files, folders, graph = circles(inner), circles(includes(texts)), uses(needs, defines)
    ties = [(a, b) for a, used in graph.items() if a.startswith("core/") for b in used if not b.startswith("core/")]
    below = [(a, b) for a, used in graph.items() if a.startswith("verify/") for b in used
             if not b.startswith(("core/base/", "core/graph/", "core/plan/", "verify/"))]
    for what, sets in ("circle", files), ("circle of folders", folders):
        for members in sets:
            print(f"{what}: {' '.join(sorted(members))}")
    for tie in sorted(ties + below):
        print("tie: {} -> {}".format(*tie))
    omitted = list(unlisted(texts))
    for path in omitted:
        print(f"not in the README of its folder: {path}")
    numbers.update(circle=len(files[0]) if files else 0, folder_circles=len(folders), ties=len(ties), verify_ties=len(below),
                   unlisted=len(omitted))
    return numbers, shares(needs, defines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--check", action="store_true", help="leave scripts/house.json as it is")
    arguments = parser.parse_args()
    limits = json.loads(LIMITS.read_text())
    numbers, shared = measure(arguments.build)
    strangers = sorted(set(shared) - set(limits.pop("proof_shares")))
    for name in strangers:
        print(f"the proof uses {name}, which makes plans, too")
    late = bool(strangers)
    for name in sorted(set(limits) | set(numbers)):
        limit = limits.get(name, 0)
        word = "above its limit" if numbers[name] > limit else "below its limit" if numbers[name] < limit else ""
        print(f"{numbers[name]:8,}  {name}" + (f"  {word}, {limit:,}" if word else ""))
        late = late or numbers[name] > limit
    if not late and not arguments.check:
        limits = {name: n for name, n in sorted(numbers.items()) if n}
        LIMITS.write_text(json.dumps({**limits, "proof_shares": shared}, indent=1) + "\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
