#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What of the GPU benchmarks can be tested without a GPU:  bench/gpu/selftest.py [BUILD [RATES]]

Counts of operations against numbers worked out by hand, tables, arguments; with BUILD a tiny model
on the cpu device, and PyTorch on the CPU where it is installed. RATES: bench-gpu-rates, where it is
built."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import common
import table
import throughput

HERE = pathlib.Path(__file__).resolve().parent
BUILD = RATES = None


def call(*words):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True,
                          check=False)


class Counts(unittest.TestCase):
    """GPT-2 as published, 50257 tokens: 124,439,808 and 354,823,168 parameters."""

    def test_parameters(self):
        small, _ = throughput.split(throughput.MODELS["gpt2-124m"])
        medium, _ = throughput.split(throughput.MODELS["gpt2-350m"])
        self.assertEqual(common.gpt_parameters(small | {"vocab": 50257}), 124439808)
        self.assertEqual(common.gpt_parameters(medium | {"vocab": 50257}), 354823168)
        # 47 more rows of 768
        self.assertEqual(common.gpt_parameters(small), 124475904)

    def test_flops(self):
        # 6 * 124,475,904 = 746,855,424; 6 * 12 * 768 * 1024 = 56,623,104
        small, _ = throughput.split(throughput.MODELS["gpt2-124m"])
        self.assertEqual(common.flops_per_token(small), 803478528)
        # at 400,000 tokens/s: 321.4 TFLOP/s of 989
        self.assertAlmostEqual(common.mfu(small, 400e3, common.peak_of("NVIDIA H100 80GB HBM3")),
                               0.32497, places=5)
        self.assertEqual([common.peak_of(f"NVIDIA {name}") for name in
                          ("H100 NVL", "H100 PCIe", "H100 80GB HBM3", "H200", "GH200 480GB")],
                         [835e12, 756e12, 989e12, 989e12, 989e12])
        self.assertIsNone(common.mfu(small, 1, common.peak_of("another card")))
        self.assertIsNone(common.peak_of(None))


