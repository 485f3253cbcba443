/* SPDX-License-Identifier: Apache-2.0
 *
 * List scheduling under memory caps, with the safety rule that keeps it from locking up: it must
 * stay possible to finish the micro-batches one after the other. Those whose two forwards on a
 * device have run ask for nothing more there; the next one asks for its second forward, and frees
 * more than the one after it will ask for.
 */
#include <string.h>

#include "improve.h"

struct dispatcher {
    const struct va_problem *q;
    const uint64_t *urgency;
    uint32_t patience;
    struct va_work *work;
};

/* When the next pass of a kind could start; false when it cannot yet be told, or there is none. */
static bool earliest(const struct dispatcher *x, uint32_t d, uint32_t kind, uint64_t *ret_start)
{
    const struct va_problem *q = x->q;
    uint32_t i = va_pass_index(d, kind), j = x->work->done[i];
    const struct va_pass *pass = &q->passes[i];
    uint64_t start, clock = x->work->clock[d];

    if (j >= q->m || !va_arrival(q, x->work, pass, j, &start)) {
        return false;
    }
    *ret_start = start > clock ? start : clock;
    return true;
}

/*
 * Room for the pass itself; for a forward of the chunk that is ahead also the safety rule: were
 * everything through of which both forwards have run, the others must leave room for the next
 * second one. In a chain the first chunk alone can be ahead.
 */
static bool fits(const struct dispatcher *x, uint32_t d, uint32_t kind)
{
    const struct va_pass *passes = &x->q->passes[va_pass_index(d, 0)];
    const uint32_t *done = &x->work->done[va_pass_index(d, 0)];

    if (kind <= VA_F1) {
        uint32_t other = VA_F1 - kind;

        if (done[kind] >= done[other] &&
            (int64_t)(done[kind] + 1 - done[other]) * passes[kind].at_start >
                x->q->cap[d] - passes[other].at_start) {
            return false;
        }
    }
    return passes[kind].at_start <= x->q->cap[d] - x->work->held[d];
}

static struct va_choice choose(const struct dispatcher *x, uint32_t d)
{
    struct va_choice choice = {UINT64_MAX, VA_IDLE};
    uint64_t start[VA_KINDS], first = UINT64_MAX, ends = UINT64_MAX, urgency = UINT64_MAX;
    uint32_t able = 0;

    for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
        if (earliest(x, d, kind, &start[kind]) && fits(x, d, kind)) {
            uint64_t end = start[kind] + x->q->passes[va_pass_index(d, kind)].cost_ns;

            able |= 1U << kind;
            first = first < start[kind] ? first : start[kind];
            ends = ends < end ? ends : end;
        }
    }
    for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
        uint32_t i = va_pass_index(d, kind);
        uint64_t u;

        if (!(able >> kind & 1) || start[kind] > first + (ends - first) * x->patience / 16) {
            continue;
        }
        u = x->urgency[(size_t)i * x->q->m + x->work->done[i]];
        if (u < urgency || choice.kind == VA_IDLE) {
            urgency = u;
            choice = (struct va_choice){start[kind], kind};
        }
    }
    return choice;
}

static void take(const struct dispatcher *x, uint32_t d, struct va_choice choice, uint8_t *order)
{
    struct va_work *work = x->work;
    uint32_t i = va_pass_index(d, choice.kind), j = work->done[i]++;
    const struct va_pass *pass = &x->q->passes[i];

    work->held[d] += pass->at_start + pass->at_end;
    work->start[(size_t)i * x->q->m + j] = choice.start;
    work->end[(size_t)i * x->q->m + j] = work->clock[d] = choice.start + pass->cost_ns;
    order[d * va_sequence_length(x->q) + work->at[d]++] = (uint8_t)choice.kind;
}

bool va_dispatch(const struct va_problem *q, const uint64_t *urgency, uint32_t patience,
                 struct va_work *work, uint8_t *ret_order)
{
    const struct dispatcher x = {q, urgency, patience, work};
    struct va_choice *choices = work->choices;

    memset(work->done, 0, (size_t)q->p * VA_KINDS * sizeof *work->done);
    memset(work->at, 0, q->p * sizeof *work->at);
    memset(work->clock, 0, q->p * sizeof *work->clock);
    memset(work->held, 0, q->p * sizeof *work->held);
    for (uint32_t d = 0; d < q->p; d++) {
        choices[d] = choose(&x, d);
    }
    for (size_t n = va_order_length(q); n > 0; n--) {
        const struct va_pass *pass;
        uint32_t best = 0;

        for (uint32_t d = 1; d < q->p; d++) {
            best = choices[d].start < choices[best].start ? d : best;
        }
        if (choices[best].kind == VA_IDLE) {
            return false;
        }
        pass = &q->passes[va_pass_index(best, choices[best].kind)];
        take(&x, best, choices[best], ret_order);
        /* only the device itself and those that wait for the pass can choose differently now */
        for (uint32_t i = 0; i < pass->n_readers; i++) {
            uint32_t d = q->readers[pass->first_reader + i];

            choices[d] = choose(&x, d);
        }
        choices[best] = choose(&x, best);
    }
    return true;
}
