/* SPDX-License-Identifier: Apache-2.0
 *
 * Improvement of a plan by changes of one action and of two, the best of each round.
 */
#include "search.h"

#include <string.h>

#define ROUNDS 1000 /* every round improves: a guard only */

struct change {
    uint32_t v, u; /* u PST_NONE: one change */
    uint8_t v_to, u_to;
};

/* One round from the tally's plan. */
struct round {
    struct mem_search *s;
    struct mem_score least;
    struct change best;
    bool found;
};

static bool may(const struct round *r, uint32_t v, uint8_t action)
{
    return (r->s->costs->may[v] & (1u << action)) != 0 && r->s->tally.actions[v] != action;
}

/* Is the plan as it stands the best of the round? */
static void look(struct round *r, uint32_t v, uint8_t v_to, uint32_t u, uint8_t u_to)
{
    struct mem_tally *t = &r->s->tally;
    struct mem_score score;

    r->s->n_evaluated++;
    if (!mem_tally_legal(t)) {
        return;
    }
    score = mem_tally_score(t);
    if (mem_score_less(&score, &r->least) && mem_search_accepts(r->s)) {
        r->least = score;
        r->best = (struct change){v, u, v_to, u_to};
        r->found = true;
    }
}

/* Time that a change adds to the replays. */
static int64_t replay_change(const struct round *r, uint32_t v, uint8_t to)
{
    const struct mem_tally *t = &r->s->tally;
    int64_t ns = (int64_t)t->costs->forward_ns[v];

    return (to == PST_ACTION_RECOMPUTE ? ns : 0) - (t->actions[v] == PST_ACTION_RECOMPUTE ? ns : 0);
}

/* Where the plan of the round fits, a longer period is of no use. */
static bool is_longer(const struct round *r, int64_t ns)
{
    const struct mem_tally *t = &r->s->tally;

    return r->least.over == 0 &&
           t->costs->total_ns + t->replay_ns + (uint64_t)ns > r->least.period_ns;
}

/* Is that change of no use, whatever its score? */
static bool is_idle(const struct round *r, uint32_t u, uint8_t to)
{
    const struct mem_tally *t = &r->s->tally;

    return is_longer(r, replay_change(r, u, to)) ||
           (t->violations == 0 && mem_tally_breaks(t, u, to));
}

static void try_ones(struct round *r)
{
    struct mem_tally *t = &r->s->tally;
    uint32_t v;
    uint8_t to;

    for (v = 0; v < r->s->costs->n; v++) {
        uint8_t from = t->actions[v];

        if ((v & 0x3f) == 0) {
            call_go_on(r->s->costs->host);
        }
        for (to = 0; to <= PST_ACTION_OFFLOAD; to++) {
            if (to != from && may(r, v, to) && !is_idle(r, v, to)) {
                mem_tally_set(t, v, to);
                look(r, v, to, PST_NONE, 0);
                mem_tally_set(t, v, from);
            }
        }
    }
}

/* v is changed already. */
static void try_second(struct round *r, uint32_t v, uint8_t v_to, uint32_t u)
{
    struct mem_tally *t = &r->s->tally;
    uint8_t from = t->actions[u], to;

    for (to = 0; to <= PST_ACTION_OFFLOAD; to++) {
        if (to != from && may(r, u, to) && !is_idle(r, u, to)) {
            mem_tally_set(t, u, to);
            look(r, v, v_to, u, to);
            mem_tally_set(t, u, from);
        }
    }
}

static void try_seconds(struct round *r, uint32_t v, uint8_t v_to)
{
    const struct mem_search *s = r->s;
    uint32_t n = s->costs->n, window = s->effort.window, rank = s->rank[v], i;

    if (window >= n) {
        for (i = v + 1; i < n; i++) {
            try_second(r, v, v_to, i);
        }
        return;
    }
    for (i = v + 1; i < n && i <= v + window; i++) {
        try_second(r, v, v_to, i);
    }
    for (i = rank + 1; rank != PST_NONE && i < s->costs->n_order && i <= rank + window; i++) {
        try_second(r, v, v_to, s->costs->order[i]);
    }
}

static void try_twos(struct round *r)
{
    struct mem_tally *t = &r->s->tally;
    uint32_t v;
    uint8_t to;

    for (v = 0; v < r->s->costs->n && r->s->effort.window > 0; v++) {
        uint8_t from = t->actions[v];

        call_go_on(r->s->costs->host);

        for (to = 0; to <= PST_ACTION_OFFLOAD; to++) {
            if (to != from && may(r, v, to)) {
                mem_tally_set(t, v, to);
                try_seconds(r, v, to);
                mem_tally_set(t, v, from);
            }
        }
    }
}

static void improve_start(struct mem_search *s, struct mem_start *start)
{
    uint32_t i;

    mem_search_load(s, start->actions);
    for (i = 0; i < ROUNDS; i++) {
        bool over = start->score.over > 0;
        bool done = over ? s->effort.rounds > 0 && i >= s->effort.rounds
                         : start->score.period_ns <= s->bound;
        struct round r = {.s = s, .least = start->score};

        if (done) {
            break;
        }
        try_ones(&r);
        if (!r.found) {
            try_twos(&r);
        }
        if (!r.found) {
            break;
        }
        mem_tally_set(&s->tally, r.best.v, r.best.v_to);
        if (r.best.u != PST_NONE) {
            mem_tally_set(&s->tally, r.best.u, r.best.u_to);
        }
        start->score = r.least;
        memcpy(start->actions, s->tally.actions, s->costs->n);
    }
}

void mem_search_improve(struct mem_search *search)
{
    bool fits = search->n_starts > 0 && search->starts[0].score.over == 0;
    uint32_t i, best = 0;

    for (i = 0; i < search->n_starts; i++) {
        struct mem_start *start = &search->starts[i];

        if (i > 0 && (!fits || start->score.over > 0)) {
            break; /* of those that do not fit only the one of least peak */
        }
        improve_start(search, start);
        best = mem_score_less(&start->score, &search->starts[best].score) ? i : best;
        if (search->starts[best].score.period_ns <= search->bound && fits) {
            break; /* nothing is shorter */
        }
    }
    if (best > 0) {
        struct mem_start first = search->starts[0];

        search->starts[0] = search->starts[best];
        search->starts[best] = first;
    }
}
