/* SPDX-License-Identifier: Apache-2.0
 *
 * The search over caps. The largest comes first and is tried in full; a smaller one only if the
 * bounds do not rule it out, and only until it has lost.
 */
#include "greedy_search.h"

#include <inttypes.h>

#define NO_LIMIT    (INT64_MAX / 4)
#define MOST_PASSES 2500000u /* placed in all runs; beyond, no smaller caps are tried */
#define MOST_TIGHT  250000u  /* the same where memory is tight, and for the runs made for that */

struct search {
    struct greedy g;
    const struct fixed_question *question;
    greedy_runs *runs, *tight;
    uint32_t most;   /* chunks: the largest cap */
    uint64_t budget; /* passes placed, beyond which no smaller caps are tried */
};

/* Bytes that the larger of the stages of device d keeps of a micro-batch. */
static int64_t unit(const struct greedy *g, uint32_t d)
{
    int64_t a = g->saved[d], b = g->v == 2 ? g->saved[g->n_stages - 1 - d] : a;

    return a > b ? a : b;
}

static int64_t room_of(const struct greedy *g, uint32_t d)
{
    uint64_t room = g->in->activation_bytes[pst_schedule_stage_at(g->in, d)->device];

    return room < (uint64_t)NO_LIMIT ? (int64_t)room : NO_LIMIT;
}

/* More chunks than a device could ever hold, or than an order is made for. */
static uint32_t enough(const struct greedy *g)
{
    return g->v * g->m > 2 * g->p ? g->v * g->m : 2 * g->p;
}

/* Caps of k chunks, or what whole chunks a device has room for. */
static void set_caps(struct greedy *g, uint64_t k, bool heed_room)
{
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        int64_t bytes = unit(g, d);
        int64_t fit = bytes == 0 ? NO_LIMIT : room_of(g, d) / bytes;

        fit = !heed_room || fit > (int64_t)k ? (int64_t)k : fit;
        if (fit >= (int64_t)g->v * g->m && fit < (int64_t)enough(g)) {
            fit = (int64_t)enough(g); /* all of the step fits: no cap */
        }
        g->dev[d].cap = bytes > 0 && fit < NO_LIMIT / bytes ? fit * bytes : NO_LIMIT;
    }
}

/*
 * A device runs nothing but forwards from its first one until the first gradient comes back, and no
 * more of them than it has room for. With what it computes altogether, and for the makespan what
 * comes before, that is the least it takes.
 */
static int64_t least_cost_of(const struct greedy *g, uint32_t d)
{
    const struct greedy_times *t = &g->real;
    uint32_t last = greedy_stage(g, d, g->v - 1), s;
    int64_t lead = 0, away = 0, longest = 0, smallest = INT64_MAX, n;

    for (s = 0; s < d; s++) {
        lead += t->f[s] + t->link[s];
    }
    for (s = d; s < g->n_stages; s++) {
        away += t->f[s] + t->link[s] + (s > last ? t->b[s] : 0) + (s >= last ? t->link[s] : 0);
    }
    for (s = 0; s < g->v; s++) {
        uint32_t own = greedy_stage(g, d, s);

        longest = t->f[own] > longest ? t->f[own] : longest;
        smallest = g->saved[own] < smallest ? g->saved[own] : smallest;
    }
    n = smallest > 0 ? g->dev[d].cap / smallest : (int64_t)g->v * g->m;
    n = n < (int64_t)g->v * g->m ? n : (int64_t)g->v * g->m;
    away -= n * longest;
    return (g->makespan ? lead : 0) + t->work[d] + (away > 0 ? away : 0);
}

static int64_t least_cost(const struct greedy *g)
{
    int64_t most = 0;
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        int64_t own = least_cost_of(g, d);

        most = own > most ? own : most;
    }
    return most;
}

