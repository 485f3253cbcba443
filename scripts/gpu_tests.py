#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests labelled gpu, without CTest: a GPU machine may have none.

  scripts/gpu_tests.py list BUILD           JSON: name, command, environment, seconds allowed
  scripts/gpu_tests.py run FILE [PREFIX...] runs them; PREFIX: a program to run them under

Exit codes of run: 0 all passed, 1 one failed or was skipped, or there was none."""
import json
import os
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


def one(test, prefix):
    environment = dict(os.environ, **dict(e.split("=", 1) for e in test["environment"]))
    begin = time.monotonic()
    try:
        done = subprocess.run(prefix + test["command"], env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=test["seconds"])
        code, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        out = late.stdout or ""
        code, said = 124, out.decode(errors="replace") if isinstance(out, bytes) else out
    except OSError as failure:
        code, said = 127, str(failure)
    verdict = {0: "passed", SKIPPED: "skipped", 124: "timeout"}.get(code, f"failed ({code})")
    print(f"{test['name']:<28} {verdict:<12} {time.monotonic() - begin:7.1f} s", flush=True)
    if code != 0:
        print("\n".join("    " + line for line in said.splitlines()[-60:]), flush=True)
    return verdict


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("list", "run"):
        sys.exit(__doc__)
    if sys.argv[1] == "list":
        print(json.dumps(listed(sys.argv[2]), indent=1))
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        tests = json.load(file)
    verdicts = [one(test, sys.argv[3:]) for test in tests]
    passed, skipped = verdicts.count("passed"), verdicts.count("skipped")
    print(f"tests: {passed} passed, {len(verdicts) - passed - skipped} failed, {skipped} skipped")
    if skipped > 0:
        print("a GPU is here, so no test may be skipped")
    sys.exit(0 if passed == len(verdicts) > 0 else 1)


main()
