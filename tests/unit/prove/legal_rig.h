/* SPDX-License-Identifier: Apache-2.0
 *
 * What every legal plan of a rig is held to, and its forward-only twin.
 */
#ifndef TESTS_PROVE_LEGAL_RIG_H
#define TESTS_PROVE_LEGAL_RIG_H

#include <stdarg.h>

#include "sim/sim.h"
#include "unit/prove/rig.h"

/* By all rules, buffers included where there are programs; the words tell a failure from others. */
__attribute__((format(printf, 2, 3))) static inline void expect_legal(struct rig *rig,
                                                                      const char *format, ...)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    char text[128];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (rig_check(rig, rig->programs[0] != NULL, &report, &err) != PST_OK ||
        report.n_violations != 0) {
        fail_msg("seed %llu: %s: %s\n%s", (unsigned long long)rig->seed, text, err.message,
                 err.details);
    }
}

/* The twin takes the plan's place, with programs if the plan has any, and is legal. Returns the
   plan. */
static inline struct pst_plan *begin_twin(struct rig *rig, uint32_t batch)
{
    struct pst_plan *twin = NULL, *plan = rig->plan;
    struct pst_error err = {0};

    assert_ok(pst_plan_forward_twin(plan, rig->graph, &rig->cost, batch, 0, &twin, &err), &err);
    assert_int_equal(twin->stages[0].tensor, plan->stages[0].tensor);
    assert_int_equal(twin->zero, plan->zero);
    rig->plan = twin;
    if (rig->programs[0] != NULL) {
        rig_programs(rig);
    }
    rig->limits.forward_only = true;
    expect_legal(rig, "twin of %u samples", batch);
    return plan;
}

/* It is no training plan. The plan is back, with its programs. */
static inline void end_twin(struct rig *rig, struct pst_plan *plan)
{
    static struct pst_check_report report;
    const bool programs = rig->programs[0] != NULL;
    struct pst_error err = {0};

    rig->limits.forward_only = false;
    assert_int_equal(rig_check(rig, programs, &report, &err), PST_ERR_BUG);
    assert_true(rig_has_rule(&report, plan->asynchronous ? "WVER1" : "PASS1"));
    rig_drop_plan(rig);
    rig->plan = plan;
    if (programs) {
        rig_programs(rig);
    }
}

static inline void check_twin(struct rig *rig, uint32_t batch)
{
    end_twin(rig, begin_twin(rig, batch));
}

static inline uint64_t simulate(const struct rig *rig)
{
    struct pst_error err = {0};
    uint64_t ns = 0;

    assert_ok(pst_sim_run(rig->plan, rig->graph, &rig->cost, NULL, NULL, &ns, &err), &err);
    return ns;
}

#endif
