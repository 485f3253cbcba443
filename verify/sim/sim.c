/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists run side by side: every start time is a maximum over ends that are known before it, and
 * each channel serves in list order, so where no link is shared the times do not depend on the
 * order in which this file visits the ranks, and a worklist of ranks takes the place of an event
 * queue. What asks for a link or a core that others may want is put off until nothing else moves;
 * then the earliest request is served. Whatever follows from it is later, so requests are served in
 * the order of their times. Each instruction is handled once.
 *
 * Transfers of one queue start in order and overlap where their links differ; a link direction
 * moves the bytes of one transfer at a time, which arrive a latency later. Reductions of one rank
 * follow each other. Where ranks share cores, a pass has the core that is free first, and keeps it
 * to its end.
 */
#include "sim/sim.h"

#include <string.h>

#include "sim/state.h"

static void wake_rank(struct pst_sim *sim, uint32_t rank)
{
    if (!sim->ranks[rank].queued_up) {
        sim->ranks[rank].queued_up = true;
        uint32_t at = sim->first + sim->n_queued++;
        sim->worklist[at < sim->plan->n_devices ? at : at - sim->plan->n_devices] = rank;
    }
}

static bool is_asking(const struct pst_sim_rank *state, enum pst_sim_request_kind kind)
{
    return state->requests[kind].open;
}

static void ask_link(struct pst_sim *sim, struct pst_sim_rank *state,
                     enum pst_sim_request_kind kind, uint64_t ns)
{
    state->requests[kind] = (struct pst_sim_request){true, ns};
    sim->requests[sim->n_requests++] =
        (uint32_t)(state - sim->ranks) * PST_SIM_REQUESTS + (uint32_t)kind;
}

/* All that the instruction waits for has a known end; *earliest is raised to the last of them. What
   a pass waits for inside is left to it. */
static bool waits_known(const struct pst_sim *sim, const struct pst_sim_rank *state,
                        const struct pst_instr *instr, uint64_t *earliest)
{
    uint64_t latest = *earliest;
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint64_t end = instr->waits[w] < state->n ? state->end[instr->waits[w]] : PST_SIM_OPEN;
        if (end == PST_SIM_OPEN) {
            return false;
        }
        if (pst_sim_waits_at(sim, state, instr, w) == PST_NONE) {
            latest = pst_later(latest, end);
        }
    }
    *earliest = latest;
    return true;
}

/* The first posted instruction of the queue that has not started; PST_NONE: none. */
static uint32_t queue_head(const struct pst_sim_rank *state, uint32_t queue)
{
    return state->head[queue] < state->n_posted[queue] ? state->queued[queue][state->head[queue]]
                                                       : PST_NONE;
}

/* --- transfers ------------------------------------------------------------------------------- */

static bool same_transfer(const struct pst_instr *a, const struct pst_instr *b)
{
    return a->stage == b->stage && a->payload == b->payload && a->first_sample == b->first_sample &&
           a->n_samples == b->n_samples;
}

static bool is_between_nodes(const struct pst_sim *sim, uint32_t from, uint32_t to)
{
    return sim->node_out != NULL &&
           pst_cost_node(sim->durations.cost, from) != pst_cost_node(sim->durations.cost, to);
}

/*
 * The times from which on the link that a SEND goes by is free. Two ranks of one node have a link
 * of their own in each direction; who asks first is known from the lists. All transfers between
 * nodes share the way out of the sender's node and the way into the receiver's; there requests are
 * served in the order of their times.
 */
static void find_link(struct pst_sim *sim, uint32_t from, uint32_t to, uint32_t send,
                      uint64_t *ret_free[2])
{
    struct pst_sim_rank *sender = &sim->ranks[from];
    if (is_between_nodes(sim, from, to)) {
        ret_free[0] = &sim->node_out[pst_cost_node(sim->durations.cost, from)];
        ret_free[1] = &sim->node_in[pst_cost_node(sim->durations.cost, to)];
    } else {
        ret_free[0] = ret_free[1] = &sender->link_free[sender->link[send]];
    }
}

/* The transfer at the heads of both queues has the link as soon as that is free. */
static void move_transfer(struct pst_sim *sim, uint32_t from, uint32_t to, uint64_t ready)
{
    struct pst_sim_rank *sender = &sim->ranks[from], *receiver = &sim->ranks[to];
    uint32_t send = queue_head(sender, QUEUE_SEND), recv = queue_head(receiver, QUEUE_RECV);
    uint64_t *link[2];
    find_link(sim, from, to, send, link);
    uint64_t start = pst_later(ready, pst_later(*link[0], *link[1]));
    const struct pst_sim_edge time = pst_sim_transfer(&sim->durations, &sender->list[send], from);
    const uint64_t end = pst_sat_add_ns(start, time.ns);
    *link[0] = *link[1] = end - time.latency_ns;
    sender->last_start[QUEUE_SEND] = receiver->last_start[QUEUE_RECV] = start;
    pst_sim_finish(sender, send, start, end);
    pst_sim_finish(receiver, recv, start, end);
    sender->head[QUEUE_SEND]++;
    receiver->head[QUEUE_RECV]++;
    wake_rank(sim, from);
    wake_rank(sim, to);
}

