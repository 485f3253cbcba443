/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a stage over one forward and one backward pass, drawn with characters.
 */
#ifndef PST_REPORTS_MEMORY_CHART_H
#define PST_REPORTS_MEMORY_CHART_H

#include <stdio.h>

#include "planner/eval.h"

/* Events in order of time, each as wide as the time that it takes; the y-axis begins at 0, a row of
   dashes is the capacity, where it is on the chart (UINT64_MAX: none). */
void pst_memory_chart_print(const struct pst_memory_event *events, uint32_t n_events,
                            uint64_t capacity_bytes, FILE *out);

#endif
