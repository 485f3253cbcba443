#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the tables of published rows:  bench/public/selftest.py BUILD"""
import contextlib
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import devices
import figures
import jobs
import published
import rows

BUILD = None
ROW = {"id": "a", "source": "s", "class": "c", "device": "h100", "node_size": "8", "model":
       "llama", "layers": "3", "dim": "256", "heads": "8", "kv_heads": "8", "ff": "512",
       "vocab": "1024", "tied": "true", "context": "128", "targets": "", "tp": "2", "pp": "2",
       "dp": "2", "zero": "1", "vp": "1", "microbatch": "2", "batch": "16", "schedule": "1f1b",
       "recompute": "", "split": "2-1h1", "memory_rank": "last", "step_ms": "1", "step_ok": "1",
       "peak_bytes": "1000", "peak_ok": "1", "note": ""}

# ROW by hand: two stages of two replicas of two parts, 4 micro-batches of 2 samples a replica
BY_HAND = """[model]
use = "llama"
layers = 3
dim = 256
heads = 8
kv_heads = 8
ff = 512
vocab = 1024
tied = true
context = 128
[data]
kind = "synthetic"
[train]
batch = 16
microbatch = 4
degrees = [2]
optimizer = "adam"
[parallel]
tensor = 2
sequence = true
zero = 1
[run]
device = "emulated"
dtype = "bf16"
[cluster]
devices = 8
node_size = 8
memory = 0
[partitioner]
use = "manual"
stages = "embed_tokens*, layers.0.*, layers.1.*; *"
[scheduler]
use = "1f1b"
"""


def written(folder, name, *changes):
    path = pathlib.Path(folder) / name
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerows(ROW | change for change in changes)
    return path


def run(*words):
    """What published.py prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        published.main(["--build", BUILD, "--jobs", "1", "--no-papers", *map(str, words)])
    return out.getvalue()


class Figures(unittest.TestCase):
    def test_cells(self):
        """Of three layouts the second is picked, 5 ms where 4 are possible; 2 of 3 pairs agree."""
        row = {"device": "d", "batch": 1}
        cells = figures.step_cells([row | {"predicted": p, "measured": m}
                                    for p, m in ((12, 10), (4, 5), (5, 4))])
        self.assertEqual(cells, [3, "21.7 %", "20.0 %", "+8.3 %", "+25.0 %", "0.333", 1, "0",
                                 "25.0 %"])

    def test_memory(self):
        line = figures.memory_line("s", [
            {"predicted_peak": 90, "out": True}, {"predicted_peak": 70, "out": True},
            {"predicted_peak": 70, "ran": True}, {"predicted_peak": 90, "ran": True},
            {"predicted_peak": 95, "ran": True}, {"refused": "why", "out": True}], lambda job: 80)
        self.assertEqual(line, ["s", 2, 1, 1, 3, 2])


class Rows(unittest.TestCase):
    def test_padded(self):
        self.assertEqual(rows.padded(50257, 1), 50304)
        self.assertEqual(rows.padded(50257, 4), 99 * 512)

    def test_split(self):
        self.assertEqual(rows.split_of("10-6h1"), ([10, 6], 1))
        self.assertEqual(rows.split_of("2-1-0"), ([2, 1, 0], 2))
        with self.assertRaises(rows.Unknown):
            rows.split_of("10+6")

    def test_stages(self):
        """The head may stand before the last stage, which then has the loss alone."""
        job = rows.USUAL | {"model": "gpt", "layers": 3, "stages": 3, "split": ([2, 1, 0], 1)}
        self.assertEqual(jobs.stages(job), "w*, h.0.*, h.1.*; h.2.*, ln_f*, lm_head*; *")
        with self.assertRaises(jobs.Refused):
            jobs.stages(job | {"stages": 2, "split": None})

    def test_scores(self):
        """5 a s^2 b ÷ t a layer; the first of two stages of two layers holds two micro-batches."""
        job = rows.USUAL | {"model": "gpt", "layers": 4, "heads": 4, "context": 8, "microbatch": 2,
                            "batch": 8, "tensor": 2, "stages": 2, "split": None}
        one = 5 * 4 * 64 * 2 // 2
        self.assertEqual(jobs.held_scores(job), [4 * one, 2 * one])
        self.assertEqual(jobs.held_scores(job | {"recompute": "full"}), [one, one])

    def test_formats(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.csv"
            path.write_text("a,b\n1,2\n", encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "no format known here; columns a, b"):
                run(path)


class Predictions(unittest.TestCase):
    def test_row(self):
        """A row's prediction is that of a config written by hand; the peak is what the framework needs
        on the last device."""
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "x.toml"
            config.write_text(f"include = {json.dumps(str(devices.CLUSTERS / 'h100.toml'))}\n"
                              + BY_HAND, encoding="utf-8")
            plan = json.loads(subprocess.run(
                [f"{BUILD}/penstock", "plan", config, "--quiet", "--json"], check=True,
                capture_output=True).stdout)
            out = pathlib.Path(folder) / "out.json"
            text = run("--json", out, written(folder, "rows.csv", {}))
            job, = json.loads(out.read_text(encoding="utf-8"))
            self.assertEqual(job["predicted"], plan["step_us"] / 1e3)
            needed = int(plan["devices"][7]["peak_bytes"] * 1.2)  # memory_factor of h100.toml
            self.assertEqual(job["pairs"], [[needed, 1000]])
            self.assertIn("| rows | 1 |", text)
            slow = run("--set-for", "rows:cluster.launch_overhead=1 ms", "--rows",
                       written(folder, "rows.csv", {}))
            self.assertGreater(float(slow.split(": ")[1].split(" ms")[0]), 2 * job["predicted"])

    def test_models(self):
        """Every model, interleaving and recomputation become configs that are planned."""
        changes = [{"model": model, "id": model, "split": "", "layers": "4", "ff": "1024",
                    "tp": "1", "targets": "64" if model == "t5" else "",
                    "vp": "2" if model == "gpt" else "1", "recompute": "full"}
                   for model in ("gpt", "bert", "t5", "llama")]
        with tempfile.TemporaryDirectory() as folder:
            text = run("--rows", written(folder, "rows.csv", *changes))
        self.assertIn("| rows | 4 |", text)
        self.assertNotIn("without a prediction", text)

    def test_refused(self):
        """The program's refusal and this script's are counted, with their reasons."""
        with tempfile.TemporaryDirectory() as folder:
            text = run(written(folder, "rows.csv", {}, {"tp": "16"}, {"recompute": "some"}))
        self.assertRegex(text, r"\| rows \| 1 \| parallel.tensor = 16 does not divide "
                               r"cluster.node_size = 8")
        self.assertIn("| rows | 1 | recompute some is not known here |", text)
        self.assertIn("| rows | 1 |", text)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
