#!/usr/bin/env python3
"""Runs end-to-end cases that are text: what is typed, and what must come of it.

    run_cases.py --penstock build/dev/penstock --build build/dev --plugins DIR FILE [TITLE]

A file has cases, and before the first one what all of them use. Each case begins with "== its title" and goes on with
lines of the following kinds; what stands deeper below a line belongs to it.

    write NAME             the lines below are the file NAME in the scratch folder, in which commands run
    text NAME              the lines below are the value of NAME
    let STATEMENT          a statement of Python: let least = json.error.enough_bytes
    python                 the lines below are Python, for what one statement cannot say
    $ [VAR=X] penstock ... runs the program (PENSTOCK), or another one; words are those of a shell, lines below are more words
    exit N                 directly below: the exit code, * for any; without it 0
    fails N KIND WORDS     directly below, for exit: the command refuses, as text and with --json, and says so
    out: TEXT   err: TEXT  the stream holds this text ("..." is a Python string)
    out! TEXT   err! TEXT  the stream does not hold it
    json: PATTERN          the answer is so: a dict holds at least these keys, a list just these values, ... is anything
    is EXPRESSION          is true
    for NAME in EXPRESSION the lines below, for each
    define WORD A B ...    the lines below are what "WORD a | b | ..." does in this file
    needs EXPRESSION       the rest of the case is left out where this is false
    use FILE               what the file beside this one says stands here
    # ...                  nothing

${EXPRESSION} stands for its value in every line; as a word of a command @{EXPRESSION} stands for the words in it. Expressions
are Python's and see what let, text, for and define named, the last command's pid, code, out, err, json (keys are attributes) and
lines (of JSON), and the functions below. Exit code 0: all is as it should be; 77: nothing was tried.
"""

import argparse
import ast
import json
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

LIMIT_S = 120
SHOWN = 1500


class Wrong(Exception):
    """What was found is not what the file says."""


class Skip(Exception):
    """This machine lacks what the case needs."""


class Object(dict):
    """A JSON object whose keys are attributes."""

    def __getattr__(self, key):
        if key not in self:
            raise Wrong(f'no "{key}" among {", ".join(self)}')
        return self[key]


class Line:
    """One line with what belongs to it."""

    def __init__(self, number, text):
        self.number, self.text, self.raw, self.below = number, text, [], []


def read_lines(path):
    """The file as a tree by indentation."""
    root = Line(0, "")
    stack = [(-1, root)]
    for number, raw in enumerate(path.read_text().split("\n"), 1):
        text = raw.strip()
        depth = len(raw) - len(raw.lstrip())
        for at, line in stack[1:]:
            if not text or depth > at:
                line.raw.append(raw)
        if text and text != "#" and not text.startswith("# "):
            while stack[-1][0] >= depth:
                stack.pop()
            line = Line(number, text)
            stack[-1][1].below.append(line)
            stack.append((depth, line))
    return root.below


