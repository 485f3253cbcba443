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

void exec_handoff_init(struct exec_handoff *handoff, uint32_t n_ranks)
{
    cpu_set_t set;

    if (pthread_mutex_init(&handoff->mutex, NULL) != 0 ||
        pthread_cond_init(&handoff->start, NULL) != 0 ||
        pthread_cond_init(&handoff->done, NULL) != 0) {
        pst_out_of_memory();
    }
    atomic_init(&handoff->generation, 0);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && n_ranks <= (uint32_t)CPU_COUNT(&set)) {
        handoff->spins = SPINS;
    }
}

void exec_handoff_finish(struct exec_handoff *handoff)
{
    pthread_cond_destroy(&handoff->done);
    pthread_cond_destroy(&handoff->start);
    pthread_mutex_destroy(&handoff->mutex);
}

uint32_t exec_handoff_post(struct exec_handoff *handoff, const struct exec_task *task,
                           uint32_t n_ranks)
{
    uint32_t posted = atomic_load_explicit(&handoff->generation, memory_order_relaxed);
    uint32_t at = posted % EXEC_TASKS;

    pthread_mutex_lock(&handoff->mutex);
    PST_ASSERT(handoff->n_running[at] == 0);
    handoff->tasks[at] = *task;
    handoff->tasks[at].posted_ns = pst_now_ns();
    handoff->n_running[at] = n_ranks;
    atomic_store_explicit(&handoff->generation, posted + 1, memory_order_release);
    pthread_cond_broadcast(&handoff->start);
    pthread_mutex_unlock(&handoff->mutex);
    return posted + 1;
}

uint64_t exec_handoff_wait(struct exec_handoff *handoff, uint32_t generation)
{
    uint32_t at = (generation - 1) % EXEC_TASKS;
    uint64_t ended_ns;

    pthread_mutex_lock(&handoff->mutex);
    while (handoff->n_running[at] > 0) {
        pthread_cond_wait(&handoff->done, &handoff->mutex);
    }
    ended_ns = handoff->ended_ns[at];
    pthread_mutex_unlock(&handoff->mutex);
    return ended_ns;
}

static const struct exec_task *take(struct exec_handoff *handoff, uint32_t *seen)
{
    *seen += 1;
    return &handoff->tasks[(*seen - 1) % EXEC_TASKS];
}

const struct exec_task *exec_handoff_next(struct exec_handoff *handoff, uint32_t *seen)
{
    for (uint32_t i = 0; i < handoff->spins; i++) {
        if (atomic_load_explicit(&handoff->generation, memory_order_acquire) != *seen) {
            return take(handoff, seen);
        }
        pst_spin_pause();
    }
    pthread_mutex_lock(&handoff->mutex);
    while (atomic_load_explicit(&handoff->generation, memory_order_acquire) == *seen) {
        pthread_cond_wait(&handoff->start, &handoff->mutex);
    }
    pthread_mutex_unlock(&handoff->mutex);
    return take(handoff, seen);
}

void exec_handoff_done(struct exec_handoff *handoff, uint32_t seen)
{
    uint32_t at = (seen - 1) % EXEC_TASKS;

    pthread_mutex_lock(&handoff->mutex);
    if (--handoff->n_running[at] == 0) {
        handoff->ended_ns[at] = pst_now_ns();
        pthread_cond_signal(&handoff->done);
    }
    pthread_mutex_unlock(&handoff->mutex);
}
