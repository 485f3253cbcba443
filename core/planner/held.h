/* SPDX-License-Identifier: Apache-2.0
 *
 * How many micro-batches a stage holds: the scheduler's own word, or a count on a chain of stages
 * that all cost the same; but no less than an earlier attempt counted in the real schedule.
 */
#ifndef PST_PLANNER_HELD_H
#define PST_PLANNER_HELD_H

#include "host/plugin_host.h"

struct pst_orders;
struct pst_planner;
struct pst_plan;

/* Micro-batches at the peak of each device, in the scheduler's order of a chain of unit costs. */
struct pst_scheduler_count {
    struct pst_scheduler_count *next;
    uint32_t n_stages, n_microbatches, microbatch_size, k; /* of the chain */
    pst_status status;                                     /* of asking for it */
    struct pst_error *why; /* unless PST_OK; then there is no count */
    uint32_t *held;        /* [n_stages] micro-batches at the peak of the stage's device */
    uint32_t *late;        /* [n_stages] those of them that wait for W alone */
    bool split;            /* there are passes B and W; of an asynchronous order false */
    bool asynchronous;
};

/* At most all micro-batches, of an asynchronous schedule those of two batches. Errors: of the
   plugin; plan.illegal for an answer of 0, and for more weight versions than that can use. */
pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err);
/* Sets in_flight and weight_versions of every stage of a plan by pst_planner_held. */
pst_status pst_planner_hold(struct pst_planner *planner, struct pst_plan *plan,
                            struct pst_error *err);

/* Counts for all of place->n_stages stages at once; place->stage does not matter. Each chain is
   counted once. Errors: PST_ERR_NOMEM, PST_ERR_CANCELLED; others are the count's status. */
pst_status pst_planner_count(struct pst_planner *planner, const struct pst_place *place,
                             const struct pst_scheduler_count **ret_count, struct pst_error *err);

/* in_flight()'s question about a stage of `in`. claims: the answers for its successors;
   `successors`: room for in->n_links of them, which *ret_place then points to. */
void pst_held_place(const struct pst_schedule_in *in, uint32_t s, const uint32_t *claims,
                    struct pst_successor *successors, struct pst_place *ret_place);

/* A device whose stages hold more than in_flight() says of them; held 0: there is none. */
struct pst_held_fault {
    uint32_t device, held;
    uint64_t claimed;
};

/* Compares the answer to `in` with what in_flight() says, as "plugins check" does. The host asks
   in_flight() about one copy only, so `in` has no others. pst_held_warn prints to the log. */
struct pst_held_fault pst_held_judge(struct pst_instance *scheduler,
                                     const struct pst_schedule_in *in,
                                     const struct pst_orders *orders);
void pst_held_warn(const struct pst_instance *scheduler, const struct pst_held_fault *fault);

#endif
