/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the construction of programs: program_build.c (the builder's state), program_static.c
 * (what lives for the whole run), program_passes.c (kernel calls), program_weights.c (weights that
 * they read), program_gradients.c (sums of those that they make), program_transfers.c (between
 * devices), program_copies.c (to the host and back), program_classes.c (buffers that live across
 * parts), program_sections.c (lists), program_phases.c, program.c, layout.c (offsets).
 */
#ifndef PST_PLAN_PROGRAM_BUILD_H
#define PST_PLAN_PROGRAM_BUILD_H

#include "plan/gathers.h"
#include "plan/pass_calls.h"
#include "plan/program.h"
#include "plan/sequence.h"

/* The current values of one micro-batch of a stage; value indices or PST_NONE. */
struct pst_micro {
    uint32_t *act;     /* [pst_builder.near of a tensor] */
    uint32_t *dact;    /* likewise: gradient summed so far */
    uint32_t *contrib; /* [separate use] gradients kept apart, see pst_builder.separate */
    uint32_t *dy;      /* [node] gradient of its result, kept for W */
    uint32_t *z;       /* [node * PST_MAX_SCRATCH + i] */
    uint32_t *scratch; /* [parameter use of the stage] gradient that waits for its turn */
    uint32_t *past;    /* [node] gradients of its keys and values, from later slices */
    uint32_t *out_copy, *in_copy; /* [node] no value: the first row of its OFFLOAD, FETCH */
};

struct pst_stage_build {
    bool local;               /* on this rank; pst_build_together */
    uint32_t replica;         /* that this rank is, where local */
    struct pst_shards shards; /* where local */
    uint32_t n_batch;         /* micro-batches of one batch; at least 1 */
    uint32_t n_unit;          /* from one update of the weights to the next */
    uint32_t n_micros;        /* that the list may name: those of pst_builder.batches */
    struct pst_micro *micros;
    struct pst_op_grad *grad; /* [node] */
    struct pst_replays replays;
    uint32_t *use_base; /* [node] first parameter use */
    uint32_t n_uses;
    uint32_t *next_sum; /* one: the turn (pst_graph_turn) whose gradients are added next */
    uint32_t *summable; /* [turn] 1: the W of its micro-batch has run */
    bool *saved;        /* [tensor] read backward; NULL: nothing of the stage is offloaded */
    struct pst_pass_calls *calls; /* [pass] of a stage that offloads, else NULL */
    struct {
        uint32_t n;
        struct pst_pass_gather *rows;
    } gathers[PST_I_BW + 1]; /* [pass] in the order of their posts */
    uint32_t last_edge;      /* that leaves it, see pst_edge_items.before; PST_NONE: none */
};

/* Guests of a stage, at home or on the device that keeps them. */
struct pst_build_guests {
    uint32_t n_tensors;
    uint32_t *tensors; /* of each of them */
    uint32_t *values;  /* [microbatch] the first of its values on this rank, n_tensors in a row, or
                          PST_NONE; NULL: the stage has no guests */
};

/* A table of what micro-batches have made so far: values or rows, PST_NONE at the beginning of a
   list, or counts, 0 at the beginning. */
enum pst_made_kind { PST_MADE_VALUES, PST_MADE_ROWS, PST_MADE_COUNTS };
struct pst_made {
    struct pst_made *next;
    enum pst_made_kind kind;
    size_t n;
    uint32_t *at;
    uint32_t *left; /* as fill left them; NULL: no fill yet */
};

/* The gradients that cross an edge for a micro-batch: one of a tensor, or one of each use of it on
   the far side where these are kept apart. */
struct pst_edge_items {
    uint32_t n;
    struct {
        uint32_t tensor, use; /* PST_NONE: the sum over its uses */
    } * at;
    uint32_t *received; /* [microbatch of from][item] values */
    uint32_t before;    /* the edge before it that leaves the same stage, or PST_NONE */
};

/* A gradient that replicas sum: of a parameter that a node reads. */
struct pst_build_summed {
    uint32_t microbatch, node, slot, scratch;
};

struct pst_classes;

struct pst_builder {
    const struct pst_plan *plan; /* a recording: unrolled */
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    struct pst_program *program;
    struct pst_arena arena; /* temporary */
    uint32_t rank, tick;
    struct {
        uint32_t n;       /* number whose micro-batches the list may name: 1; asynchronous: 2;
                             recording: all that are unrolled */
        uint32_t samples; /* of one */
        bool newest;      /* passes read version section.phase: evaluation */
    } batches;
    struct {
        uint32_t phase, first_instr;
    } section;                       /* written by program_sections.c when it begins one */
    struct pst_classes *classes;     /* asynchronous plans: values that live across parts */
    const struct pst_instr *instr;   /* the one being built */
    uint32_t n_created[PST_V_KINDS]; /* values that the instruction has made so far */
    bool failed;                     /* a buffer is missing: everything after is void */
    uint32_t *stage_of;              /* [operator] */
    uint32_t *near; /* [tensor] index among the n_near that operators on this rank read or write */
    uint32_t n_near;
    struct pst_stage_build *stages;
    struct pst_made *made;
    /*
     * [tensor] Gradients of a tensor with three or more uses in several stages are kept apart and
     * added by its producer in one order, so that no cut changes the sum: first row of its uses in
     * pst_micro.contrib, or PST_NONE where a running sum is the same.
     */
    uint32_t *separate;
    uint32_t n_separate;
    struct pst_build_guests *guests; /* [stage] */
    struct pst_edge_items *items;    /* [edge] gradients that cross it */
    uint32_t *grad_value; /* [parity of the batch][operator][slot of PST_MAX_PARAMS] accumulators */
    uint32_t *param_row;  /* [parameter] row in program->params, or PST_NONE */
    uint32_t *gathered;   /* [row of params] the buffer in which it was gathered last */
    struct {
        uint32_t n_kernels, n_posted, n_awaited; /* so far; gathers */
        uint32_t *gathers;                       /* [number of one modulo 1 + prefetch] its call */
        uint32_t sum, n_summed;                  /* call of the sum that is open, PST_NONE: none */
        struct pst_build_summed *summed;         /* what it sums */
    } pass;
    struct {
        size_t values, calls, operands, parts, copies;
    } room; /* of growing arrays that become the program's */
};

#define PST_MAX_PARAMS 4

/* Samples of a micro-batch on this rank, and the first of them. */
static inline uint32_t pst_build_samples(const struct pst_builder *b, uint32_t stage)
{
    return pst_plan_samples(&b->plan->stages[stage]);
}

static inline uint32_t pst_build_first_sample(const struct pst_builder *b, uint32_t stage,
                                              uint32_t microbatch)
{
    return pst_plan_first_sample(&b->plan->stages[stage], b->stages[stage].replica, microbatch);
}

/* The value, and the gradient so far, of a tensor that an operator on this rank reads or writes, of
   one micro-batch. */
static inline uint32_t *pst_build_act(const struct pst_builder *b, uint32_t stage,
                                      uint32_t microbatch, uint32_t tensor)
{
    return &b->stages[stage].micros[microbatch].act[b->near[tensor]];
}

static inline uint32_t *pst_build_dact(const struct pst_builder *b, uint32_t stage,
                                       uint32_t microbatch, uint32_t tensor)
{
    return &b->stages[stage].micros[microbatch].dact[b->near[tensor]];
}

/* Returns true if this rank holds both stages for the same samples; copies have other samples. */
static inline bool pst_build_together(const struct pst_builder *b, uint32_t stage, uint32_t other)
{
    return b->stages[stage].local && b->stages[other].local &&
           b->stages[stage].replica == b->stages[other].replica;
}

/* The batch of a micro-batch, counted from the start of the run modulo the number of phases. */
static inline uint32_t pst_build_batch(const struct pst_builder *b, uint32_t stage,
                                       uint32_t microbatch)
{
    return b->section.phase + microbatch / b->stages[stage].n_batch;
}

/* A new buffer that lives from now on. */
uint32_t pst_build_value(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t microbatch,
                         uint32_t what, uint32_t slot, uint64_t bytes);
/* Extends the value's life to now: it is read or written. */
void pst_build_use(struct pst_builder *b, uint32_t value);
/* A call for a micro-batch of a stage, in a tick of its own, with n operands, all PST_NONE. Good
   until the next one. */
struct pst_program_call *pst_build_call(struct pst_builder *b, uint8_t kind, uint32_t stage,
                                        uint32_t microbatch, uint32_t op, uint32_t n);

/* program_static.c */
void pst_build_static(struct pst_builder *b);

/* program_meetings.c: that of REDUCE, TIE or GATHER; NULL: the rank is alone. */
const struct pst_program_meeting *pst_build_meeting(struct pst_builder *b,
                                                    const struct pst_program_section *section,
                                                    const struct pst_instr *instr);
/* That of SCATTER: what pass.summed lists. */
const struct pst_program_meeting *pst_build_scatter(struct pst_builder *b, uint32_t stage);

/* Makes the meeting of a GATHER in a pass, which fills these values with the n parameters of a
   bucket. */
const struct pst_program_meeting *pst_build_gather(struct pst_builder *b, uint32_t stage,
                                                   const uint32_t *parameters,
                                                   const uint32_t *values, uint32_t n);

/* program_weights.c: the parameters that a kernel reads, by mask. Before its call is made, those in
   pieces are gathered, but for what the pass has. */
void pst_build_params(struct pst_builder *b, const struct pst_program_call *call,
                      const struct pst_op *op, uint64_t mask);
void pst_build_gathered(struct pst_builder *b, uint32_t stage, uint32_t microbatch);
/* A pass begins, with nothing. */
void pst_build_pass(struct pst_builder *b);
/* A call ends the meeting that another one has posted. */
void pst_build_wait(struct pst_builder *b, uint32_t stage, uint32_t microbatch, uint32_t posted);

/* program_gradients.c */
/* The gradient accumulator of a use of a parameter in a stage, for the batch of a micro-batch. */
uint32_t pst_build_accumulator(const struct pst_builder *b, uint32_t stage, uint32_t microbatch,
                               uint32_t node, uint32_t slot);
/* Adds the gradients of one node's parameters that wait for that, and if it is the last of its
   layer those that have waited for it. */
void pst_build_add(struct pst_builder *b, uint32_t stage, uint32_t microbatch, uint32_t node);
/* All sums of the pass are complete. */
void pst_build_added(struct pst_builder *b, uint32_t stage);

/* program_build.c: tables of all stages. */
void pst_build_tables(struct pst_builder *b);

/* program_sections.c: tables and what is static; a section from the lists of a plan. */
void pst_build_begin(struct pst_builder *b);

/* program_phases.c: all sections; program_sections.c: those of n phases of the plan's parts. */
pst_status pst_build_phases(struct pst_builder *b, struct pst_error *err);
pst_status pst_build_sections(struct pst_builder *b, uint32_t n_phases, struct pst_error *err);
/* program_classes.c: the buffer of a value that lives across parts; PST_NONE: a new one is to be
   made, and recorded. */
uint32_t pst_build_shared(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t microbatch);
void pst_build_record(struct pst_builder *b, uint8_t kind, uint32_t value);

/* program_build.c */
/* Makes a table of n such numbers. */
uint32_t *pst_build_made(struct pst_builder *b, enum pst_made_kind kind, size_t n);
const struct pst_op *pst_build_op(const struct pst_builder *b, uint32_t stage, uint32_t node);
void pst_build_set(struct pst_builder *b, const struct pst_program_call *call, uint32_t operand,
                   uint32_t value);
/* A kernel call with workspace and state set. */
struct pst_program_call *pst_build_kernel(struct pst_builder *b, uint32_t stage,
                                          uint32_t microbatch, uint32_t node, uint8_t pass);
void pst_build_forward(struct pst_builder *b, uint32_t stage, uint32_t microbatch);

/* B, or BW where with_weights. */
pst_status pst_build_backward(struct pst_builder *b, uint32_t stage, uint32_t microbatch,
                              bool with_weights, struct pst_error *err);

void pst_build_weights(struct pst_builder *b, uint32_t stage, uint32_t microbatch);

/* program_transfers.c: tables; backward passes of a micro-batch read
   what has come back of it. */
void pst_build_guest_tables(struct pst_builder *b);
void pst_build_returned(struct pst_builder *b, uint32_t stage, uint32_t microbatch);

void pst_build_transfer(struct pst_builder *b, const struct pst_instr *instr);
void pst_build_edges(struct pst_builder *b);

/* program_copies.c: rows of OFFLOAD or FETCH; backward passes of a micro-batch read what has been
   fetched of it, and of what is not back yet nothing where `forget`; waits and lives once all lists
   are built, which sets the ticks anew. */
void pst_build_copy(struct pst_builder *b, const struct pst_instr *instr);
void pst_build_fetched(struct pst_builder *b, uint32_t stage, uint32_t microbatch, bool forget);
void pst_build_copies(struct pst_builder *b);

/* layout.c: offsets of all values, peak and arena bytes. limit: UINT64_MAX: none; more effort is
   made where gaps between buffers are what makes an arena exceed it. The arena that comes of this
   as the limit gives the same layout. layouts: those that were found so far; NULL: none are kept.
 */
void pst_layout_program(struct pst_program *program, uint64_t limit, struct pst_layouts *layouts);

#endif
