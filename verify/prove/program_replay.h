/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the calls of one list, with what is known of each buffer. Private to prove.
 */
#ifndef PST_PROVE_PROGRAM_REPLAY_H
#define PST_PROVE_PROGRAM_REPLAY_H

#include "prove/internal.h"

struct pst_walk_value {
    bool written;        /* all of it, by a call */
    uint64_t received;   /* bytes that posted receives fill */
    uint32_t ready;      /* instruction from which on they have arrived; PST_NONE: never */
    uint32_t sent_until; /* tick before which the transport reads it */
    uint32_t output_of;  /* last call that wrote it, plus 1; in host memory: the copy */
    uint32_t summed;     /* of an accumulator: micro-batches of a batch added */
    uint32_t back;       /* tick in which the list knows that it is back from the host */
    uint32_t met_by;     /* call whose meeting of replicas has it, plus 1; 0: none */
    bool is_sum;         /* of gradients over the replicas, of which nothing has been added */
    uint64_t gradient;   /* contributions that it holds, times pst_walk_sample() */
};

/* When a copy may begin, and in which tick the list stays until it has ended; n_ticks: in none. */
struct pst_walk_copy {
    uint32_t begins, known;
};

struct pst_walk {
    struct pst_check *check;
    const struct pst_program *program;
    struct pst_walk_value *states;
    uint32_t *first_tick; /* [instr] */
    struct pst_walk_copy *copies;
    uint32_t instr, tick, call;
    uint32_t phase;         /* of the first batch */
    uint32_t **scattered;   /* [parameter][use] micro-batches whose gradients replicas have summed
                               inside passes; NULL: of this parameter none */
    uint32_t *open, n_open; /* calls that have posted meetings of replicas, in order */
};

/* Returns the factor of a gradient that identifies its micro-batch; odd. */
static inline uint64_t pst_walk_sample(uint32_t first_sample)
{
    return 2 * (uint64_t)first_sample + 1;
}

/* The first sample of a micro-batch on the walk's rank. */
static inline uint32_t pst_walk_first_sample(const struct pst_walk *walk, uint32_t stage,
                                             uint32_t microbatch)
{
    const struct pst_plan_stage *s = &walk->check->plan->stages[stage];
    uint32_t replica = pst_plan_replica(s, walk->program->rank);
    return pst_plan_first_sample(s, replica == PST_NONE ? 0 : replica, microbatch);
}

/* The pieces of a transfer in their order; all 0 at first. */
struct pst_check_pieces {
    uint32_t i, use; /* where it is: tensor of the edge, use of the tensor */
    uint32_t tensor;
    uint64_t gradient; /* contributions that the piece holds */
};

/* Returns the number that stands for the gradient that an operator's kernel makes for input i. */
uint64_t pst_check_contribution(uint32_t op, uint32_t i);
/* Finds the next piece. Returns false if there is none. */
bool pst_check_next_piece(const struct pst_check *check, const struct pst_instr *instr,
                          struct pst_check_pieces *pieces);

/* A violation at the walk's place. */
void pst_walk_fault(struct pst_walk *walk, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool pst_walk_is_alive(const struct pst_walk *walk, uint32_t v); /* in this tick */
/* At least so many bytes of the buffer are read or written now; `what` names it in messages. */
void pst_walk_read(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what);
/* The buffer holds these contributions to a gradient of the micro-batch, and no others. */
void pst_walk_gradient(struct pst_walk *walk, uint32_t v, uint64_t expected, uint32_t first_sample,
                       const char *what);
void pst_walk_write(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what);

/* Fills walk->copies. */
void pst_walk_copies(struct pst_walk *walk);
/* All rules for the copies of the walk's instruction. */
void pst_walk_copy(struct pst_walk *walk, const struct pst_instr *instr);
/* Returns what is wrong with the tables of copies themselves, or NULL. */
const char *pst_check_copy_fault(const struct pst_program *program);

/*
 * The program of check->source, which is of good form, for the batches that check->plan has
 * unrolled, the first of them in this phase. False: a violation was added.
 * free() its values; everything else is in the arena of the check.
 */
bool pst_check_unroll_program(struct pst_check *check, const struct pst_program *program,
                              uint32_t phase, struct pst_program *ret_program);

/* All rules for a SCATTER, or a GATHER in a pass, which post meetings; for the WAIT of one, and the
   ADD of a sum; then, that a pass has ended all of its own, and that no rank with an empty piece
   has missed a sum. */
void pst_walk_scatter(struct pst_walk *walk, const struct pst_program_call *call);
void pst_walk_gather(struct pst_walk *walk, const struct pst_program_call *call);
void pst_walk_wait(struct pst_walk *walk, const struct pst_program_call *call);
void pst_walk_add(struct pst_walk *walk, const struct pst_program_call *call,
                  const uint32_t *operands);
void pst_walk_meetings_end(struct pst_walk *walk);
void pst_walk_scatters_begin(struct pst_walk *walk); /* makes scattered and open */
void pst_walk_scatters_end(struct pst_walk *walk);

/* All rules for one call of the walk's instruction. */
void pst_walk_call(struct pst_walk *walk, const struct pst_program_call *call);

#endif
