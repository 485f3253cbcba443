/* SPDX-License-Identifier: Apache-2.0
 *
 * Handing a task to the rank threads. Ranks look for the next one for a moment before they sleep,
 * for steps follow each other closely; the caller sleeps at once and leaves its core to them.
 */
#include "exec/internal.h"

#include <sched.h>

#define SPINS 2000

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool exec_handoff_init(struct exec_handoff *handoff, uint32_t n_ranks)
{
    cpu_set_t set;

    if (pthread_mutex_init(&handoff->mutex, NULL) != 0) {
        return false;
    }
    if (pthread_cond_init(&handoff->start, NULL) != 0) {
        pthread_mutex_destroy(&handoff->mutex);
        return false;
    }
    if (pthread_cond_init(&handoff->done, NULL) != 0) {
        pthread_cond_destroy(&handoff->start);
        pthread_mutex_destroy(&handoff->mutex);
        return false;
    }
    atomic_init(&handoff->generation, 0);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && n_ranks <= (uint32_t)CPU_COUNT(&set)) {
        handoff->spins = SPINS;
    }
    handoff->ready = true;
    return true;
}

void exec_handoff_finish(struct exec_handoff *handoff)
{
    if (handoff->ready) {
        pthread_cond_destroy(&handoff->done);
        pthread_cond_destroy(&handoff->start);
        pthread_mutex_destroy(&handoff->mutex);
        handoff->ready = false;
    }
}

void exec_handoff_run(struct exec_handoff *handoff, uint32_t n_ranks)
{
    pthread_mutex_lock(&handoff->mutex);
    handoff->n_running = n_ranks;
    atomic_fetch_add_explicit(&handoff->generation, 1, memory_order_release);
    pthread_cond_broadcast(&handoff->start);
    while (handoff->n_running > 0) {
        pthread_cond_wait(&handoff->done, &handoff->mutex);
    }
    pthread_mutex_unlock(&handoff->mutex);
}

void exec_handoff_next(struct exec_handoff *handoff, uint32_t *seen)
{
    for (uint32_t i = 0; i < handoff->spins; i++) {
        if (atomic_load_explicit(&handoff->generation, memory_order_acquire) != *seen) {
            *seen += 1;
            return;
        }
        relax();
    }
    pthread_mutex_lock(&handoff->mutex);
    while (atomic_load_explicit(&handoff->generation, memory_order_acquire) == *seen) {
        pthread_cond_wait(&handoff->start, &handoff->mutex);
    }
    pthread_mutex_unlock(&handoff->mutex);
    *seen += 1;
}

void exec_handoff_done(struct exec_handoff *handoff)
{
    pthread_mutex_lock(&handoff->mutex);
    if (--handoff->n_running == 0) {
        pthread_cond_signal(&handoff->done);
    }
    pthread_mutex_unlock(&handoff->mutex);
}
