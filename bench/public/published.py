#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of penstock with what others have measured and published.

  bench/public/published.py [--build build/release] [--jobs N] [--rows] [--json FILE]
                            [--set KEY=VALUE ...] [--set-for SET:KEY=VALUE ...] FILE-or-FOLDER ...

Two papers' figures are in papers.py. Others come from CSV files, which are not part of this
project; of a folder all are read. A file's columns say its format (rows.py). Every row becomes a
config for the devices that it ran on (devices.py, jobs.py). A set is a file, by its name without
".csv"; the papers are the set "papers". --set changes a key of all configs, --set-for of one set.

Printed are: for each set errors of step times, Kendall's tau and what it costs to pick layouts
by predictions (groups of rows that differ in layout alone; regret is the measured time of the
pick over that of the best); errors by class; peaks of memory; rows that ran out of memory; and
rows without a prediction, with the reason. Of the peaks the largest of all ranks says whether a
row runs out of the memory that the description of the devices gives."""
import argparse
import json
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import devices
import figures
import jobs
import papers
import rows

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files(paths):
    """The CSV files, those of folders in order."""
    found = []
    for path in map(pathlib.Path, paths):
        found += sorted(path.rglob("*.csv")) if path.is_dir() else [path]
    return found


def named_change(text):
    name, colon, change = text.partition(":")
    if not colon or "=" not in change:
        raise argparse.ArgumentTypeError(f"{text}: say SET:KEY=VALUE")
    return name, change


def change(text):
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text}: say KEY=VALUE")
    return text


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulations at a time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", type=change)
    parser.add_argument("--set-for", action="append", default=[], metavar="SET:KEY=VALUE",
                        type=named_change)
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--json", metavar="FILE", help="write every row, inputs and results")
    parser.add_argument("--no-papers", action="store_true", help="the given files alone")
    parser.add_argument("paths", nargs="*", metavar="FILE-or-FOLDER")
    options = parser.parse_args(arguments)
    options.penstock = str(pathlib.Path(options.build) / "penstock")
    return options


def print_row(job):
    text = job.get("refused") or f"{job['predicted']:.1f} ms"
    if "measured" in job and "predicted" in job:
        text += (f", {job['measured']:.1f} measured, "
                 f"{figures.percent(job['predicted'] / job['measured'] - 1)}")
    for predicted, measured in job.get("pairs", []):
        text += f"; {predicted / 1e9:.1f} GB, {measured / 1e9:.1f} measured"
    if job.get("out") and "predicted_peak" in job:
        text += f"; {job['predicted_peak'] / 1e9:.1f} GB, ran out of memory"
    print(f"{job['set']} {job['id']} ({job['seconds']:.1f} s): {text}", flush=True)


def main(arguments=None):
    options = options_of(arguments)
    found = [] if options.no_papers else papers.steps()
    try:
        for path in files(options.paths):
            found += rows.read(path)
    except (OSError, rows.Unknown) as error:
        sys.exit(f"published.py: {error}")
    if not found:
        sys.exit("published.py: no rows; name a file or a folder with CSV files")
    for job in found:
        if "refused" not in job:
            job["devices"] = job["stages"] * job["replicas"] * job["tensor"]
    with ThreadPoolExecutor(options.jobs) as pool:
        for job in pool.map(lambda job: jobs.predict(options, job), found):
            if options.rows:
                print_row(job)
    figures.step_tables(found)
    figures.memory_tables(found, devices.memory)
    if not options.no_papers:
        figures.pass_table(papers.passes(options))
    figures.refusals(found)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
