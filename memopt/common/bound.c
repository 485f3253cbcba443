/* SPDX-License-Identifier: Apache-2.0
 *
 * The fractional bound. What is rounded is rounded so that the bound stays below.
 */
#include "costs.h"

#include <stdlib.h>

/* Largest residency, everything undecided kept, and where. */
struct instant {
    uint64_t bytes;
    uint32_t at;
    bool backward;
};

/* Of dropped nodes that earlier optimizers decided about, only what is there in any case. */
static void find_instants(const struct mem_costs *c, int64_t *gone, struct instant *ret)
{
    int64_t there = 0, most_f = -1, most_b = -1;
    uint32_t v;

    for (v = 0; v < c->n; v++) {
        if (c->first[v] == PST_ACTION_RECOMPUTE) {
            gone[c->last[v] + 1] += c->bytes[v];
        }
    }
    for (v = 0; v < c->n; v++) {
        there += c->bytes[v] - gone[v];
        if (there + c->forward_work[v] > most_f) {
            most_f = there + c->forward_work[v];
            ret[0] = (struct instant){(uint64_t)most_f, v, false};
        }
        if (there + c->backward_work[v] > most_b) {
            most_b = there + c->backward_work[v];
            ret[1] = (struct instant){(uint64_t)most_b, v, true};
        }
    }
}

struct item {
    double saving, cost, per_byte;
    uint32_t v;
};

static int by_price(const void *a_, const void *b_)
{
    const struct item *a = a_, *b = b_;

    if (a->per_byte != b->per_byte) {
        return a->per_byte < b->per_byte ? -1 : 1;
    }
    return a->v < b->v ? -1 : a->v > b->v;
}

/* What dropping frees at an instant, cheapest first. */
static uint32_t list_items(const struct mem_costs *c, const struct instant *at, struct item *items)
{
    uint32_t v, n = 0;

    for (v = 0; v < c->n; v++) {
        bool gone = v < at->at && c->last[v] < at->at;
        double saving = (double)c->bytes[v] * (c->held - (gone ? 0.0 : 1.0));

        if ((c->may[v] & MEM_MAY_RECOMPUTE) != 0 && (c->may[v] & MEM_MAY_KEEP) != 0 && saving > 0) {
            items[n++] = (struct item){saving, (double)c->forward_ns[v],
                                       (double)c->forward_ns[v] / saving, v};
        }
    }
    qsort(items, n, sizeof *items, by_price);
    return n;
}

/* Decisions that stand, and bytes that may go to the host. */
struct sums {
    uint64_t kept, moved, replay_ns, movable;
};

static struct sums sum_up(const struct mem_costs *c)
{
    struct sums s = {0};
    uint32_t v;

    for (v = 0; v < c->n; v++) {
        uint64_t a = (uint64_t)c->bytes[v];

        s.kept += c->first[v] == PST_ACTION_KEEP ? a : 0;
        s.moved += c->first[v] == PST_ACTION_OFFLOAD ? a : 0;
        s.replay_ns += c->first[v] == PST_ACTION_RECOMPUTE ? c->forward_ns[v] : 0;
        s.movable += (c->may[v] & MEM_MAY_OFFLOAD) != 0 && (c->may[v] & MEM_MAY_KEEP) != 0 ? a : 0;
    }
    return s;
}

/* Most bytes that a period allows to free. */
static double freed(const struct mem_costs *c, const struct sums *s, const struct item *items,
                    uint32_t n, uint64_t period_ns)
{
    double left = (double)(period_ns - c->total_ns - s->replay_ns), bytes = 0, moves;
    uint32_t i;

    for (i = 0; i < n; i++) {
        double part = items[i].cost <= left ? 1.0 : left / items[i].cost;

        bytes += part * items[i].saving;
        left -= items[i].cost;
        if (left <= 0 && part < 1.0) {
            break;
        }
        left = left > 0 ? left : 0;
    }
    if (c->link_bytes_per_s > 0 && s->movable > 0) {
        moves =
            (double)period_ns * ((double)c->link_bytes_per_s / 1e9) / (double)c->link_directions -
            (double)s->moved;
        moves = moves > (double)s->movable ? (double)s->movable : moves;
        bytes += moves > 0 ? moves * (c->held - c->staged) : 0;
    }
    return bytes * (1 + 1e-9) + 1; /* never less than it is */
}

static uint64_t bound_at(const struct mem_costs *c, const struct sums *s, const struct instant *at,
                         struct item *items)
{
    uint64_t low = c->total_ns + s->replay_ns, high = low, link;
    uint64_t peak = c->fixed + (c->held - 1) * s->kept + (c->staged - 1) * s->moved + at->bytes;
    uint32_t i, n;
    double missing;

    link = mem_costs_link_ns(c, s->moved, false);
    low = link > low ? link : low;
    if (peak <= c->capacity) {
        return low;
    }
    missing = (double)(peak - c->capacity);
    n = list_items(c, at, items);
    for (i = 0; i < n; i++) {
        high += c->forward_ns[items[i].v];
    }
    link = mem_costs_link_ns(c, s->moved + s->movable, false);
    high = link > high ? link : high;
    high = high > low ? high : low;
    if (freed(c, s, items, n, high) < missing) {
        return UINT64_MAX;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (freed(c, s, items, n, middle) < missing) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t mem_costs_bound(const struct mem_costs *costs)
{
    struct instant instants[2] = {{0}};
    struct sums s;
    int64_t *gone;
    struct item *items;
    uint64_t bound = 0;

    if (costs->absurd || costs->n == 0) {
        return 0;
    }
    CALL_TAKE(gone, costs->n + 1);
    CALL_TAKE(items, costs->n);
    s = sum_up(costs);
    bound = costs->total_ns + s.replay_ns;
    find_instants(costs, gone, instants);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t here = bound_at(costs, &s, &instants[i], items);

        bound = here > bound ? here : bound;
    }
    call_free(gone);
    call_free(items);
    return bound;
}
