/* SPDX-License-Identifier: Apache-2.0
 *
 * Improving a plan: local moves, cuts of the order that it implies, and of random ones near it.
 */
#include <string.h>

#include "refine_parts.h"
#include "stage_graph.h"

#define SEED_DEFAULT UINT64_C(0x70656E73746F636B)

enum { LARGE = 5000 }; /* nodes */

struct refining {
    const struct part_problem *problem;
    const struct part_costs *costs;
    struct part_plan *plan;
    struct part_value value;
    int64_t ticks, bound;
    uint64_t steps, seed;
    uint32_t n_random;
    uint32_t *order, *depths; /* [n] */
    uint64_t *keys;           /* [n] */
    struct part_chain_stats chain;
    struct part_refine_stats stats;
    bool moves_only;
};

static void spend(uint64_t *steps, uint64_t cost)
{
    *steps -= cost < *steps ? cost : *steps;
}

/* --- steps of the search -----------------------------------------------------------------------*/

/* Takes a plan over where it is better; frees it otherwise. */
static void offer(struct refining *r, struct part_plan *plan, bool *ret_better)
{
    struct part_value value;
    int64_t ticks;

    part_plan_rank(plan, r->problem, &value);
    *ret_better = false;
    ticks = part_plan_ticks(plan, r->problem, r->costs);
    if (value.legal && value.fits && part_value_better(&value, &r->value)) {
        struct part_plan old = *r->plan;

        *r->plan = *plan;
        *plan = old;
        r->value = value;
        r->ticks = ticks;
        *ret_better = true;
    }
    part_plan_finish(plan);
}

/* The optimum of r->order, if that is below T; memory by the place in the row, or by depths. */
static void cut_by(struct refining *r, const uint32_t *depths, bool *ret_better)
{
    const struct part_problem *p = r->problem;
    struct part_chain_limits limits = {.below = r->ticks,
                                       .memory = true,
                                       .depths = depths,
                                       .scan_steps = (double)r->steps / 4 + 1};
    struct part_plan plan = {NULL, 0};
    uint64_t probes = r->chain.probes, states = r->chain.states;
    int64_t ticks;
    bool found;

    limits.stats = &r->chain;
    *ret_better = false;
    part_chain_solve(p, r->costs, r->order, &limits, &found, &ticks, &plan);
    r->stats.orders++;
    spend(&r->steps, (r->chain.states - states) * r->costs->n_degrees +
                         4 * (r->chain.probes - probes + 1) + p->n + p->n_edges);
    if (found) {
        offer(r, &plan, ret_better);
    }
}

/* A stage of a graph may hold less than its place in a row makes it: as deep as the plan's. */
static void cut(struct refining *r, bool *ret_better)
{
    struct call_region region;
    struct stage_graph g;

    cut_by(r, NULL, ret_better);
    if (*ret_better || r->problem->in_row || r->problem->capacity_bytes >= (double)UINT64_MAX) {
        return;
    }
    call_enter(&region);
    stage_graph_init(&g, r->plan, r->problem);
    stage_graph_depths(&g, r->problem, r->depths);
    call_leave(&region);
    cut_by(r, r->depths, ret_better);
}

static void move(struct refining *r)
{
    struct part_plan copy = {NULL, 0};
    uint64_t before = r->stats.moves;
    bool better;

    part_plan_copy(r->plan, &copy);
    moves_run(r->problem, r->costs, &copy, &r->steps, &r->stats.moves);
    if (r->stats.moves > before) {
        offer(r, &copy, &better);
        return;
    }
    part_plan_finish(&copy);
}

/* r->order: stage after stage, nodes by index; the stages stand in topological order. */
static void implied_order(struct refining *r)
{
    uint32_t s, i, at = 0;

    for (s = 0; s < r->plan->n_stages; s++) {
        for (i = 0; i < r->plan->stages[s].n_nodes; i++) {
            r->order[at++] = r->plan->stages[s].nodes[i];
        }
    }
}

