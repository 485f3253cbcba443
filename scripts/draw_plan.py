#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a plan file as a timeline: one row a device, F one unit, B and W one, BW two, transfers free.

  penstock plan configs/quickstart.toml -o plan.json && scripts/draw_plan.py plan.json docs/pipeline.svg
"""
import json
import sys

UNIT, ROW, LEFT, TOP = 18, 30, 78, 14
COST = {"F": 1, "B": 1, "W": 1, "BW": 2}
FILL = {"F": "#3b6ea5", "B": "#d98324", "W": "#b9a44c", "BW": "#d98324"}


def evaluate(plan):
    """Start of every pass: as early as the order on its device and its inputs allow."""
    edges, stages = plan["edges"], plan["stages"]
    lists = [[i for i in d["body"] if i[0] in COST] for d in plan["devices"]]
    end, at, clock = {}, [0] * len(lists), [0] * len(lists)
    slices = [[] for _ in lists]
    moved = True
    while moved:
        moved = False
        for d, todo in enumerate(lists):
            while at[d] < len(todo):
                op, s, j = todo[at[d]][:3]
                if op == "F":
                    needs = [("F", e["from"], j) for e in edges if e["to"] == s]
                elif op == "W":
                    needs = [("B", s, j)]
                else:
                    needs = [("F", s, j)] + [("B", e["to"], j) for e in edges if e["from"] == s]
                if any(n not in end for n in needs):
                    break
                start = max([clock[d]] + [end[n] for n in needs])
                clock[d] = end["B" if op == "BW" else op, s, j] = start + COST[op]
                slices[d].append((op, s, j, start))
                at[d] += 1
                moved = True
    assert all(a == len(t) for a, t in zip(at, lists)), "the lists do not run to their end"
    assert len({s["microbatch_size"] for s in stages}) == 1, "stages differ in micro-batch size"
    return slices, max(clock)


def main():
    plan = json.load(open(sys.argv[1]))
    slices, total = evaluate(plan)
    width, height = LEFT + total * UNIT + 14, TOP + len(slices) * ROW + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for d, row in enumerate(slices):
        y = TOP + d * ROW
        out.append(f'<text x="8" y="{y + 18}" fill="#333">device {d}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{total * UNIT}" height="{ROW - 6}" fill="#eee"/>')
        for op, s, j, start in row:
            x, w = LEFT + start * UNIT, COST[op] * UNIT
            out.append(f'<rect x="{x}" y="{y}" width="{w - 1}" height="{ROW - 6}" rx="2" '
                       f'fill="{FILL[op]}"/><text x="{x + w / 2}" y="{y + 16}" fill="#fff" '
                       f'text-anchor="middle">{j}</text>')
    y = TOP + len(slices) * ROW + 14
    used = {op for row in slices for op, *_ in row}
    x = LEFT
    for op, text in (("F", "forward"), ("B", "backward for inputs"), ("W", "backward for weights"),
                     ("BW", "backward")):
        if op in used:
            out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{FILL[op]}"/>'
                       f'<text x="{x + 15}" y="{y}" fill="#333">{text}</text>')
            x += 30 + 7 * len(text)
    out.append("</svg>")
    open(sys.argv[2], "w").write("\n".join(out) + "\n")


main()
