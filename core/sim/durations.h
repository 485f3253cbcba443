/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each instruction of a plan takes on an idle machine. Private to sim.
 */
#ifndef PST_SIM_DURATIONS_H
#define PST_SIM_DURATIONS_H

#include "cost/cost.h"
#include "plan/plan.h"

struct pst_sim_stage {
    struct pst_times times; /* of one micro-batch on one rank */
    uint64_t replay_ns;     /* F of the operators whose results are recomputed */
    uint64_t param_bytes;   /* f32 bytes of the parameters that it uses, each once */
    bool places_replay;     /* the lists hold R passes of it, so B does not replay */
};

struct pst_sim_edge {
    uint64_t act_bytes, grad_bytes; /* per sample */
};

struct pst_sim_durations {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    struct pst_sim_stage *stages;
    struct pst_sim_edge *edges;
};

/* Arrays come from the arena. False: out of memory. */
bool pst_sim_durations_init(struct pst_sim_durations *durations, struct pst_arena *arena,
                            const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost);

/* Of a pass or STEP. */
uint64_t pst_sim_compute_ns(const struct pst_sim_durations *durations,
                            const struct pst_instr *instr);
uint64_t pst_sim_transfer_ns(const struct pst_sim_durations *durations,
                             const struct pst_instr *send, uint32_t from);
/* Of REDUCE, TIE or NORM among n ranks. */
uint64_t pst_sim_collective_ns(const struct pst_sim_durations *durations,
                               const struct pst_instr *instr, uint32_t n_ranks);

#endif
