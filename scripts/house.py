#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large the tree is, and which files call each other in circles.

    scripts/house.py [--build build/dev] [--circles]

Lines are those of `wc -l`, comments and blank lines included. Product is all but tests and bench. Circles are counted within
core, from the symbols of the objects of a build: a set of files each of which reaches every other by calls. Exit code 1 where a limit is passed.
"""
import argparse
import collections
import pathlib
import signal
import subprocess
import sys

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads the first lines only is served
ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".c", ".h", ".cpp", ".cu", ".cuh", ".inc", ".py", ".sh", ".cmake"}
CASES = {".txt"}  # test cases as text
LIMITS = {"core": 48000, "product": 125000, "tests": 70000}
MOST_IN_CIRCLE = 3


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePath(name) for name in names.split("\0") if name]


def is_code(path):
    if path.parts[0] == "tests" and "corpus" not in path.parts and path.suffix in CASES:
        return True
    return path.suffix in CODE or path.name == "CMakeLists.txt"


def count():
    lines = collections.Counter()
    for path in filter(is_code, tracked()):
        n = (ROOT / path).read_bytes().count(b"\n")
        top = path.parts[0] if len(path.parts) > 1 else "."
        lines[top] += n
        if path.suffix in {".c", ".h", ".cpp"} and top == "core":
            lines["core, C"] += n
        if top not in {"tests", "bench"}:
            lines["product"] += n
    return lines


def print_lines():
    """Whether a limit is passed."""
    lines, late = count(), False
    lines["core"] = lines.pop("core, C")
    for name, n in lines.most_common():
        limit = LIMITS.get(name)
        late = late or (limit is not None and n > limit)
        print(f"{n:8,}  {name}" + (f"  (at most {limit:,})" if limit else ""))
    return late


def calls(build):
    """file -> files of core that it calls."""
    objects = sorted((build / "core").rglob("*.o"))
    if not objects:
        sys.exit(f"house.py: no objects below {build / 'core'}; build first, or name another folder with --build")
    defines, needs = {}, collections.defaultdict(set)
    for path in objects:
        name = str(path.relative_to(build / "core")).split(".dir/")[-1].removesuffix(".o")
        for line in subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout.splitlines():
            symbol, kind = line.split()[:2]
            if kind == "U":
                needs[name].add(symbol)
            elif kind == "T":
                defines[symbol] = name
    return {name: {defines[s] for s in wanted if s in defines} - {name} for name, wanted in needs.items()}


def circles(graph):
    """Strongly connected sets of more than one file: those that reach each other."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--circles", action="store_true", help="these alone")
    arguments = parser.parse_args()
    late = not arguments.circles and print_lines()
    found = circles(calls(arguments.build))
    for files in found:
        print(f"circle of {len(files)}: {' '.join(sorted(files))}")
    late = late or any(len(files) > MOST_IN_CIRCLE for files in found)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
