/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the calls of one list, with what is known of each buffer. Private to plan/check.
 */
#ifndef PST_PLAN_CHECK_WALK_H
#define PST_PLAN_CHECK_WALK_H

#include "plan/check/sizes.h"

struct pst_walk_value {
    bool written;        /* all of it, by a call */
    uint64_t received;   /* bytes that posted receives fill */
    uint32_t ready;      /* instruction from which on they have arrived; PST_NONE: never */
    uint32_t sent_until; /* tick before which the transport reads it */
    uint32_t output_of;  /* last call that wrote it, plus 1 */
    uint32_t summed;     /* of an accumulator: micro-batches of a batch added */
};

struct pst_walk {
    struct pst_check *check;
    const struct pst_program *program;
    struct pst_walk_value *states;
    uint32_t *first_tick; /* [instr] */
    uint32_t instr, tick, call;
    uint32_t phase; /* of the first batch */
};

/* A violation at the walk's place. */
void pst_walk_fault(struct pst_walk *walk, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool pst_walk_is_alive(const struct pst_walk *walk, uint32_t v);
/* At least so many bytes of the buffer are read or written now; `what` names it in messages. */
void pst_walk_read(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what);
void pst_walk_write(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what);

/* All rules for one call of the walk's instruction. */
void pst_walk_call(struct pst_walk *walk, const struct pst_program_call *call);

#endif
