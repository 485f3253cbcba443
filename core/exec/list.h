/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs bound to the arena of a rank: what the step loop walks. All pointers are resolved, and
 * of all waits only those for transfers and sums are left.
 */
#ifndef PST_EXEC_LIST_H
#define PST_EXEC_LIST_H

#include "exec/exec.h"

struct exec_rank;
struct exec_visit;

struct exec_kernel {
    struct exec_kernel *next; /* of the same operator */
    uint32_t pass, samples;
    struct pst_kernel *kernel;
};

/* A program call with its pointers resolved. */
struct exec_call {
    uint8_t kind;
    uint8_t next;          /* of the task's batches: 0 or 1 */
    uint32_t first_sample; /* of that batch */
    union {
        struct {
            const struct pst_kernel *kernel;
            struct pst_call call;
        } kernel;
        struct {
            void *dst;
            uint64_t row_bytes, bytes;
            uint32_t input;
        } load;
        struct {
            void *dst;
            const void *a, *b;
            uint64_t elems;
            uint32_t dtype;
        } sum;
        struct {
            float *dst;
            const float *src;
            uint64_t elems;
        } accumulate;
        struct {
            const float *src;
            uint32_t samples;
        } loss;
    };
};

struct exec_part {
    void *data;
    uint64_t bytes, tag;
    pst_request request;
    uint8_t next; /* as in exec_call */
};

/* The sum over the users of a tied parameter, as the transport wants it. */
struct exec_tie {
    const uint32_t *members;
    uint32_t n_members, n_src, n_order;
    const float *const *src;
    const uint32_t (*order)[2];
    float *dst;
    uint64_t elems;
};

/* The sum of a stage's gradients over its replicas. */
struct exec_reduce {
    const uint32_t *members;
    uint32_t n_members, n_parts;
    const struct pst_reduce_part *parts;
};

struct exec_instr {
    uint8_t op;
    bool pending; /* SEND, RECV, REDUCE: posted and not yet waited for */
    uint32_t stage, peer;
    uint32_t first_call, n_calls, first_part, n_parts;
    uint32_t n_waits;
    const uint32_t *waits; /* transfers and sums of this list only */
    /* Transfers that a part of an asynchronous plan leaves open end by the next pass in their
       direction of the stage that has the buffer, REDUCE by the next TIE, NORM or STEP
       (plan/plan.h). */
    uint32_t bucket;    /* SEND, RECV, REDUCE: theirs; PST_NONE: none */
    uint32_t ends;      /* bucket that it ends; PST_NONE: none */
    uint32_t next_open; /* of the same bucket */
    const struct exec_tie *tie;
    const struct exec_reduce *reduce; /* NULL: the stage has one replica */
    pst_request request;              /* REDUCE */
    uint32_t n_behind;                /* passes: copies that are posted with it */
    bool ahead;                       /* copies: it was posted with the pass before */
    struct exec_visit *visit; /* of what is posted: that it was posted in; NULL: not recorded */
    uint32_t update;          /* STEP: counted from the first of the batch that the part closes */
};

/* One program bound to this rank's arena. */
struct exec_list {
    const struct pst_plan *plan;
    const struct pst_program *program;
    struct exec_instr *instrs; /* all sections, as in the program */
    struct exec_call *calls;
    struct exec_part *parts;
    struct exec_copy *copies; /* NULL: it has none */
    uint32_t *open;           /* [bucket] first instruction, PST_NONE: nothing is open */
    bool has_loss;
    uint64_t *workspace_end; /* [section] in the arena: of the highest workspace a kernel gets */
    const void **output;     /* [section] evaluation: the kept tensor, where it is here */
    uint32_t output_dtype;
};

/* bind_calls.c: kernels are compiled when the first list asks for them. */
void exec_kernels_destroy(struct exec_rank *rank);

/* bind.c */
pst_status exec_bind(struct exec_rank *rank, struct exec_list *list, const struct pst_plan *plan,
                     const struct pst_program *program, struct pst_error *err);
/* bind_calls.c: the calls of an instruction. */
pst_status exec_bind_calls(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                           uint32_t index, struct pst_error *err);

/* sums.c: the sums behind TIE and, of a stage with several replicas, REDUCE. */
pst_status exec_bind_tie(struct exec_rank *rank, const struct pst_plan *plan, uint32_t tie,
                         uint32_t parity, const struct exec_tie **ret_tie, struct pst_error *err);
const struct exec_reduce *exec_bind_reduce(struct exec_rank *rank, const struct pst_plan *plan,
                                           uint32_t stage, uint32_t parity);
/* No edge has this number: operators may be named in its place. */
#define EXEC_NO_EDGE ((1u << 24) - 1)
#define EXEC_GUEST   ((uint64_t)EXEC_NO_EDGE - 1) /* in place of an edge: of a guest */
/* Which tensor of its message a tag of bind.c is for. */
static inline uint32_t exec_tag_part(uint64_t tag)
{
    return tag >> 40 == EXEC_GUEST ? (uint32_t)(tag >> 24) & 0x7fff : (uint32_t)(tag >> 32) & 0x7f;
}
static inline uint64_t exec_state_tag(uint32_t op, uint32_t i)
{
    return (uint64_t)EXEC_NO_EDGE << 40 | (uint64_t)i << 39 | op;
}

#endif
