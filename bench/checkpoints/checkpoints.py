#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints cost: how long they block a run at the automatic interval, and how fast they are
written beside what the disk takes.

    bench/checkpoints/checkpoints.py [--build build/release] [--folder DIR] [--rounds 5] [--part blocking|rate]

blocking  the quickstart model with save_every = "auto": the part of the time in which it stood still
          for copies; and the same run without checkpoints beside it, turn and turn about
rate      a checkpoint of 1 GB (weights and both moments of an MLP): bytes by the time from the
          step's end until it is complete, and by the part of it beside training, without the copies
          for which the run stands still; beside a file of that size written in one go, 8 MiB at
          a time, and synced: through the page cache and past it (O_DIRECT). Turn and turn
          about on the same disk. Other work is stopped meanwhile: the run waits for the save
"""

import argparse
import json
import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

STEPS = 60
PART = 8 << 20
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
LARGE = """[model]
use = "mlp"
inputs = 4096
hidden = 4096
layers = 5
[data]
kind = "synthetic"
[train]
steps = 1
batch = 1
microbatch = 1
eval_batches = 0
[partitioner]
use = "uniform"
[scheduler]
use = "1f1b"
[checkpoint]
folder = "ck"
busy = "wait"
"""


def train(penstock, folder, *words):
    shutil.rmtree(folder / "ck", ignore_errors=True)
    begin = time.monotonic()
    done = subprocess.run([penstock, "train", *words, "--json", "-q"], cwd=folder, capture_output=True, text=True,
                          check=True)
    seconds = time.monotonic() - begin
    return [json.loads(line) for line in done.stdout.splitlines()], seconds


def blocking(penstock, folder, rounds):
    words = [str(SOURCE / "configs/quickstart.toml"), "--set", f"train.steps={STEPS}", "--set", "train.sample=0",
             "--set", "train.eval_batches=0"]
    save = ["--set", "checkpoint.folder=ck", "--set", "checkpoint.save_every=auto"]
    shares, ratios, counts = [], [], []
    for _ in range(rounds):
        plain, _ = train(penstock, folder, *words)
        lines, _ = train(penstock, folder, *words, *save)
        steps = [line["seconds"] for line in lines if "loss_hex" in line]
        saved = [line for line in lines if line.get("checkpoint")]
        shares.append(sum(line["blocked_seconds"] for line in saved) / sum(steps))
        ratios.append(statistics.median(steps) / statistics.median(l["seconds"] for l in plain if "loss_hex" in l))
        counts.append(len(saved))
    print(f"blocking: {100 * statistics.median(shares):.2f} % of the time of {len(steps)} steps (all rounds "
          f"{', '.join(f'{100 * share:.2f}' for share in shares)}), {statistics.median(counts):.0f} checkpoints of "
          f"{saved[-1]['bytes'] / 1e6:.1f} MB; median step with and without: {statistics.median(ratios):.3f}")


def settle():
    """What was written is on the disk, and a virtual machine has given its free memory back to its host, which makes the
    next pages dear: for either side alike."""
    os.sync()
    time.sleep(5)


def plain_write(path, size, flags):
    """Seconds, to the last whole page of it."""
    with mmap.mmap(-1, PART) as data:  # which begins with a page
        data.write(os.urandom(PART))
        begin = time.monotonic()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
        for at in range(0, size - size % mmap.PAGESIZE, PART):
            os.write(file, memoryview(data)[: size - size % mmap.PAGESIZE - at])
        os.fsync(file)
        seconds = time.monotonic() - begin
        os.close(file)
    path.unlink()
    return seconds


def rate(penstock, folder, rounds):
    (folder / "large.toml").write_text(LARGE)
    own, written, disk = [], [], {"through the page cache": [], "past it": []}
    for _ in range(rounds):
        settle()
        lines, _ = train(penstock, folder, "large.toml")
        saved = next(line for line in lines if line.get("checkpoint"))
        own.append(saved["bytes"] / saved["seconds"])
        written.append(saved["bytes"] / (saved["seconds"] - saved["blocked_seconds"]))
        shutil.rmtree(folder / "ck")
        for (_, rates), flags in zip(disk.items(), [0, os.O_DIRECT]):
            settle()
            rates.append(saved["bytes"] / plain_write(folder / "plain", saved["bytes"], flags))
    print(f"rate: {saved['bytes'] / 1e9:.2f} GB at {statistics.median(own) / 1e6:.0f} MB/s, at best {max(own) / 1e6:.0f}; "
          f"without the copies {statistics.median(written) / 1e6:.0f}")
    for name, rates in disk.items():
        ratios, beside = [a / b for a, b in zip(own, rates)], [a / b for a, b in zip(written, rates)]
        print(f"      the disk {name}: {statistics.median(rates) / 1e6:.0f} MB/s, at best {max(rates) / 1e6:.0f}; "
              f"{100 * statistics.median(ratios):.0f} % (rounds {', '.join(f'{100 * r:.0f}' for r in ratios)}), "
              f"without the copies {100 * statistics.median(beside):.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCE / "build/release"))
    parser.add_argument("--folder", help="on the disk that is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=["blocking", "rate"])
    options = parser.parse_args()
    penstock = str(pathlib.Path(options.build).resolve() / "penstock")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=options.folder) as folder:
        for part in [blocking, rate]:
            if options.part in (None, part.__name__):
                part(penstock, pathlib.Path(folder), options.rounds)


if __name__ == "__main__":
    main()
