/* SPDX-License-Identifier: Apache-2.0
 *
 * Is there an order that costs at most T? Depth first over what each free device begins, in order
 * of time. A branch ends where the work or a chain that is left cannot end by T, where the same
 * state was left without success at the same time or before, and where a device waits for nothing
 * better: a pass that could have begun while it waited, and would have been over by now without
 * filling memory, might as well have run (Giffler and Thompson, active schedules).
 */
#include <string.h>

#include "exact.h"

enum outcome { NONE, FOUND, STOPPED };

enum { MAX_DEPTH = 8192 }; /* decisions on the stack, a few hundred bytes each */

struct search {
    const struct instance *inst;
    const struct pst_host *host;
    uint64_t limit, *nodes;
    struct state state;
    uint64_t *barred;     /* [device]: passes that it chose not to begin; bit 3 * i + kind */
    uint64_t *idle_until; /* [device]: then a pass could have run in the gap; NEVER */
    uint64_t *words;      /* of a state's key */
    uint64_t left;        /* passes to begin */
    uint32_t depth;       /* of decisions, passes begun and waits alike */
    struct visited visited;
};

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t left_of(const struct search *search, uint32_t kind, uint32_t stage)
{
    return (search->inst->m - search->state.count[kind][stage]) * search->inst->time[kind][stage];
}

/* No device's deadline is known before it has begun; then only its own chains can be judged. */
static bool is_open(const struct instance *inst)
{
    return inst->objective == EXACT_SPAN && !inst->starts_known;
}

/* By when a device must be through; NEVER while that is open. */
static uint64_t deadline(const struct search *search, uint32_t d)
{
    const struct instance *inst = search->inst;
    uint64_t start = search->state.start[d];

    return !is_open(inst)   ? search->limit + inst->last_start - inst->lag[d]
           : start == NEVER ? NEVER
                            : start + search->limit;
}

/* Least time in which passes of device d other than F give back so many bytes. Where B frees
   nothing: as many W as that takes, each with its B unless that has run. Else one W at the best
   rate that there is. */
static uint64_t time_to_free(const struct search *search, uint32_t d, uint64_t bytes,
                             bool b_counted)
{
    const struct instance *inst = search->inst;
    const struct state *state = &search->state;
    uint64_t most = 0, w = NEVER, both = NEVER, pending = 0, n;

    for (uint32_t i = 0; i < inst->n_on[d]; i++) {
        uint32_t s = inst->on[d][i];
        uint64_t frees = (uint64_t)-inst->held[KIND_W][s];

        if (inst->held[KIND_B][s] != 0) {
            return 0;
        }
        most = max_of(most, frees);
        w = inst->time[KIND_W][s] < w ? inst->time[KIND_W][s] : w;
        n = inst->time[KIND_W][s] + (b_counted ? 0 : inst->time[KIND_B][s]);
        both = n < both ? n : both;
        pending += state->count[KIND_B][s] - state->count[KIND_W][s];
    }
    if (most == 0) {
        return 0;
    }
    n = (bytes + most - 1) / most;
    return n <= pending ? n * w : pending * w + (n - pending) * both;
}

/* Time that device d computes before the last pass of this kind on its i-th stage can begin. */
static uint64_t ahead_of(const struct search *search, uint32_t d, uint32_t i, uint32_t kind)
{
    const struct instance *inst = search->inst;
    uint32_t s = inst->on[d][i];
    uint64_t sum = left_of(search, KIND_F, s);
    uint64_t bytes = search->state.held[d] +
                     (inst->m - search->state.count[KIND_F][s]) * (uint64_t)inst->held[KIND_F][s];

    if (kind == KIND_B) {
        sum += left_of(search, KIND_B, s);
    }
    for (uint32_t k = 0; k < inst->n_on[d]; k++) {
        uint32_t other = inst->on[d][k];
        bool ahead = instance_leads(inst, other, s), behind = instance_leads(inst, s, other);

        if (ahead || (kind == KIND_B && behind)) {
            sum += left_of(search, KIND_F, other);
            bytes += (inst->m - search->state.count[KIND_F][other]) *
                     (uint64_t)inst->held[KIND_F][other];
        }
        if (kind == KIND_B && behind) {
            sum += left_of(search, KIND_B, other);
        }
    }
    if (inst->room[d] != NEVER && bytes > inst->room[d]) {
        sum += time_to_free(search, d, bytes - inst->room[d], kind == KIND_B);
    }
    return sum;
}

