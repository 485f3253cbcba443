/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance: memory, needs of a V, copies, and bounds that hold whatever the order.
 */
#include "problem.h"

#include <stdlib.h>
#include <string.h>

/* Forwards go down the V and up again, backwards the same way; weight halves follow their B. */
static void set_needs(struct va_problem *q)
{
    for (uint32_t d = 0; d < q->p; d++) {
        struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
        bool top = d == 0, bottom = d == q->p - 1;

        pass[VA_F0].has_need = !top;
        pass[VA_F0].need = top ? 0 : va_pass_index(d - 1, VA_F0);
        pass[VA_F1].has_need = true;
        pass[VA_F1].need = bottom ? va_pass_index(d, VA_F0) : va_pass_index(d + 1, VA_F1);
        pass[VA_B1].has_need = true;
        pass[VA_B1].need = top ? va_pass_index(d, VA_F1) : va_pass_index(d - 1, VA_B1);
        pass[VA_B0].has_need = true;
        pass[VA_B0].need = bottom ? va_pass_index(d, VA_B1) : va_pass_index(d + 1, VA_B0);
        pass[VA_W1].has_need = true;
        pass[VA_W1].need = va_pass_index(d, VA_B1);
        pass[VA_W0].has_need = true;
        pass[VA_W0].need = va_pass_index(d, VA_B0);
    }
}

pst_status va_problem_init(struct va_problem *q, uint32_t p, uint32_t m)
{
    *q = (struct va_problem){.p = p, .m = m};
    q->passes = calloc((size_t)p * VA_KINDS, sizeof *q->passes);
    q->cap = calloc(p, sizeof *q->cap);
    if (q->passes == NULL || q->cap == NULL) {
        va_problem_finish(q);
        return PST_ERR_NOMEM;
    }
    for (uint32_t d = 0; d < p; d++) {
        q->cap[d] = INT64_MAX;
    }
    set_needs(q);
    return PST_OK;
}

void va_problem_finish(struct va_problem *q)
{
    free(q->passes);
    free(q->cap);
    *q = (struct va_problem){0};
}

pst_status va_problem_copy(struct va_problem *q, const struct va_problem *from, uint32_t m)
{
    pst_status st = va_problem_init(q, from->p, m);

    if (st == PST_OK) {
        q->goal = from->goal;
        memcpy(q->passes, from->passes, (size_t)from->p * VA_KINDS * sizeof *q->passes);
        memcpy(q->cap, from->cap, from->p * sizeof *q->cap);
    }
    return st;
}

void va_problem_make_unit(struct va_problem *q)
{
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        uint32_t kind = i % VA_KINDS;

        q->passes[i].cost_ns = 1;
        q->passes[i].delay_ns = 0;
        q->passes[i].at_start = kind == VA_F0 || kind == VA_F1 ? 1 : 0;
        q->passes[i].at_end = kind == VA_W0 || kind == VA_W1 ? -1 : 0;
    }
    for (uint32_t d = 0; d < q->p; d++) {
        q->cap[d] = INT64_MAX;
    }
}

pst_status va_work_init(struct va_work *work, const struct va_problem *q)
{
    size_t n = va_order_length(q);

    *work = (struct va_work){
        .start = calloc(n, sizeof *work->start),
        .end = calloc(n, sizeof *work->end),
        .done = calloc((size_t)q->p * VA_KINDS, sizeof *work->done),
        .at = calloc(q->p, sizeof *work->at),
        .clock = calloc(q->p, sizeof *work->clock),
        .held = calloc(q->p, sizeof *work->held),
        .peak = calloc(q->p, sizeof *work->peak),
        .choices = calloc(q->p, sizeof *work->choices),
    };
    if (work->start == NULL || work->end == NULL || work->done == NULL || work->at == NULL ||
        work->clock == NULL || work->held == NULL || work->peak == NULL || work->choices == NULL) {
        va_work_finish(work);
        return PST_ERR_NOMEM;
    }
    return PST_OK;
}

void va_work_finish(struct va_work *work)
{
    free(work->start);
    free(work->end);
    free(work->done);
    free(work->at);
    free(work->clock);
    free(work->held);
    free(work->peak);
    free(work->choices);
    *work = (struct va_work){0};
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

/* Time from the start of the first pass of a micro-batch until pass i is through. */
static uint64_t chain_to(const struct va_problem *q, uint32_t i)
{
    uint64_t t = q->passes[i].cost_ns;

    while (q->passes[i].has_need) {
        t += q->passes[i].delay_ns;
        i = q->passes[i].need;
        t += q->passes[i].cost_ns;
    }
    return t;
}

/* Least time that a device has to wait before its first pass can run. */
static uint64_t head(const struct va_problem *q, uint32_t d)
{
    uint32_t i = va_pass_index(d, VA_F0);

    return chain_to(q, i) - q->passes[i].cost_ns;
}

uint64_t va_bound(const struct va_problem *q, enum va_goal goal)
{
    uint64_t bound = 0, lone = 0;

    for (uint32_t d = 0; d < q->p; d++) {
        const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
        uint64_t work = 0, ends;

        for (uint32_t k = 0; k < VA_KINDS; k++) {
            work += pass[k].cost_ns * q->m;
        }
        ends = chain_to(q, va_pass_index(d, VA_W0)) - (goal == VA_SPAN ? head(q, d) : 0);
        lone = lone > ends ? lone : ends;
        work += goal == VA_MAKESPAN ? head(q, d) : 0;
        bound = bound > work ? bound : work;
    }
    return bound > lone ? bound : lone;
}
