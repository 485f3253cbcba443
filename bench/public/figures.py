# SPDX-License-Identifier: Apache-2.0
"""Errors of predictions, and the tables that say them."""
import statistics
from collections import defaultdict

# What is equal in the rows of a group, which differ in layout alone.
SAME = ("device", "model", "layers", "dim", "heads", "kv_heads", "ff", "vocab", "context",
        "targets", "devices", "batch", "dtype", "extra")


def percent(value, sign=True):
    return f"{100 * value:{'+' if sign else ''}.1f} %"


def table(titles, lines):
    """Nothing where there are no lines."""
    if not lines:
        return
    print("\n| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles))
    for cells in lines:
        print("| " + " | ".join(map(str, cells)) + " |")


def by_set(jobs):
    found = defaultdict(list)
    for job in jobs:
        found[job["set"]].append(job)
    return found


def errors(pairs):
    return [predicted / measured - 1 for predicted, measured in pairs]


def tau(pairs):
    """Kendall's, of predicted and measured."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for i, a in enumerate(pairs) for b in pairs[:i]]
    return f"{(sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / len(signs):.3f}" \
        if signs else ""


def groups(jobs):
    """Pairs of predicted and measured steps of rows that differ in layout alone."""
    found = defaultdict(list)
    for job in jobs:
        found[str([job.get(key) for key in SAME])].append((job["predicted"], job["measured"]))
    return [pairs for pairs in found.values() if len(pairs) > 1]


def step_cells(jobs):
    """Rows, mean, median, bias, worst, tau, groups, best picked, regret."""
    pairs = [(job["predicted"], job["measured"]) for job in jobs]
    off = errors(pairs)
    size = list(map(abs, off))
    regrets = [min(group)[1] / min(m for _, m in group) - 1 for group in groups(jobs)]
    return [len(jobs), percent(statistics.mean(size), False),
            percent(statistics.median(size), False), percent(statistics.mean(off)),
            percent(max(off, key=abs)), tau(pairs), len(regrets),
            f"{sum(regret == 0 for regret in regrets)}" if regrets else "",
            percent(statistics.mean(regrets), False) if regrets else ""]


def step_tables(jobs):
    """One line a set, then one a class of each set."""
    sets = by_set(job for job in jobs if "predicted" in job and "measured" in job)
    table(["steps", "rows", "mean error", "median", "bias", "worst", "tau", "groups",
           "best picked", "regret"], [[name] + step_cells(chosen) for name, chosen in sets.items()])
    lines = []
    for name, chosen in sets.items():
        classes = {cls for job in chosen for cls in job["classes"]}
        for cls in sorted(classes, key=lambda text: (text.rstrip("0123456789"), len(text), text)):
            cells = step_cells([job for job in chosen if cls in job["classes"]])
            lines.append([name, cls, cells[0], cells[1], cells[3], cells[4]])
    table(["set", "class", "rows", "mean error", "bias", "worst"], lines)


def memory_line(name, jobs, limit):
    """How many rows ran out of memory and how many are said to, and the same of those that ran."""
    known = [job for job in jobs if "predicted_peak" in job]
    out, ran = ([job["predicted_peak"] > limit(job) for job in known if job.get(key)]
                for key in ("out", "ran"))
    return [name, len(out), sum(out), len(out) - sum(out), len(ran), sum(ran)]


def memory_tables(jobs, limit):
    """Peaks of the ranks that were measured, and which rows are said to run out of memory."""
    lines = []
    sets = by_set(jobs)
    for name, chosen in sets.items():
        off = errors(pair for job in chosen for pair in job.get("pairs", []))
        if off:
            lines.append([name, len(off), percent(statistics.mean(map(abs, off)), False),
                          percent(statistics.mean(off)), percent(max(off, key=abs))])
    table(["peaks", "figures", "mean error", "bias", "worst"], lines)
    sets |= {"all": jobs, "all without doubtful rows": [job for job in jobs if job.get("good")]}
    lines = [memory_line(name, chosen, limit) for name, chosen in sets.items()]
    table(["out of memory", "ran out", "said so", "missed", "ran", "false alarms"],
          [line for line in lines if line[1] or line[4]])


def pass_table(found):
    table(["model", "pass", "ms", "published", "error"],
          [[model, op, f"{ms:.2f}", f"{published:.2f}", percent(ms / published - 1)]
           for model, op, ms, published in found])
    off = errors((ms, published) for _, _, ms, published in found)
    print(f"\nmean error of passes {percent(statistics.mean(map(abs, off)), False)}")


def refusals(jobs):
    """How many rows of each set have no prediction, with the reasons."""
    lines = defaultdict(int)
    for job in jobs:
        if "refused" in job:
            lines[job["set"], job["refused"]] += 1
    table(["set", "rows without a prediction", "why"],
          [[name, count, why] for (name, why), count in lines.items()])
