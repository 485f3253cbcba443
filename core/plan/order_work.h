/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the timing of an order and the search for what holds it up.
 */
#ifndef PST_PLAN_ORDER_WORK_H
#define PST_PLAN_ORDER_WORK_H

#include "plan/order_eval.h"

enum { KIND_F, KIND_B, KIND_W, KIND_R, KINDS }; /* BW counts as B */

extern const uint8_t pst_order_kinds[]; /* by PST_PASS_* */

/* Where a device stands within what its next pass needs. */
struct pst_order_front {
    uint32_t position;
    uint32_t range, offset; /* of the needs of that pass */
    uint32_t decisive;      /* the need that came last; PST_NONE: no need yet */
    uint64_t ready_ns, clock_ns;
    uint32_t waits_for; /* slot, or PST_NONE */
    uint32_t next;      /* device that sleeps at the same slot, or PST_NONE */
};

/* A slot is a possible pass: (stage, microbatch, kind). A node is a pass in a list. */
struct pst_order_work {
    const struct pst_schedule_in *in;
    const struct pst_pass *const *passes;
    const uint32_t *n_passes;
    struct pst_arena arena;
    uint64_t *first_slot;           /* [n_stages] */
    uint32_t *node_of;              /* [slot]; PST_NONE: in no list */
    uint32_t *sleeper;              /* [slot] the first device that sleeps there */
    uint64_t *done_ns;              /* [slot]; UINT64_MAX: not yet */
    uint32_t *first_node;           /* [n_devices + 1] */
    uint32_t *before;               /* [node] the node whose end let it start, or PST_NONE */
    struct pst_order_front *fronts; /* [n_devices] */
    uint32_t *awake;                /* devices to go on with */
    uint32_t n_awake;
    uint64_t n_slots;
};

static inline const struct pst_schedule_stage *pst_order_stage(const struct pst_order_work *w,
                                                               uint32_t s)
{
    return pst_schedule_stage_at(w->in, s);
}

static inline uint64_t pst_order_slot(const struct pst_order_work *w, uint32_t stage,
                                      uint32_t microbatch, uint32_t kind)
{
    return w->first_slot[stage] + (uint64_t)microbatch * KINDS + kind;
}

/* The device in whose list a node is. */
uint32_t pst_order_device(const struct pst_order_work *w, uint32_t node);

/* plan.illegal: some device waits for what never comes; details say who waits for whom. */
pst_status pst_order_stuck(const struct pst_order_work *w, struct pst_error *err);

#endif
