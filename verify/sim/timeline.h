/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of all work on every rank: one form for evaluated orders, simulated plans and executed
 * runs, so that one drawing and one trace writer serve all three. Build with pst_timeline_add and
 * pst_timeline_memory in any order, then pst_timeline_finish_build sorts; read-only afterwards.
 */
#ifndef PST_SIM_TIMELINE_H
#define PST_SIM_TIMELINE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/machine.h"
#include "plan/plan.h"

/* The rows of a rank; the numbers are the tid of the trace. Spans of one row never overlap, except
   in the send and receive rows. */
enum pst_lane {
    PST_LANE_COMPUTE = 0,
    PST_LANE_SEND = 1,
    PST_LANE_RECV = 2,
    PST_LANE_D2H = 3,
    PST_LANE_H2D = 4,
    PST_LANE_REDUCE = 5,
    PST_LANE_OPTIMIZER = 6,
    PST_LANE_HOST = 7,
    PST_LANES
};

struct pst_span {
    uint64_t start_ns, end_ns;
    uint64_t bytes;       /* transfers, copies, reductions, also those inside passes (ZeRO 2, 3) */
    uint64_t stall_ns;    /* passes: the part of it in which it stood still for copies */
    uint32_t rank, instr; /* instruction of the rank's list, or PST_NONE */
    uint32_t stage;       /* passes and STEP; transfers: the sending stage */
    uint32_t to_stage;    /* transfers: the receiving stage; else PST_NONE */
    uint32_t microbatch;  /* passes and copies: of that stage within its step; else PST_NONE */
    uint32_t first_sample, n_samples; /* of the step, on that rank; 0, 0: of no plan */
    uint32_t peer;                    /* transfers: the other rank; else PST_NONE */
    uint32_t step;
    uint8_t op;      /* enum pst_instr_op */
    uint8_t payload; /* transfers: enum pst_payload */
    uint8_t lane;    /* enum pst_lane */
};

/* Kinds of live bytes, bottom to top of a stacked curve. */
enum pst_memory_kind {
    PST_MEM_PARAMS = 0,
    PST_MEM_GRADS = 1,
    PST_MEM_OPTIMIZER = 2,
    PST_MEM_ACTIVATIONS = 3,
    PST_MEM_BUFFERS = 4,
    PST_MEM_WORKSPACE = 5,
    PST_MEM_GUESTS = 6, /* kept for other devices */
    PST_MEM_KINDS
};

/* From this time on, until the next point of the rank, this much is live. */
struct pst_memory_point {
    uint64_t ns;
    uint64_t bytes[PST_MEM_KINDS];
};

struct pst_timeline_rank {
    char name[64];           /* "rank 2 (stage 2, 6)" */
    uint32_t first, n_spans; /* rows of spans; finish_build fills them, `first` also record.c */
    uint32_t n_points;
    size_t room;
    struct pst_memory_point *points; /* ascending by time; NULL where memory is not known */
    uint64_t peak_bytes;             /* largest sum of a point */
    uint64_t capacity_bytes;         /* UINT64_MAX: no limit */
};

/* Parts of a time, 0 to 1, in which devices neither compute nor update. */
struct pst_idle {
    double all;     /* mean over all devices of the cluster; those without a stage are idle */
    double busiest; /* of the device that has least of it: what papers call the bubble */
};

struct pst_usage {
    uint64_t busy_ns; /* passes and updates, less their stalls */
    uint64_t
        idle_ns; /* the rest of the timeline, from its first span to its last, or of the step */
    uint64_t exposed_ns; /* the part of idle_ns in which a transfer, copy or reduction of the rank
                            was under way, or a pass stood still for a copy */
    uint64_t stall_ns;   /* in which a pass stood still for a copy */
};

/* One step in the steady state, which a pipeline reaches after its fill: what predictions are of.
 */
struct pst_steady_step {
    uint64_t ns;
    struct pst_idle idle;
    struct pst_usage *usage; /* of each rank */
};

struct pst_timeline {
    struct pst_arena arena;
    const char *title;     /* "1f1b, 4 devices, 8 micro-batches" */
    const char *kind;      /* "evaluation", "simulation" or "run" */
    const char *summary;   /* what a figure says below its title; NULL: makespan, idle, peak */
    double ns_per_unit;    /* 0: times are nanoseconds; else they are shown in units of a user's
                              own, ns / ns_per_unit */
    double bytes_per_unit; /* likewise for memory */
    uint32_t n_ranks, n_stages, n_steps;
    uint32_t copies;        /* of the model; 0, 1: one */
    const uint8_t *copy_of; /* [rank * n_stages + stage] the one that the rank holds; NULL: those of
                               a copy have numbers of their own, behind those of the last */
    uint32_t slices; /* a micro-batch is one of so many slices of sequences; 0, 1: whole ones */
    struct pst_steady_step step; /* simulations; ns 0: unknown */
    bool drains; /* fill and drain of the pipeline are shown, which no step in the steady state has
                  */
    const struct pst_clock *clocks; /* of each rank; NULL: all have one clock */
    struct pst_timeline_rank *ranks;
    struct pst_span *spans; /* by rank, lane, start, end */
    uint32_t n_spans;
    size_t room;
    uint64_t begin_ns, end_ns; /* of the first and last span */
};

void pst_timeline_create(uint32_t n_ranks, struct pst_timeline **ret_timeline);
void pst_timeline_destroy(struct pst_timeline *timeline);
/* Copies. */
void pst_timeline_add(struct pst_timeline *timeline, const struct pst_span *span);
/* Points of one rank come in order of time; equal times replace. */
void pst_timeline_memory(struct pst_timeline *timeline, uint32_t rank, uint64_t ns,
                         const uint64_t bytes[PST_MEM_KINDS]);
void pst_timeline_finish_build(struct pst_timeline *timeline);

/* Fills all of a span but times, bytes, rank and instr, of which rank is given, from an instruction
   of a list whose micro-batches and samples count from those of step `batch`. */
void pst_span_describe(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t batch,
                       struct pst_span *span);
/* Title, kind, names and capacities of the ranks, from the plan. */
void pst_timeline_describe(struct pst_timeline *timeline, const struct pst_plan *plan,
                           const char *kind, uint32_t n_steps);

/* The row of an instruction. */
uint8_t pst_lane_of(uint8_t op);

#endif
