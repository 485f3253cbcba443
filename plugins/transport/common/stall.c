/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/common/stall.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"

#define LONGEST_NS UINT64_C(1000000000000000000) /* no deadline overflows */

void stall_init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attr;

    if (pthread_condattr_init(&attr) != 0 ||
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(wake, &attr) != 0) {
        pst_out_of_memory();
    }
    pthread_condattr_destroy(&attr);
}

enum outcome stall_sleep(const struct sleeper *sleeper, const atomic_uint *word, uint32_t target,
                         uint64_t begin_ns, uint64_t stall_ns, uint64_t due_ns)
{
    uint64_t deadline = begin_ns + (stall_ns < LONGEST_NS ? stall_ns : LONGEST_NS);
    struct timespec until = pst_timespec(due_ns < deadline ? due_ns : deadline);
    enum outcome outcome = OUTCOME_REACHED;
    int timed_out = 0;

    pthread_mutex_lock(sleeper->mutex);
    while (!stall_reached(word, target)) {
        if (atomic_load_explicit(sleeper->aborted, memory_order_acquire)) {
            outcome = OUTCOME_ABORTED;
            break;
        }
        if (timed_out != 0 || (sleeper->poked != NULL && *sleeper->poked)) {
            outcome = timed_out != 0 && pst_now_ns() >= deadline ? OUTCOME_STALLED : OUTCOME_DUE;
            break;
        }
        timed_out = pthread_cond_timedwait(sleeper->wake, sleeper->mutex, &until);
    }
    if (sleeper->poked != NULL) {
        *sleeper->poked = false;
    }
    pthread_mutex_unlock(sleeper->mutex);
    return outcome;
}

void stall_publish(const struct sleeper *sleeper, atomic_uint *word, uint32_t value)
{
    pthread_mutex_lock(sleeper->mutex);
    atomic_store_explicit(word, value, memory_order_release);
    pthread_cond_signal(sleeper->wake);
    pthread_mutex_unlock(sleeper->mutex);
}

/* --- messages ----------------------------------------------------------------------------------*/

const char *const stall_hint = "if it only needs longer, raise run.stall_limit";

pst_status stall_fail_request(uint32_t rank, const char *what, uint32_t id, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "transport.request", "rank %u waits for no %s (%u)", rank,
                    what, id);
}

pst_status stall_fail_bytes(uint32_t from, uint64_t sent, uint32_t to, uint64_t expected,
                            uint64_t tag, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "transport.size",
                    "rank %u sends %llu bytes, but rank %u expects %llu (tag 0x%llx)", from,
                    (unsigned long long)sent, to, (unsigned long long)expected,
                    (unsigned long long)tag);
}

pst_status stall_fail_aborted(uint32_t rank, const char *why, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_CANCELLED, "run.aborted", "rank %u stopped the run: %s", rank,
                    why);
}

pst_status stall_fail_waited(uint32_t rank, uint64_t stall_ns, struct pst_error *err,
                             const char *what, ...)
{
    char text[192];
    va_list args;

    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    return pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                    "run stalled: rank %u has waited %.3g s %s", rank, (double)stall_ns / 1e9,
                    text);
}

pst_status stall_fail_chain(const char *culprit, const char *waiting, uint32_t rank,
                            uint64_t stall_ns, const char *what, const char *hint,
                            struct pst_error *err)
{
    pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
             "run stalled: %s; waiting for it: device%s%s. Device %u has waited %.3g s %s", culprit,
             strchr(waiting, ',') != NULL ? "s" : "", waiting, rank, (double)stall_ns / 1e9, what);
    pst_error_hint(err, "%s", hint);
    return PST_ERR_CANCELLED;
}

void stall_list_device(char *list, size_t size, uint32_t device)
{
    size_t used = strlen(list);

    snprintf(list + used, size - used, "%s %u", used == 0 ? "" : ",", device);
}
