#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Markdown tables from the JSON lines of the GPU benchmarks.

  bench/gpu/table.py RESULTS...       '-': standard input

For docs/results.md. Exit code 1 where a line says that something failed."""
import json
import sys

COLUMNS = {
    "throughput": [("model", "model", ""), ("side", "side", ""), ("dtype", "dtype", ""),
                   ("step", "step_s", ".4f s"), ("tokens/s", "tokens_per_s", ",.0f"),
                   ("MFU", "mfu", ".1%"), ("penstock is", "ratio", ".2f x")],
    "share": [("what", "kind", ""), ("pipeline", "case", ""), ("share", "share", ""),
              ("step", "step_s", ".4f s"), ("predicted", "predicted_s", ".4f s"),
              ("error", "error", "+.1%"), ("ratio", "ratio", ".2f x")],
    "rates": [("operator", "operator", ""), ("pass", "pass", ""), ("rows", "rows", ",d"),
              ("width", "width", ",d"), ("time", "microseconds", ",.1f us"),
              ("TFLOP/s", "tflops", ".1f"), ("GB/s", "gb_per_s", ",.0f"),
              ("of a copy", "of_copy", ".0%"), ("hidden", "hidden", ".0%"),
              ("floor", "floor", ""), ("met", "met", "")],
}


def cell(value, form):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    number, _, unit = form.partition(" ")
    return f"{value:{number}}{' ' + unit if unit else ''}"


def table(name, rows):
    columns = [c for c in COLUMNS[name] if any(row.get(c[1]) is not None for row in rows)]
    lines = ["| " + " | ".join(title for title, _, _ in columns) + " |",
             "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(cell(row.get(key), form) for _, key, form in columns) + " |")
    return "\n".join(lines)


def last_of_each(rows):
    """Throughput has a line after each round; the place is that of the first."""
    last = {}
    for row in rows:
        last[row["model"], row["side"], row.get("dtype")] = row
    return list(last.values())


def main():
    rows = []
    for name in sys.argv[1:]:
        with sys.stdin if name == "-" else open(name, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file if line.startswith("{")]
    for name in COLUMNS:
        mine = [row for row in rows if row["bench"] == name]
        good = [row for row in mine if "failed" not in row and "skipped" not in row]
        good = last_of_each(good) if name == "throughput" else good
        if mine:
            print(f"\n### {name}\n\n{table(name, good) if good else ''}")
        for row in mine:
            for word in ("failed", "skipped"):
                if word in row:
                    what = row.get("case") or row.get("side") or row.get("operator") or ""
                    print(f"\n{word}: {row.get('model', '')} {what}: {row[word]}")
    sys.exit(1 if any("failed" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
