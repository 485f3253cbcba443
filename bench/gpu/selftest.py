#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What of the GPU benchmarks can be tested without a GPU:  bench/gpu/selftest.py [BUILD]

Counts of operations against numbers worked out by hand, tables, arguments; with BUILD a tiny model
on the cpu device, and PyTorch on the CPU where it is installed."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

import common
import table
import throughput

HERE = pathlib.Path(__file__).resolve().parent
BUILD = None


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
                          "--tiny", "--steps", "2", "--rounds", "1", "--no-compile")
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
            self.assertGreater(row["step_s"], 0)
            self.assertGreater(row["predicted_s"], 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        BUILD = sys.argv.pop(1)
    unittest.main()
