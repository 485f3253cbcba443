/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies to and from host memory, and passes that stand still for them. A copy that stands behind a
 * pass goes on beside it: it is posted when the pass begins and may start once its node's own call
 * there has ended. A pass waits for copies of its nodes one by one: F for the way out of a node
 * before it overwrites what the node left for the micro-batch before, a backward pass for the way
 * back of what it reads next. All copies that a pass may wait for stand before it in the list, so
 * their ends are known when it begins.
 */
#include "sim/state.h"

void pst_sim_copies_init(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    size_t most = 0;
    bool any = false;
    for (uint32_t s = 0; s < sim->plan->n_stages; s++) {
        const struct pst_sim_offload *offload = sim->durations.stages[s].offload;
        if (offload != NULL && pst_plan_replica(&sim->plan->stages[s], rank) != PST_NONE) {
            any = true;
            most = offload->rows.calls[PST_I_F].n_calls > most
                       ? offload->rows.calls[PST_I_F].n_calls
                       : most;
            most = offload->rows.calls[PST_I_BW].n_calls > most
                       ? offload->rows.calls[PST_I_BW].n_calls
                       : most;
        }
    }
    if (!any) {
        return;
    }
    state->stall = pst_arena_array(&sim->arena, state->n + 1u, sizeof *state->stall);
    state->call_end = pst_arena_array(&sim->arena, most + 1, sizeof *state->call_end);
    state->until = pst_arena_array(&sim->arena, most + 1, sizeof *state->until);
}

static const struct pst_pass_calls *calls_of(const struct pst_sim *sim,
                                             const struct pst_instr *instr)
{
    const struct pst_sim_offload *offload = sim->durations.stages[instr->stage].offload;
    bool pass = instr->op == PST_I_F || instr->op == PST_I_B || instr->op == PST_I_W ||
                instr->op == PST_I_BW;
    return pass && offload != NULL ? &offload->rows.calls[instr->op] : NULL;
}

/* The call of its pass that a copy's own rule names; PST_NONE: none does. */
static uint32_t call_of_node(const struct pst_sim *sim, const struct pst_pass_calls *calls,
                             const struct pst_instr *pass, const struct pst_instr *copy)
{
    uint32_t node = copy->stage == pass->stage
                        ? pst_plan_node(&sim->plan->stages[copy->stage], copy->node)
                        : PST_NONE;
    if (node == PST_NONE) {
        return PST_NONE;
    }
    if (pass->op == PST_I_F) {
        return copy->op == PST_I_OFFLOAD ? calls->behind[node] - 1 : PST_NONE;
    }
    return copy->op == PST_I_FETCH && copy->microbatch == pass->microbatch ? calls->first_read[node]
                                                                           : PST_NONE;
}

uint32_t pst_sim_waits_at(const struct pst_sim *sim, const struct pst_sim_rank *state,
                          const struct pst_instr *instr, uint32_t wait)
{
    const struct pst_instr *copy = &state->list[instr->waits[wait]];
    const struct pst_pass_calls *calls = calls_of(sim, instr);
    if (calls == NULL || !pst_instr_copies(copy) || calls->n_calls == 0) {
        return PST_NONE;
    }
    uint32_t call = call_of_node(sim, calls, instr, copy);
    return call != PST_NONE ? call : 0; /* any other wait: before the first */
}

/* Before which call the pass waits until when: state->until. */
static void take_waits(const struct pst_sim *sim, const struct pst_sim_rank *state,
                       const struct pst_instr *instr)
{
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint32_t call = pst_sim_waits_at(sim, state, instr, w);
        if (call != PST_NONE) {
            state->until[call] = pst_later(state->until[call], state->end[instr->waits[w]]);
        }
    }
}

/* A pass sums at its end what has waited for it. */
uint64_t pst_sim_run_pass(struct pst_sim *sim, struct pst_sim_rank *state, uint32_t at)
{
    const struct pst_instr *instr = &state->list[at];
    const struct pst_sim_stage *stage = &sim->durations.stages[instr->stage];
    const uint32_t n_sums = pst_sim_sums(&sim->durations, instr);
    struct pst_pass_walk walk = {
        .serial = pst_cost_meets_alone(sim->durations.cost, sim->plan->n_devices),
        .call_end = state->call_end};
    const struct pst_stage_rows *rows;
    uint64_t end;

    state->behind = at;
    if (calls_of(sim, instr) == NULL) {
        return pst_sat_add_ns(
            state->now, pst_sim_compute_ns(&sim->durations, instr, (uint32_t)(state - sim->ranks)));
    }
    take_waits(sim, state, instr);
    walk.call_ns = pst_sim_call_ns(&sim->durations, instr);
    walk.until = state->until;
    rows = &stage->offload->rows;
    end = pst_pass_walk(n_sums > 0 ? &rows->summed[instr->op] : &rows->plain[instr->op], &walk,
                        state->now);
    state->stall[at] = walk.stall_ns;
    return n_sums > 1 ? pst_sat_add_ns(end, pst_sat_mul(stage->scatters->ns, n_sums - 1)) : end;
}

/* When the pass that the copy stands behind is through with the copy's node; where it is another
   stage's, when it has ended. */
static uint64_t node_end(const struct pst_sim *sim, const struct pst_sim_rank *state,
                         const struct pst_instr *copy)
{
    const struct pst_instr *pass = &state->list[state->behind];
    const struct pst_pass_calls *calls = calls_of(sim, pass);
    uint32_t node = pst_plan_node(&sim->plan->stages[copy->stage], copy->node);
    if (calls == NULL || pass->stage != copy->stage || node == PST_NONE) {
        return state->end[state->behind];
    }
    uint32_t behind = calls->behind[node];
    return behind == 0 ? state->start[state->behind] : state->call_end[behind - 1];
}

bool pst_sim_copy(struct pst_sim *sim, struct pst_sim_rank *state, uint32_t at)
{
    const struct pst_instr *instr = &state->list[at];
    bool shared = sim->durations.cost->cluster->link_directions == 2;
    if (instr->at_part_head) {
        state->behind = PST_NONE;
    }
    uint64_t *link = &state->host_free[shared || instr->op == PST_I_OFFLOAD ? 0 : 1];
    uint64_t posted = state->behind != PST_NONE ? state->start[state->behind] : state->now;
    uint64_t start = pst_later(posted, *link);
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint32_t wait = instr->waits[w];
        uint64_t end = wait >= state->n        ? PST_SIM_OPEN
                       : wait == state->behind ? node_end(sim, state, instr)
                                               : state->end[wait];
        if (end == PST_SIM_OPEN) {
            return false;
        }
        start = pst_later(start, end);
    }
    *link = pst_sat_add_ns(start, pst_sim_copy_ns(&sim->durations, instr));
    state->posted[at] = state->now;
    pst_sim_finish(state, at, start, *link);
    return true;
}
