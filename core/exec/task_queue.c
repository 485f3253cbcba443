/* SPDX-License-Identifier: Apache-2.0
 *
 * Handing tasks to the rank threads. Ranks look for the next one for a moment before they sleep,
 * for steps follow each other closely; the caller sleeps at once and leaves its core to them.
 */
#include "exec/state.h"

#include <sched.h>

#include "base/memory.h"
#include "base/spin_pause.h"
#include "base/util.h"

#define SPINS 2000

void exec_tasks_init(struct exec_task_queue *tasks, uint32_t n_ranks)
{
    cpu_set_t set;

    if (pthread_mutex_init(&tasks->mutex, NULL) != 0 ||
        pthread_cond_init(&tasks->start, NULL) != 0 || pthread_cond_init(&tasks->done, NULL) != 0) {
        pst_out_of_memory();
    }
    atomic_init(&tasks->generation, 0);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && n_ranks <= (uint32_t)CPU_COUNT(&set)) {
        tasks->spins = SPINS;
    }
}

void exec_tasks_finish(struct exec_task_queue *tasks)
{
    pthread_cond_destroy(&tasks->done);
    pthread_cond_destroy(&tasks->start);
    pthread_mutex_destroy(&tasks->mutex);
}

uint32_t exec_tasks_post(struct exec_task_queue *tasks, const struct exec_task *task,
                         uint32_t n_ranks)
{
    uint32_t posted = atomic_load_explicit(&tasks->generation, memory_order_relaxed);
    uint32_t at = posted % EXEC_TASKS;

    pthread_mutex_lock(&tasks->mutex);
    PST_ASSERT(tasks->n_running[at] == 0);
    tasks->ring[at] = *task;
    tasks->ring[at].posted_ns = pst_now_ns();
    tasks->n_running[at] = n_ranks;
    atomic_store_explicit(&tasks->generation, posted + 1, memory_order_release);
    pthread_cond_broadcast(&tasks->start);
    pthread_mutex_unlock(&tasks->mutex);
    return posted + 1;
}

uint64_t exec_tasks_wait(struct exec_task_queue *tasks, uint32_t generation)
{
    uint32_t at = (generation - 1) % EXEC_TASKS;
    uint64_t ended_ns;

    pthread_mutex_lock(&tasks->mutex);
    while (tasks->n_running[at] > 0) {
        pthread_cond_wait(&tasks->done, &tasks->mutex);
    }
    ended_ns = tasks->ended_ns[at];
    pthread_mutex_unlock(&tasks->mutex);
    return ended_ns;
}

static const struct exec_task *take_task(struct exec_task_queue *tasks, uint32_t *seen)
{
    *seen += 1;
    return &tasks->ring[(*seen - 1) % EXEC_TASKS];
}

const struct exec_task *exec_tasks_next(struct exec_task_queue *tasks, uint32_t *seen)
{
    for (uint32_t i = 0; i < tasks->spins; i++) {
        if (atomic_load_explicit(&tasks->generation, memory_order_acquire) != *seen) {
            return take_task(tasks, seen);
        }
        pst_spin_pause();
    }
    pthread_mutex_lock(&tasks->mutex);
    while (atomic_load_explicit(&tasks->generation, memory_order_acquire) == *seen) {
        pthread_cond_wait(&tasks->start, &tasks->mutex);
    }
    pthread_mutex_unlock(&tasks->mutex);
    return take_task(tasks, seen);
}

void exec_tasks_done(struct exec_task_queue *tasks, uint32_t seen)
{
    uint32_t at = (seen - 1) % EXEC_TASKS;

    pthread_mutex_lock(&tasks->mutex);
    if (--tasks->n_running[at] == 0) {
        tasks->ended_ns[at] = pst_now_ns();
        pthread_cond_signal(&tasks->done);
    }
    pthread_mutex_unlock(&tasks->mutex);
}