/* Starts the transfer at the heads of both ends, or asks for its link; false where one of them is
   not ready. */
static bool match_heads(struct pst_sim *sim, uint32_t from, uint32_t to)
{
    struct pst_sim_rank *sender = &sim->ranks[from], *receiver = &sim->ranks[to];
    uint32_t send = queue_head(sender, QUEUE_SEND), recv = queue_head(receiver, QUEUE_RECV);
    if (is_asking(sender, PST_SIM_LINK) || send == PST_NONE || recv == PST_NONE ||
        sender->list[send].peer != to || receiver->list[recv].peer != from) {
        return false;
    }
    if (!same_transfer(&sender->list[send], &receiver->list[recv])) {
        sim->status = pst_fail(sim->err, PST_ERR_BUG, "plan.illegal",
                               "rank %u, instruction %u sends what rank %u, instruction %u does "
                               "not expect",
                               from, send, to, recv);
        return false;
    }
    uint64_t ready = pst_later(sender->posted[send], receiver->posted[recv]);
    ready = pst_later(ready,
                      pst_later(sender->last_start[QUEUE_SEND], receiver->last_start[QUEUE_RECV]));
    if (is_between_nodes(sim, from, to)) {
        ask_link(sim, sender, PST_SIM_LINK, ready);
        return false;
    }
    move_transfer(sim, from, to, ready);
    return true;
}

/* --- reductions ------------------------------------------------------------------------------ */

static void complete_on(struct pst_sim *sim, uint32_t rank, uint32_t id, uint64_t start,
                        uint64_t end)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    if (state->arrived_at != id) {
        return; /* of a plan that nobody has proven */
    }
    state->arrived_at = PST_NONE;
    state->last_start[QUEUE_REDUCE] = end;
    pst_sim_finish(state, queue_head(state, QUEUE_REDUCE), start, end);
    state->head[QUEUE_REDUCE]++;
    wake_rank(sim, rank);
}

static void complete_collective(struct pst_sim *sim, const struct pst_instr *instr, uint32_t rank,
                                uint32_t id)
{
    struct pst_sim_collective *collective = &sim->collectives[id];
    uint64_t start = collective->ready_ns;
    uint64_t end =
        pst_sat_add_ns(start, pst_sim_collective_ns(&sim->durations, instr, rank, collective->ranks,
                                                    collective->n_ranks, collective->n_nodes));
    collective->arrived = 0;
    collective->ready_ns = 0;
    for (uint32_t i = 0; i < collective->n_ranks; i++) {
        complete_on(sim, collective->ranks != NULL ? collective->ranks[i] : i, id, start, end);
    }
}

/* The head of the reduction queue comes to its meeting; the last member to come ends it. */
static bool arrive_at_sum(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    uint32_t at = queue_head(state, QUEUE_REDUCE);
    if (state->arrived_at != PST_NONE || at == PST_NONE) {
        return false;
    }
    uint64_t ready = pst_later(state->posted[at], state->last_start[QUEUE_REDUCE]);
    uint32_t id = pst_plan_meeting_of(sim->plan, &state->list[at], rank);
    struct pst_sim_collective *collective = &sim->collectives[id];
    state->arrived_at = id;
    collective->ready_ns = pst_later(collective->ready_ns, ready);
    if (++collective->arrived == collective->n_ranks) {
        complete_collective(sim, &state->list[at], rank, id);
    }
    return true;
}

/* --- lists ----------------------------------------------------------------------------------- */

static void post_instr(struct pst_sim *sim, struct pst_sim_rank *state, uint32_t at)
{
    uint32_t queue = pst_sim_queue_of(state->list[at].op);

    if (queue == QUEUE_SEND || queue == QUEUE_RECV) {
        state->now = pst_sat_add_ns(
            state->now, pst_cost_post_ns(sim->durations.cost, (uint32_t)(state - sim->ranks)));
    }
    uint64_t start = state->now;
    state->posted[at] = start;
    state->behind = PST_NONE;
    if (queue < QUEUE_COUNT) {
        state->n_posted[queue]++;
        return;
    }
    if (sim->core_free != NULL) {
        ask_link(sim, state, PST_SIM_CORE, start);
        return;
    }
    state->now = pst_sim_run_pass(sim, state, at);
    pst_sim_finish(state, at, start, state->now);
}