/* Can device d, and the chains that leave it, still end in time? */
static bool in_time(const struct search *search, uint32_t d)
{
    const struct instance *inst = search->inst;
    const struct state *state = &search->state;
    uint64_t from = max_of(state->now, state->free_at[d]), by = deadline(search, d), work = 0;
    uint64_t last = search->limit + inst->last_start; /* of all deadlines */
    bool open = is_open(inst);

    if (by == NEVER) {
        return true;
    }
    for (uint32_t i = 0; i < inst->n_on[d]; i++) {
        uint32_t s = inst->on[d][i];

        work +=
            left_of(search, KIND_F, s) + left_of(search, KIND_B, s) + left_of(search, KIND_W, s);
        if (state->count[KIND_F][s] < inst->m &&
            from + ahead_of(search, d, i, KIND_F) +
                    (open ? inst->back[s] + inst->time[KIND_W][s] : inst->down[s]) >
                (open ? by : last)) {
            return false;
        }
        if (state->count[KIND_B][s] < inst->m &&
            from + ahead_of(search, d, i, KIND_B) + (open ? inst->time[KIND_W][s] : inst->up[s]) >
                (open ? by : last)) {
            return false;
        }
    }
    return (work == 0 ? state->free_at[d] : from + work) <= by; /* now may be later than its end */
}

/* Seen from now on: what is under way on links, and what devices are doing or have turned down. */
static bool seen(struct search *search)
{
    const struct instance *inst = search->inst;
    const struct state *state = &search->state;
    uint64_t *words = search->words, now = state->now;
    bool open = is_open(inst);
    size_t n = 0;

    for (uint32_t d = 0; d < inst->n_devices; d++) {
        words[n++] = state->free_at[d] > now ? state->free_at[d] - now : 0;
        words[n++] = search->barred[d];
        words[n++] = search->idle_until[d] == NEVER ? NEVER : search->idle_until[d] - now;
        words[n++] = open && state->start[d] != NEVER ? now - state->start[d] : NEVER;
    }
    for (uint32_t s = 0; s < inst->n_stages; s++) {
        words[n++] = state->count[KIND_F][s] | (uint64_t)state->count[KIND_B][s] << 16 |
                     (uint64_t)state->count[KIND_W][s] << 32;
        for (uint32_t kind = KIND_F; kind <= KIND_B; kind++) {
            uint32_t j = state->count[kind][s];
            uint64_t latency = inst->slowest[kind][s];

            if (latency == 0) {
                continue;
            }
            while (j > 0 && state->arrival[kind][s][j - 1] + latency > now) {
                words[n++] = state->arrival[kind][s][--j] + latency - now;
            }
            words[n++] = NEVER; /* ends the list */
        }
    }
    return visited_before(&search->visited, words, n, open ? 0 : now);
}

static enum outcome decide(struct search *search, uint32_t d);

/* All free devices have decided: on to the next moment at which one may decide again. */
static enum outcome advance(struct search *search)
{
    const struct instance *inst = search->inst;
    struct state *state = &search->state;
    uint64_t next = NEVER, before = state->now;
    enum outcome outcome;

    for (uint32_t d = 0; d < inst->n_devices; d++) {
        if (state->free_at[d] > before) {
            next = state->free_at[d] < next ? state->free_at[d] : next;
            continue;
        }
        for (uint32_t i = 0; i < inst->n_on[d]; i++) {
            for (uint32_t kind = KIND_F; kind <= KIND_B; kind++) {
                uint64_t at = state_ready_at(state, inst, inst->on[d][i], kind);

                next = at > before && at < next ? at : next;
            }
        }
    }
    if (next == NEVER) {
        return NONE;
    }
    state->now = next;
    for (uint32_t d = 0; d < inst->n_devices; d++) {
        /* those that are busy until then were judged when they began */
        if (state->free_at[d] < next && !in_time(search, d)) {
            state->now = before;
            return NONE;
        }
    }
    outcome = seen(search) ? NONE : decide(search, 0);
    if (outcome == NONE) {
        state->now = before;
    }
    return outcome;
}

static enum outcome begin(struct search *search, uint32_t d, uint32_t stage, uint32_t kind)
{
    struct state *state = &search->state;
    uint64_t free_at = state->free_at[d], start = state->start[d];
    uint64_t barred = search->barred[d], idle_until = search->idle_until[d];
    enum outcome outcome = NONE;

