/* SPDX-License-Identifier: Apache-2.0
 *
 * Times an order of passes on its own, before lowering, by the eager rule (order_run.h); moving
 * something to another device is pure latency and links never contend. With makespan, span, peaks
 * and lower bounds it is what papers report.
 */
#ifndef PST_PLAN_ORDER_EVAL_H
#define PST_PLAN_ORDER_EVAL_H

#include <penstock/scheduler.h>

#include "base/arena.h"
#include "base/error.h"
#include "plan/plan.h"

struct pst_order_eval {
    struct pst_arena arena;
    uint32_t n_devices;
    uint64_t **start_ns, **end_ns; /* [device][position] */
    uint64_t makespan_ns;          /* end of the last pass, from time 0 */
    uint64_t span_ns;     /* most over devices: end of the last pass - start of the first */
    uint64_t work_ns;     /* E: work of the busiest device */
    uint64_t *busy_ns;    /* per device */
    uint64_t *peak_bytes; /* per device: the most held at a time */
    uint32_t n_transfers; /* between devices */
    uint32_t n_critical;  /* critical path, first to last: (device, position) */
    uint32_t (*critical)[2];
};

/* Bytes that a pass holds from its start on, or gives back at its end. */
static inline void pst_order_held(const struct pst_schedule_stage *stage, uint8_t op,
                                  uint64_t *ret_more, uint64_t *ret_less)
{
    uint64_t weight = stage->saved_weight_bytes < stage->saved_bytes ? stage->saved_weight_bytes
                                                                     : stage->saved_bytes;

    *ret_more = op == PST_PASS_F ? stage->saved_bytes : 0;
    *ret_less = op == PST_PASS_BW  ? stage->saved_bytes
                : op == PST_PASS_B ? stage->saved_bytes - weight
                : op == PST_PASS_W ? weight
                                   : 0;
}

/*
 * Stages of different micro-batch sizes: a pass needs every pass of its neighbours that shares
 * samples with it. Takes time in proportion to passes and what they need. PST_ERR_BUG plan.illegal
 * where a pass is out of place or twice, or the order cannot be satisfied: details hold the cycle.
 * finish in case of PST_OK.
 */
pst_status pst_order_evaluate(const struct pst_schedule_in *in,
                              const struct pst_pass *const *passes, const uint32_t *n_passes,
                              struct pst_order_eval *ret_eval, struct pst_error *err);
void pst_order_eval_finish(struct pst_order_eval *eval);

#endif