/* Moves and cuts in turn until neither helps. */
static void settle(struct refining *r)
{
    bool better = true;

    while (better && r->ticks > r->bound && r->steps > 0) {
        better = false;
        move(r);
        if (r->ticks > r->bound) {
            implied_order(r);
            cut(r, &better);
        }
    }
}

/* An order around that of the plan: each node's place moves by up to `width` places. */
static void shaken_order(struct refining *r, uint64_t width)
{
    uint32_t i;

    implied_order(r);
    for (i = 0; i < r->problem->n; i++) {
        r->keys[r->order[i]] = ((uint64_t)i + next_random(&r->seed) % (width + 1)) << 20 |
                               (next_random(&r->seed) & 0xfffff);
    }
    part_order(r->problem, PART_ORDER_KEYS, r->keys, r->order);
}

/* From small shakes to orders that have nothing of the plan; in large graphs, where such are of no
   use, to shakes by some stages. */
static void shake(struct refining *r)
{
    static const uint32_t percent[] = {5, 15, 40, 100, 400};
    uint32_t i, reach = r->problem->n;

    reach = reach > LARGE ? reach / r->plan->n_stages : reach;
    for (i = 0; i < r->n_random && r->steps > 0; i++) {
        int64_t room = r->problem->n > LARGE ? r->bound / 2000 : 0; /* good enough there */
        bool better = false;

        if (r->ticks - r->bound <= room) {
            break;
        }

        shaken_order(r, (uint64_t)reach * percent[i % 5] / 100 + 1);
        cut(r, &better);
        if (better) {
            settle(r);
        }
    }
}

/* Small graphs: everything. */
static void look_at_all(struct refining *r)
{
    struct part_plan plan = {NULL, 0};
    bool found, better;

    small_best(r->problem, r->costs, r->ticks, &found, &plan);
    if (found) {
        offer(r, &plan, &better);
    }
    r->bound = r->ticks;
}

static uint32_t random_orders(const struct part_problem *p, const struct part_refine_limits *limits)
{
    uint64_t n;

    if (limits != NULL && limits->orders != 0) {
        return limits->orders;
    }
    n = 2000000 / ((uint64_t)p->n + 1);
    return n > 300 ? 300 : n < 4 ? 4 : (uint32_t)n;
}

static void refine(struct refining *r)
{
    part_plan_sort(r->plan, r->problem); /* moves and the implied order rely on that */
    part_plan_rank(r->plan, r->problem, &r->value);
    r->ticks = part_plan_ticks(r->plan, r->problem, r->costs);
    if (r->moves_only) {
        move(r);
        return;
    }
    if (r->problem->n <= SMALL_NODES && !r->problem->in_row) {
        look_at_all(r);
        return;
    }
    settle(r);
    shake(r);
}

void part_refine(const struct part_problem *p, const struct part_costs *c,
                 const struct part_refine_limits *limits, struct part_plan *plan,
                 struct part_refine_stats *ret_stats)
{
    struct refining r = {
        .problem = p,
        .costs = c,
        .plan = plan,
        .bound = part_lower_bound(p, c),
        .steps = limits != NULL && limits->steps != 0 ? limits->steps : PART_REFINE_STEPS,
        .seed = limits != NULL && limits->seed != 0 ? limits->seed : SEED_DEFAULT,
        .n_random = random_orders(p, limits),
        .moves_only = limits != NULL && limits->moves_only,
        .order = call_alloc((size_t)p->n + 1, sizeof *r.order),
        .depths = call_alloc((size_t)p->n + 1, sizeof *r.depths),
        .keys = call_alloc((size_t)p->n + 1, sizeof *r.keys),
    };

    refine(&r);
    r.stats.ticks = r.ticks;
    r.stats.bound = r.bound;
    r.stats.optimal = r.ticks <= r.bound;
    r.stats.probes = r.chain.probes;
    if (ret_stats != NULL) {
        *ret_stats = r.stats;
    }
}
