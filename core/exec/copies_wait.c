/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for copies: with a limit, and not beyond the failure of anybody else.
 */
#include "exec/internal.h"

#include <time.h>

#include "base/util.h"

#define LOOK_NS 20000000u /* between looks at the others */

void exec_copies_wake(struct exec_copies *copies)
{
    pthread_mutex_lock(&copies->mutex);
    pthread_cond_broadcast(&copies->changed);
    pthread_mutex_unlock(&copies->mutex);
}

static void sleep_until(struct exec_copies *copies, uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};

    pthread_cond_timedwait(&copies->changed, &copies->mutex, &until);
}

static pst_status fail_stalled(const struct exec_rank *rank, uint32_t queue, struct pst_error *err)
{
    bool shared = rank->copies.n_queues == 1;

    return pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                    "run stalled: rank %u has waited %.3g s for a copy %s host memory", rank->index,
                    (double)rank->exec->stall_ns / 1e9,
                    shared                  ? "to or from"
                    : queue == EXEC_TO_HOST ? "to"
                                            : "from");
}

/* Under the mutex. */
static pst_status await(struct exec_rank *rank, uint32_t queue, uint64_t rows,
                        struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    atomic_uint_fast64_t *done = &copies->queues[queue].done;
    uint64_t seen = atomic_load(done), moved_ns = pst_now_ns();

    while (atomic_load(done) < rows) {
        uint64_t now = pst_now_ns();

        if (atomic_load(&copies->broken)) {
            *err = copies->error;
            return PST_ERR_BUG;
        }
        if (atomic_load(&rank->exec->failed) != 0) {
            return pst_fail(err, PST_ERR_CANCELLED, "run.aborted",
                            "rank %u: another rank stopped the run", rank->index);
        }
        if (atomic_load(done) != seen) {
            seen = atomic_load(done);
            moved_ns = now;
        } else if (now - moved_ns >= rank->exec->stall_ns) {
            return fail_stalled(rank, queue, err);
        }
        sleep_until(copies, now + LOOK_NS);
    }
    return PST_OK;
}

static void await_clock(struct exec_rank *rank, uint32_t queue, uint64_t rows, uint64_t *stall_ns)
{
    uint64_t before = exec_clock_now(rank), end = exec_copies_time(rank, queue, rows);
    if (end > before) {
        rank->exec->config.device->advance(rank->device, end);
        *stall_ns += end - before;
    }
}

pst_status exec_copies_await(struct exec_rank *rank, uint32_t queue, uint64_t rows,
                             uint64_t *stall_ns, struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    uint64_t before;
    pst_status status;

    if (copies->ordered) {
        return exec_copies_follow(rank, queue, rows, err);
    }
    if (copies->timed) {
        await_clock(rank, queue, rows, stall_ns);
        return PST_OK;
    }
    if (atomic_load(&copies->queues[queue].done) >= rows) {
        return PST_OK;
    }
    before = pst_now_ns();
    pthread_mutex_lock(&copies->mutex);
    atomic_fetch_add(&copies->sleepers, 1);
    status = await(rank, queue, rows, err);
    atomic_fetch_sub(&copies->sleepers, 1);
    pthread_mutex_unlock(&copies->mutex);
    *stall_ns += pst_now_ns() - before;
    return status;
}
