/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's thread and its device, where that has memory of its own and works by itself. On other
 * devices what follows comes of itself. On the rank's thread.
 */
#ifndef PST_EXEC_APART_H
#define PST_EXEC_APART_H

#include "exec/exec.h"

struct exec_list;
struct exec_rank;

/* Of a rank whose device stands apart. */
enum { EXEC_AHEAD = 64, EXEC_LOADS = 8 };

struct exec_apart {
    bool active;
    /* Marks behind passes and updates: the rank's thread is at most so many ahead of its device. */
    struct pst_mark *ahead[EXEC_AHEAD];
    uint64_t n_set, n_passed;
    /* Input rows on their way, in pinned memory. */
    struct pst_mark *loaded[EXEC_LOADS];
    char *loads;
    uint64_t load_bytes, n_loads;
    struct pst_squared *squared; /* per parameter of the rank */
};

/* The rank's device is open and its lists are bound: makes what is below, tells the transport. */
pst_status exec_apart_init(struct exec_rank *rank, struct pst_error *err);
/* Rows of a batch to the device; they are the caller's again. */
pst_status exec_load(struct exec_rank *rank, void *dst, const void *src, uint64_t bytes,
                     struct pst_error *err);
/* Behind a pass or update: waits where the device is too far behind. */
pst_status exec_pace(struct exec_rank *rank, struct pst_error *err);
/* rank->squares[i] := square sum of the gradient of parameter i of the rank, of those of a stage
   (PST_NONE: of those that it owns). */
pst_status exec_squares(struct exec_rank *rank, uint64_t t, uint32_t stage, struct pst_error *err);
/* What is asked for from here on belongs to an instruction, for who watches the device (NVTX); and:
   it does not any more. */
void exec_range_begin(const struct exec_rank *rank, const struct exec_list *list, uint32_t instr);
void exec_range_end(const struct exec_rank *rank, const struct exec_list *list);
/* Nothing that any queue of the rank's device was asked for is left; or it stands still, and
   exec->stuck says so. */
void exec_settle(struct exec_rank *rank);
/* Joins the device where the transport does not work in the order of devices. */
pst_status exec_before_post(struct exec_rank *rank, struct pst_error *err);
/* What the rank asked its device for so far has ended; what went wrong there. On its thread. */
pst_status exec_join(struct exec_rank *rank, struct pst_error *err);

#endif
