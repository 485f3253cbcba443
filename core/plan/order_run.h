/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager rule by which an order of passes is timed: a pass starts as soon as its device is free
 * and what it needs is there. Lowering (lower.c) and orders on their own (order_eval.c) say what a
 * pass needs and takes.
 */
#ifndef PST_PLAN_ORDER_RUN_H
#define PST_PLAN_ORDER_RUN_H

#include "plan/plan.h"

/* A pass in a list. */
struct pst_order_place {
    uint32_t device, position; /* PST_NONE: it is in no list */
};

struct pst_order_need {
    struct pst_order_place at;
    uint64_t latency_ns; /* from its end until another pass can use it */
    struct pst_pass pass;
};

struct pst_order_run {
    uint32_t n_devices;
    const struct pst_pass *const *passes; /* [device] */
    const uint32_t *n_passes;
    const void *of;
    /* Need number i of a pass of a device; false: it has no more. */
    bool (*need)(const void *of, uint32_t device, const struct pst_pass *pass, uint32_t i,
                 struct pst_order_need *ret_need);
    uint64_t (*duration_ns)(const void *of, const struct pst_pass *pass);
    /* The devices that begin the pass together; NULL: every one for itself. May be NULL. */
    const uint32_t *(*together)(const void *of, const struct pst_pass *pass, uint32_t *ret_n);
    const char *rule;  /* the first words of a refusal */
    bool tells_before; /* fills `before` */
    /* Filled: [device][position], in the arena. */
    uint64_t **end_ns;
    struct pst_order_place **before; /* whose end let it start; device PST_NONE: no pass did */
    uint32_t n_transfers;            /* needs from other devices */
};

/* Takes time in proportion to passes and what they need. PST_ERR_BUG plan.illegal: the order cannot
   be satisfied; details hold the cycle. */
pst_status pst_order_run(struct pst_order_run *run, struct pst_arena *arena, struct pst_error *err);

#endif
