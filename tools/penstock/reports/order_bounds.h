/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower bounds of a scheduling problem.
 */
#ifndef PST_REPORTS_ORDER_BOUNDS_H
#define PST_REPORTS_ORDER_BOUNDS_H

#include "plan/order_eval.h"

/*
 * Lower bounds of all orders of an instance that run every micro-batch forward and backward once on
 * the stages' devices, with or without a separate weights' part of the backward, and never hold
 * more than activation_bytes. A bound that does not apply is 0.
 */
struct pst_order_bounds {
    uint64_t work_ns;   /* span: work of the busiest device */
    uint64_t fill_ns;   /* makespan: the first micro-batch's way to a device, all of the device's
                           work; or its F and B, and the last gradient's way on */
    uint64_t chain_ns;  /* makespan: one micro-batch through all stages and back */
    uint64_t memory_ns; /* makespan: a device has room for so many forwards before its first
                           backward, and before its last forward as many backwards are done */
    uint64_t vshape_ns; /* makespan: unit costs on a V with room for k passes; Qi et al., "Pipeline
                           Parallelism with Controllable Memory", arXiv 2405.15362 */
    uint64_t makespan_ns, span_ns; /* the largest that applies */
};

void pst_order_bounds(const struct pst_schedule_in *in, struct pst_order_bounds *ret_bounds);

#endif
