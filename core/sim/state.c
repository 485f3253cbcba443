/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

#include <stdlib.h>

static int queue_of(uint32_t op)
{
    switch (op) {
    case PST_I_SEND:
        return QUEUE_SEND;
    case PST_I_RECV:
        return QUEUE_RECV;
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_NORM:
        return QUEUE_REDUCE;
    default:
        return QUEUE_COUNT;
    }
}

static bool init_rank(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t n = sim->plan->devices[rank].n_instrs, count[QUEUE_COUNT + 1] = {0};
    state->list = sim->plan->devices[rank].body;
    state->n = n;
    state->arrived_at = PST_NONE;
    for (uint32_t i = 0; i < n; i++) {
        count[queue_of(state->list[i].op)]++;
    }
    for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
        state->queued[q] = pst_arena_array(&sim->arena, count[q] + 1u, sizeof(uint32_t));
        if (state->queued[q] == NULL) {
            return false;
        }
        count[q] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        int queue = queue_of(state->list[i].op);
        if (queue < QUEUE_COUNT) {
            state->queued[queue][count[queue]++] = i;
        }
    }
    state->posted = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    state->start = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    state->end = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    return state->posted != NULL && state->start != NULL && state->end != NULL;
}

static int compare_links(const void *a, const void *b)
{
    uint32_t x = ((const struct pst_sim_link *)a)->peer, y = ((const struct pst_sim_link *)b)->peer;
    return (x > y) - (x < y);
}

/* seen[to] == rank + 1: that link is listed already. */
static bool init_links(struct pst_sim *sim, uint32_t rank, uint32_t *seen)
{
    const struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t n = 0;
    for (uint32_t i = 0; i < state->n; i++) {
        if (state->list[i].op == PST_I_SEND && seen[state->list[i].peer] != rank + 1) {
            seen[state->list[i].peer] = rank + 1;
            n++;
        }
    }
    struct pst_sim_link *links = pst_arena_array(&sim->arena, n + 1u, sizeof *links);
    if (links == NULL) {
        return false;
    }
    n = 0;
    for (uint32_t i = 0; i < state->n; i++) {
        if (state->list[i].op == PST_I_SEND && seen[state->list[i].peer] == rank + 1) {
            seen[state->list[i].peer] = 0;
            links[n++].peer = state->list[i].peer;
        }
    }
    qsort(links, n, sizeof *links, compare_links);
    sim->links[rank] = links;
    sim->n_links[rank] = n;
    return true;
}

/* How many different ranks hold the stages of a tie; seen[rank] == mark: counted. */
static uint32_t tie_ranks(const struct pst_plan *plan, const struct pst_plan_tie *tie,
                          uint32_t mark, uint32_t *seen)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[tie->stages[s]];
        for (uint32_t r = 0; r < stage->n_ranks; r++) {
            if (seen[stage->ranks[r]] != mark) {
                seen[stage->ranks[r]] = mark;
                n++;
            }
        }
    }
    return n;
}

static void init_collectives(struct pst_sim *sim, uint32_t *seen)
{
    const struct pst_plan *plan = sim->plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        sim->collectives[s].n_ranks = plan->stages[s].n_ranks;
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        sim->collectives[plan->n_stages + t].n_ranks = tie_ranks(plan, &plan->ties[t], t + 1, seen);
    }
    sim->collectives[plan->n_stages + plan->n_ties].n_ranks = plan->n_devices;
}

static bool init_nodes(struct pst_sim *sim)
{
    uint32_t n = sim->plan->n_devices;
    if (n == 0 || pst_cost_node(sim->durations.cost, n - 1) == 0) {
        return true;
    }
    sim->node_out = pst_arena_array(&sim->arena, n, sizeof *sim->node_out);
    sim->node_in = pst_arena_array(&sim->arena, n, sizeof *sim->node_in);
    sim->requests = pst_arena_array(&sim->arena, n, sizeof *sim->requests);
    return sim->node_out != NULL && sim->node_in != NULL && sim->requests != NULL;
}

pst_status pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan,
                        const struct pst_graph *graph, const struct pst_cost_model *cost,
                        uint32_t n_runs, struct pst_error *err)
{
    size_t n = plan->n_devices;
    struct pst_arena *arena = &sim->arena;
    sim->plan = plan;
    sim->err = err;
    sim->n_runs = n_runs;
    sim->ranks = pst_arena_array(arena, n, sizeof *sim->ranks);
    sim->begins = pst_arena_array(arena, n * n_runs, sizeof *sim->begins);
    sim->worklist = pst_arena_array(arena, n, sizeof *sim->worklist);
    sim->n_links = pst_arena_array(arena, n, sizeof *sim->n_links);
    sim->links = pst_arena_array(arena, n, sizeof *sim->links);
    sim->collectives =
        pst_arena_array(arena, (size_t)plan->n_stages + plan->n_ties + 1, sizeof *sim->collectives);
    uint32_t *link_seen = pst_arena_array(arena, n, sizeof *link_seen);
    uint32_t *tie_seen = pst_arena_array(arena, n, sizeof *tie_seen);
    if (sim->ranks == NULL || sim->begins == NULL || sim->worklist == NULL ||
        sim->n_links == NULL || sim->links == NULL || sim->collectives == NULL ||
        link_seen == NULL || tie_seen == NULL ||
        !pst_sim_durations_init(&sim->durations, arena, plan, graph, cost) || !init_nodes(sim)) {
        return pst_fail_nomem(err);
    }
    for (uint32_t d = 0; d < n; d++) {
        if (!init_rank(sim, d) || !init_links(sim, d, link_seen)) {
            return pst_fail_nomem(err);
        }
    }
    init_collectives(sim, tie_seen);
    return PST_OK;
}
