/* SPDX-License-Identifier: Apache-2.0
 *
 * Times an order of passes on its own, before lowering: each pass starts as soon as its device is
 * free and what it needs is there; moving something to another device is pure latency and links
 * never contend. With makespan, span, peaks and lower bounds it is what papers report.
 */
#ifndef PST_SIM_ORDER_EVAL_H
#define PST_SIM_ORDER_EVAL_H

#include <penstock/scheduler.h>

#include "base/arena.h"
#include "base/error.h"
#include "plan/plan.h"

struct pst_order_eval {
    struct pst_arena arena;
    uint64_t **start_ns, **end_ns; /* [device][position] */
    uint64_t makespan_ns; /* end of the last pass, from time 0 */
    uint64_t span_ns;     /* most over devices: end of the last pass - start of the first */
    uint64_t work_ns;     /* E: work of the busiest device */
    uint64_t *busy_ns;    /* per device */
    uint64_t *peak_bytes; /* per device: + saved_bytes at F, - (saved - saved_weight) after B, the
                             rest after W or BW */
    uint32_t n_transfers; /* between devices */
    uint32_t n_critical;  /* critical path, first to last: (device, position) */
    uint32_t (*critical)[2];
};

/*
 * Stages of different micro-batch sizes: a pass needs every pass of its neighbours that shares
 * samples with it. PST_ERR_BUG plan.illegal where the order cannot be satisfied; details hold the
 * cycle. finish in any case of PST_OK.
 */
pst_status pst_order_evaluate(const struct pst_schedule_in *in,
                              const struct pst_pass *const *passes, const uint32_t *n_passes,
                              struct pst_order_eval *ret_eval, struct pst_error *err);
void pst_order_eval_finish(struct pst_order_eval *eval);

/* The largest proven lower bound of makespan and of span that applies to this instance, whatever
   the order; `placement` is told from the devices of the stages. */
void pst_order_lower_bounds(const struct pst_schedule_in *in, uint64_t *ret_makespan_ns,
                            uint64_t *ret_span_ns);

#endif
