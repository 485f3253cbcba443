/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks in the queues of a rank's device: waiting for one, and times between two.
 */
#ifndef PST_EXEC_EVENTS_H
#define PST_EXEC_EVENTS_H

#include "exec/exec.h"

struct exec_rank;
struct exec_visit;

/* Between two timed marks that have been asked for. */
struct exec_timing {
    struct pst_mark *start, *end;
    bool ready;               /* both have been set */
    struct exec_visit *visit; /* NULL: not recorded */
    uint32_t instr;
    uint64_t *stall_ns; /* where the queue of kernels waited for a copy: the sum of that */
    struct pst_exec_copies *moved; /* of a copy: whose share it is; NULL: it is none */
    uint64_t bytes;
    uint32_t direction;
};

/* A ring; what is in it is read when it has ended. */
struct exec_times {
    struct exec_timing *ring;
    uint32_t n; /* 0: nothing is timed */
    uint64_t n_put, n_read;
    struct pst_error error; /* of the waits for room; exec_pace() and exec_join() fail with it */
};

/* Waits until all before a mark has ended; what for, in words, NULL: for the device. A
   copy that was found to be changed ends it, too. */
pst_status exec_await(struct exec_rank *rank, struct pst_mark *mark, const char *what,
                      struct pst_error *err);
/* Room for what is timed, where anything is. */
pst_status exec_times_init(struct exec_rank *rank, struct pst_error *err);
/* The next place, whose marks are to be set; waits for the oldest where none is free. NULL: nothing
   is timed, or the wait has failed, which the next exec_pace() or exec_join() tells. */
struct exec_timing *exec_times_take(struct exec_rank *rank, struct exec_visit *visit,
                                    uint32_t instr);
/* Its marks have been set. */
void exec_times_put(struct exec_timing *timing);
/* Notes what has ended. */
void exec_times_read(struct exec_rank *rank);
/* The last wait or collective of the rank, as the transport tells; further pieces widen it. */
void exec_times_moved(struct exec_rank *rank, struct exec_visit *visit, uint32_t instr);

#endif