static bool is_beside(const struct pst_sim_rank *a, const struct pst_sim_rank *b)
{
    const struct pst_instr *x = &a->list[a->pc], *y = &b->list[b->pc];
    return b->at_pass && a->number == b->number && x->op == y->op && x->stage == y->stage &&
           x->microbatch == y->microbatch;
}

/* The ranks that meet in a pass of this one: all of the stage where it scatters or gathers, the
   parts of a replica where conversions do. Returns how many; 0: they do not meet. */
static uint32_t find_meeting(const struct pst_sim *sim, const struct pst_sim_rank *state,
                             const struct pst_instr *instr, const uint32_t **ret_ranks)
{
    const struct pst_plan_stage *stage;
    uint32_t place;
    bool all;

    if (instr->op > PST_I_R) {
        return 0;
    }
    stage = &sim->plan->stages[instr->stage];
    all = sim->durations.stages[instr->stage].scatters != NULL &&
          (instr->op == PST_I_W || instr->op == PST_I_BW || sim->plan->zero >= 3);
    if (!all && (sim->converts == NULL || instr->op == PST_I_W || !sim->converts[instr->stage])) {
        return 0;
    }
    place = pst_plan_place(stage, (uint32_t)(state - sim->ranks));
    if (place == PST_NONE) {
        return 0; /* of a plan that nobody has proven */
    }
    *ret_ranks = &stage->ranks[all ? 0 : place / stage->tensor * stage->tensor];
    return all ? stage->n_ranks : stage->tensor;
}

/* A pass in which ranks meet begins on all of them, when the last has come to it. */
static bool begin_together(struct pst_sim *sim, struct pst_sim_rank *state)
{
    const uint32_t *ranks;
    uint32_t n = find_meeting(sim, state, &state->list[state->pc], &ranks);
    uint64_t start = 0;

    if (state->together || n == 0) {
        state->together = false;
        return true;
    }
    state->at_pass = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_beside(state, &sim->ranks[ranks[i]])) {
            return false;
        }
        start = pst_later(start, sim->ranks[ranks[i]].now);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct pst_sim_rank *other = &sim->ranks[ranks[i]];

        other->now = start;
        other->at_pass = false;
        other->together = other != state;
        wake_rank(sim, ranks[i]);
    }
    return true;
}

/* Begins with the next instruction; false where its time has not come. */
static bool take_instr(struct pst_sim *sim, struct pst_sim_rank *state)
{
    const struct pst_instr *instr = &state->list[state->pc];

    if (is_asking(state, PST_SIM_CORE) || state->is_through) {
        return false; /* the pass before it has not begun, or not ended on others */
    }
    if (instr->op == PST_I_OFFLOAD || instr->op == PST_I_FETCH) {
        return pst_sim_copy(sim, state, state->pc);
    }
    if (!waits_known(sim, state, instr, &state->now) || !begin_together(sim, state)) {
        return false;
    }
    post_instr(sim, state, state->pc);
    return true;
}

/* Begins a run of the list at the rank's `now`. */
static void begin_run(struct pst_sim *sim, uint32_t rank, uint32_t number)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    state->number = number;
    state->pc = state->n_done = 0;
    for (uint32_t q = 0; q < QUEUE_COUNT; q++) {
        state->n_posted[q] = state->head[q] = 0;
    }
    memset(state->end, 0xff, state->n * sizeof *state->end);
    state->latest = state->now;
    state->behind = PST_NONE;
    sim->begins[(size_t)number * sim->plan->n_devices + rank] = state->now;
    if (++sim->n_ranks_in[number] == sim->plan->n_devices && sim->suffices != NULL) {
        sim->sufficed = sim->suffices(sim->context, number + 1);
    }
}

/* Ends a run once all of the list has ended, and begins the next. False: not now, or there is none.
 */
static bool leave_pass(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    if (state->ended || state->n_done < state->n) {
        return false;
    }
    state->now = pst_later(state->now, state->latest);
    if (sim->sink != NULL) {
        sim->sink(sim->context, sim, rank);
    }
    if (state->number + 1 == sim->n_runs) {
        state->ended = true;
        return false;
    }
    begin_run(sim, rank, state->number + 1);
    return true;
}

/* Walks the list as far as it goes now. */
static bool walk_list(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    bool moved = false;
    do {
        while (state->pc < state->n) {
            if (!take_instr(sim, state)) {
                return moved;
            }
            state->pc++;
            moved = true;
        }
    } while (leave_pass(sim, rank));
    return moved;
}

