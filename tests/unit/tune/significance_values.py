#!/usr/bin/env python3
"""Prints tests/unit/tune/significance_values.inc: what scipy says of the studentized range, of Student's t, and of
made-up rounds (a two-way table without repeats, by numpy).

    python3 significance_values.py > significance_values.inc      # made with scipy 1.17.1, numpy 2.4.6
"""
import numpy
from scipy import stats

print("/* SPDX-License-Identifier: Apache-2.0 */\n/* Written by significance_values.py. */")
print("static const struct { double q; uint32_t k, df; double tail; } tails[] = {")
for k, df in [(2, 1), (2, 2), (3, 2), (4, 6), (5, 8), (8, 28), (60, 118)]:
    for q in (0.3, 1.5, 3.5, 5.0, 9.0, 30.0):
        print(f"    {{{q}, {k}, {df}, {stats.studentized_range.sf(q, k, df):.10e}}},")
print("};\nstatic const struct { uint32_t df; double t; } points[] = {")
for df in (1, 2, 4, 9, 50):
    print(f"    {{{df}, {stats.t.ppf(0.975, df):.10f}}},")
print("};\n#define METHODS 4\n#define ROUNDS 3")
values = numpy.log(numpy.random.default_rng(7).normal(1, 0.02, (4, 3)) * [[10], [10], [10.1], [13]] * [[1, 1.1, 0.93]])
print("static const double rounds[METHODS * ROUNDS] = {")
print("    " + ", ".join(f"{v:.17g}" for v in values.flatten()) + "};")
rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
df = 3 * 2
variance = (rest**2).sum() / df
print("static const struct { double mean, half, p; } pairs[METHODS][METHODS] = {")
for a in range(4):
    row = []
    for b in range(4):
        d = values[a] - values[b]
        error = numpy.sqrt(max(variance, d.var(ddof=1) / 2) / 3)
        p = 1 if a == b else stats.studentized_range.sf(abs(d.mean()) / error, 4, df)
        row.append(f"{{{d.mean():.12e}, {stats.studentized_range.ppf(0.95, 4, df) * error:.12e}, {p:.10e}}}")
    print("    {" + ",\n     ".join(row) + "},")
print("};")
low, high = stats.t.interval(0.95, 2, values[0].mean(), stats.sem(values[0]))
print(f"#define HALF_OF_FIRST {(high - low) / 2:.12e}")
