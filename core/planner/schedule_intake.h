/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: takes in what a scheduler emits and refuses what is out of bounds or out
 * of order on its own device at once, then counts what the lists hold. What depends on other
 * devices is found when the plan is lowered.
 */
#ifndef PST_PLANNER_SCHEDULE_INTAKE_H
#define PST_PLANNER_SCHEDULE_INTAKE_H

#include <penstock/ext/claim.h>

#include "plan/plan.h"
#include "host/plugin_host.h"

/* The lists of a complete answer, and what the scheduler said of them. */
struct pst_orders {
    struct pst_arena arena;
    uint32_t n_devices;
    struct pst_pass **passes[PST_PARTS]; /* [fill, body, drain][device][position] */
    uint32_t *n_passes[PST_PARTS];       /* NULL: it has no such part; synchronous: but for body */
    bool asynchronous;                   /* passes came in fill, body and drain */
    bool split;                          /* there is a B or W */
    struct pst_claimed claim;            /* size 0: nothing */
};

/*
 * Asks a scheduler's schedule() for the passes of `in`, complete. asynchronous: whether they must
 * come in parts; NULL: as the scheduler likes. pending: as in pst_instance_blame, or NULL. Errors:
 * as the scheduler fails, most often plan.infeasible; plan.illegal, exit code 3, for an answer that
 * breaks a rule. finish the orders in any case.
 */
pst_status pst_orders_ask(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                          const bool *asynchronous, struct pst_error *pending,
                          struct pst_orders *ret_orders, struct pst_error *err);
void pst_orders_finish(struct pst_orders *orders);

/* Micro-batches that each stage holds, from F to W or BW; asynchronous: over several batches. */
struct pst_orders_count {
    uint32_t *most;    /* at any time */
    uint32_t *at_peak; /* when its device first holds most bytes, by saved_bytes of the stages */
    uint32_t *late;    /* those of them that are between B and W */
};
struct pst_orders_count pst_orders_count(const struct pst_orders *orders,
                                         const struct pst_schedule_in *in, struct pst_arena *arena);

/* Passes on their way in. */
struct pst_emission {
    struct pst_schedule_out out;
    const struct pst_schedule_in *in;
    struct pst_orders orders; /* so far, of all parts */
    uint32_t *room[PST_PARTS];
    uint32_t part;   /* that emit adds to */
    uint8_t *done;   /* [base[stage] + microbatch] bit per pass, over a few batches */
    size_t *base;    /* [n_stages + 1] */
    bool any;        /* there is a pass */
    char fault[256]; /* the first rule that was broken, or "" */
};

/* `in` must outlive it. */
void pst_emission_init(struct pst_emission *emission, const struct pst_schedule_in *in);
void pst_emission_finish(struct pst_emission *emission);
/* Has every micro-batch of every stage run forward and backward? Else says so in fault. */
bool pst_emission_complete(struct pst_emission *emission);
/* Out of a complete one; it is to be finished all the same. */
struct pst_orders pst_orders_take(struct pst_emission *emission, const struct pst_claimed *claim);

/* Warns in the log of what differs, and of a lower bound above the answer's own cost; times are
   told in units. `claim` of size 0 claims nothing. */
void pst_claim_check(const char *scheduler, const struct pst_claimed *claim, uint64_t makespan_ns,
                     uint64_t span_ns, double ns_per_unit);

#endif
