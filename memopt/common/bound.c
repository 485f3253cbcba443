/* SPDX-License-Identifier: Apache-2.0
 *
 * The most bytes that a period allows to free, parts of nodes allowed: a bound for a branch of
 * decisions and, if nothing is decided, for a stage. Rounding never moves a bound above the true
 * value.
 */
#include "oracle.h"

/* The largest residency of a forward (first) and of a backward pass, undecided nodes kept. Replays
   are left out: a further dropped node may put a run into another one, elsewhere. */
struct instant {
    int64_t bytes;
    uint32_t at;
};

static void find_instants(const struct mem_tally *t, struct instant ret[2])
{
    const struct mem_costs *c = t->costs;
    const struct mem_branch *forward = t->forward + t->leaves, *backward = t->backward + t->leaves;
    int64_t f = 0, b = 0;
    uint32_t v;

    ret[0].bytes = ret[1].bytes = INT64_MIN;
    for (v = 0; v < c->n; v++) {
        f += forward[v].sum;
        b += backward[v].sum;
        if (f + c->forward_work[v] > ret[0].bytes) {
            ret[0] = (struct instant){f + c->forward_work[v], v};
        }
        if (b + c->backward_work[v] > ret[1].bytes) {
            ret[1] = (struct instant){b + c->backward_work[v], v};
        }
    }
}

struct budget {
    double replay_ns, moved;
};

/* The replay time and the link bytes that the period leaves for undecided nodes. */
static struct budget budget_of(const struct mem_tally *t, const bool *decided, double period_ns)
{
    const struct mem_costs *c = t->costs;
    struct budget b = {.replay_ns = period_ns - (double)(c->total_ns + t->replay_ns)};

    for (uint32_t v = 0; v < c->n; v++) {
        b.moved += !decided[v] && (c->may[v] & MEM_MAY_OFFLOAD) != 0 ? (double)c->bytes[v] : 0;
    }
    if (c->link_bytes_per_s > 0) {
        double room = period_ns * ((double)c->link_bytes_per_s / 1e9) / (double)c->link_directions -
                      (double)t->moved;

        b.moved = room < b.moved ? (room > 0 ? room : 0) : b.moved;
    }
    return b;
}

/* Active copies of v that dropping it may free at an instant. */
static double copies(const struct mem_costs *c, uint32_t v, uint32_t at)
{
    return (double)c->held - (v < at && c->last[v] < at ? 0.0 : 1.0);
}

/* The next undecided node in order whose active copy may be gone (or may not). */
static uint32_t next_of(const struct mem_costs *c, const bool *decided, uint32_t i, uint32_t at,
                        bool gone)
{
    for (; i < c->n_order; i++) {
        uint32_t v = c->by_forward[i];

        if (!decided[v] && (c->may[v] & MEM_MAY_RECOMPUTE) != 0 &&
            (v < at && c->last[v] < at) == gone) {
            break;
        }
    }
    return i;
}

/* Most bytes that replays within the time free: two sorted lists, merged. */
static double replays_free(const struct mem_costs *c, const bool *decided, uint32_t at, double left)
{
    const uint32_t *by_cost = c->by_forward;
    uint32_t n = c->n_order;
    uint32_t a = next_of(c, decided, 0, at, true), b = next_of(c, decided, 0, at, false);
    double bytes = 0;

    while ((a < n || b < n) && left >= 0) {
        double of_a = a < n ? copies(c, by_cost[a], at) * (double)c->bytes[by_cost[a]] : 0;
        double of_b = b < n ? copies(c, by_cost[b], at) * (double)c->bytes[by_cost[b]] : 0;
        double cost_a = a < n ? (double)c->forward_ns[by_cost[a]] : 0;
        double cost_b = b < n ? (double)c->forward_ns[by_cost[b]] : 0;
        bool first = b >= n || (a < n && cost_a * of_b <= cost_b * of_a);
        double saving = first ? of_a : of_b, cost = first ? cost_a : cost_b;

        bytes += cost <= left ? saving : saving * left / cost;
        left -= cost;
        if (first) {
            a = next_of(c, decided, a + 1, at, true);
        } else {
            b = next_of(c, decided, b + 1, at, false);
        }
    }
    return bytes;
}

/* Bytes that undecided nodes hold for replays of others; they may be freed with them. */
static double loose_results(const struct mem_tally *t, const bool *decided)
{
    const struct mem_costs *c = t->costs;
    double bytes = 0;

    for (uint32_t v = 0; v < c->n && c->any_results; v++) {
        bytes += !decided[v] && mem_tally_holds(t, v) ? (double)c->results[v] : 0;
    }
    return bytes * c->held;
}

bool mem_may_fit(const struct mem_tally *tally, const bool *decided, double period_ns)
{
    const struct mem_costs *c = tally->costs;
    struct budget budget = budget_of(tally, decided, period_ns);
    double parked = (double)c->fixed + (c->held - 1.0) * (double)tally->kept +
                    (c->staged - 1.0) * (double)tally->moved;
    double loose = loose_results(tally, decided);
    struct instant instants[2];

    find_instants(tally, instants);
    for (uint32_t i = 0; i < 2; i++) {
        double missing = parked + (double)instants[i].bytes - (double)c->capacity;
        double freed = loose + budget.moved * (c->held - c->staged);

        if (missing <= 0) {
            continue;
        }
        freed += replays_free(c, decided, instants[i].at, budget.replay_ns);
        if (freed * (1 + 1e-9) + 1 < missing) {
            return false;
        }
    }
    return true;
}

void mem_find_decided(const struct mem_costs *costs, bool *decided)
{
    for (uint32_t v = 0; v < costs->n; v++) {
        decided[v] = costs->may[v] == MEM_MAY_KEEP || (costs->may[v] & MEM_MAY_KEEP) == 0;
    }
}

/* Least period that may do, from what is decided to everything replayed and moved. */
static uint64_t least_period(const struct mem_tally *t, const bool *decided)
{
    const struct mem_costs *c = t->costs;
    uint64_t low = c->total_ns + t->replay_ns, high = low, moved = t->moved, link;

    for (uint32_t v = 0; v < c->n; v++) {
        high += !decided[v] && (c->may[v] & MEM_MAY_RECOMPUTE) != 0 ? c->forward_ns[v] : 0;
        moved += !decided[v] && (c->may[v] & MEM_MAY_OFFLOAD) != 0 ? (uint64_t)c->bytes[v] : 0;
    }
    link = mem_costs_link_ns(c, t->moved, false);
    low = link > low ? link : low;
    link = mem_costs_link_ns(c, moved, false);
    high = link > high ? link : high;
    high = high > low ? high : low;
    if (!mem_may_fit(t, decided, (double)high)) {
        return UINT64_MAX;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (mem_may_fit(t, decided, (double)middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

uint64_t mem_costs_bound(const struct mem_costs *costs)
{
    struct mem_tally tally = {0};
    bool *decided;
    uint64_t bound;

    if (costs->absurd || costs->n == 0) {
        return 0;
    }
    CALL_TAKE(decided, costs->n);
    mem_find_decided(costs, decided);
    mem_tally_load(&tally, costs);
    bound = least_period(&tally, decided);
    mem_tally_finish(&tally);
    call_free(decided);
    return bound;
}