static void advance(struct pst_sim *sim, uint32_t rank)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    bool moved = true;
    while (moved && sim->status == PST_OK) {
        moved = walk_list(sim, rank);
        uint32_t send = queue_head(state, QUEUE_SEND);
        if (send != PST_NONE) {
            moved |= match_heads(sim, rank, state->list[send].peer);
        }
        uint32_t recv = queue_head(state, QUEUE_RECV);
        if (recv != PST_NONE && sim->status == PST_OK) {
            moved |= match_heads(sim, state->list[recv].peer, rank);
        }
        moved |= arrive_at_sum(sim, rank);
    }
}

/* A pass in which ranks meet ends on all of them when the last has had a core for it. */
static void end_together(struct pst_sim *sim, const uint32_t *ranks, uint32_t n)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_sim_rank *other = &sim->ranks[ranks[i]];

        if (!other->is_through) {
            return;
        }
        end = pst_later(end, other->now);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct pst_sim_rank *other = &sim->ranks[ranks[i]];

        other->is_through = false;
        other->now = end;
        pst_sim_finish(other, other->pc - 1, other->begun, end);
        wake_rank(sim, ranks[i]);
    }
}

/* The pass that the rank has come to has the core that is free first. */
static void run_on_core(struct pst_sim *sim, uint32_t rank, uint64_t asked_ns)
{
    struct pst_sim_rank *state = &sim->ranks[rank];
    const uint32_t at = state->pc - 1, *ranks = &rank;
    const uint32_t n = find_meeting(sim, state, &state->list[at], &ranks);
    uint32_t core = 0;

    for (uint32_t c = 1; c < sim->n_cores; c++) {
        core = sim->core_free[c] < sim->core_free[core] ? c : core;
    }
    state->now = state->begun = pst_later(asked_ns, sim->core_free[core]);
    state->now = sim->core_free[core] = pst_sim_run_pass(sim, state, at);
    state->is_through = true;
    end_together(sim, ranks, n > 0 ? n : 1);
}

/* The earliest; of several that of the lowest rank. */
static void serve_request(struct pst_sim *sim)
{
    struct pst_sim_request *first = NULL;
    uint32_t at = 0, number = 0, rank;

    for (uint32_t i = 0; i < sim->n_requests; i++) {
        uint32_t other = sim->requests[i];
        struct pst_sim_request *request =
            &sim->ranks[other / PST_SIM_REQUESTS].requests[other % PST_SIM_REQUESTS];

        if (first == NULL || request->ns < first->ns ||
            (request->ns == first->ns && other < number)) {
            first = request;
            at = i;
            number = other;
        }
    }
    first->open = false;
    sim->requests[at] = sim->requests[--sim->n_requests];
    rank = number / PST_SIM_REQUESTS;
    if (number % PST_SIM_REQUESTS == PST_SIM_LINK) {
        const struct pst_sim_rank *sender = &sim->ranks[rank];

        move_transfer(sim, rank, sender->list[queue_head(sender, QUEUE_SEND)].peer, first->ns);
    } else {
        run_on_core(sim, rank, first->ns);
    }
}

static pst_status check_ended(const struct pst_sim *sim)
{
    for (uint32_t d = 0; d < sim->plan->n_devices; d++) {
        const struct pst_sim_rank *state = &sim->ranks[d];
        for (uint32_t i = 0; i < state->n; i++) {
            if (state->end[i] == PST_SIM_OPEN) {
                return pst_fail(sim->err, PST_ERR_BUG, "plan.illegal",
                                "the lists cannot run to their end: rank %u stays at instruction "
                                "%u (%s); `penstock check` shows the cycle",
                                d, i, pst_instr_name(state->list[i].op));
            }
        }
    }
    return PST_OK;
}

pst_status pst_sim_finish_all(struct pst_sim *sim)
{
    for (uint32_t d = 0; d < sim->plan->n_devices; d++) {
        begin_run(sim, d, 0);
        wake_rank(sim, d);
    }
    while (sim->status == PST_OK && !sim->sufficed && (sim->n_queued > 0 || sim->n_requests > 0)) {
        if (sim->n_queued == 0) {
            serve_request(sim);
            continue;
        }
        uint32_t rank = sim->worklist[sim->first];
        sim->first = sim->first + 1 < sim->plan->n_devices ? sim->first + 1 : 0;
        sim->n_queued--;
        sim->ranks[rank].queued_up = false;
        advance(sim, rank);
    }
    return sim->status != PST_OK || sim->sufficed ? sim->status : check_ended(sim);
}