void greedy_try_caps(struct greedy *g, greedy_runs *runs, bool first)
{
    struct greedy_attempt attempt = {&g->real, GREEDY_IDLE, first, g->makespan};

    g->least = least_cost(g);
    runs(g, &attempt);
    if (g->makespan && !greedy_done(g)) {
        attempt.base = GREEDY_ABSOLUTE;
        runs(g, &attempt);
    }
    if (g->mixed && !greedy_done(g)) {
        attempt.base = GREEDY_FINISH;
        runs(g, &attempt);
        /* Candidates also include the orders for stages of equal cost. */
        attempt.times = &g->median;
        attempt.base = GREEDY_IDLE;
        runs(g, &attempt);
        attempt.base = GREEDY_ABSOLUTE;
        if (g->makespan) {
            runs(g, &attempt);
        }
    }
}

/* Returns true if a device holds fewer micro-batches than there are devices from it to the last. */
static bool is_tight(const struct greedy *g)
{
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        uint32_t enough_for = g->p - d < g->m ? g->p - d : g->m;

        if (g->dev[d].cap < enough_for * unit(g, d)) {
            return true;
        }
    }
    return false;
}

/* Does the runs for little memory, if there are any and the caps that are set are that tight.
   Returns true if they are. */
static bool try_tight(struct search *s)
{
    const struct greedy_attempt attempt = {&s->g.real, GREEDY_IDLE, true, s->g.makespan};

    if (s->tight == NULL || !is_tight(&s->g)) {
        return false;
    }
    s->g.least = least_cost(&s->g);
    s->tight(&s->g, &attempt);
    return true;
}

/* Chunks that a device may hold. */
static uint32_t largest_cap(const struct search *s)
{
    const struct greedy_config *config = s->question->self->config;
    double k = 2 * (double)s->g.p;

    if (config->memory_limit > 0) {
        k = config->memory_limit * s->g.v + 1e-9;
    }
    return k < enough(&s->g) ? (uint32_t)k : enough(&s->g);
}

static void search_smaller(struct search *s)
{
    struct greedy *g = &s->g;
    uint32_t k;

    for (k = 1; k < s->most && g->placed < s->budget; k++) {
        call_go_on(s->question->self->host);
        set_caps(g, k, true);
        if (least_cost(g) - g->makespan < g->best_cost) {
            greedy_try_caps(g, s->runs, false);
        }
    }
}

/* Largest caps first: under little memory they are what counts. */
static void search_smaller_tight(struct search *s)
{
    struct greedy *g = &s->g;
    uint64_t most = g->placed + MOST_TIGHT, runs = (uint64_t)8 * g->n_passes;
    uint32_t k;

    for (k = s->most; s->tight != NULL && k-- > 1 && g->placed + runs <= most;) {
        call_go_on(s->question->self->host);
        set_caps(g, k, true);
        if (least_cost(g) - g->makespan < g->best_cost) {
            try_tight(s);
        }
    }
}

/* Ends the call with the least memory that works, once no cap within the limit does. */
static void explain(struct search *s)
{
    const struct fixed *self = s->question->self;
    struct greedy *g = &s->g;
    uint32_t k, d;

    for (k = 1; k <= enough(g) && g->best_cost == INT64_MAX; k++) {
        call_go_on(self->host);
        set_caps(g, k, false);
        greedy_try_caps(g, s->runs, false);
    }
    for (d = 0; d < g->p; d++) {
        int64_t need = (int64_t)(k - 1) * unit(g, d);

        if (need > room_of(g, d)) {
            call_end(pst_failf(self->host, PST_ERR_INFEASIBLE,
                               "device %u has room for %" PRId64 " bytes of activations; %s needs "
                               "at least %" PRId64 " there, %g times those of a micro-batch",
                               d, room_of(g, d), self->rules->id, need, (double)(k - 1) / g->v));
        }
    }
    if (g->best_cost == INT64_MAX) {
        call_end(pst_failf(self->host, PST_ERR_BUG,
                           "%s finds no order even without a cap on memory", self->rules->id));
    }
    call_end(pst_failf(self->host, PST_ERR_INFEASIBLE,
                       "memory_limit = %g is too little for %s on %u devices; the smallest that "
                       "works is %g",
                       ((const struct greedy_config *)self->config)->memory_limit, self->rules->id,
                       g->p, (double)(k - 1) / g->v));
}

