/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_plugin.h"
#include "oracle.h"

#include <string.h>

bool mem_oracle_step(struct mem_oracle *oracle)
{
    if ((oracle->steps & 0x3f) == 0) {
        call_go_on(oracle->costs->host);
    }
    oracle->stopped = oracle->stopped || oracle->steps >= oracle->max_steps;
    oracle->steps++;
    return !oracle->stopped;
}

bool mem_oracle_note(struct mem_oracle *oracle)
{
    struct mem_score score;

    if (!mem_tally_legal(oracle->tally) ||
        (oracle->accepts != NULL && !oracle->accepts(oracle->context, oracle->tally->actions))) {
        return false;
    }
    score = mem_tally_score(oracle->tally);
    if (score.over == 0 && mem_score_less(&score, &oracle->score)) {
        oracle->score = score;
        memcpy(oracle->best, oracle->tally->actions, oracle->costs->n);
    }
    if (oracle->lowest_actions != NULL && score.peak < oracle->lowest.peak) {
        oracle->lowest = score;
        memcpy(oracle->lowest_actions, oracle->tally->actions, oracle->costs->n);
    }
    return true;
}

struct branch {
    struct mem_oracle *oracle;
    uint32_t *order; /* [n] nodes to decide, most bytes first */
    uint32_t n_order;
    bool *decided; /* [n] */
};

static void sort_by_bytes(const struct mem_costs *c, uint32_t *order, uint32_t n)
{
    uint32_t i, j;

    for (i = 1; i < n; i++) {
        uint32_t v = order[i];

        for (j = i; j > 0 && (c->bytes[order[j - 1]] < c->bytes[v] ||
                              (c->bytes[order[j - 1]] == c->bytes[v] && order[j - 1] > v));
             j--) {
            order[j] = order[j - 1];
        }
        order[j] = v;
    }
}

static bool stays_dropped(const struct branch *b, uint32_t v)
{
    return b->decided[v] && b->oracle->tally->actions[v] == PST_ACTION_RECOMPUTE;
}

/* Does a dropped node read another one, with a node between them that is decided to stay? Nothing
   that is still undecided brings them into one run. */
static bool is_beyond_repair(const struct branch *b)
{
    const struct mem_costs *c = b->oracle->costs;
    uint32_t v, i, stays = 0; /* position after the last node that stays */

    for (v = 0; v < c->n; v++) {
        bool dropped = stays_dropped(b, v);

        for (i = c->first_source[v]; dropped && i < c->first_source[v + 1]; i++) {
            if (c->sources[i] + 1 < stays && stays_dropped(b, c->sources[i])) {
                return true;
            }
        }
        stays = b->decided[v] && !dropped ? v + 1 : stays;
    }
    return false;
}

static void decide_from(struct branch *b, uint32_t at)
{
    struct mem_oracle *o = b->oracle;
    struct mem_tally *t = o->tally;
    static const uint8_t letters[] = {PST_ACTION_RECOMPUTE, PST_ACTION_OFFLOAD, PST_ACTION_KEEP};
    uint32_t i, v;

    if (!mem_oracle_step(o) || mem_tally_period(t) >= o->score.period_ns) {
        return;
    }
    if (mem_tally_legal(t) && mem_tally_peak(t) <= o->costs->capacity && mem_oracle_note(o)) {
        return; /* the rest kept: nothing below is shorter */
    }
    if (at == b->n_order || (t->violations > 0 && is_beyond_repair(b)) ||
        !mem_may_fit(t, b->decided, (double)o->score.period_ns - 1)) {
        return;
    }
    v = b->order[at];
    b->decided[v] = true;
    for (i = 0; i < 3; i++) {
        if ((o->costs->may[v] >> letters[i] & 1) != 0) {
            mem_tally_set(t, v, letters[i]);
            decide_from(b, at + 1);
        }
    }
    mem_tally_set(t, v, PST_ACTION_KEEP);
    b->decided[v] = false;
}

void mem_oracle_branch(struct mem_oracle *oracle)
{
    const struct mem_costs *c = oracle->costs;
    struct branch b = {.oracle = oracle};

    CALL_TAKE(b.order, c->n);
    CALL_TAKE(b.decided, c->n);
    mem_find_decided(c, b.decided);
    for (uint32_t v = 0; v < c->n; v++) {
        if (!b.decided[v]) {
            b.order[b.n_order++] = v;
        }
    }
    sort_by_bytes(c, b.order, b.n_order);
    decide_from(&b, 0);
    call_free(b.order);
    call_free(b.decided);
}
