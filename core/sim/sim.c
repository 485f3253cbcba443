/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists run side by side: every start time is a maximum over ends that are known before it, and
 * each channel serves in list order, so the times do not depend on the order in which this file
 * visits the ranks. A worklist of ranks replaces the event queue; each instruction is handled once.
 *
 * A rank walks its list. It stays at an instruction until all that this waits for has ended, and at
 * a pass or STEP until that has ended; everything else is posted to the queue of its kind.
 * Transfers of one queue start in order and overlap where their links differ; a link direction
 * moves one transfer at a time. Reductions of one rank follow each other.
 */
#include "sim/sim.h"

#include "sim/state.h"

static bool is_blocking(uint32_t op)
{
    return op == PST_I_F || op == PST_I_B || op == PST_I_W || op == PST_I_BW || op == PST_I_R ||
           op == PST_I_STEP;
}

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
        return -1;
    }
}

static uint64_t max_ns(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t add_ns(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void wake(struct pst_sim *sim, uint32_t rank)
{
    if (!sim->ranks[rank].queued) {
        sim->ranks[rank].queued = true;
        sim->worklist[(sim->first + sim->n_queued++) % sim->plan->n_devices] = rank;
    }
}

/* All that the instruction waits for is done; *earliest is raised to the last end. */
static bool waits_done(const struct pst_sim_rank *rank, uint32_t at, uint64_t *earliest)
{
    const struct pst_instr *instr = &rank->list[at];
    uint64_t latest = *earliest;
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint32_t other = instr->waits[w];
        if (other >= rank->n || !rank->done[other]) {
            return false;
        }
        latest = max_ns(latest, rank->end[other]);
    }
    *earliest = latest;
    return true;
}

/* The first posted instruction of the queue that is not done; PST_NONE: none. */
static uint32_t queue_head(struct pst_sim_rank *rank, int queue)
{
    uint32_t at = rank->head[queue];
    while (at < rank->pc && (queue_of(rank->list[at].op) != queue || rank->done[at])) {
        at++;
    }
    rank->head[queue] = at;
    return at < rank->pc ? at : PST_NONE;
}

/* Peers of a rank are few and sorted. */
static uint64_t *link_of(struct pst_sim *sim, uint32_t from, uint32_t to)
{
    uint32_t low = 0, high = sim->n_links[from];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sim->link_peers[from][middle] < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    PST_ASSERT(low < sim->n_links[from] && sim->link_peers[from][low] == to);
    return &sim->link_free[from][low];
}

static void finish(struct pst_sim_rank *rank, uint32_t at, uint64_t start, uint64_t end)
{
    rank->start[at] = start;
    rank->end[at] = end;
    rank->done[at] = true;
}

static bool same_transfer(const struct pst_instr *a, const struct pst_instr *b)
{
    return a->stage == b->stage && a->payload == b->payload && a->first_sample == b->first_sample &&
           a->n_samples == b->n_samples;
}

/* Starts the transfer at the heads of both ends; false where one of them is not ready. */
static bool match_heads(struct pst_sim *sim, uint32_t from, uint32_t to)
{
    struct pst_sim_rank *sender = &sim->ranks[from], *receiver = &sim->ranks[to];
    uint32_t send = queue_head(sender, QUEUE_SEND), recv = queue_head(receiver, QUEUE_RECV);
    if (send == PST_NONE || recv == PST_NONE || sender->list[send].peer != to ||
        receiver->list[recv].peer != from) {
        return false;
    }
    if (!same_transfer(&sender->list[send], &receiver->list[recv])) {
        sim->status = pst_fail(sim->err, PST_ERR_BUG, "plan.illegal",
                               "rank %u, instruction %u sends what rank %u, instruction %u does "
                               "not expect",
                               from, send, to, recv);
        return false;
    }
    uint64_t *link = link_of(sim, from, to);
    uint64_t start = max_ns(sender->start[send], receiver->start[recv]);
    start = max_ns(start, max_ns(sender->last_start[QUEUE_SEND], receiver->last_start[QUEUE_RECV]));
    start = max_ns(start, *link);
    uint64_t end = add_ns(start, pst_sim_transfer_ns(&sim->durations, &sender->list[send], from));
    *link = end;
    sender->last_start[QUEUE_SEND] = receiver->last_start[QUEUE_RECV] = start;
    finish(sender, send, start, end);
    finish(receiver, recv, start, end);
    wake(sim, from);
    wake(sim, to);
    return true;
}

static uint32_t collective_of(const struct pst_plan *plan, const struct pst_instr *instr)
{
    return instr->op == PST_I_REDUCE ? instr->stage
           : instr->op == PST_I_TIE  ? plan->n_stages + instr->stage
                                     : plan->n_stages + plan->n_ties;
}

static void complete_on(struct pst_sim *sim, uint32_t rank, uint32_t id, uint64_t start,
                        uint64_t end)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    if (state->arrived_at != id) {
        return; /* a rank of two members, done already */
    }
    state->arrived_at = PST_NONE;
    state->last_start[QUEUE_REDUCE] = end;
    finish(state, queue_head(state, QUEUE_REDUCE), start, end);
    wake(sim, rank);
}

