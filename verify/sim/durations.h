/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each instruction of a plan takes on an idle machine, and what it moves. Private to sim
 * but for the update.
 */
#ifndef PST_SIM_DURATIONS_H
#define PST_SIM_DURATIONS_H

#include "base/saturate.h"
#include "graph/cost.h"
#include "plan/pass_rows.h"

/* The calls and copies in passes of a stage that offloads. */
struct pst_sim_offload {
    struct pst_stage_rows rows;
    uint64_t *call_ns[PST_I_BW + 1]; /* of each call, slice by slice */
    uint64_t *bytes;                 /* [node] moved by one copy; 0: it is not offloaded */
};

/*
 * A stage whose passes sum gradients over the replicas (ZeRO 2). They add up micro-batches, slices
 * of sequences backward, in their order: a pass W that comes before its turn sums nothing, one
 * whose turn it is sums after its calls, then at its end for those that have waited for it.
 */
struct pst_sim_scatters {
    uint64_t bytes, ns; /* of one micro-batch */
    uint32_t n_microbatches;
    uint32_t *n_sums; /* [microbatch] for how many its pass W or BW sums */
};

struct pst_sim_stage {
    uint64_t (*compute_ns)[PST_I_COUNT]; /* [slice] passes of one micro-batch on one rank, which is
                                            this slice of its sequences, that scatter nothing */
    uint64_t (*summed_ns)[PST_I_COUNT];  /* that scatter the gradients of their own micro-batch */
    uint32_t n_updates;                  /* 1: all ranks of the stage update the same */
    uint64_t *update_bytes; /* f32 bytes of the parameters that STEP updates on each rank */
    uint64_t *update_ns;    /* the time of that */
    struct pst_sim_offload *offload;               /* NULL: the plan offloads none of its nodes */
    struct pst_sim_scatters *scatters;             /* NULL: its passes sum no gradients */
    struct pst_pass_gathers gathers[PST_I_BW + 1]; /* of its passes */
};

/* Transfers of one payload of an edge; the last result is cached. */
struct pst_sim_edge {
    uint64_t bytes; /* per sample */
    uint32_t n_samples;
    uint32_t link;
    uint64_t ns, latency_ns; /* until data arrive; between leaving the link and that */
};

struct pst_sim_durations {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    struct pst_sim_stage *stages;
    struct pst_sim_edge *edges;  /* [edge * 2 + payload] */
    struct pst_sim_edge *guests; /* [stage] bytes of one of them, whole */
};

/* Arrays come from the arena. */
void pst_sim_durations_init(struct pst_sim_durations *durations, struct pst_arena *arena,
                            const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost);

/* The micro-batches for which a pass sums gradients over the replicas. */
static inline uint32_t pst_sim_sums(const struct pst_sim_durations *durations,
                                    const struct pst_instr *instr)
{
    const struct pst_sim_scatters *scatters = durations->stages[instr->stage].scatters;
    const bool weights = instr->op == PST_I_W || instr->op == PST_I_BW;

    return weights && scatters != NULL && instr->microbatch < scatters->n_microbatches
               ? scatters->n_sums[instr->microbatch]
               : 0;
}

/* Time of a pass or STEP. */
static inline uint64_t pst_sim_compute_ns(const struct pst_sim_durations *durations,
                                          const struct pst_instr *instr, uint32_t rank)
{
    const uint32_t slice = instr->microbatch % durations->graph->slices;
    const struct pst_sim_stage *stage = &durations->stages[instr->stage];
    uint32_t replica = 0;

    if (instr->op != PST_I_STEP) {
        const uint32_t n_sums = pst_sim_sums(durations, instr);

        return n_sums == 0 ? stage->compute_ns[slice][instr->op]
                           : pst_sat_add_ns(stage->summed_ns[slice][instr->op],
                                            pst_sat_mul(stage->scatters->ns, n_sums - 1));
    }
    if (stage->n_updates > 1) {
        replica = pst_plan_replica(&durations->plan->stages[instr->stage], rank);
    }
    return stage->update_ns[replica < stage->n_updates ? replica : 0];
}

/* Time of each call of a pass of a stage that offloads, without meetings of replicas. */
static inline const uint64_t *pst_sim_call_ns(const struct pst_sim_durations *durations,
                                              const struct pst_instr *instr)
{
    const struct pst_sim_offload *offload = durations->stages[instr->stage].offload;
    const size_t slice = instr->microbatch % durations->graph->slices;

    return offload->call_ns[instr->op] + slice * offload->rows.calls[instr->op].n_calls;
}

/* The update of so many bytes of f32 parameters with `slots` values of state each: one stage. */
uint64_t pst_sim_update_ns(const struct pst_cost_model *cost, uint64_t param_bytes, uint32_t slots);

/* Time that a step loses because the host needs cores of the plan's devices for the next one. */
uint64_t pst_sim_host_ns(const struct pst_cost_model *cost, const struct pst_plan *plan);

/* Bytes that a SEND, RECV, OFFLOAD, FETCH, REDUCE, TIE, NORM or GATHER of a rank moves, or a pass
   that scatters or gathers; else 0. */
uint64_t pst_sim_bytes(const struct pst_sim_durations *durations, const struct pst_instr *instr,
                       uint32_t rank);

struct pst_sim_edge pst_sim_transfer(struct pst_sim_durations *durations,
                                     const struct pst_instr *send, uint32_t from);
/* Time of OFFLOAD or FETCH. */
uint64_t pst_sim_copy_ns(const struct pst_sim_durations *durations, const struct pst_instr *instr);
/* Time of REDUCE, TIE, NORM or GATHER of a rank among n ranks, NULL: all, which are in n_nodes. */
uint64_t pst_sim_collective_ns(const struct pst_sim_durations *durations,
                               const struct pst_instr *instr, uint32_t rank, const uint32_t *ranks,
                               uint32_t n_ranks, uint32_t n_nodes);

#endif
