/* SPDX-License-Identifier: Apache-2.0
 *
 * Peng et al., "Capuchin: Tensor-based GPU Memory Management for Deep Learning", ASPLOS 2020, with
 * the costs of a pipeline stage: a replayed node frees its copies of all micro-batches in flight,
 * an offloaded one those that have no staging slot; free time counts the micro-batches between.
 */
#include "tensors.h"

#include <stdlib.h>

struct choice {
    uint32_t v;
    uint8_t action;
    double key;
};

static int by_key(const void *a_, const void *b_)
{
    const struct choice *a = a_, *b = b_;

    if (a->key != b->key) {
        return a->key > b->key ? -1 : 1;
    }
    return a->v < b->v ? -1 : a->v > b->v;
}

static bool may(const struct mem_search *s, uint32_t v, uint8_t action)
{
    const struct mem_costs *c = s->costs;

    return (c->may[v] & (1u << action)) != 0 && (c->may[v] & MEM_MAY_KEEP) != 0 &&
           s->tally.actions[v] == PST_ACTION_KEEP;
}

static bool fits(const struct mem_search *s)
{
    return mem_tally_peak(&s->tally) <= s->costs->capacity;
}

/* Time by which the period grows if v is offloaded as well. */
static uint64_t link_overhead(const struct mem_search *s, uint32_t v)
{
    const struct mem_tally *t = &s->tally;
    uint64_t link = mem_costs_link_ns(s->costs, t->moved + (uint64_t)s->costs->bytes[v], true);
    uint64_t period = mem_tally_period(t);

    return link > period ? link - period : 0;
}

static bool set_legal(struct mem_search *s, uint32_t v, uint8_t action)
{
    uint8_t before = s->tally.actions[v];

    mem_tally_set(&s->tally, v, action);
    if (!mem_tally_legal(&s->tally)) {
        mem_tally_set(&s->tally, v, before);
        return false;
    }
    return true;
}

static void swap_for_free(struct mem_search *s, struct choice *rows)
{
    const struct mem_costs *c = s->costs;
    double later = 0;
    uint32_t v, i, n = 0;

    for (v = c->n; v-- > 0;) {
        if (may(s, v, PST_ACTION_OFFLOAD)) {
            double trip = (double)c->bytes[v] * 1e9 / (double)c->link_bytes_per_s;

            rows[n++] = (struct choice){v, PST_ACTION_OFFLOAD, later - 2 * trip};
        }
        later += (double)c->forward_ns[v] + (double)c->backward_ns[v];
    }
    qsort(rows, n, sizeof *rows, by_key);
    for (i = 0; i < n && !fits(s); i++) {
        if (link_overhead(s, rows[i].v) == 0) {
            set_legal(s, rows[i].v, PST_ACTION_OFFLOAD);
        }
    }
}

/* Bytes freed per nanosecond of an action; as much as there is if it costs nothing. */
static double worth(double bytes, uint64_t ns)
{
    return ns == 0 ? 1e300 : bytes / (double)ns;
}

/* The action of most worth that is legal. */
static bool best_choice(struct mem_search *s, struct choice *ret)
{
    const struct mem_costs *c = s->costs;
    uint32_t v;

    ret->key = -1;
    for (v = 0; v < c->n; v++) {
        double a = (double)c->bytes[v];
        double drop = worth(a * c->held, (uint64_t)c->replay_ns[v]);
        double swap = 0;

        if (may(s, v, PST_ACTION_OFFLOAD)) {
            swap = worth(a * (c->held - c->staged), link_overhead(s, v));
        }
        if (swap > ret->key && swap > 0 && set_legal(s, v, PST_ACTION_OFFLOAD)) {
            *ret = (struct choice){v, PST_ACTION_OFFLOAD, swap};
            mem_tally_set(&s->tally, v, PST_ACTION_KEEP);
        }
        if (drop > ret->key && drop > 0 && may(s, v, PST_ACTION_RECOMPUTE) &&
            set_legal(s, v, PST_ACTION_RECOMPUTE)) {
            *ret = (struct choice){v, PST_ACTION_RECOMPUTE, drop};
            mem_tally_set(&s->tally, v, PST_ACTION_KEEP);
        }
    }
    return ret->key >= 0;
}

/* Lists the actions with the cost of each by itself, to undo them. */
static uint32_t list_actions(const struct mem_search *s, struct choice *rows)
{
    const struct mem_costs *c = s->costs;
    uint32_t v, n = 0;

    for (v = 0; v < c->n; v++) {
        uint8_t action = s->tally.actions[v];

        if ((c->may[v] & MEM_MAY_KEEP) != 0 && action != PST_ACTION_KEEP) {
            double trip = action == PST_ACTION_OFFLOAD
                              ? (double)c->bytes[v] * 1e9 / (double)c->link_bytes_per_s
                              : 0;

            rows[n++] = (struct choice){v, action,
                                        action == PST_ACTION_OFFLOAD ? -1 / (trip + 1)
                                                                     : (double)c->forward_ns[v]};
        }
    }
    qsort(rows, n, sizeof *rows, by_key);
    return n;
}

/* Dearest first; longer copies before shorter ones, all after the replays. */
static void undo(struct mem_search *s, struct choice *rows)
{
    uint32_t i, n = list_actions(s, rows);

    for (i = 0; i < n; i++) {
        if ((i & 0x3f) == 0) {
            call_go_on(s->costs->host);
        }
        if (set_legal(s, rows[i].v, PST_ACTION_KEEP) && !fits(s)) {
            mem_tally_set(&s->tally, rows[i].v, rows[i].action);
        }
    }
}

void capuchin_run(struct mem_search *search)
{
    struct choice *rows = call_alloc(search->costs->n, sizeof *rows), choice;

    swap_for_free(search, rows);
    while (!fits(search) && best_choice(search, &choice)) {
        call_go_on(search->costs->host);
        mem_tally_set(&search->tally, choice.v, choice.action);
        if (choice.action == PST_ACTION_RECOMPUTE) {
            mem_search_drop_sources(search, choice.v);
        }
        mem_search_note(search);
    }
    if (fits(search)) {
        undo(search, rows);
    }
    mem_search_note(search);
    call_free(rows);
}
