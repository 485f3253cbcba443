/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between a rank's device and its host arena, beside its passes. Private to exec.
 *
 * The rank's thread posts the copies that stand behind a pass when it begins that pass, and counts
 * the calls that have ended. A thread for each direction (one for both where they share a link)
 * takes what is posted in order; each row waits for the call and for the row that it names, moves
 * its bytes no faster than the link, and counts rows. Queues are first in, first out, so all that
 * anybody waits for is a count. On a device with a clock there are no such threads: the rank works
 * out the times by the same rules once it needs them.
 */
#ifndef PST_EXEC_COPIES_H
#define PST_EXEC_COPIES_H

#include <pthread.h>

#include "base/guarded.h"
#include "exec/exec.h"

struct exec_list;
struct exec_rank;
struct exec_visit;

enum { EXEC_CHECK_BYTES = 65536 };

enum { EXEC_TO_HOST = 0, EXEC_FROM_HOST = 1, EXEC_DIRECTIONS = 2 };

/* A row of program->copies, bound. */
struct exec_copy {
    char *device, *host;
    uint64_t bytes;
    bool out;
    uint8_t queue;
    uint32_t calls; /* of its section, that must have ended; 0: none */
    uint64_t *rows; /* [direction] of its queue, with the last one that moved the same host buffer
                       this way; of the rank's thread */
};

/* An OFFLOAD or FETCH that was posted. */
struct exec_posting {
    const struct exec_list *list;
    uint32_t instr;
    uint64_t calls;           /* that had ended before its section */
    uint64_t rows;            /* FETCH: of the queue to the host, with its OFFLOAD; else 0 */
    uint64_t posted_ns;       /* on the device's clock */
    struct exec_visit *visit; /* NULL: not recorded */
};

struct exec_copy_queue {
    struct exec_rank *rank;
    pthread_t thread;
    bool started;
    struct exec_posting *ring;
    uint32_t n_ring;
    uint64_t n_put, n_taken;     /* postings; under the mutex, where there are threads */
    atomic_uint_fast64_t done;   /* rows that have ended */
    atomic_uint_fast64_t wanted; /* calls that it sleeps for; UINT64_MAX: it does not */
    uint64_t free_ns;            /* the link, by its rate or by the clock */
    uint32_t row;                /* clocks: of the posting at the head, the next one to be timed */
    uint64_t *ends;              /* clocks: of the last n_ends rows, by number */
    uint32_t n_ends;
    struct pst_exec_copies moved; /* its share; read when nothing is under way */
    char *chunk;                  /* for looking at what was moved */
    struct pst_mark **marks;      /* ordered: behind the last n_ends rows, by number */
    uint64_t followed;            /* ordered: rows that the queue of kernels comes behind */
};

struct exec_copies {
    bool active, timed;
    bool ordered; /* the device's own queues copy (copies_order.c): no threads, and a row has
                     "ended" once it has been asked for */
    struct pst_mark *calls_mark; /* behind the calls so far */
    uint32_t n_queues;
    struct pst_guarded block;
    char *host; /* the host arena; of a hollow device only a name */
    struct exec_copy_queue queues[EXEC_DIRECTIONS];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ready;
    atomic_uint_fast64_t calls; /* that have ended */
    atomic_uint sleepers;       /* that wait for rows */
    atomic_bool quit, broken;
    struct pst_error error; /* why it is broken */
    uint64_t *sums;         /* of what is in the host arena, by place; NULL: not looked at */
    /* of the rank's thread */
    uint32_t section;
    uint64_t base_calls, posted_rows[EXEC_DIRECTIONS];
    uint64_t stall_ns;
    struct exec_visit *visit; /* ordered: with the pass in work; NULL: none is, or not recorded */
    uint32_t pass;
    uint64_t *call_ns; /* clocks: ends of the calls of the section */
};

/* copies.c: host arena, rows and threads of a training list; nothing where it has no copies. */
pst_status exec_copies_init(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);
/* Ends the threads. */
void exec_copies_finish(struct exec_rank *rank);

/* copies_post.c: of the rank's thread, on a list with copies. */
void exec_copies_enter(struct exec_rank *rank, const struct exec_list *list, uint32_t section);
/* OFFLOAD or FETCH `instr` may begin; copies that stand behind a pass are posted with it. */
void exec_copies_post(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                      struct exec_visit *visit);
/* Before a call, and behind it. *stall_ns is raised by what was waited. */
pst_status exec_copies_before(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                              uint64_t *stall_ns, struct pst_error *err);
void exec_copies_behind(struct exec_rank *rank, const struct exec_list *list, uint32_t call);
/* All rows of an instruction, or all that is posted. */
pst_status exec_copies_join(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                            struct pst_error *err);
pst_status exec_copies_drain(struct exec_rank *rank, struct pst_error *err);
/* A section ends and leaves what is posted to those that follow. */
void exec_copies_leave(struct exec_rank *rank);

/* copies_wait.c: returns once so many rows of the queue have ended. */
pst_status exec_copies_await(struct exec_rank *rank, uint32_t queue, uint64_t rows,
                             uint64_t *stall_ns, struct pst_error *err);
void exec_copies_wake(struct exec_copies *copies);

/* copies_order.c: on a device that stands apart, where nothing slows copies down or looks at them.
   Marks of a queue; asks for what may begin; has the queue of kernels follow rows. */
pst_status exec_copies_order_init(struct exec_rank *rank, struct pst_error *err);
void exec_copies_advance(struct exec_rank *rank);
pst_status exec_copies_follow(struct exec_rank *rank, uint32_t queue, uint64_t rows,
                              struct pst_error *err);

/* copies_clock.c: times what is posted until so many rows of the queue have ended; the end of the
   last of these. */
uint64_t exec_copies_time(struct exec_rank *rank, uint32_t queue, uint64_t rows);

/* copies_post.c, for both kinds: a row has ended: for statistics and records. */
void exec_copies_note(struct exec_copy_queue *queue, const struct exec_posting *posting,
                      const struct exec_copy *copy, uint64_t start_ns, uint64_t end_ns);

/* copies_move.c: body of a thread; argument is its struct exec_copy_queue. */
void *exec_copies_main(void *argument);
/* What a rank of this process has copied. */
void exec_copied(const struct exec_rank *rank, struct pst_exec_copies *ret_copies);

#endif
