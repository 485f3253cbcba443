/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to v-adaptive: what every answer owes is checked, its cost comes back.
 */
#ifndef TEST_V_ADAPTIVE_RIG_H
#define TEST_V_ADAPTIVE_RIG_H

#include "schedule_rig.h"

/* Cost under the objective that `barrier` implies; checks what every answer owes. */
static inline uint64_t cost(const struct schedule_case *c)
{
    struct schedule_run run = schedule_run(c);
    uint64_t figure = c->barrier ? run.makespan : run.span;

    assert_true(c->cap == 0 || most_held(&run) <= c->cap);
    assert_true(run.makespan >= run.bounds.makespan_ns / (c->unit > 0 ? c->unit : 1));
    assert_true(run.span >= run.bounds.span_ns / (c->unit > 0 ? c->unit : 1));
    assert_true(run.answer.claim.size != 0);
    assert_int_equal(run.answer.claim.makespan_ns, run.makespan_ns);
    assert_int_equal(run.answer.claim.span_ns, run.span_ns);
    assert_int_equal(run.answer.claim.minimised, c->barrier ? 1 : 2);
    assert_true(run.answer.claim.lower_bound_ns <= (c->barrier ? run.makespan_ns : run.span_ns));
    schedule_run_free(&run);
    return figure;
}

#define COST(...) cost(&(struct schedule_case){.id = "v-adaptive", __VA_ARGS__})

static inline void check_at_most(const char *what, uint32_t p, uint32_t m, uint64_t k, uint64_t got,
                                 uint64_t want)
{
    if (got > want) {
        fail_msg("%s p %u m %u cap %lu: %lu, not %lu", what, p, m, (unsigned long)k,
                 (unsigned long)got, (unsigned long)want);
    }
}

#endif
