/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_plugin.h"
#include "search.h"

#include <string.h>

static void reserve(struct mem_search *s, uint32_t n)
{
    CALL_TAKE(s->rank, n);
    CALL_TAKE(s->skipped, n);
    for (uint32_t i = 0; i < MEM_STARTS; i++) {
        CALL_TAKE(s->starts[i].actions, n);
    }
}

bool mem_search_accepts(const struct mem_search *search)
{
    return search->accepts == NULL || search->accepts(search->context, search->tally.actions);
}

void mem_search_note(struct mem_search *search)
{
    struct mem_tally *tally = &search->tally;
    struct mem_score score;
    struct mem_start worst;
    uint32_t n = search->costs->n, at, last;

    if ((search->n_evaluated++ & 0x3f) == 0) {
        call_go_on(search->costs->host);
    }
    if (!mem_tally_legal(tally)) {
        search->met_illegal = true;
        return;
    }
    score = mem_tally_score(tally);
    for (at = search->n_starts; at > 0; at--) {
        const struct mem_start *other = &search->starts[at - 1];

        if (!mem_score_less(&score, &other->score)) {
            if (!mem_score_less(&other->score, &score)) {
                return; /* equal: the earlier one, whichever actions */
            }
            break;
        }
    }
    if (at >= search->effort.starts || !mem_search_accepts(search)) {
        return;
    }
    last = search->n_starts < search->effort.starts ? search->n_starts++ : search->n_starts - 1;
    worst = search->starts[last];
    memmove(&search->starts[at + 1], &search->starts[at], (last - at) * sizeof worst);
    memcpy(worst.actions, tally->actions, n);
    search->starts[at] = (struct mem_start){score, worst.actions};
}

void mem_search_load(struct mem_search *search, const uint8_t *actions)
{
    for (uint32_t v = 0; v < search->costs->n; v++) {
        mem_tally_set(&search->tally, v, actions[v]);
    }
}

/* One dropped source outside the run of v is kept, or v itself; false: nothing to mend there. */
static bool mend(struct mem_search *s, uint32_t v, uint32_t first)
{
    const struct mem_costs *c = s->costs;
    uint32_t i;

    for (i = c->first_source[v]; i < c->first_source[v + 1]; i++) {
        uint32_t u = c->sources[i];

        if (u < first && s->tally.actions[u] == PST_ACTION_RECOMPUTE) {
            if ((c->may[u] & MEM_MAY_KEEP) != 0) {
                mem_tally_set(&s->tally, u, PST_ACTION_KEEP);
                return true;
            }
            if ((c->may[v] & MEM_MAY_KEEP) != 0) {
                mem_tally_set(&s->tally, v, PST_ACTION_KEEP);
                return true;
            }
        }
    }
    return false;
}

void mem_search_legalize(struct mem_search *search)
{
    const struct mem_tally *tally = &search->tally;
    bool changed = true;
    uint32_t v;

    while (changed && tally->violations > 0) {
        uint32_t first = 0;

        changed = false;
        for (v = 0; v < search->costs->n && tally->violations > 0; v++) {
            if (tally->actions[v] != PST_ACTION_RECOMPUTE) {
                first = v + 1;
            } else if (mend(search, v, first)) {
                changed = true;
                first = tally->actions[v] == PST_ACTION_RECOMPUTE ? first : v + 1;
            }
        }
    }
}

void mem_search_begin(struct mem_search *search, const struct mem_costs *costs,
                      const struct mem_effort *effort)
{
    uint32_t v;

    if (search->rank == NULL) {
        reserve(search, costs->n);
    }
    search->costs = costs;
    search->effort = *effort;
    search->n_starts = 0;
    search->n_evaluated = 0;
    search->met_illegal = false;
    search->bound = mem_costs_bound(costs);
    for (v = 0; v < costs->n; v++) {
        search->rank[v] = PST_NONE;
    }
    for (v = 0; v < costs->n_order; v++) {
        search->rank[costs->order[v]] = v;
    }
    mem_tally_load(&search->tally, costs);
    mem_search_note(search);
}

/* Branch and bound from the best plan, for as many steps as are granted. */
static void finish(struct mem_search *s)
{
    struct mem_start *start = &s->starts[0];
    bool fits = s->n_starts > 0 && start->score.over == 0;
    struct mem_oracle oracle = {
        .costs = s->costs,
        .tally = &s->tally,
        .best = start->actions,
        .score = {.period_ns = UINT64_MAX, .peak = UINT64_MAX},
        .max_steps = fits ? s->effort.steps : s->effort.blind,
        .accepts = s->accepts,
        .context = s->context,
    };

    s->proven = fits ? start->score.period_ns <= s->bound : s->bound == UINT64_MAX;
    if (s->proven || oracle.max_steps == 0 || s->n_starts == 0) {
        return;
    }
    oracle.score = fits ? start->score : oracle.score;
    mem_search_load(s, s->costs->first);
    mem_oracle_branch(&oracle);
    if (oracle.score.period_ns != UINT64_MAX) {
        start->score = oracle.score;
    }
    s->proven = !oracle.stopped;
}

/* The largest node that is offloaded, of several the last; smaller than `than`, or before `before`
   where it is as large. PST_NONE: there is none. */
static uint32_t next_offloaded(const struct mem_search *s, int64_t than, uint32_t before)
{
    const struct mem_costs *c = s->costs;
    uint32_t v, best = PST_NONE;

    for (v = 0; v < c->n; v++) {
        if (s->tally.actions[v] == PST_ACTION_OFFLOAD && (c->may[v] & MEM_MAY_KEEP) != 0 &&
            (c->bytes[v] < than || (c->bytes[v] == than && v < before)) &&
            (best == PST_NONE || c->bytes[v] >= c->bytes[best])) {
            best = v;
        }
    }
    return best;
}

/* Periods do not show how busy the link is, but copies that are not needed make passes wait where
   a step begins and ends: whatever may stay does. */
static void bring_home(struct mem_search *s)
{
    const struct mem_costs *c = s->costs;
    struct mem_start *start = &s->starts[0];
    uint32_t v, before = c->n;
    int64_t than = INT64_MAX;

    if (s->n_starts == 0 || start->score.over > 0) {
        return;
    }
    mem_search_load(s, start->actions);
    while ((v = next_offloaded(s, than, before)) != PST_NONE) {
        struct mem_score score;

        call_go_on(c->host);
        than = c->bytes[v];
        before = v;
        mem_tally_set(&s->tally, v, PST_ACTION_KEEP);
        score = mem_tally_score(&s->tally);
        if (!mem_tally_legal(&s->tally) || score.over > 0 ||
            score.period_ns > start->score.period_ns) {
            mem_tally_set(&s->tally, v, PST_ACTION_OFFLOAD);
        } else {
            start->score = score;
        }
    }
    memcpy(start->actions, s->tally.actions, c->n);
}

void mem_search_run(struct mem_search *search, const struct mem_costs *costs,
                    const struct mem_effort *effort)
{
    mem_search_begin(search, costs, effort);
    if (search->n_starts == 0 || search->starts[0].score.over > 0) {
        mem_search_candidates(search);
    }
    mem_search_improve(search);
    finish(search);
    bring_home(search);
}
