/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower bounds of all partitions.
 */
#include <stdlib.h>

#include "chain.h"

/* Ticks that a node takes of any stage it is in, at its best degree; d times that: of devices. */
static int64_t node_least(const struct part_costs *c, uint32_t v, bool of_devices)
{
    int64_t least = INT64_MAX;
    uint32_t k;

    for (k = 0; k < c->n_degrees; k++) {
        int64_t comp = c->comp[k][v], sync = c->sync[k][v];
        int64_t ticks = part_tps(c, comp, 0, sync) * (of_devices ? c->degrees[k] : 1);

        /* One of overlapping sums may carry one node and another the next: count one alone. */
        if (of_devices && c->comm_model == PST_COMM_MAX) {
            ticks = comp * c->degrees[k];
        }
        least = ticks < least ? ticks : least;
    }
    return least;
}

static int descending(const void *a_, const void *b_)
{
    const int64_t *a = a_, *b = b_;

    return *a > *b ? -1 : *a < *b;
}

/*
 * D stages at most, so of the k D + 1 heaviest nodes some stage has k + 1, which take no less than
 * the k + 1 lightest of them. Where transfers overlap, by compute alone.
 */
static int64_t packing(const struct part_problem *p, const struct part_costs *c)
{
    int64_t *ticks = call_alloc((size_t)p->n + 1, sizeof *ticks), bound = 0;
    uint64_t k, last;
    uint32_t v, i;

    for (v = 0; v < p->n; v++) {
        int64_t least = INT64_MAX;

        for (i = 0; i < c->n_degrees; i++) {
            int64_t mine = c->comp[i][v] + (c->comm_model == PST_COMM_MAX ? 0 : c->sync[i][v]);

            least = mine < least ? mine : least;
        }
        ticks[v] = least;
    }
    qsort(ticks, p->n, sizeof *ticks, descending);
    for (v = 1; v < p->n; v++) {
        ticks[v] += ticks[v - 1]; /* prefix sums of the sorted list */
    }
    for (k = 1; k * p->n_devices + 1 <= p->n; k++) {
        int64_t sum;

        last = k * p->n_devices; /* index of the lightest of them */
        sum = ticks[last] - (last > k ? ticks[last - k - 1] : 0);
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

void part_least_work(const struct part_problem *p, const struct part_costs *c, int64_t *ret_work)
{
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        ret_work[v] = c->n_degrees == 0 ? 0 : node_least(c, v, true);
    }
}

int64_t part_lower_bound(const struct part_problem *p, const struct part_costs *c)
{
    int64_t total = 0, bound = 0, packed;
    uint32_t v;

    if (c->n_degrees == 0 || p->n_devices == 0) {
        return 0;
    }
    for (v = 0; v < p->n; v++) {
        int64_t alone = node_least(c, v, false);

        total += node_least(c, v, true);
        bound = alone > bound ? alone : bound;
    }
    total = total / p->n_devices + (total % p->n_devices != 0);
    bound = total > bound ? total : bound;
    packed = packing(p, c);
    return packed > bound ? packed : bound;
}