def one_object(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise Wrong(f"a key stands twice: {keys}")
    return Object(pairs)


def parse(text):
    return json.loads(text, object_pairs_hook=one_object)


class About:
    """A number that may be off by a part."""

    def __init__(self, value, part):
        self.value, self.part = value, part

    def __eq__(self, other):
        return isinstance(other, (int, float)) and math.isclose(self.value, other, rel_tol=self.part)

    def __repr__(self):
        return f"about({self.value!r}, {self.part!r})"


def difference(pattern, value, where="json"):
    """The first place in which the value is not what the pattern asks for; None where there is none."""
    if pattern is ...:
        return None
    if isinstance(pattern, dict):
        for key, part in pattern.items():
            if not isinstance(value, dict) or key not in value:
                return f"{where} has no {key!r}: {value!r}"
            found = difference(part, value[key], f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(pattern, list):
        if not isinstance(value, list) or len(value) != len(pattern):
            return f"{where} should have {len(pattern)} values: {value!r}"
        found = (difference(p, v, f"{where}[{i}]") for i, (p, v) in enumerate(zip(pattern, value)))
        return next((text for text in found if text), None)
    same = pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
    return None if same else f"{where} is {value!r}, should be {pattern!r}"


def row(text, name):
    """The line with this name from there on, its blanks brought down to one."""
    if name not in text:
        raise Wrong(f'no "{name}" in:\n{text}')
    return " ".join(text[text.index(name):].split("\n")[0].split())


def problem(nodes, edges=None, transfer=None, graph=None, **rest):
    """A file for partition and memopt: dicts of nodes, pairs of their names (none: a chain), bytes on each, the rest."""
    if edges is None:
        edges = [(a["name"], b["name"]) for a, b in zip(nodes, nodes[1:])]
    links = [{"from": a, "to": b} | ({} if transfer is None else {"bytes": transfer}) for a, b in edges]
    whole = (graph or {"batch": 1}) | {"nodes": nodes, "edges": links}
    return json.dumps({"format": "penstock-problem", "version": 1, **rest, "graph": whole})


def blocks(line):
    return textwrap.dedent("\n".join(line.raw)).strip("\n") + "\n" if line.raw else ""


class Runner:
    def __init__(self, options, folder):
        self.options, self.folder, self.done = options, folder, None
        self.rules, self.ran = {}, ""
        self.names = {
            "PENSTOCK": options.penstock, "MPIEXEC": options.mpiexec, "BUILD": options.build, "PLUGINS": options.plugins,
            "SOURCE": str(options.source), "GALLERY": f"{options.build}/tests/gallery", "ISOLATE": f"{options.build}/tests/isolate",
            "SANITIZED": options.sanitized, "about": lambda value, part=1e-12: About(value, part),
            "near": lambda a, b, part=1e-12: math.isclose(a, b, rel_tol=part),
            "read": lambda name: (folder / name).read_text(),
            "load": lambda name: parse((folder / name).read_text()),
            "save": lambda name, value: self.put(name, json.dumps(value)),
            "put": self.put,
            "path": lambda name: folder / name,
            "copy": lambda path, name: shutil.copy(path, folder / name),
            "problem": problem, "parse": parse, "row": row, "random": random, "re": re, "os": os,
            "subprocess": subprocess, "time": time, "math": math,
        }

    def put(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def value(self, expression):
        return eval(expression, self.names)  # pylint: disable=eval-used

    def fill(self, text):
        return re.sub(r"\$\{([^{}]*)\}", lambda m: str(self.value(m[1])), text)

    def words(self, line):
        """The words of a command: values become part of a word, never more than one, but those of @."""
        text = " ".join([line.text[2:]] + [part.strip() for part in line.raw])
        spots = re.findall(r"[$@]\{[^{}]*\}", text)
        for i, spot in enumerate(spots):
            text = text.replace(spot, f"\x01{i}\x02", 1)
        words = []
        for word in shlex.split(text):
            whole = re.fullmatch("\x01(\\d+)\x02", word)
            if whole and spots[int(whole[1])].startswith("@"):
                words += shlex.split(str(self.value(spots[int(whole[1])][2:-1])))
            else:
                words.append(re.sub("\x01(\\d+)\x02", lambda m: str(self.value(spots[int(m[1])][2:-1])), word))
        return words

    def run(self, words, code):
        """Runs it; both streams and the code become names."""
        environment = os.environ | {"PENSTOCK_NO_PROFILE": "1"}  # equal plans on all machines
        self.ran = "$ " + shlex.join(words)
        while re.match(r"\w+=", words[0]):
            name, words = words[0].partition("="), words[1:]
            environment[name[0]] = name[2]
            if not name[2]:
                del environment[name[0]]
        program = {"penstock": self.names["PENSTOCK"], "python3": sys.executable}.get(words[0], words[0])
        with subprocess.Popen([program, *words[1:]], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment, stdin=subprocess.DEVNULL) as process:
            try:
                streams = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Wrong(f"the command did not end within {LIMIT_S} s") from None
        out, err = (stream.decode("utf-8", "surrogateescape") for stream in streams)
        self.done = process.returncode if process.returncode >= 0 else 128 - process.returncode, out, err
        self.names["pid"] = process.pid
        self.names.update(code=self.done[0], out=out, err=err, json=None, lines=[])
        if out.startswith(("{", "[")):
            try:
                self.names["json"] = parse(out)
            except json.JSONDecodeError:
                self.names["lines"] = [parse(text) for text in out.splitlines()]
        if code != "*" and self.done[0] != self.value(str(code)):
            raise Wrong(f"exit code {self.done[0]}, should be {code}")

    def refused(self, words, rest):
        code, kind, text = (rest.split(None, 2) + [""])[:3]
        self.run(words, code)
        plain = self.done[2]
        for part in ("penstock: ", text):
            self.hold(plain, part, "err")
        self.run(words + ["--json"], code)
        error = (self.names["json"] or {}).get("error")
        if difference({"code": int(code), "kind": kind, "message": ...}, error):
            raise Wrong(difference({"code": int(code), "kind": kind, "message": ...}, error, "error"))
        self.hold(self.done[1], text, "out")
        self.names["err"] = plain

    def hold(self, stream, text, name, holds=True):
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            text = ast.literal_eval(text)
        if (text in stream) != holds:
            raise Wrong(f"{name} should {'' if holds else 'not '}hold {text!r}")

    def claim(self, text):
        if not self.value(text):
            node = ast.parse(text, mode="eval").body
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            raise Wrong("\n".join([f"false: {text}"] + [
                f"  {ast.unparse(side)} = {self.value(ast.unparse(side))!r}"[:SHOWN] for side in sides
                if not isinstance(side, ast.Constant)]))

    def each(self, line, text):
        name, values = re.fullmatch(r"([\w, ()]+?) in (.*)", text).groups()
        for value in self.value(values):
            self.names["each_"] = value
            exec(f"{name} = each_", self.names)  # pylint: disable=exec-used
            self.block(line.below)

    def rule(self, line, word, rest):
        names, below = self.rules[word]
        parts = [part.strip() for part in re.split(r"(?:^|\s)\|(?=\s|$)", rest)] if rest else []
        if len(parts) > len(names):
            raise Wrong(f"{word} takes {len(names)} parts, not {len(parts)}")
        before = {name: self.names.get(name) for name in names}
        self.names.update({name: parts[i] if i < len(parts) else "" for i, name in enumerate(names)})
        self.block(below)
        self.names.update(before)

    def step(self, line, after):
        word, _, rest = line.text.partition(" ")
        rest = rest.strip()
        if word == "$":
            how = re.match(r"(exit|fails) (.*)", after.text if after else "")
            if how and how[1] == "fails":
                self.refused(self.words(line), self.fill(" ".join([how[2], *map(str.strip, after.raw)]).strip()))
            else:
                self.run(self.words(line), self.fill(how[2]) if how else 0)
        elif word in ("write", "text", "define", "for"):
            rest = self.fill(rest)
            if word == "write":
                self.names["put"](rest, self.fill(blocks(line)))
            elif word == "text":
                self.names[rest] = self.fill(blocks(line)).rstrip("\n")
            elif word == "define":
                self.rules[rest.split()[0]] = rest.split()[1:], line.below
            else:
                self.each(line, rest)
        elif word == "python":
            exec(blocks(line), self.names)  # pylint: disable=exec-used
        elif word not in ("exit", "fails"):
            self.check(line, word, " ".join([rest] + [part.strip() for part in line.raw]).strip())

    def check(self, line, word, rest):
        if word in self.rules:
            self.rule(line, word, self.fill(rest))
        elif word in ("out:", "err:", "out!", "err!"):
            self.hold(self.names[word[:3]], self.fill(rest), word[:3], word[3] == ":")
        elif word == "json:":
            found = difference(self.value(self.fill(rest)), self.names["json"])
            if found:
                raise Wrong(found)
        elif word == "is":
            self.claim(self.fill(rest))
        elif word == "let":
            exec(textwrap.dedent(self.fill(rest)), self.names)  # pylint: disable=exec-used
        elif word == "use":
            self.block(read_lines(self.options.file.parent / rest))
        elif word == "needs":
            if not self.value(self.fill(rest)):
                raise Skip(rest)
        else:
            raise Wrong(f'no kind of line is "{word}"')

    def block(self, lines):
        for i, line in enumerate(lines):
            try:
                self.step(line, lines[i + 1] if i + 1 < len(lines) else None)
            except Exception as error:
                error.where = getattr(error, "where", []) + [line]
                raise

    def explain(self, title, error):
        """Where, what was run, what was expected and what came."""
        text = [f"{self.options.file}:{line.number}: {line.text}" for line in reversed(error.where)]
        why = str(error) if isinstance(error, Wrong) else repr(error)
        text += [f'case "{title}": {why[:SHOWN]}', self.ran]
        for name in ("out", "err"):
            stream = self.names.get(name) or ""
            text.append(f"--- {name}\n{stream[:SHOWN]}{' ...' if len(stream) > SHOWN else ''}")
        return "\n".join(text).encode("utf-8", "replace").decode()


def split_cases(lines):
    """What all use, and the cases: titles and lines."""
    shared, cases = [], []
    for line in lines:
        if line.text.startswith("== "):
            cases.append((line.text[3:], []))
        else:
            (cases[-1][1] if cases else shared).append(line)
    return shared, cases


def run_file(options, folder):
    """How many cases were tried, and how many of them went wrong."""
    runner = Runner(options, folder)
    shared, cases = split_cases(read_lines(options.file))
    runner.block(shared)
    kept, tried, wrong = dict(runner.names), 0, 0
    for title, lines in cases:
        if options.title not in title:
            continue
        runner.names.clear()
        runner.names.update(kept)
        try:
            runner.block(lines)
            tried += 1
        except Skip as skip:
            print(f'left out: "{title}" needs {skip}')
        except Exception as error:  # pylint: disable=broad-except
            tried, wrong = tried + 1, wrong + 1
            print(runner.explain(title, error))
    return tried, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--mpiexec", default="", help="the launcher, where this build has MPI")
    parser.add_argument("--sanitized", action="store_true", help="this build has sanitizers")
    parser.add_argument("--all-wrong", action="store_true", help="each case must go wrong: the runner's own test")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("title", nargs="?", default="")
    options = parser.parse_args()
    for name in ("penstock", "build", "plugins"):  # cases run in folders of their own
        path = pathlib.Path(getattr(options, name)).resolve()
        if not path.exists():
            parser.error(f"--{name}: {path} does not exist")
        setattr(options, name, str(path))
    options.source = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        try:
            tried, wrong = run_file(options, pathlib.Path(folder))
        except Skip as skip:
            print(f"left out: all of it needs {skip}")
            return 77
    print(f"{tried} cases, {wrong} wrong")
    if tried == 0:
        return 77
    return int(wrong != (tried if options.all_wrong else 0))


if __name__ == "__main__":
    sys.exit(main())
