/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: the question that memory optimizers of pst.memopt-global/1 are asked.
 */
#ifndef PST_PLANNER_GLOBAL_H
#define PST_PLANNER_GLOBAL_H

#include "planner/state.h"

/* In arrays of the arena. */
struct pst_global_question {
    struct pst_global_in in;
    struct pst_global_device *devices;
    struct pst_global_stage *stages;
    struct pst_global_pass *passes;
    struct pst_global_link *links;
    const struct pst_cost_model *cost;
    uint32_t n_ranks;
    uint32_t *device_of;  /* [rank] */
    uint32_t *first_rank; /* [device] of the first replica */
    uint32_t
        *degree_of; /* [device] ranks that each of its ranks stands for, which share operators */
    uint32_t **at;  /* [stage][2 * micro-batch] where F stands in its device's order, and B */
};

/* global_question.c: of a plan with stages and actions, passes in order. */
pst_status pst_global_question_init(struct pst_global_question *question,
                                    struct pst_planner *planner, struct pst_plan *plan,
                                    const struct pst_orders *orders, struct pst_arena *arena,
                                    struct pst_error *err);

/* Has each rank of a device its like on the other? */
static inline bool pst_global_are_alike(const struct pst_global_question *question, uint32_t device,
                                        uint32_t other)
{
    return question->devices[device].n_ranks == question->devices[other].n_ranks &&
           question->degree_of[device] == question->degree_of[other];
}

/* Lowers the plan as it stands, and builds its programs. ret_arena_bytes: [rank]. */
pst_status pst_global_arenas(const struct pst_planner_in *in, struct pst_plan *plan,
                             const struct pst_orders *orders, uint64_t *ret_arena_bytes,
                             struct pst_error *err);

#endif
