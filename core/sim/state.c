/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

#include <stdlib.h>

static pst_status init_rank(struct pst_sim *sim, uint32_t rank, uint64_t *start, uint64_t *end)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t n = sim->plan->devices[rank].n_instrs;
    state->list = sim->plan->devices[rank].body;
    state->n = n;
    state->arrived_at = PST_NONE;
    state->start = start != NULL ? start : pst_arena_array(&sim->arena, n + 1u, sizeof *start);
    state->end = end != NULL ? end : pst_arena_array(&sim->arena, n + 1u, sizeof *end);
    state->done = pst_arena_array(&sim->arena, n + 1u, sizeof *state->done);
    if (state->start == NULL || state->end == NULL || state->done == NULL) {
        return pst_fail_nomem(sim->err);
    }
    return PST_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* seen[to] == rank + 1: that link is listed already. */
static pst_status init_links(struct pst_sim *sim, uint32_t rank, uint32_t *seen)
{
    const struct pst_plan_device *device = &sim->plan->devices[rank];
    uint32_t n = 0;
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op == PST_I_SEND && seen[instr->peer] != rank + 1) {
            seen[instr->peer] = rank + 1;
            n++;
        }
    }
    sim->link_peers[rank] = pst_arena_array(&sim->arena, n + 1u, sizeof(uint32_t));
    sim->link_free[rank] = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    if (sim->link_peers[rank] == NULL || sim->link_free[rank] == NULL) {
        return pst_fail_nomem(sim->err);
    }
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op == PST_I_SEND && seen[instr->peer] == rank + 1) {
            seen[instr->peer] = 0;
            sim->link_peers[rank][sim->n_links[rank]++] = instr->peer;
        }
    }
    qsort(sim->link_peers[rank], n, sizeof(uint32_t), compare_ranks);
    return PST_OK;
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

pst_status pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan,
                        const struct pst_graph *graph, const struct pst_cost_model *cost,
                        uint64_t *const *start, uint64_t *const *end, struct pst_error *err)
{
    size_t n = plan->n_devices;
    struct pst_arena *arena = &sim->arena;
    sim->plan = plan;
    sim->err = err;
    sim->ranks = pst_arena_array(arena, n, sizeof *sim->ranks);
    sim->worklist = pst_arena_array(arena, n, sizeof *sim->worklist);
    sim->n_links = pst_arena_array(arena, n, sizeof *sim->n_links);
    sim->link_peers = pst_arena_array(arena, n, sizeof *sim->link_peers);
    sim->link_free = pst_arena_array(arena, n, sizeof *sim->link_free);
    sim->collectives =
        pst_arena_array(arena, (size_t)plan->n_stages + plan->n_ties + 1, sizeof *sim->collectives);
    uint32_t *link_seen = pst_arena_array(arena, n, sizeof *link_seen);
    uint32_t *tie_seen = pst_arena_array(arena, n, sizeof *tie_seen);
    if (sim->ranks == NULL || sim->worklist == NULL || sim->n_links == NULL ||
        sim->link_peers == NULL || sim->link_free == NULL || sim->collectives == NULL ||
        link_seen == NULL || tie_seen == NULL ||
        !pst_sim_durations_init(&sim->durations, arena, plan, graph, cost)) {
        return pst_fail_nomem(err);
    }
    for (uint32_t d = 0; d < n; d++) {
        pst_status status =
            init_rank(sim, d, start != NULL ? start[d] : NULL, end != NULL ? end[d] : NULL);
        status = status == PST_OK ? init_links(sim, d, link_seen) : status;
        if (status != PST_OK) {
            return status;
        }
    }
    init_collectives(sim, tie_seen);
    return PST_OK;
}
