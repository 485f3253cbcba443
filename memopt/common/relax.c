/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

/* The largest residency of a forward (first) and of a backward pass, undecided nodes kept. Replays
   are left out: a further dropped node may put a run into another one, elsewhere. */
struct instant {
    int64_t bytes;
    uint32_t at;
};

static void find_instants(const struct mem_oracle *o, struct instant ret[2])
{
    const struct mem_costs *c = o->costs;
    const struct mem_branch *forward = o->tally->forward + o->tally->leaves;
    const struct mem_branch *backward = o->tally->backward + o->tally->leaves;
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
    double replay_ns, moved, movable;
};

/* What periods below the best leave for undecided nodes. */
static struct budget budget_of(const struct mem_oracle *o, const bool *decided)
{
    const struct mem_costs *c = o->costs;
    double period = (double)o->score.period_ns - 1; /* of no plan yet: more than there is */
    struct budget b = {.movable = 0};
    uint32_t v;

    b.replay_ns = period - (double)(c->total_ns + o->tally->replay_ns);
    for (v = 0; v < c->n; v++) {
        if (!decided[v] && (c->may[v] & MEM_MAY_OFFLOAD) != 0) {
            b.movable += (double)c->bytes[v];
        }
    }
    b.moved = b.movable;
    if (c->link_bytes_per_s > 0) {
        double room = period * ((double)c->link_bytes_per_s / 1e9) / (double)c->link_directions -
                      (double)o->tally->moved;

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
static uint32_t next_of(const struct mem_oracle *o, const bool *decided, const uint32_t *by_cost,
                        uint32_t n, uint32_t i, uint32_t at, bool gone)
{
    const struct mem_costs *c = o->costs;

    for (; i < n; i++) {
        uint32_t v = by_cost[i];

        if (!decided[v] && (c->may[v] & MEM_MAY_RECOMPUTE) != 0 &&
            (v < at && c->last[v] < at) == gone) {
            break;
        }
    }
    return i;
}

/* Most bytes that replays within the time free: two sorted lists, merged. */
static double replays_free(const struct mem_oracle *o, const bool *decided, const uint32_t *by_cost,
                           uint32_t n, uint32_t at, double left)
{
    const struct mem_costs *c = o->costs;
    uint32_t a = next_of(o, decided, by_cost, n, 0, at, true);
    uint32_t b = next_of(o, decided, by_cost, n, 0, at, false);
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
            a = next_of(o, decided, by_cost, n, a + 1, at, true);
        } else {
            b = next_of(o, decided, by_cost, n, b + 1, at, false);
        }
    }
    return bytes;
}

/* What undecided nodes hold for replays of others may go with them. */
static double loose_results(const struct mem_oracle *o, const bool *decided)
{
    const struct mem_costs *c = o->costs;
    double bytes = 0;
    uint32_t v;

    for (v = 0; v < c->n && c->any_results; v++) {
        bytes += !decided[v] && mem_tally_holds(o->tally, v) ? (double)c->results[v] : 0;
    }
    return bytes * c->held;
}

bool mem_oracle_may_fit(const struct mem_oracle *oracle, const bool *decided)
{
    const struct mem_costs *c = oracle->costs;
    struct budget budget = budget_of(oracle, decided);
    double parked = (double)c->fixed + (c->held - 1.0) * (double)oracle->tally->kept +
                    (c->staged - 1.0) * (double)oracle->tally->moved;
    double loose = loose_results(oracle, decided);
    struct instant instants[2];
    uint32_t i;

    find_instants(oracle, instants);
    for (i = 0; i < 2; i++) {
        double missing = parked + (double)instants[i].bytes - (double)c->capacity;
        double freed = loose + budget.moved * (c->held - c->staged);

        if (missing <= 0) {
            continue;
        }
        freed +=
            replays_free(oracle, decided, c->order, c->n_order, instants[i].at, budget.replay_ns);
        if (freed * (1 + 1e-9) + 1e-3 < missing) {
            return false;
        }
    }
    return true;
}
