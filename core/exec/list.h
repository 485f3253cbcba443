/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs bound to the arena of a rank: what the step loop walks. Operands of kernels are
 * pointers; everything else is read from the program, which is good for this arena.
 */
#ifndef PST_EXEC_LIST_H
#define PST_EXEC_LIST_H

#include "exec/exec.h"

struct exec_rank;
struct exec_visit;

struct exec_kernel {
    struct exec_kernel *next; /* of the same operator */
    const struct pst_graph *graph;
    uint32_t pass, samples;
    struct pst_kernel *kernel;
};

/* The executor's data for one instruction of the program. */
struct exec_instr {
    bool pending;       /* SEND, RECV, REDUCE, TIE, GATHER: posted and not yet waited for */
    bool ahead;         /* copies: it was posted with the pass before */
    uint32_t n_behind;  /* passes: copies that are posted with it */
    uint32_t update;    /* STEP: counted from the first of the batch that the part closes */
    uint32_t next_open; /* of the same bucket (pst_plan_bucket_of) */
    uint64_t tag;       /* SEND, RECV: of the first piece, in even batches */
    const struct pst_meeting *meeting; /* TIE, REDUCE, GATHER; NULL: the stage has one replica */
    pst_request request;               /* of the meeting */
    struct exec_visit *visit; /* of what is posted: that it was posted in; NULL: not recorded */
};

/* A call in which the parts of a replica meet (graph/split.h), or replicas: SCATTER, GATHER, WAIT,
   ADD. */
struct exec_parts {
    struct pst_meeting meeting;
    pst_request request;             /* of the meeting */
    const struct exec_parts *posted; /* WAIT: by which call */
    const void *own;     /* what the rank brings, sample by sample; ADD: its piece of the sum */
    const void **brings; /* GATHER: [part] likewise; NULL: another member brings it */
    uint32_t me;         /* which member it is */
};

/* One program bound to this rank's arena. */
struct exec_list {
    const struct pst_graph *graph;
    const struct pst_plan *plan;
    const struct pst_program *program;
    struct exec_instr *instrs;     /* all sections, as in the program */
    struct pst_kernel_call *calls; /* of kernels; operands of others are looked up when they run */
    struct exec_parts **parts;     /* [call] NULL: nobody meets in it */
    pst_request *requests;         /* [part of the program] */
    struct exec_copy *copies;      /* NULL: it has none */
    uint32_t *open;                /* [bucket] first instruction, PST_NONE: nothing is open */
    bool has_loss;
    uint64_t *workspace_end; /* [section] in the arena: of the highest workspace a kernel gets */
    const void **output;     /* [section] evaluation: the kept tensor, where it is here */
    uint32_t output_dtype;
};

/* Which of a task's batches a sample of a list belongs to, 0 or 1; *sample: its place there. */
static inline uint32_t exec_batch_of(const struct pst_plan *plan, uint32_t *sample)
{
    const uint32_t next = plan->asynchronous && *sample >= plan->batch;

    *sample -= next * plan->batch;
    return next;
}

/* bind_program.c; kernels are compiled when the first list asks for them. */
pst_status exec_bind(struct exec_rank *rank, struct exec_list *list, const struct pst_graph *graph,
                     const struct pst_plan *plan, const struct pst_program *program,
                     struct pst_error *err);
void exec_kernels_destroy(struct exec_rank *rank);

/* sums.c: the meeting of an instruction, with buffers in the rank's arena. It lives as long as the
   rank. */
const struct pst_meeting *exec_bind_meeting(struct exec_rank *rank, const struct pst_instr *instr,
                                            const struct pst_program_meeting *from);
/* sums.c: that of a SCATTER or GATHER, or what is done with it: WAIT, ADD. */
void exec_bind_replicas(struct exec_rank *rank, struct exec_list *list, uint32_t call);
/* sums.c: the meeting of a call of this stage; it lives as long as the rank. */
pst_status exec_bind_parts(struct exec_rank *rank, struct exec_list *list,
                           const struct pst_plan_stage *stage, uint32_t call,
                           struct pst_error *err);
/* No edge has this number: operators may be named in its place. */
#define EXEC_NO_EDGE ((1u << 24) - 1)
#define EXEC_GUEST   ((uint64_t)EXEC_NO_EDGE - 1) /* in place of an edge: of a guest */
/* The tensor of its message that a tag is for; and that tag, from the one of the first. */
static inline uint32_t exec_tag_part(uint64_t tag)
{
    return tag >> 40 == EXEC_GUEST ? (uint32_t)(tag >> 24) & 0x7fff : (uint32_t)(tag >> 32) & 0x7f;
}
static inline uint64_t exec_part_tag(uint64_t tag, uint32_t part)
{
    return tag | (uint64_t)part << (tag >> 40 == EXEC_GUEST ? 24 : 32);
}
static inline uint64_t exec_state_tag(uint32_t op, uint32_t i)
{
    return (uint64_t)EXEC_NO_EDGE << 40 | (uint64_t)i << 39 | op;
}

#endif