static void complete_stage(struct pst_sim *sim, uint32_t stage, uint32_t id, uint64_t start,
                           uint64_t end)
{
    for (uint32_t r = 0; r < sim->plan->stages[stage].n_ranks; r++) {
        complete_on(sim, sim->plan->stages[stage].ranks[r], id, start, end);
    }
}

static void complete_collective(struct pst_sim *sim, const struct pst_instr *instr, uint32_t id)
{
    struct pst_sim_collective *collective = &sim->collectives[id];
    const struct pst_plan *plan = sim->plan;
    uint64_t start = collective->ready_ns;
    uint64_t end =
        add_ns(start, pst_sim_collective_ns(&sim->durations, instr, collective->n_ranks));
    collective->arrived = 0;
    collective->ready_ns = 0;
    if (instr->op == PST_I_REDUCE) {
        complete_stage(sim, instr->stage, id, start, end);
    } else if (instr->op == PST_I_TIE) {
        const struct pst_plan_tie *tie = &plan->ties[instr->stage];
        for (uint32_t s = 0; s < tie->n_stages; s++) {
            complete_stage(sim, tie->stages[s], id, start, end);
        }
    } else {
        for (uint32_t d = 0; d < plan->n_devices; d++) {
            complete_on(sim, d, id, start, end);
        }
    }
}

/* The head of the reduction queue comes to its meeting; the last member to come ends it. */
static bool arrive(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t at = queue_head(state, QUEUE_REDUCE);
    if (at == PST_NONE || state->arrived_at != PST_NONE) {
        return false;
    }
    uint64_t ready = max_ns(state->start[at], state->last_start[QUEUE_REDUCE]);
    uint32_t id = collective_of(sim->plan, &state->list[at]);
    struct pst_sim_collective *collective = &sim->collectives[id];
    state->arrived_at = id;
    collective->ready_ns = max_ns(collective->ready_ns, ready);
    if (++collective->arrived == collective->n_ranks) {
        complete_collective(sim, &state->list[at], id);
    }
    return true;
}

/* Walks the list as far as it goes now. */
static bool walk(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t before = state->pc;
    while (state->pc < state->n) {
        uint32_t at = state->pc;
        if (!waits_done(state, at, &state->now)) {
            break;
        }
        if (is_blocking(state->list[at].op)) {
            uint64_t start = state->now;
            state->now = add_ns(start, pst_sim_compute_ns(&sim->durations, &state->list[at]));
            finish(state, at, start, state->now);
        } else {
            state->start[at] = state->now;
        }
        state->pc++;
    }
    return state->pc != before;
}

static void advance(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    bool moved = true;
    while (moved && sim->status == PST_OK) {
        moved = walk(sim, rank);
        uint32_t send = queue_head(state, QUEUE_SEND), recv = queue_head(state, QUEUE_RECV);
        if (send != PST_NONE && match_heads(sim, rank, state->list[send].peer)) {
            moved = true;
        }
        if (recv != PST_NONE && sim->status == PST_OK &&
            match_heads(sim, state->list[recv].peer, rank)) {
            moved = true;
        }
        if (arrive(sim, rank)) {
            moved = true;
        }
    }
}

static pst_status check_ended(const struct pst_sim *sim)
{
    for (uint32_t d = 0; d < sim->plan->n_devices; d++) {
        const struct pst_sim_rank *state = &sim->ranks[d];
        for (uint32_t i = 0; i < state->n; i++) {
            if (!state->done[i]) {
                return pst_fail(sim->err, PST_ERR_BUG, "plan.illegal",
                                "the lists cannot run to their end: rank %u stays at instruction "
                                "%u (%s); `penstock check` shows the cycle",
                                d, i, pst_instr_name(state->list[i].op));
            }
        }
    }
    return PST_OK;
}

pst_status pst_sim_run(const struct pst_plan *plan, const struct pst_graph *graph,
                       const struct pst_cost_model *cost, uint64_t *const *ret_start,
                       uint64_t *const *ret_end, uint64_t *ret_makespan_ns, struct pst_error *err)
{
    struct pst_sim sim = {0};
    pst_status status = pst_sim_init(&sim, plan, graph, cost, ret_start, ret_end, err);
    if (status != PST_OK) {
        goto out;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        wake(&sim, d);
    }
    while (sim.n_queued > 0 && sim.status == PST_OK) {
        uint32_t rank = sim.worklist[sim.first];
        sim.first = (sim.first + 1) % plan->n_devices;
        sim.n_queued--;
        sim.ranks[rank].queued = false;
        advance(&sim, rank);
    }
    status = sim.status != PST_OK ? sim.status : check_ended(&sim);
    if (status != PST_OK) {
        goto out;
    }
    uint64_t makespan = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < sim.ranks[d].n; i++) {
            makespan = max_ns(makespan, sim.ranks[d].end[i]);
        }
    }
    *ret_makespan_ns = makespan;
out:
    pst_arena_finish(&sim.arena);
    return status;
}
