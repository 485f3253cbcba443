/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between a rank's device and its host arena, beside its passes. Private to exec, and of the
 * rank's thread.
 *
 * The copies that stand behind a pass are posted when it begins. A row is asked for as soon as the
 * call that it waits for has been: a queue of the device follows a mark behind that call, and for
 * what comes back one behind its way out. A call that waits for rows has the queue of kernels
 * follow a mark behind them; what lies between two timed ones around that is how long kernels stood
 * still. Queues are first in, first out, so rows are known by their number.
 */
#ifndef PST_EXEC_EXEC_COPIES_H
#define PST_EXEC_EXEC_COPIES_H

#include "exec/exec.h"

struct exec_list;
struct exec_rank;
struct exec_visit;

enum { EXEC_TO_HOST = 0, EXEC_FROM_HOST = 1, EXEC_DIRECTIONS = 2 };

/* A row of program->copies, bound. */
struct exec_copy {
    char *device, *host;
    uint64_t bytes;
    bool out;
    uint8_t queue;
    uint32_t calls; /* of its section, that must have been asked for; 0: none */
    uint64_t *rows; /* [direction] of its queue, with the last one that moved the same host buffer
                       this way */
};

/* An OFFLOAD or FETCH that was posted. */
struct exec_posting {
    const struct exec_list *list;
    uint32_t instr;
    uint64_t calls;           /* that had been asked for before its section */
    uint64_t rows;            /* FETCH: of the queue to the host, with its OFFLOAD; else 0 */
    struct exec_visit *visit; /* NULL: not recorded */
};

/* A row that was asked for. What follows the copy is for the thread that looks at it, in order. */
struct exec_row {
    struct pst_mark *mark; /* behind it */
    struct exec_rank *rank;
    const struct exec_copy *copy;
    const struct exec_list *list;
    uint32_t instr;
    const struct exec_row *way_out; /* of what comes back; NULL: of none that is known */
    uint64_t ready_ns, end_ns;      /* it might begin; it has ended: by the rate of the link */
};

struct exec_copy_queue {
    struct exec_posting *ring;
    uint32_t n_ring;
    uint64_t n_put, n_taken; /* postings */
    uint32_t row;            /* of the posting at the head, the next one to be asked for */
    struct exec_row *rows;   /* the last n_rows that were asked for, by number */
    uint32_t n_rows;
    uint64_t n_asked, n_followed; /* rows; the queue of kernels comes behind the latter */
    struct pst_exec_copies moved; /* its share; read when nothing is under way */
    uint64_t free_ns;             /* the link, by its rate; of whoever looks */
    void *again;                  /* what the device has, once more: to be looked at */
};

struct exec_copies {
    bool active;
    bool watched; /* somebody looks at each row, or slows it down */
    uint32_t n_queues;
    struct pst_mark *calls_mark; /* behind the calls so far */
    char *host;                  /* the host arena */
    struct exec_copy_queue queues[EXEC_DIRECTIONS];
    uint64_t calls, base_calls; /* that have been asked for; before this section */
    uint64_t posted_rows[EXEC_DIRECTIONS];
    uint64_t stall_ns;
    struct exec_visit *visit; /* with the pass in work; NULL: none is, or not recorded */
    uint32_t pass;
    uint64_t *sums; /* of what is in the host arena, by place; NULL: not looked at */
    atomic_bool quit, breaks, broken;
    struct pst_error error; /* why it is broken; written once, before it is */
};

/* exec_copies.c: host arena, rows and queues of a training list; nothing where it has no copies. */
pst_status exec_copies_init(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);

/* copies_run.c: on a list with copies. */
void exec_copies_enter(struct exec_rank *rank);
/* OFFLOAD or FETCH `instr` may begin; copies that stand behind a pass are posted with it. */
void exec_copies_post(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                      struct exec_visit *visit);
/* Before a call, and behind it. */
pst_status exec_copies_before(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                              struct pst_error *err);
void exec_copies_behind(struct exec_rank *rank);
/* All rows of an instruction, or all that is posted. */
pst_status exec_copies_join(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                            struct pst_error *err);
pst_status exec_copies_drain(struct exec_rank *rank, struct pst_error *err);
/* Reports the copies of a rank of this process. */
void exec_copied(const struct exec_rank *rank, struct pst_exec_copies *ret_copies);

/* copies_watch.c: asks the device for what is wanted beside a row, before it and behind. */
void exec_copies_watch_begin(struct exec_row *row);
void exec_copies_watch_end(struct exec_row *row, uint32_t queue);

#endif
