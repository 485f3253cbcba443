/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

#include <stdlib.h>
#include <string.h>

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

static bool init_list(struct pst_sim *sim, struct pst_sim_list *list,
                      const struct pst_instr *instrs, uint32_t n)
{
    uint32_t count[QUEUE_COUNT + 1] = {0};
    for (uint32_t i = 0; i < n; i++) {
        count[queue_of(instrs[i].op)]++;
    }
    for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
        list->queued[q] = pst_arena_array(&sim->arena, count[q] + 1u, sizeof(uint32_t));
        if (list->queued[q] == NULL) {
            return false;
        }
        count[q] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        int queue = queue_of(instrs[i].op);
        if (queue < QUEUE_COUNT) {
            list->queued[queue][count[queue]++] = i;
        }
    }
    list->instrs = instrs;
    list->n = n;
    return true;
}

static bool init_rank(struct pst_sim *sim, uint32_t rank)
{
    const struct pst_plan_device *device = &sim->plan->devices[rank];
    struct pst_sim_rank *state = &sim->ranks[rank];
    state->arrived_at = PST_NONE;
    return init_list(sim, &state->lists[0], device->body, device->n_instrs) &&
           init_list(sim, &state->lists[1], device->fill, device->n_fill) &&
           init_list(sim, &state->lists[2], device->drain, device->n_drain);
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
    struct pst_sim_link *links = NULL;
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t n = 0;
        for (uint32_t l = 0; l < 3; l++) {
            const struct pst_sim_list *list = &state->lists[l];
            for (uint32_t i = 0; i < list->n; i++) {
                uint32_t mark = 2 * rank + 1 + pass, peer = list->instrs[i].peer;
                if (list->instrs[i].op == PST_I_SEND && seen[peer] != mark) {
                    seen[peer] = mark;
                    if (links != NULL) {
                        links[n].peer = peer;
                    }
                    n++;
                }
            }
        }
        if (links == NULL) {
            links = pst_arena_array(&sim->arena, n + 1u, sizeof *links);
        }
        if (links == NULL) {
            return false;
        }
        sim->n_links[rank] = n;
    }
    qsort(links, sim->n_links[rank], sizeof *links, compare_links);
    sim->links[rank] = links;
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

static bool has_norm(const struct pst_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = plan->devices[d].n_instrs; i-- > 0;) {
            if (plan->devices[d].body[i].op == PST_I_NORM) {
                return true;
            }
        }
    }
    return false;
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
                        uint32_t n_steps, struct pst_error *err)
{
    size_t n = plan->n_devices;
    struct pst_arena *arena = &sim->arena;
    sim->plan = plan;
    sim->err = err;
    sim->n_steps = n_steps;
    sim->n_visits = plan->asynchronous ? n_steps + 1 : n_steps;
    sim->joins = !plan->asynchronous;
    sim->barrier = sim->joins && has_norm(plan);
    sim->ranks = pst_arena_array(arena, n, sizeof *sim->ranks);
    sim->begins = pst_arena_array(arena, n * sim->n_visits, sizeof *sim->begins);
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

/* --- visits ---------------------------------------------------------------------------------- */

static struct pst_sim_visit *new_visit(struct pst_sim *sim, struct pst_sim_rank *state)
{
    struct pst_sim_visit *visit = state->spare;
    if (visit != NULL) {
        state->spare = visit->next;
        *visit = (struct pst_sim_visit){
            .posted = visit->posted, .start = visit->start, .end = visit->end};
        return visit;
    }
    uint32_t most = 1;
    for (uint32_t l = 0; l < 3; l++) {
        most = state->lists[l].n > most ? state->lists[l].n : most;
    }
    visit = pst_arena_alloc(&sim->arena, sizeof *visit, 0);
    uint64_t *times = pst_arena_array(&sim->arena, 3 * (size_t)most, sizeof *times);
    if (visit == NULL || times == NULL) {
        return NULL;
    }
    visit->posted = times;
    visit->start = times + most;
    visit->end = times + 2 * (size_t)most;
    return visit;
}

bool pst_sim_enter(struct pst_sim *sim, uint32_t rank, uint32_t number)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    struct pst_sim_visit *visit = new_visit(sim, state);
    if (visit == NULL) {
        sim->status = pst_fail_nomem(sim->err);
        return false;
    }
    bool async = sim->plan->asynchronous;
    uint32_t list = !async ? 0 : number == 0 ? 1 : number + 1 == sim->n_visits ? 2 : 0;
    visit->list = &state->lists[list];
    visit->number = number;
    visit->batch = async && number > 0 ? number - 1 : number;
    visit->begin = visit->latest = state->now;
    memset(visit->end, 0xff, visit->list->n * sizeof *visit->end);
    sim->begins[(size_t)number * sim->plan->n_devices + rank] = state->now;
    if (state->current != NULL) {
        state->current->next = visit;
    } else {
        state->oldest = visit;
        for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
            state->visit[q] = visit;
        }
    }
    state->current = visit;
    state->pc = 0;
    return true;
}

void pst_sim_retire(struct pst_sim *sim, uint32_t rank, bool all)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    while (state->oldest != NULL && (all || state->oldest != state->current) &&
           state->oldest->n_done == state->oldest->list->n && sim->status == PST_OK) {
        struct pst_sim_visit *visit = state->oldest;
        for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
            if (state->visit[q] == visit && visit->next != NULL) {
                state->visit[q] = visit->next;
                state->head[q] = 0;
            }
        }
        if (sim->sink != NULL) {
            sim->status = sim->sink(sim->context, sim, rank, visit);
        }
        state->oldest = visit->next;
        visit->next = state->spare;
        state->spare = visit;
    }
}
