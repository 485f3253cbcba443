#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests labelled gpu, without CTest: a GPU machine may have none.

  scripts/gpu_tests.py list BUILD           JSON: name, command, environment, seconds allowed
  scripts/gpu_tests.py run [--only NAMES] [--limit S] [--within S] FILE [PREFIX...]
                                            runs them; PREFIX: a program to run them under

--only: names with wildcards, separated by commas. --limit: seconds for each test, and never more
than it allows itself. --within: seconds for all; what has not begun by then is not run.

Exit codes of run: 0 all passed, 1 one failed, was skipped or was not run, or there was none, 2 the
words are wrong."""
import argparse
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import time

SKIPPED = 77


def listed(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "-L", "^gpu$", "--show-only=json-v1"],
                           capture_output=True, text=True, check=True).stdout
    tests = []
    for test in json.loads(shown)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tests.append({"name": test["name"], "command": test["command"],
                      "environment": properties.get("ENVIRONMENT", []),
                      "seconds": properties.get("TIMEOUT", 600)})
    return tests


class Ending:
    """SIGTERM, whenever it comes, ends all that the running test started; main ends after the output."""
    asked = False
    process = None

    @classmethod
    def ask(cls, *_):
        cls.asked = True
        if cls.process:
            with contextlib.suppress(ProcessLookupError): # has just ended
                os.killpg(cls.process.pid, signal.SIGKILL)


def output_of(command, environment, seconds):
    """Exit code and output; 124 where time ran out, and all that it started has ended."""
    with subprocess.Popen(command, env=environment, text=True, errors="replace",
                          start_new_session=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        Ending.process = process
        if Ending.asked: # before the line above
            Ending.ask()
        try:
            said, code = process.communicate(timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, code = process.communicate()[0], 124
        Ending.process = None
    if Ending.asked:
        print(said, flush=True)
        sys.exit(1)
    return said, code


def one(test, prefix, seconds):
    environment = dict(os.environ, **dict(e.split("=", 1) for e in test["environment"]))
    begin = time.monotonic()
    try:
        said, code = output_of(prefix + test["command"], environment, seconds)
    except OSError as failure:
        said, code = str(failure), 127
    verdict = {0: "passed", SKIPPED: "skipped", 124: "timeout"}.get(code, f"failed ({code})")
    print(f"{test['name']:<28} {verdict:<12} {time.monotonic() - begin:7.1f} s", flush=True)
    if code != 0:
        print("\n".join("    " + line for line in said.splitlines()[-60:]), flush=True)
    return verdict


def run(args):
    signal.signal(signal.SIGTERM, Ending.ask)
    with open(args.file, encoding="utf-8") as file:
        tests = json.load(file)
    names = [name for only in args.only or ["*"] for name in only.split(",")]
    chosen = [t for t in tests if any(fnmatch.fnmatchcase(t["name"], name) for name in names)]
    end = time.monotonic() + args.within
    verdicts = []
    for test in chosen:
        seconds = min(test["seconds"], args.limit, end - time.monotonic())
        if seconds <= 0:
            print(f"{test['name']:<28} not run", flush=True)
            verdicts.append("not run")
        else:
            verdicts.append(one(test, args.prefix, seconds))
    passed, skipped, left = (verdicts.count(word) for word in ("passed", "skipped", "not run"))
    print(f"tests: {passed} passed, {len(verdicts) - passed - skipped - left} failed, "
          f"{skipped} skipped" + (f", {left} not run" if left else ""))
    if skipped > 0:
        print("a GPU is here, so no test may be skipped")
    if not chosen:
        print("no test has such a name; there are " + ", ".join(t["name"] for t in tests))
    sys.exit(0 if passed == len(verdicts) > 0 else 1)


def seconds_above_zero(text):
    seconds = float(text)
    if not seconds > 0:
        raise ValueError
    return seconds


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False, allow_abbrev=False)
    words = parser.add_subparsers(dest="word", required=True)
    word = words.add_parser("list", usage=__doc__, add_help=False)
    word.add_argument("build")
    word = words.add_parser("run", usage=__doc__, add_help=False, allow_abbrev=False)
    word.add_argument("--only", action="append")
    word.add_argument("--limit", type=seconds_above_zero, default=float("inf"))
    word.add_argument("--within", type=seconds_above_zero, default=float("inf"))
    word.add_argument("file")
    word.add_argument("prefix", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.word == "list":
        print(json.dumps(listed(args.build), indent=1))
    else:
        run(args)


main()