    if (*search->nodes == 0) {
        return STOPPED;
    }
    --*search->nodes;
    if (*search->nodes % 4096 == 0) {
        call_go_on(search->host);
    }
    state_begin(state, search->inst, stage, kind);
    search->barred[d] = 0;
    search->idle_until[d] = NEVER;
    search->left--;
    if (search->left == 0) {
        outcome = state_cost(state, search->inst) <= search->limit ? FOUND : NONE;
    } else if (in_time(search, d)) {
        outcome = decide(search, state->free_at[d] > state->now ? d + 1 : d);
    }
    if (outcome == NONE) {
        search->left++;
        search->barred[d] = barred;
        search->idle_until[d] = idle_until;
        state_undo(state, search->inst, stage, kind, free_at, start);
    }
    return outcome;
}

/* Device d begins nothing now, though it could begin what `ready` holds. Where its own start
   counts, waiting before it is a real choice: the span is shorter without what could have run. */
static enum outcome wait_on(struct search *search, uint32_t d, uint64_t ready)
{
    const struct instance *inst = search->inst;
    uint64_t barred = search->barred[d], idle_until = search->idle_until[d];
    bool begun = !is_open(inst) || search->state.start[d] != NEVER;
    enum outcome outcome;

    for (uint32_t i = 0; begun && i < inst->n_on[d]; i++) {
        for (uint32_t kind = KIND_F; kind < KINDS; kind++) {
            uint64_t over = search->state.now + inst->time[kind][inst->on[d][i]];

            if ((ready >> (3 * i + kind) & 1) != 0 && (kind != KIND_F || inst->room[d] == NEVER) &&
                over < search->idle_until[d]) {
                search->idle_until[d] = over;
            }
        }
    }
    search->barred[d] |= ready;
    outcome = decide(search, d + 1);
    if (outcome == NONE) {
        search->barred[d] = barred;
        search->idle_until[d] = idle_until;
    }
    return outcome;
}

static enum outcome decide_device(struct search *search, uint32_t d)
{
    static const uint8_t kinds[] = {KIND_B, KIND_F, KIND_W};
    const struct instance *inst = search->inst;
    uint64_t ready = 0;

    for (size_t k = 0; k < KINDS; k++) {
        for (uint32_t i = inst->n_on[d]; i-- > 0;) {
            uint32_t stage = inst->on[d][i], kind = kinds[k];
            uint64_t bit = (uint64_t)1 << (3 * i + kind);
            enum outcome outcome;

            if ((search->barred[d] & bit) != 0 || !state_ready(&search->state, inst, stage, kind) ||
                !state_fits(&search->state, inst, stage, kind)) {
                continue;
            }
            ready |= bit;
            outcome = begin(search, d, stage, kind);
            if (outcome != NONE) {
                return outcome;
            }
        }
    }
    return wait_on(search, d, ready);
}

/* From device d on, those that are free decide. */
static enum outcome decide(struct search *search, uint32_t d)
{
    const struct instance *inst = search->inst;
    const struct state *state = &search->state;
    enum outcome outcome;

    while (d < inst->n_devices && (inst->n_on[d] == 0 || state->free_at[d] > state->now)) {
        d++;
    }
    if (d == inst->n_devices) {
        return advance(search);
    }
    if (search->idle_until[d] <= state->now) {
        return NONE;
    }
    if (search->depth == MAX_DEPTH) {
        *search->nodes = 0; /* more of them would not help */
        return STOPPED;
    }
    search->depth++;
    outcome = decide_device(search, d);
    search->depth--;
    return outcome;
}

struct verdict search_decide(const struct instance *inst, const struct pst_host *host,
                             uint64_t limit, uint64_t *nodes)
{
    size_t p = inst->n_devices;
    struct search search = {.inst = inst,
                            .host = host,
                            .limit = limit,
                            .nodes = nodes,
                            .left = (uint64_t)KINDS * inst->n_stages * inst->m};
    enum outcome outcome;
    struct verdict verdict;

    CALL_TAKE(search.barred, p);
    CALL_TAKE(search.idle_until, p);
    CALL_TAKE(search.words, 4 * p + inst->n_stages * (3 + 2 * (size_t)inst->m));
    memset(search.idle_until, 0xFF, p * sizeof *search.idle_until);
    visited_init(&search.visited);
    state_init(&search.state, inst);
    outcome = decide(&search, 0);
    verdict = (struct verdict){.found = outcome == FOUND, .exhausted = outcome == NONE};
    if (verdict.found) {
        verdict.cost = state_cost(&search.state, inst);
        verdict.order = search.state.order;
    } else {
        order_finish(&search.state.order);
    }
    state_finish(&search.state);
    visited_finish(&search.visited);
    call_free(search.barred);
    call_free(search.idle_until);
    call_free(search.words);
    return verdict;
}
