/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

/* Bytes per sample over each position of the order: [n + 1]. */
static double *crossing(const struct part_dag *dag, const double *edge_bytes, const uint32_t *order)
{
    double *bytes = call_alloc((size_t)dag->n + 2, sizeof *bytes);
    uint32_t *position = call_alloc((size_t)dag->n + 1, sizeof *position);
    uint32_t i, e;

    for (i = 0; i < dag->n; i++) {
        position[order[i]] = i;
    }
    for (e = 0; e < dag->n_edges; e++) {
        bytes[position[dag->from[e]] + 1] += edge_bytes[e];
        bytes[position[dag->to[e]] + 1] -= edge_bytes[e];
    }
    for (i = 0; i < dag->n; i++) {
        bytes[i + 1] += bytes[i];
    }
    return bytes;
}

void part_runs(const struct part_dag *dag, const double *edge_bytes, const int64_t *work,
               const uint32_t *order, uint32_t most, uint32_t *ret_first, uint32_t *ret_n)
{
    double *bytes = crossing(dag, edge_bytes, order);
    int64_t total = 0, share, sum;
    uint32_t at = 0, n = 0, i;

    for (i = 0; i < dag->n; i++) {
        total += work[i];
    }
    share = total / (most / 2 + 1) + 1;
    while (at < dag->n) {
        uint32_t end = 0;
        bool within = false; /* half of the share is through */

        for (i = at, sum = 0; i < dag->n; i++) {
            sum += work[order[i]];
            if (sum > share && i > at) {
                break;
            }
            if (!within || bytes[i + 1] <= bytes[end]) {
                end = i + 1;
            }
            within = 2 * sum >= share;
        }
        end = i == dag->n && sum <= share ? dag->n : end;
        ret_first[n++] = at;
        at = end;
    }
    ret_first[n] = dag->n;
    *ret_n = n;
}
