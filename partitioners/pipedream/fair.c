/* SPDX-License-Identifier: Apache-2.0 */
#include "fair.h"

#include <math.h>

#include "sets.h"

pst_status fair_solve(const struct fair_question *q, struct pd_answer *ret_answer)
{
    const struct part_sets_question question = {
        .problem = q->problem,
        .costs = q->costs,
        .sets = q->sets,
        .dag = q->dag,
        .node = q->node,
        .edge = q->edge,
        .n_devices = q->n_devices,
        .capacity = q->capacity,
        .below = INT64_MAX,
        .stop = q->stop,
    };
    struct part_sets_answer found = {0};
    struct pd_answer answer = {.bottleneck = INFINITY};
    uint32_t s;
    pst_status st = part_sets_solve(&question, &found);

    for (s = 0; st == PST_OK && s < found.n_stages; s++) {
        const struct part_sets_stage *stage = &found.stages[s];

        answer.bottleneck = (double)found.ticks * q->costs->ns_per_tick;
        pd_answer_add(&answer, stage->from, stage->to, stage->degree);
    }
    if (st != PST_OK) {
        return st;
    }
    *ret_answer = answer;
    return PST_OK;
}
