/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance: memory, needs, copies.
 */
#include "problem.h"

#include <string.h>

/* Where a stage has its forward; its other kinds follow from its chunk. */
static uint32_t pass_of(const struct va_problem *q, uint32_t stage, enum va_kind down,
                        enum va_kind up)
{
    return stage < q->p ? va_pass_index(stage, down) : va_pass_index(2 * q->p - 1 - stage, up);
}

static void add_need(struct va_problem *q, uint32_t i, uint32_t need, uint64_t delay_ns)
{
    q->needs[q->n_needs++] = (struct va_need){delay_ns, need, need / VA_KINDS != i / VA_KINDS};
    q->passes[i].n_needs++;
}

/* Forwards go along the links, backwards against them; weight halves follow their B. What no link
   leaves turns round. */
static void add_needs(struct va_problem *q, uint32_t i, const struct va_link *links,
                      uint32_t n_links)
{
    uint32_t d = i / VA_KINDS, kind = i % VA_KINDS, stage = va_stage(q->p, d, kind);

    q->passes[i].first_need = q->n_needs;
    if (kind >= VA_W1) {
        add_need(q, i, pass_of(q, stage, VA_B0, VA_B1), 0);
        return;
    }
    for (uint32_t n = 0; n < n_links; n++) {
        const struct va_link *link = &links[n];

        if (kind <= VA_F1 && link->to == stage) {
            add_need(q, i, pass_of(q, link->from, VA_F0, VA_F1), link->delay_ns);
        } else if (kind > VA_F1 && link->from == stage) {
            add_need(q, i, pass_of(q, link->to, VA_B0, VA_B1), link->delay_ns);
        }
    }
    if (kind > VA_F1 && q->passes[i].n_needs == 0) {
        add_need(q, i, pass_of(q, stage, VA_F0, VA_F1), 0);
    }
}

/* The needs the other way round. */
static void list_readers(struct va_problem *q)
{
    uint32_t n = q->p * VA_KINDS, at = 0;

    for (uint32_t i = 0; i < q->n_needs; i++) {
        q->passes[q->needs[i].pass].n_readers++;
    }
    for (uint32_t i = 0; i < n; i++) {
        q->passes[i].first_reader = at;
        at += q->passes[i].n_readers;
        q->passes[i].n_readers = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < q->passes[i].n_needs; k++) {
            struct va_pass *need = &q->passes[q->needs[q->passes[i].first_need + k].pass];

            q->readers[need->first_reader + need->n_readers++] = i / VA_KINDS;
        }
    }
}

static void allocate(struct va_problem *q, uint32_t most_needs)
{
    CALL_TAKE(q->passes, (size_t)q->p * VA_KINDS);
    CALL_TAKE(q->needs, most_needs);
    CALL_TAKE(q->readers, most_needs);
    CALL_TAKE(q->cap, q->p);
}

void va_problem_init(struct va_problem *q, uint32_t p, uint32_t m, const struct va_link *links,
                     uint32_t n_links)
{
    *q = (struct va_problem){.p = p, .m = m, .is_chain = n_links == 2 * p - 1};
    allocate(q, 2 * n_links + 4 * p); /* two for a link, W's B, the F of what no link leaves */
    for (uint32_t d = 0; d < p; d++) {
        q->cap[d] = INT64_MAX;
    }
    for (uint32_t i = 0; i < p * VA_KINDS; i++) {
        add_needs(q, i, links, n_links);
    }
    list_readers(q);
    for (uint32_t i = 0; i < n_links; i++) {
        q->is_chain = q->is_chain && links[i].to == links[i].from + 1;
    }
}

struct va_problem va_problem_copy(const struct va_problem *from)
{
    struct va_problem q = *from;

    allocate(&q, from->n_needs);
    memcpy(q.passes, from->passes, (size_t)from->p * VA_KINDS * sizeof *q.passes);
    memcpy(q.needs, from->needs, from->n_needs * sizeof *q.needs);
    memcpy(q.readers, from->readers, from->n_needs * sizeof *q.readers);
    memcpy(q.cap, from->cap, from->p * sizeof *q.cap);
    return q;
}

void va_work_init(struct va_work *work, const struct va_problem *q)
{
    size_t n = va_order_length(q);

    CALL_TAKE(work->start, n);
    CALL_TAKE(work->end, n);
    CALL_TAKE(work->done, (size_t)q->p * VA_KINDS);
    CALL_TAKE(work->at, q->p);
    CALL_TAKE(work->clock, q->p);
    CALL_TAKE(work->held, q->p);
    CALL_TAKE(work->peak, q->p);
    CALL_TAKE(work->choices, q->p);
}

uint8_t *va_order(const struct va_problem *q)
{
    return call_alloc(va_order_length(q), 1);
}

uint64_t va_period(const struct va_problem *q)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < q->p; d++) {
        uint64_t work = 0;

        for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
            work += q->passes[va_pass_index(d, kind)].cost_ns;
        }
        most = most > work ? most : work;
    }
    return most;
}
