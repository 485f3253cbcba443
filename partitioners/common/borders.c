/* SPDX-License-Identifier: Apache-2.0 */
#include "borders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 40, /* improvements */
    LOOKS = 48,  /* cuts that are asked about before giving up */
    /* By the number of stages, so that there are some hundred cuts to guess about: */
    RUN = 24,  /* borders that move together, 1 to 3 */
    EVERY = 64 /* places on either side of a border, 2 to 16; beyond, distances double */
};

struct move {
    uint32_t border;
    uint32_t end;        /* of the borders that move */
    int64_t by, next_by; /* next: all but the first of them */
    double guess_ns;
};

struct moves {
    const struct part_borders *b;
    uint32_t *cuts; /* scratch */
    struct move *list;
    uint32_t n, room;
};

/* False: some stage would be empty. */
static bool apply(const struct moves *m, const uint32_t *from, const struct move *move)
{
    uint32_t i;

    memcpy(m->cuts, from, ((size_t)m->b->n_stages + 1) * sizeof *from);
    for (i = move->border; i < move->end; i++) {
        int64_t at = from[i] + (i == move->border ? move->by : move->next_by);

        if (at <= m->cuts[i - 1] || at >= m->b->n) {
            return false;
        }
        m->cuts[i] = (uint32_t)at;
    }
    return m->cuts[i - 1] < m->cuts[i];
}

static void add(struct moves *m, const uint32_t *from, struct move move)
{
    if (!apply(m, from, &move)) {
        return;
    }
    m->b->guess(m->b->impl, m->cuts, &move.guess_ns);
    if (isinf(move.guess_ns)) {
        return;
    }
    CALL_MAKE_ROOM(m->list, m->n, m->room);
    m->list[m->n++] = move;
}

static uint32_t within(uint32_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* One border alone, with some after it, or against them. */
static void add_all(struct moves *m, const uint32_t *from, uint32_t border)
{
    uint32_t end, run = within(RUN / m->b->n_stages, 1, 3);
    uint32_t every = within(EVERY / m->b->n_stages, 2, 16);
    int64_t by;
    int k;

    for (end = border + 1; end <= border + run && end <= m->b->n_stages; end++) {
        for (by = 1; by < m->b->n; by += by < every ? 1 : by) {
            for (k = 0; k < (end == border + 1 ? 2 : 4); k++) {
                int64_t mine = k % 2 == 0 ? by : -by;

                add(m, from, (struct move){border, end, mine, k < 2 ? mine : -mine, 0});
            }
        }
    }
}

static int by_guess(const void *a_, const void *b_)
{
    const struct move *a = a_, *b = b_;

    if (a->guess_ns != b->guess_ns) {
        return a->guess_ns < b->guess_ns ? -1 : 1;
    }
    if (a->border != b->border) {
        return a->border < b->border ? -1 : 1;
    }
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    if (a->by != b->by) {
        return a->by < b->by ? -1 : 1;
    }
    return a->next_by < b->next_by ? -1 : a->next_by > b->next_by;
}

/* The first of the most promising cuts that is faster. */
static void round_of(struct moves *m, uint32_t *cuts, double *step_ns, bool *ret_better)
{
    uint32_t s, i;

    *ret_better = false;
    m->n = 0;
    for (s = 1; s < m->b->n_stages; s++) {
        add_all(m, cuts, s);
    }
    if (m->n > 0) {
        qsort(m->list, m->n, sizeof *m->list, by_guess);
    }
    for (i = 0; i < m->n && i < LOOKS && !*ret_better; i++) {
        double ns;

        (void)apply(m, cuts, &m->list[i]);
        m->b->step(m->b->impl, m->cuts, &ns);
        if (ns < *step_ns * (1 - 1e-9)) {
            memcpy(cuts, m->cuts, ((size_t)m->b->n_stages + 1) * sizeof *cuts);
            *step_ns = ns;
            *ret_better = true;
        }
    }
}

void part_borders_move(const struct part_borders *borders, uint32_t *cuts, double *step_ns)
{
    struct moves m = {.b = borders,
                      .cuts = call_alloc((size_t)borders->n_stages + 1, sizeof *m.cuts)};
    bool better = true;
    uint32_t round;

    for (round = 0; better && round < ROUNDS; round++) {
        round_of(&m, cuts, step_ns, &better);
    }
}
