/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.eval/1: the one evaluator of memory plans, for memory optimizers. It charges a stage by the
 * model that docs/memory.md describes under "What a decision costs": what is parked, what the
 * active micro-batch needs in forward, backward and replay.
 */
#ifndef PENSTOCK_EXT_EVAL_H
#define PENSTOCK_EXT_EVAL_H

#include "../host.h"
#include "../memopt.h"

#define PST_EVAL "pst.eval/1"

struct pst_stage_value {
    uint32_t size;
    uint32_t legal;   /* 0: `node` breaks a rule, `rule` says which */
    uint32_t node;    /* position in the view, or PST_NONE */
    const char *rule; /* static text */
    uint64_t peak_bytes, period_ns, extra_ns;
};

struct pst_eval {
    uint32_t size;
    /* actions: PST_ACTION_*, one per position of the view; NULL: those of the view. [plan] */
    pst_status (*evaluate)(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value);
    /* Since 1.4, ask PST_CAN: the same of a stage whose replays are listed, by the rules of struct
       pst_replay; `node` of an illegal one is the first that it names. [plan] */
    pst_status (*evaluate_replays)(const struct pst_host *host, const struct pst_stage_view *view,
                                   const struct pst_replay *replays, uint32_t n_replays,
                                   struct pst_stage_value *ret_value);
};

#endif
