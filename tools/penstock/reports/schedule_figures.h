/* SPDX-License-Identifier: Apache-2.0
 *
 * All that is said of a scheduler's answer: times, bounds, peaks, a timeline. Several steps of a
 * synchronous schedule run one after the other with a barrier between; batches of an asynchronous
 * one run into each other.
 */
#ifndef PST_REPORTS_SCHEDULE_FIGURES_H
#define PST_REPORTS_SCHEDULE_FIGURES_H

#include "ask/schedule_job.h"
#include "reports/order_bounds.h"
#include "sim/timeline.h"

struct pst_schedule_figures {
    const struct pst_schedule_result *result;
    uint32_t n_steps, n_repeats; /* repeats: of the evaluated order */
    double ns_per_unit, bytes_per_unit;
    struct pst_batches stream; /* what was evaluated */
    struct pst_order_eval eval;
    struct pst_order_bounds bounds; /* of `stream` */
    /* Totals of all steps. */
    uint64_t makespan_ns, span_ns, work_ns, lower_bound_ns, span_bound_ns;
    uint64_t *busy_ns; /* [device] */
    uint32_t n_transfers;
    uint32_t n_microbatches; /* of a step, on stage 0 of all copies */
    bool has_period;
    double steady_period_ns; /* growth of the span by one micro-batch of stage 0 more */
    uint32_t *held;          /* [stage] most micro-batches held */
    struct pst_timeline *timeline;
};

struct pst_schedule_units {
    double ns, bytes; /* of one unit; bytes 0: bytes */
    const char *title;
};

/* `result` must outlive it. Warns where the scheduler claims other figures than these. Errors:
   plan.illegal, exit code 3, where the order cannot be satisfied; config.limit. */
pst_status pst_schedule_figures_init(const struct pst_schedule_result *result, uint32_t n_steps,
                                     const struct pst_schedule_units *units,
                                     struct pst_schedule_figures *ret_figures,
                                     struct pst_error *err);
void pst_schedule_figures_finish(struct pst_schedule_figures *figures);

#endif
