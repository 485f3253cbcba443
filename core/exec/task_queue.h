/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks of the creating thread for all ranks: a ring, from which every rank thread takes all of
 * them in order, at its own pace.
 */
#ifndef PST_EXEC_TASK_QUEUE_H
#define PST_EXEC_TASK_QUEUE_H

#include <pthread.h>

#include "exec/exec.h"

enum exec_command {
    EXEC_SETUP = 0,
    EXEC_STEP,
    EXEC_EVAL,
    EXEC_PEAK,
    EXEC_PARAMETER,
    EXEC_GRADIENT,
    EXEC_STATE,
    EXEC_SETTLE,
    EXEC_QUIT
};

enum { EXEC_TASKS = 8 }; /* in the ring */

/* A task for the rank threads; written before, read after the hand-off. */
struct exec_task {
    uint32_t command;
    uint32_t part; /* enum pst_part */
    uint64_t t; /* the batch that the part closes (fill: that it begins); evaluation: updates made
                   so far */
    struct pst_batch batches[2]; /* that one and, in the body of an asynchronous plan, the next */
    struct pst_update update;    /* of the first */
    uint32_t slot;               /* of a step: where its result goes */
    uint64_t epoch;     /* of a step: counted up when a step that was not finite is collected */
    uint64_t posted_ns; /* when it was handed out */
    uint32_t parameter, of_rank; /* of_rank: whose; PST_NONE: its owner's */
    float *values;               /* parameter or gradient; output of an evaluation, or NULL */
    uint64_t n_values;
    float *const *state; /* by local rank */
};

struct exec_task_queue {
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    atomic_uint generation; /* tasks handed out; the last one is at [(generation - 1) % ring] */
    struct exec_task ring[EXEC_TASKS];
    uint32_t n_running[EXEC_TASKS]; /* under the mutex */
    uint64_t ended_ns[EXEC_TASKS];  /* when the last rank was through; under the mutex */
    uint32_t spins;
};

void exec_tasks_init(struct exec_task_queue *tasks, uint32_t n_ranks);
void exec_tasks_finish(struct exec_task_queue *tasks);
/* Puts a task for n ranks into the ring, where the task EXEC_TASKS before it has ended. Returns its
   generation. */
uint32_t exec_tasks_post(struct exec_task_queue *tasks, const struct exec_task *task,
                         uint32_t n_ranks);
/* Returns when all ranks are through with it; the time at which the last one was. */
uint64_t exec_tasks_wait(struct exec_task_queue *tasks, uint32_t generation);
/* For ranks: the task after *seen, once it is there; and: this rank is through with it. */
const struct exec_task *exec_tasks_next(struct exec_task_queue *tasks, uint32_t *seen);
void exec_tasks_done(struct exec_task_queue *tasks, uint32_t seen);

#endif
