/* SPDX-License-Identifier: Apache-2.0
 *
 * An evaluated order as a timeline: passes, what is on its way between devices, activations held.
 */
#ifndef PST_REPORTS_ORDER_TIMELINE_H
#define PST_REPORTS_ORDER_TIMELINE_H

#include "plan/order_eval.h"
#include "sim/timeline.h"

struct pst_order_drawing {
    const struct pst_schedule_in *in;
    const struct pst_pass *const *passes;
    const uint32_t *n_passes;
    const struct pst_order_eval *eval;
    uint32_t n_batches; /* within the order; steps of the timeline */
    uint32_t n_repeats; /* of the whole order, each after the last: n_batches is 1 then */
    uint64_t period_ns; /* from one repeat to the next */
    const char *title;  /* copied */
    double ns_per_unit, bytes_per_unit;
    uint32_t copies; /* of the stages, one after the other; 0, 1: one */
};

void pst_order_timeline(const struct pst_order_drawing *drawing,
                        struct pst_timeline **ret_timeline);

#endif