class Tables(unittest.TestCase):
    def test_cells(self):
        text = table.table("throughput", [
            {"model": "m", "side": "penstock", "step_s": 0.25, "tokens_per_s": 262144.0,
             "mfu": None, "ratio": 1.0},
            {"model": "m", "side": "torch.compile", "step_s": 0.2, "tokens_per_s": 327680.0,
             "mfu": None, "ratio": 0.8}])
        self.assertEqual(text, "| model | side | step | tokens/s | penstock is |\n"
                               "|---|---|---|---|---|\n"
                               "| m | penstock | 0.2500 s | 262,144 | 1.00 x |\n"
                               "| m | torch.compile | 0.2000 s | 327,680 | 0.80 x |")

    def test_the_last_round_counts(self):
        rows = [{"model": m, "side": s, "tokens_per_s": t, "dtype": "bf16"}
                for m, s, t in (("a", "x", 1), ("a", "y", 2), ("a", "x", 3), ("a", "y", 4),
                                ("b", "x", 5))]
        self.assertEqual([row["tokens_per_s"] for row in table.last_of_each(rows)], [3, 4, 5])

    def test_failures_show(self):
        line = json.dumps({"bench": "share", "kind": "schedules", "case": "v-zb", "failed": "no"})
        done = subprocess.run([sys.executable, HERE / "table.py", "-"], input=line + "\nnoise\n",
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed:  v-zb: no", done.stdout)


class Arguments(unittest.TestCase):
    def test_refused(self):
        self.assertEqual(call(HERE / "throughput.py").returncode, 2)
        self.assertEqual(call(HERE / "throughput.py", "x", "--models", "gpt-5").returncode, 2)
        self.assertEqual(call(HERE / "share.py", "x", "--only", "nothing").returncode, 2)


class Runner(unittest.TestCase):
    """scripts/gpu_tests.py: what it makes of names, exit codes and time."""

    def run_tests(self, tests, *words):
        tests = [{"name": name, "command": ["sh", "-c", command], "environment": ["WORD=a"],
                  "seconds": seconds} for name, command, seconds in tests]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(tests, file)
            file.flush()
            begin = time.monotonic()
            done = call(common.ROOT / "scripts/gpu_tests.py", "run", *words, file.name)
        return done, time.monotonic() - begin

    def verdict(self, *codes):
        done, _ = self.run_tests([(f"t{code}", f'test "$WORD" = a && exit {code}', 10)
                                  for code in codes])
        return done.returncode, done.stdout.splitlines()[-2 if 77 in codes or not codes else -1]

    def test_codes(self):
        self.assertEqual(self.verdict(0, 0), (0, "tests: 2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.verdict(0, 77), (1, "tests: 1 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.verdict(0, 3), (1, "tests: 1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.verdict(), (1, "tests: 0 passed, 0 failed, 0 skipped"))

    def test_only(self):
        tests = [(name, "exit 0" if name != "gpu-b" else "exit 1", 10)
                 for name in ("gpu-a", "gpu-b", "gpu-exec-a", "gpu-exec-b")]
        for only, code, n in (("gpu-a", 0, 1), ("gpu-exec-*,gpu-a", 0, 3), ("gpu-?", 1, 1),
                              ("gpu", 1, 0)):
            done, _ = self.run_tests(tests, "--only", only)
            self.assertEqual(done.returncode, code, only)
            self.assertIn(f"tests: {n} passed", done.stdout)
        self.assertIn("there are gpu-a, gpu-b, gpu-exec-a, gpu-exec-b", done.stdout)

    def test_limits(self):
        # the second shell outlives the first and holds its output
        tests = [("slow", "echo said; sh -c 'sleep 60; exit 0'; exit 0", 60), ("quick", "exit 0", 60)]
        done, seconds = self.run_tests(tests, "--limit", "0.5")
        self.assertLess(seconds, 30)
        self.assertRegex(done.stdout, "slow +timeout")
        self.assertIn("    said\n", done.stdout)
        self.assertIn("tests: 1 passed, 1 failed, 0 skipped\n", done.stdout)
        self.assertRegex(self.run_tests([("slow", "sleep 60", 0.5)])[0].stdout, "slow +timeout")
        done, seconds = self.run_tests(tests, "--within", "0.5")
        self.assertLess(seconds, 30)
        self.assertRegex(done.stdout, "(?s)slow +timeout.*quick +not run\n")
        self.assertIn("tests: 0 passed, 1 failed, 0 skipped, 1 not run\n", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_words(self):
        for words in ((), ("no",), ("run",), ("run", "--no", "x"), ("run", "--limit", "0", "x"),
                      ("run", "--within", "soon", "x")):
            done = call(common.ROOT / "scripts/gpu_tests.py", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)


class Words(unittest.TestCase):
    """What scripts say to words that are asked for, or wrong: at once, and nothing is built."""

    def say(self, script, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [common.ROOT / "scripts" / script, *words], capture_output=True, text=True,
                check=False, timeout=60, env=os.environ | {"PENSTOCK_BUNDLE_PLACE": folder + "/b"})
            self.assertEqual(os.listdir(folder), [])
        return done

    def test_help(self):
        for script in ("gpu-check.sh", "gpu-bundle.sh"):
            done = self.say(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("  scripts/" + script, done.stdout)
            self.assertNotIn("set -", done.stdout)

    def test_wrong(self):
        for script, *words in (["gpu-check.sh", "--no-such"], ["gpu-check.sh", "--results"],
                               ["gpu-check.sh", "--bundle", "/no/such"],
                               ["gpu-check.sh", "--step", "8"], ["gpu-check.sh", "--limit", "soon"],
                               ["gpu-check.sh", "--bench", "--only", "x"],
                               ["gpu-check.sh", "--tests", "--models", "x"],
                               ["gpu-bundle.sh", "--no-such"], ["gpu-bundle.sh", "--unpack"],
                               ["gpu-bundle.sh", "--unpack", "/no/such"],
                               ["gpu-bundle.sh", "a", "b"]):
            done = self.say(script, *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (script, words))
            self.assertNotEqual(done.stderr, "")
            self.assertNotIn("line ", done.stderr)


class Check(unittest.TestCase):
    """scripts/gpu-check.sh: a GPU is seen, however many lines tell of it, one after the other."""

    def test_many_gpus(self):
        with tempfile.TemporaryDirectory() as name:
            smi = pathlib.Path(name) / "nvidia-smi"
            smi.write_text("#!/bin/sh\n[ \"$1\" = -L ] || exit 0\necho 'GPU 0: one'\nsleep 0.2\n"
                           "for i in 1 2 3; do echo \"GPU $i: more\" || exit 1; done\n",
                           encoding="utf-8")
            smi.chmod(0o755)
            bad = pathlib.Path(name) / "no.tar.xz"
            bad.touch()
            done = subprocess.run(
                [common.ROOT / "scripts/gpu-check.sh", "--bundle", bad], capture_output=True,
                text=True, check=False,
                env=os.environ | {"PATH": f"{name}:{os.environ['PATH']}",
                                  "PENSTOCK_BUNDLE_PLACE": f"{name}/place"})
            self.assertEqual(done.returncode, 4)
            self.assertNotIn("no NVIDIA GPU", done.stderr)


# What each program of a step writes down about its call, in the order of the calls.
NOTED = '#!/bin/sh\necho "${0##*/} $*" >>"$NOTES"\n'
ROW = '{"bench": "throughput", "model": "m", "side": "s", "step_s": 1.0, "tokens_per_s": 1.0}'


class Steps(unittest.TestCase):
    """scripts/gpu-check.sh --steps, every program a small script."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results"
        self.loss = 1

    def script(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTED + text, encoding="utf-8")
        path.chmod(0o755)

    def check(self, *words, slow="", tools=("nvidia-smi", "ncu", "compute-sanitizer")):
        for tool in tools:
            self.script(f"bin/{tool}", "echo 'GPU 0: one'\n")
        self.script("parts/build/penstock", "for word; do last=$word; done\nfor i in $(seq 20)"
                    f"; do [ $1 != train ] || echo \"{{\\\"loss_hex\\\":\\\"0x{self.loss}\\\"}}\"; done\n")
        self.script("parts/build/bench-gpu-rates", "")
        self.script("parts/build/tests/test-gpu-kernels", "")
        self.script("bin/python-with-torch", "case $1 in\n*/table.py) exec python3 \"$@\" ;;\nesac\n"
                    f"echo '{ROW}'\n")
        names = ["gpu-kernels", "gpu-kernels-simple", "gpu-sizes", "gpu-exec-bits", "gpu-exec-copies",
                 "gpu-exec-delayed", "gpu-exec-replicas", "gpu-train"]
        (self.folder / "parts/build/gpu-tests.json").write_text(json.dumps(
            [{"name": name, "environment": [], "seconds": 600,
              "command": ["sh", "-c", f"echo {name} >>$NOTES; echo said; "
                          + ("sleep 60; :" if name == slow else ":")]} for name in names]),
            encoding="utf-8")
        (self.folder / "parts/lib").mkdir(exist_ok=True)
        subprocess.run(["tar", "-C", self.folder / "parts", "-cJf", self.folder / "b.tar.xz", "build",
                        "lib"], check=True)
        done = subprocess.run(
            [common.ROOT / "scripts/gpu-check.sh", "--bundle", self.folder / "b.tar.xz", "--results",
             self.results, *words], capture_output=True, text=True, check=False,
            env=os.environ | {"PENSTOCK_BUNDLE_PLACE": str(self.folder / "place"),
                              "NOTES": str(self.folder / "notes"), "PYTHON": "python-with-torch",
                              "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        notes = (self.folder / "notes").read_text(encoding="utf-8").splitlines()
        return done, [re.sub(rf"{self.folder}\S*/", "", note) for note in notes
                      if not note.startswith("nvidia-smi")]

    def verdicts(self):
        lines = (self.results / "steps.txt").read_text(encoding="utf-8").splitlines()
        return [re.sub(r"step (\d), (\w+), \d+ s: ", r"\1 \2 ", line) for line in lines]

    def test_order(self):
        done, notes = self.check("--steps")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(), [f"{i + 1} {name} passed" for i, name in enumerate(
            ("kernels", "speed", "profiles", "executor", "share", "sanitizer", "again"))])
        train = "penstock train configs/quickstart.toml -q --json --set train.steps=20 " \
                "--set run.device=cuda --set run.dtype=bf16 --set run.graphs="
        torch = "python-with-torch bench/gpu/"
        speed = torch + "throughput.py build --python python-with-torch --rounds 1 --models gpt2-124m"
        rates = "bench-gpu-rates device-cuda.so"
        self.assertEqual([n for n in notes if "table.py" not in n], [
            "penstock doctor", "gpu-kernels-simple", "gpu-kernels", train + "off", train + "on", rates,
            *(speed + more for more in (
                " --no-torch", " --no-torch --set run.kernels=simple",
                " --no-torch --set run.kernels=unordered", " --no-torch --set run.graphs=on",
                " --no-torch --set run.kernels=auto+fused_sums",
                " --no-torch --set run.kernels=unpaired",
                " --no-torch --set run.kernels=timed", "")),
            *(f"ncu --clock-control none --set full --launch-count 4 {rates} {job}" for job in
              ("qkv W", "loss F", "loss B", "norm1 B", "attention B")),
            "gpu-exec-replicas", "gpu-exec-delayed", "gpu-exec-copies", "gpu-exec-bits",
            torch + "share.py build --only schedules",
            *(f"compute-sanitizer --tool {tool} --error-exitcode 9 test-gpu-kernels {kernels}*"
              for kernels in ("layernorm", "cross-entropy", "embedding", "linear gelu", "attention")
              for tool in ("memcheck", "racecheck")),
            "gpu-kernels", "gpu-kernels-simple", "gpu-sizes", speed + ",gpt2-350m"])
        self.assertIn("| m | s |", (self.results / "2-tables.md").read_text(encoding="utf-8"))

    def test_parts(self):
        done, notes = self.check("--tests", "--only", "gpu-train,gpu-exec-b*", "--limit", "9")
        self.assertEqual((done.returncode, notes), (0, ["penstock doctor", "gpu-exec-bits", "gpu-train"]))
        done, notes = self.check("--bench", "--models", "gpt2-124m")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"python-with-torch {HERE}/throughput.py build --python python-with-torch"
                      " --models gpt2-124m", notes)

    def test_out_of_time(self):
        begin = time.monotonic()
        done, notes = self.check("--step", "1", "--limit", "10", slow="gpu-kernels-simple")
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.verdicts(), ["1 kernels out of time: not done gpu-kernels-simple, not run"
                                           " gpu-kernels graphs-off equal-losses"])
        self.assertEqual(notes, ["penstock doctor", "gpu-kernels-simple"])
        self.assertIn("said\n", (self.results / "1-gpu-kernels-simple.log").read_text(encoding="utf-8"))

    def test_losses_differ(self):
        for self.loss, verdict in (("$last", "failed: equal-losses"), ("1", "passed")):
            done, _ = self.check("--step", "kernels")
            self.assertEqual(self.verdicts()[-1], "1 kernels " + verdict, done.stdout)
            self.assertEqual(done.returncode, int(verdict != "passed"))

    def test_without_a_profiler(self):
        path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep)
                               if not any((pathlib.Path(p) / tool).exists() for tool in ("ncu", "nsys")))
        with unittest.mock.patch.dict(os.environ, PATH=path):
            done, notes = self.check("--step", "profiles", tools=["nvidia-smi"])
        self.assertEqual((done.returncode, len(notes)), (0, 2), done.stdout)
        self.assertIn("penstock profile configs/quickstart.toml -o", notes[1])

    def test_page(self):
        said = subprocess.run(
            [common.ROOT / "scripts/gpu-check.sh", "--help"], capture_output=True, text=True,
            check=True).stdout
        page = (common.ROOT / "docs/gpu.md").read_text(encoding="utf-8")
        steps = re.findall(r"^(\d) (\w+) (\d+) (.*)$", said, re.MULTILINE)
        self.assertEqual([int(number) for number, *_ in steps], list(range(1, 8)))
        for number, name, seconds, what in steps:
            row = f"| {number} | `{name}` | {what} | {seconds} s |"
            self.assertTrue(row in page, row)


class Bundle(unittest.TestCase):
    """scripts/gpu-bundle.sh: what is opened at run time is linked where the bundle looks for it."""

    def unpack(self, folder, libraries, path=os.environ["PATH"]):
        place, parts = folder / "place", folder / "parts"
        (parts / "build/plugins").mkdir(parents=True)
        (parts / "lib").mkdir()
        (parts / "build/penstock").write_bytes(b"")
        (parts / "build/penstock").chmod(0o755)
        (parts / "build/plugins/device-cuda.so").write_bytes(libraries)
        subprocess.run(["tar", "-C", parts, "-cJf", folder / "b.tar.xz", "build", "lib"], check=True)
        return place, subprocess.run(
            [common.ROOT / "scripts/gpu-bundle.sh", "--unpack", folder / "b.tar.xz"],
            capture_output=True, text=True, check=False,
            env=os.environ | {"PENSTOCK_BUNDLE_PLACE": str(place), "PYTHONPATH": str(folder),
                              "PATH": str(path)})

    def test_libraries_of_python(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for package, files in {"cudnn": ("libcudnn.so.77", "libcudnn_graph.so.77"),
                                   "nvrtc": ("libnvrtc.so.88", "libnvrtc-builtins.so.88.0")}.items():
                (folder / "nvidia" / package / "lib").mkdir(parents=True)
                for file in files:
                    (folder / "nvidia" / package / "lib" / file).touch()
            place, done = self.unpack(folder, b"\0libcudart.so.88\0libcudnn.so.77\0")
            self.assertEqual((done.returncode, done.stdout), (0, f"{place}/build\n"), done.stderr)
            self.assertEqual({file.name for file in (place / "lib").iterdir()},
                             {"libcudnn.so.77", "libcudnn_graph.so.77", "libnvrtc.so.88",
                              "libnvrtc-builtins.so.88.0"})

    def test_without_xz(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tools = folder / "bin"
            tools.mkdir()
            for tool in ("bash", "mkdir", "ls", "ldd", "awk", "grep", "sort", "sed", "basename",
                         "dirname", "ln", "tar"):
                (tools / tool).symlink_to(shutil.which(tool))
            (tools / "python3").symlink_to(sys.executable)
            place, done = self.unpack(folder, b"", tools)
            self.assertEqual((done.returncode, done.stdout), (0, f"{place}/build\n"), done.stderr)
            self.assertTrue(os.access(place / "build/penstock", os.X_OK))

    def test_missing(self):
        with tempfile.TemporaryDirectory() as name:
            _, done = self.unpack(pathlib.Path(name), b"libcudnn.so.99")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("device-cuda.so needs libcudnn.so.99, which is not on this machine",
                          done.stderr)


class Script(unittest.TestCase):
    """bench/gpu/run.sh: a program that its limit ends is told of."""

    def test_limits(self):
        with tempfile.TemporaryDirectory() as name:
            program = pathlib.Path(name) / "bench-gpu-rates"
            program.write_text('#!/bin/sh\necho "{}"\nexit 124\n', encoding="utf-8")
            program.chmod(0o755)
            done = subprocess.run([HERE / "run.sh", name], capture_output=True, text=True,
                                  check=False, env=os.environ | {"PYTHON": "false"})
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"run.sh: not done after 100 s: {program}", done.stderr)
            self.assertEqual((program.parent / "bench-gpu.jsonl").read_text(encoding="utf-8"),
                             "{}\n")


class OnTheCpu(unittest.TestCase):
    def setUp(self):
        if BUILD is None:
            self.skipTest("no build folder given")

    def lines(self, *words):
        done = call(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_throughput(self):
        rows = self.lines(HERE / "throughput.py", BUILD, "--device", "cpu", "--dtype", "f32",
                          "--tiny", "--steps", "2", "--rounds", "2", "--no-compile")
        more = self.lines(HERE / "throughput.py", BUILD, "--device", "cpu", "--dtype", "f32",
                          "--tiny", "--steps", "2", "--rounds", "1", "--no-torch", "--set",
                          "run.graphs=off")
        self.assertEqual([row["side"] for row in more], ["penstock run.graphs=off"])
        self.assertEqual(sum(row["side"] == "penstock" for row in rows), 2)
        sides = {row["side"]: row for row in rows}
        self.assertGreater(sides["penstock"]["tokens_per_s"], 0)
        if importlib.util.find_spec("torch") is None:
            self.assertIn("no torch", sides["torch"]["skipped"])
        else:
            # both start at ln 64 = 4.16 and have learned nothing yet
            for side in ("penstock", "torch eager"):
                self.assertAlmostEqual(sides[side]["loss"], 4.16, delta=0.1)

    def test_share(self):
        rows = self.lines(HERE / "share.py", BUILD, "--device", "cpu", "--tiny", "--steps", "2",
                          "--only", "schedules")
        self.assertEqual([row["case"] for row in rows], ["1f1b", "zb-h1", "v-half", "v-zb"])
        for row in rows:
            self.assertIsNone(row["share"])
            self.assertGreater(row["step_s"], 0)
            self.assertGreater(row["predicted_s"], 0)


class Rates(unittest.TestCase):
    """bench-gpu-rates, small, on the kernels for GPUs compiled for the host where they are."""

    def test_small(self):
        if RATES is None:
            self.skipTest("no bench-gpu-rates given")
        modules = [pathlib.Path(BUILD) / "plugins" / name
                   for name in ("tests/device-cuda-on-host.so", "device-cpu.so")]
        for module in filter(pathlib.Path.exists, modules):
            done = subprocess.run([RATES, module, "small"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            for operator, passes in (("qkv", "FBW"), ("attention", "FB"), ("loss", "FB")):
                self.assertEqual("".join(row["pass"] for row in rows
                                         if row["operator"] == operator), passes)
            self.assertIn("| copy within the device |", table.table("rates", rows))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        RATES = sys.argv.pop(2)
    if len(sys.argv) > 1:
        BUILD = sys.argv.pop(1)
    unittest.main()
