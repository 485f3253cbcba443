/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

static void init_rank(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t n = sim->plan->devices[rank].n_instrs, count[QUEUE_COUNT + 1] = {0};
    state->list = sim->plan->devices[rank].body;
    state->n = n;
    state->arrived_at = state->behind = PST_NONE;
    for (uint32_t i = 0; i < n; i++) {
        count[pst_sim_queue_of(state->list[i].op)]++;
    }
    for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
        state->queued[q] = pst_arena_array(&sim->arena, count[q] + 1u, sizeof(uint32_t));
        count[q] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t queue = pst_sim_queue_of(state->list[i].op);
        if (queue < QUEUE_COUNT) {
            state->queued[queue][count[queue]++] = i;
        }
    }
    state->posted = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    state->start = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
    state->end = pst_arena_array(&sim->arena, n + 1u, sizeof(uint64_t));
}

/* at[rank]: PST_NONE; which of the rank's links goes there. */
static void init_links(struct pst_sim *sim, uint32_t rank, uint32_t *at)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t n = 0;
    state->link = pst_arena_array(&sim->arena, state->n, sizeof *state->link);
    for (uint32_t i = 0; i < state->n; i++) {
        if (state->list[i].op == PST_I_SEND) {
            uint32_t *link = &at[state->list[i].peer];
            *link = *link == PST_NONE ? n++ : *link;
            state->link[i] = *link;
        }
    }
    for (uint32_t i = 0; i < state->n; i++) {
        at[state->list[i].peer] = PST_NONE;
    }
    state->link_free = pst_arena_array(&sim->arena, n, sizeof *state->link_free);
}

/* All meetings of which a rank is a member; NORM is one of all. */
static void init_collectives(struct pst_sim *sim, uint32_t rank)
{
    const struct pst_plan *plan = sim->plan;
    const struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t *ranks;

    for (uint32_t i = 0; i < state->n; i++) {
        const struct pst_instr *instr = &state->list[i];
        struct pst_sim_collective *collective;

        if (pst_sim_queue_of(instr->op) != QUEUE_REDUCE) {
            continue;
        }
        collective = &sim->collectives[pst_plan_meeting_of(plan, instr, rank)];
        if (collective->n_ranks == 0 && instr->op == PST_I_NORM) {
            collective->n_ranks = plan->n_devices;
            collective->n_nodes = 1 + pst_cost_node(sim->durations.cost, plan->n_devices - 1);
        } else if (collective->n_ranks == 0) {
            ranks = pst_arena_array(&sim->arena, plan->n_devices, sizeof *ranks);
            collective->n_ranks = pst_plan_members(plan, instr, rank, ranks);
            collective->ranks = ranks;
            collective->n_nodes =
                pst_cost_count_nodes(sim->durations.cost, ranks, collective->n_ranks);
        }
    }
}

/* Conversions meet in F, or in B and where they run again; W has none. Passes that scatter are
   found with their times. */
static void find_conversions(struct pst_sim *sim, const struct pst_graph *graph)
{
    const struct pst_plan *plan = sim->plan;
    if (pst_plan_tensor(plan) == 1) {
        return;
    }
    sim->converts = pst_arena_array(&sim->arena, plan->n_stages, sizeof *sim->converts);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t v = 0; v < plan->stages[s].n_nodes; v++) {
            sim->converts[s] |= pst_op_is_convert(graph->ops[plan->stages[s].nodes[v]].kind);
        }
    }
}

static void init_nodes(struct pst_sim *sim)
{
    uint32_t n = sim->plan->n_devices;
    if (n == 0 || pst_cost_node(sim->durations.cost, n - 1) == 0) {
        return;
    }
    sim->node_out = pst_arena_array(&sim->arena, n, sizeof *sim->node_out);
    sim->node_in = pst_arena_array(&sim->arena, n, sizeof *sim->node_in);
}

static void init_cores(struct pst_sim *sim)
{
    sim->n_cores = sim->durations.cost->side_by_side;
    if (pst_cost_shares_cores(sim->durations.cost, sim->plan->n_devices)) {
        sim->core_free = pst_arena_array(&sim->arena, sim->n_cores, sizeof *sim->core_free);
    }
}

void pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan, const struct pst_graph *graph,
                  const struct pst_cost_model *cost, uint32_t n_runs, struct pst_error *err)
{
    size_t n = plan->n_devices;
    struct pst_arena *arena = &sim->arena;
    sim->plan = plan;
    sim->err = err;
    sim->n_runs = n_runs;
    sim->ranks = pst_arena_array(arena, n, sizeof *sim->ranks);
    sim->begins = pst_arena_array(arena, n * n_runs, sizeof *sim->begins);
    sim->n_ranks_in = pst_arena_array(arena, n_runs, sizeof *sim->n_ranks_in);
    sim->worklist = pst_arena_array(arena, n, sizeof *sim->worklist);
    sim->requests = pst_arena_array(arena, (size_t)n * PST_SIM_REQUESTS, sizeof *sim->requests);
    sim->collectives = pst_arena_array(arena, pst_plan_n_meetings(plan), sizeof *sim->collectives);
    uint32_t *link_at = pst_arena_none(arena, n);
    pst_sim_durations_init(&sim->durations, arena, plan, graph, cost);
    find_conversions(sim, graph);
    init_nodes(sim);
    init_cores(sim);
    for (uint32_t d = 0; d < n; d++) {
        init_rank(sim, d);
        pst_sim_copies_init(sim, d);
        init_links(sim, d, link_at);
    }
    for (uint32_t d = 0; d < n; d++) {
        init_collectives(sim, d);
    }
}