/* Chunks that the device with most room for them can hold, where all have a limit; else 0. */
static uint32_t most_that_fit(const struct greedy *g)
{
    int64_t most = 0;
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        int64_t bytes = unit(g, d), fit = bytes > 0 ? room_of(g, d) / bytes : NO_LIMIT;

        if (room_of(g, d) == NO_LIMIT) {
            return 0;
        }
        most = fit > most ? fit : most;
    }
    return most < enough(g) ? (uint32_t)most : enough(g);
}

/* Returns true if more room, with which no order costs less than `least`, is worth a try: if less
   than 0.1 % can be gained, the budget shrinks with it. */
static bool is_worth_more(const struct search *s, int64_t least)
{
    const struct greedy *g = &s->g;
    double gain = 1000 * (1 - (double)least / (double)g->best_cost);

    return (double)g->placed < (double)s->budget * (gain < 1 ? gain : 1);
}

/*
 * Without a limit asked for: where the stages of a device keep different amounts, the order may
 * need more than it is made for, and whatever there is room for will do. All the room that devices
 * were given may be used if that makes the order faster: first all of it, tried in full.
 */
static void search_larger(struct search *s)
{
    const struct fixed *self = s->question->self;
    struct greedy *g = &s->g;
    uint32_t fit = most_that_fit(g), k;
    int64_t least;

    if (((const struct greedy_config *)self->config)->memory_limit > 0) {
        return;
    }
    set_caps(g, fit, true);
    least = least_cost(g);
    if (fit > s->most && least - g->makespan < g->best_cost) {
        greedy_try_caps(g, s->runs, true);
    }
    for (k = s->most + 1;
         k <= enough(g) && (g->best_cost == INT64_MAX || (k < fit && is_worth_more(s, least)));
         k++) {
        call_go_on(self->host);
        set_caps(g, k, true);
        if (least_cost(g) - g->makespan < g->best_cost) {
            greedy_try_caps(g, s->runs, true);
        }
    }
}

/* Rooms that are no whole chunks, to the byte: what a weight gradient keeps is less than a chunk,
   and so may be a stage. */
static void search_rooms(struct search *s)
{
    struct greedy *g = &s->g;
    uint32_t k = most_that_fit(g) + 1, all = g->v * g->m, d;
    bool more = false;

    if (((const struct greedy_config *)s->question->self->config)->memory_limit > 0 ||
        k < s->most) {
        k = s->most;
    }
    k = k < all ? k : all; /* no more is of use */
    set_caps(g, k, true);
    for (d = 0; d < g->p; d++) {
        int64_t room = room_of(g, d), bytes = unit(g, d);

        if (bytes > 0 && room > g->dev[d].cap && room / bytes < k) {
            g->dev[d].cap = room;
            more = true;
        }
    }
    if (more && is_worth_more(s, least_cost(g)) && least_cost(g) - g->makespan < g->best_cost) {
        greedy_try_caps(g, s->runs, true);
    }
}

/* `s` is zero but for what was asked. */
static void search_all(struct search *s)
{
    const struct greedy_config *config = s->question->self->config;
    struct greedy *g = &s->g;

    greedy_init(g, s->question,
                config->objective == GREEDY_MAKESPAN ||
                    (config->objective == GREEDY_AUTO && s->question->in->barrier != 0));
    s->most = largest_cap(s);
    set_caps(g, s->most, true);
    s->budget = try_tight(s) ? g->placed + MOST_TIGHT : MOST_PASSES;
    greedy_try_caps(g, s->runs, true);
    search_smaller(s);
    search_smaller_tight(s);
    search_larger(s);
    search_rooms(s);
}

bool greedy_find(const struct fixed_question *question, greedy_runs *runs, struct order *order)
{
    struct search s = {.question = question, .runs = runs};

    search_all(&s);
    if (s.g.best_cost < INT64_MAX) {
        greedy_order(&s.g, order);
    }
    return s.g.best_cost < INT64_MAX;
}

void greedy_search(const struct fixed_question *question, greedy_runs *runs, greedy_runs *tight,
                   struct order *order)
{
    struct search s = {.question = question, .runs = runs, .tight = tight};

    search_all(&s);
    if (s.g.best_cost == INT64_MAX) {
        explain(&s);
    }
    greedy_order(&s.g, order);
}
