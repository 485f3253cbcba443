/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of a node at any size, and the end of a costed graph.
 */
#include "graph/costed.h"

#include <stdlib.h>

#include "base/util.h"

/* On the line through two points, whose slope counts as 0 where more samples took less time. */
static double on_line(double x0, double y0, double x1, double y1, double x)
{
    double slope = y1 > y0 ? (y1 - y0) / (x1 - x0) : 0.0;

    return x <= x0 ? y0 - slope * (x0 - x) : y1 + slope * (x - x1);
}

/* F, B, W; what slices differ by. */
static double time_of_row(const struct pst_costed_times *row, uint32_t which)
{
    return which < 3 ? row->ns[which] : row->growth[which - 3];
}

static double from_table(const struct pst_costed_times *times, uint32_t n, uint32_t which, double x)
{
    const struct pst_costed_times *first = &times[0], *last = &times[n - 1];
    uint32_t low, high;

    if (n == 1) {
        return time_of_row(first, which) * (x / first->samples);
    }
    if (x >= last->samples) {
        return on_line(last[-1].samples, time_of_row(&last[-1], which), last->samples,
                       time_of_row(last, which), x);
    }
    if (x <= first->samples) {
        /* A line that would be below 0 at no samples is not one: in proportion then. */
        return on_line(first->samples, time_of_row(first, which), first[1].samples,
                       time_of_row(&first[1], which), 0) < 0
                   ? time_of_row(first, which) * (x / first->samples)
                   : on_line(first->samples, time_of_row(first, which), first[1].samples,
                             time_of_row(&first[1], which), x);
    }
    high = PST_FIRST(i, n, times[i].samples > x);
    low = high - 1;
    return time_of_row(&times[low], which) +
           (time_of_row(&times[high], which) - time_of_row(&times[low], which)) *
               ((x - times[low].samples) / ((double)times[high].samples - times[low].samples));
}

void pst_costed_node_ns(const struct pst_costed *graph, uint32_t node, uint32_t samples,
                        double ret_ns[3])
{
    const struct pst_costed_node *row = &graph->nodes[node];
    double part = (double)samples / graph->batch, all = row->ns[0] + row->ns[1] + row->ns[2];

    for (uint32_t pass = 0; pass < 3; pass++) {
        if (row->n_times > 0) {
            ret_ns[pass] = from_table(row->times, row->n_times, pass, samples);
        } else {
            double share = all > 0 ? row->ns[pass] / all : (pass == 0 ? 1.0 : 0.0);

            ret_ns[pass] = row->ns[pass] * part + row->fixed_ns * share;
        }
    }
}

void pst_costed_node_growth(const struct pst_costed *graph, uint32_t node, uint32_t samples,
                            double ret_ns[3])
{
    const struct pst_costed_node *row = &graph->nodes[node];

    for (uint32_t i = 0; i < 3; i++) {
        ret_ns[i] = row->n_times > 0 ? from_table(row->times, row->n_times, 3 + i, samples) : 0;
    }
}

void pst_costed_destroy(struct pst_costed *graph)
{
    if (graph != NULL) {
        pst_arena_finish(&graph->arena);
        free(graph);
    }
}
