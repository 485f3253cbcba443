/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels a pass of a stage calls, in which order: what programs are made of, without
 * buffers. Says when inside a pass a node has left its results, and when they are first read.
 */
#ifndef PST_PLAN_PASS_CALLS_H
#define PST_PLAN_PASS_CALLS_H

#include "plan/plan.h"

struct pst_pass_call {
    uint32_t node; /* position in the stage */
    uint8_t pass;  /* 0 F, 1 B, 2 W */
    bool replay;
};

/* The kernel calls of one kind of pass; indices below count them. */
struct pst_pass_calls {
    uint32_t n_calls;
    struct pst_pass_call *calls;
    uint32_t *first_read; /* [node] the first call that reads what the forward pass left of the
                             node's results; a replay counts; PST_NONE: none does. Of F: PST_NONE */
    uint32_t *behind;     /* [node] the call after the node's own and all calls before these:
                             n_calls if they are the last */
};

/* Lists the calls of a stage's passes F, B, W and BW, by PST_I_*. R has no list: its replays are
   one block, which programs do not divide. Arrays come from the arena. */
void pst_pass_calls_init(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                         struct pst_arena *arena, struct pst_pass_calls ret_passes[PST_I_BW + 1]);

/* Time in which so many bytes of gradients are summed over the replicas of a stage inside a pass,
   each of which has its piece of the sum. */
uint64_t pst_plan_scatter_ns(const struct pst_plan *plan, const struct pst_cost_model *cost,
                             uint32_t stage, uint64_t bytes);
/* That of all sums of a W or BW, for one micro-batch (gathers.h). */
uint64_t pst_plan_stage_scatter_ns(const struct pst_plan *plan, const struct pst_graph *graph,
                                   const struct pst_cost_model *cost, uint32_t stage);

/* Time in which so many bytes of weights are gathered from the replicas of a stage. */
uint64_t pst_plan_gather_ns(const struct pst_plan *plan, const struct pst_cost_model *cost,
                            uint32_t stage, uint64_t bytes);

/* A bucket that a pass gathers (gathers.h). */
struct pst_pass_gather {
    uint32_t call, n; /* before this call, so many parameters */
    uint32_t *parameters;
    uint64_t bytes;
};
/* Lists those of a pass in the order in which it needs them; returns how many. Arrays come from the
   arena. */
uint32_t pst_pass_gathers_list(const struct pst_plan *plan, const struct pst_graph *graph,
                               uint32_t stage, const struct pst_pass_calls *pass,
                               struct pst_arena *arena, struct pst_pass_gather **ret_gathers);

/* The weights that a pass of a stage gathers from its replicas (gathers.h). */
struct pst_pass_gathers {
    uint32_t n;
    uint64_t bytes, ns; /* of all */
};
/* Finds them; ret_call_ns: NULL, or [call] the time right before each. */
struct pst_pass_gathers pst_plan_pass_gathers(const struct pst_plan *plan,
                                              const struct pst_graph *graph,
                                              const struct pst_cost_model *cost, uint32_t stage,
                                              const struct pst_pass_calls *pass,
                                              uint64_t *ret_call_ns);
/* Finds the gathers of passes F, B, W and BW, by PST_I_*. */
void pst_plan_gathers_of(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t stage,
                         struct pst_pass_gathers ret_passes[PST_I_BW + 1]);

/* Times of the passes of a micro-batch without such meetings, which is this slice of its sequences,
   on one rank of the stage, by PST_I_*; R: the replays alone, which B and BW include if `inside`.
   ret_ns: [PST_I_R + 1]. */
void pst_plan_pass_ns(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      const struct pst_cost_model *cost, uint32_t slice, bool inside,
                      uint64_t *ret_ns);

#endif
