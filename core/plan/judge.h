/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge proves plans and predicts their times. Core calls it through a table, because a judge
 * must not be part of what makes plans. The program's judge is verify/.
 *
 *     planner, session --> pst_judge_check ----> judge->check   (verify/prove)
 *                          pst_judge_steps ----> judge->steps   (verify/sim)
 */
#ifndef PST_PLAN_JUDGE_H
#define PST_PLAN_JUDGE_H

#include <stdarg.h>

#include "graph/cost.h"
#include "plan/plan.h"
#include "plan/program.h"

#define PST_CHECK_MAX 100 /* violations reported */

struct pst_violation {
    char rule[8];           /* "PASS1" */
    uint32_t device, instr; /* PST_NONE where it belongs to none */
    char text[240];         /* found and expected */
};

struct pst_check_report {
    uint32_t n_violations; /* at most PST_CHECK_MAX are kept */
    struct pst_violation violations[PST_CHECK_MAX];
};

/* Adds a violation, without an instruction. */
void pst_check_report_add(struct pst_check_report *report, const char *rule, uint32_t device,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
void pst_check_report_addv(struct pst_check_report *report, const char *rule, uint32_t device,
                           uint32_t instr, const char *format, va_list args);

/* Properties of the transport, and the purpose of the plan. All zero: rendezvous, training. */
struct pst_check_limits {
    uint32_t channel_capacity; /* messages that a channel holds beyond posted receives */
    bool ordered;              /* send and recv of a rank are one FIFO (nccl) */
    bool async_reductions;     /* TIE and NORM, too, run beside the list; else the list waits
                                  until each has ended */
    bool forward_only;         /* an evaluation plan: F alone, no reduction, no update */
    const struct pst_cost_model *cost; /* to rebuild slim programs; else it may be NULL */
};

struct pst_sim_result {
    uint32_t n_steps;
    uint64_t total_ns;  /* end of the last instruction of n steps, from time 0 */
    uint64_t period_ns; /* what one more step costs in the long run, rounded up */
    uint64_t span_ns;   /* of the first step: the most over ranks, from the start of a rank's first
                           pass to the end of its last pass or update */
    uint64_t work_ns;   /* passes and updates of the busiest rank in one step */
    uint64_t all_work_ns;       /* of all ranks together */
    uint32_t n_devices, n_used; /* of the cluster; those that hold a stage */
};

typedef pst_status pst_judge_check_fn(const struct pst_plan *plan, const struct pst_graph *graph,
                                      const struct pst_check_limits *limits,
                                      const struct pst_program *const *programs,
                                      struct pst_check_report *ret_report, struct pst_error *err);
typedef pst_status pst_judge_steps_fn(const struct pst_plan *plan, const struct pst_graph *graph,
                                      const struct pst_cost_model *cost, uint32_t n_steps,
                                      struct pst_sim_result *ret_result, struct pst_error *err);
typedef pst_status pst_judge_quick_fn(const struct pst_plan *plan, const struct pst_graph *graph,
                                      const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                                      struct pst_error *err);

/* verify/prove/check.h and verify/sim/sim.h say what each promises. */
struct pst_judge {
    pst_judge_check_fn *check; /* pst_plan_check */
    pst_judge_steps_fn *steps; /* pst_sim_steps */
    pst_judge_quick_fn *quick; /* pst_sim_quick */
};

/* The judge of this process; call once, before plans are made. It outlives them. */
void pst_judge_set(const struct pst_judge *judge);

/* These call the judge. PST_ERR_BUG "internal": none is set, so no plan is legal. */
pst_judge_check_fn pst_judge_check;
pst_judge_steps_fn pst_judge_steps;
pst_judge_quick_fn pst_judge_quick;

/* Simulated time of a step of a plan in the long run: a pst_planner_clock. */
pst_status pst_predict_step(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, bool quick, uint64_t *ret_ns,
                            struct pst_error *err);

#endif
