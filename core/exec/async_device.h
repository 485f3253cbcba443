/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's thread and its device, if that has its own memory and queues (PST_DEVICE_APART). Called
 * on the rank's thread. Kernels of other devices have ended when their call returns.
 */
#ifndef PST_EXEC_ASYNC_DEVICE_H
#define PST_EXEC_ASYNC_DEVICE_H

#include "exec/exec.h"

struct exec_list;
struct exec_rank;

/* Most marks that a rank is ahead of its device; most loads of input rows under way. */
enum { EXEC_AHEAD = 64, EXEC_LOADS = 8 };

struct exec_async {
    bool active;
    /* Marks after passes and updates: the rank's thread is at most so many ahead of its device. */
    struct pst_mark *ahead[EXEC_AHEAD];
    uint64_t n_set, n_passed;
    /* Input rows on their way, in pinned memory. */
    struct pst_mark *loaded[EXEC_LOADS];
    char *loads;
    uint64_t load_bytes, n_loads;
    struct pst_squared *squared; /* per parameter of the rank */
};

/* Called once the rank's device is open and its lists are bound: sets up rank->async and attaches
   the transport. */
pst_status exec_async_init(struct exec_rank *rank, struct pst_error *err);
/* Copies rows of a batch to the device; the caller may then reuse them. */
pst_status exec_load(struct exec_rank *rank, void *dst, const void *src, uint64_t bytes,
                     struct pst_error *err);
/* Called after a pass or update: waits if the device is too far behind. */
pst_status exec_pace(struct exec_rank *rank, struct pst_error *err);
/* rank->squares[i] := square sum i of the rank, of those of a stage
   (PST_NONE: of those that it owns). */
pst_status exec_squares(struct exec_rank *rank, uint64_t t, uint32_t stage, struct pst_error *err);
/* Mark the device work of an instruction, from begin to end, for tools that watch it (NVTX). */
void exec_range_begin(const struct exec_rank *rank, const struct exec_list *list, uint32_t instr);
void exec_range_end(const struct exec_rank *rank, const struct exec_list *list);
/* Waits until all queues of the rank's device are empty. If they do not empty within the limit on
   stalls, or the transport cannot detach, sets exec->stuck. */
void exec_settle(struct exec_rank *rank);
/* Joins the device unless the transport is ordered. */
pst_status exec_before_post(struct exec_rank *rank, struct pst_error *err);
/* Waits until the rank's device has ended all its work so far; returns the first error there. */
pst_status exec_join(struct exec_rank *rank, struct pst_error *err);

#endif
