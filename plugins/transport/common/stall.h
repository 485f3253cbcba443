/* SPDX-License-Identifier: Apache-2.0
 *
 * Sleeping until a word has grown to a value, the run is aborted or the stall limit is reached, and
 * the messages of failed waits. A rank that sleeps has a mutex and a condition variable; whoever
 * changes its word does so under that mutex.
 */
#ifndef PST_TRANSPORT_COMMON_STALL_H
#define PST_TRANSPORT_COMMON_STALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* OUTCOME_DUE: `due_ns` has come, or the rank was poked. */
enum outcome { OUTCOME_REACHED, OUTCOME_ABORTED, OUTCOME_STALLED, OUTCOME_DUE };

struct sleeper {
    pthread_mutex_t *mutex;
    pthread_cond_t *wake;
    const atomic_bool *aborted;
    bool *poked; /* NULL: nobody pokes it */
};

/* *word >= target, modulo 2^32. */
static inline bool stall_reached(const atomic_uint *word, uint32_t target)
{
    return (int32_t)(atomic_load_explicit(word, memory_order_acquire) - target) >= 0;
}

/* A condition variable whose timed waits take pst_now_ns(). */
void stall_init_wake(pthread_cond_t *wake);
/* Sleeps until the word is reached, the abort, or begin_ns + stall_ns (OUTCOME_STALLED). */
enum outcome stall_sleep(const struct sleeper *sleeper, const atomic_uint *word, uint32_t target,
                         uint64_t begin_ns, uint64_t stall_ns, uint64_t due_ns);
/* *word := value, then wakes the rank. */
void stall_publish(const struct sleeper *sleeper, atomic_uint *word, uint32_t value);

/* --- messages ----------------------------------------------------------------------------------*/

/* transport.request: a wait for what was not posted. `what`: "request" or "sum". */
pst_status stall_fail_request(uint32_t rank, const char *what, uint32_t id, struct pst_error *err);
/* transport.size: the two ends of a transfer disagree. */
pst_status stall_fail_bytes(uint32_t from, uint64_t sent, uint32_t to, uint64_t expected,
                            uint64_t tag, struct pst_error *err);
/* run.aborted: by that rank. */
pst_status stall_fail_aborted(uint32_t rank, const char *why, struct pst_error *err);
/* run.stalled, by a transport that knows only its own peer. */
pst_status stall_fail_waited(uint32_t rank, uint64_t stall_ns, struct pst_error *err,
                             const char *what, ...) __attribute__((format(printf, 4, 5)));
/* run.stalled, by one that knows the last of the chain (culprit), and the devices that wait for it
   (a list of stall_list_device). */
pst_status stall_fail_chain(const char *culprit, const char *waiting, uint32_t rank,
                            uint64_t stall_ns, const char *what, const char *hint,
                            struct pst_error *err);
/* Appends " 3", or ", 3" if the list is not empty. */
void stall_list_device(char *list, size_t size, uint32_t device);

extern const char *const stall_hint; /* how to wait longer */

#endif
