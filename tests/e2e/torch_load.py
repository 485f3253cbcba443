# SPDX-License-Identifier: Apache-2.0
"""Loads schedule files with the code of torch.distributed.pipelining.

usage: torch_load.py LIST, where a line of LIST is: STEM RANKS STAGES MICROBATCHES

STEM.compute.csv is loaded and lowered as torch does it; STEM.comms.csv and
STEM.comms-waits.csv are held against what torch's own passes add to it.
"""
import csv
import sys
from types import SimpleNamespace

import torch.distributed.pipelining.schedules as pp


def read(path):
    with open(path, newline="") as file:
        return {rank: [pp._Action.from_str(c) for c in row]
                for rank, row in enumerate(csv.reader(file))}


def schedule(ranks, stages, microbatches):
    stage = SimpleNamespace(num_stages=stages, group_size=ranks, group_rank=0, stage_index=0,
                            is_first=True, is_last=False, stage_index_to_group_rank={},
                            has_backward=True, device=None, group=None)
    return pp._PipelineScheduleRuntime([stage], microbatches)


def expect(rows, other, what):
    for rank in other:
        if rows[rank] != other[rank]:
            sys.exit(f"{what}, rank {rank}:\n{rows[rank]}\ninstead of\n{other[rank]}")


def check(stem, ranks, stages, microbatches):
    loaded = schedule(ranks, stages, microbatches)
    loaded._load_csv(f"{stem}.compute.csv", format="compute_only")
    rank_of = loaded.stage_index_to_group_rank
    compute = read(f"{stem}.compute.csv")
    lowered = pp._add_send_recv({r: list(a) for r, a in compute.items()}, lambda s: rank_of[s],
                                stages)
    comms = read(f"{stem}.comms.csv")
    expect(comms, lowered, f"{stem}.comms.csv")
    pp._simulate_comms_compute(comms, lambda s: rank_of[s], stages)
    if not hasattr(pp, "_add_wait_send"):
        # a torch that wants no waits loads the file without them
        schedule(ranks, stages, microbatches)._load_csv(f"{stem}.comms.csv", format="compute_comms")
        return
    waits = read(f"{stem}.comms-waits.csv")
    plain = {r: [a for a in actions if "REDUCE_GRAD" not in a.computation_type.value]
             for r, actions in waits.items()}
    expect(plain, pp._add_wait_send(lowered), f"{stem}.comms-waits.csv")
    schedule(ranks, stages, microbatches)._load_csv(f"{stem}.comms-waits.csv",
                                                    format="compute_comms")


def must_fail(stem, ranks, stages, microbatches):
    """The loader notices a missing backward, so what it accepts means something."""
    with open(f"{stem}.compute.csv") as file:
        rows = file.read().splitlines()
    rows[0] = rows[0].rsplit(",", 1)[0]
    with open(f"{stem}.broken.csv", "w") as file:
        file.write("\n".join(rows) + "\n")
    try:
        schedule(ranks, stages, microbatches)._load_csv(f"{stem}.broken.csv")
    except AssertionError:
        return
    sys.exit("torch loads a schedule that lacks a pass")


def main():
    with open(sys.argv[1]) as file:
        lines = [line.split() for line in file]
    for stem, *counts in lines:
        check(stem, *map(int, counts))
    must_fail(lines[0][0], *map(int, lines[0][1:]))
    print(f"torch loads {len(lines)} schedules")


main()
