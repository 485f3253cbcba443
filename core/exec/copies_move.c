/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that copy. A row goes piece by piece, no faster than the link: its end by the rate
 * counts, so that a thread which was woken late makes up for it in the next sleep.
 */
#define XXH_INLINE_ALL
#include "exec/internal.h"

#include <sys/prctl.h>
#include <time.h>
#include <xxhash.h>

#include "base/util.h"

#define PIECE_BYTES 262144u
#define NAP_NS      50000u    /* shorter naps are not worth it */
#define LOOK_NS     20000000u /* in longer ones it looks whether it shall leave */

static bool ends(const struct exec_copies *copies)
{
    return atomic_load_explicit(&copies->quit, memory_order_relaxed) ||
           atomic_load_explicit(&copies->broken, memory_order_relaxed);
}

/* The next posting; false: it is time to leave. */
static bool take(struct exec_copy_queue *queue, struct exec_posting *ret_posting, bool *ret_slept)
{
    struct exec_copies *copies = &queue->rank->copies;
    bool more;

    pthread_mutex_lock(&copies->mutex);
    *ret_slept = queue->n_taken == queue->n_put;
    while (queue->n_taken == queue->n_put && !ends(copies)) {
        pthread_cond_wait(&copies->changed, &copies->mutex);
    }
    more = !ends(copies);
    if (more) {
        *ret_posting = queue->ring[queue->n_taken % queue->n_ring];
        queue->n_taken++;
    }
    pthread_mutex_unlock(&copies->mutex);
    return more;
}

/* Sleeps until the row may begin, where it may not yet; false: it is time to leave. */
static bool wait_for_turn(struct exec_copy_queue *queue, const struct exec_posting *posting,
                          const struct exec_copy *copy, bool *slept)
{
    struct exec_copies *copies = &queue->rank->copies;
    uint64_t calls = copy->calls > 0 ? posting->calls + copy->calls : 0, rows = posting->rows;
    atomic_uint_fast64_t *other = &copies->queues[EXEC_TO_HOST].done;

    if (atomic_load(&copies->calls) >= calls && atomic_load(other) >= rows) {
        return !ends(copies);
    }
    pthread_mutex_lock(&copies->mutex);
    atomic_store(&queue->wanted, calls);
    atomic_fetch_add(&copies->sleepers, 1);
    while ((atomic_load(&copies->calls) < calls || atomic_load(other) < rows) && !ends(copies)) {
        pthread_cond_wait(&copies->changed, &copies->mutex);
    }
    atomic_fetch_sub(&copies->sleepers, 1);
    atomic_store(&queue->wanted, UINT64_MAX);
    pthread_mutex_unlock(&copies->mutex);
    *slept = true;
    return !ends(copies);
}

static void nap_until(const struct exec_copies *copies, uint64_t ns)
{
    for (uint64_t now = pst_now_ns(); now < ns && !ends(copies); now = pst_now_ns()) {
        uint64_t end = ns - now > LOOK_NS ? now + LOOK_NS : ns;
        struct timespec until = {.tv_sec = (time_t)(end / 1000000000u),
                                 .tv_nsec = (long)(end % 1000000000u)};

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

/* Moves a row; the link is free again at *ret_end. */
static bool move(const struct exec_copy_queue *queue, const struct exec_copy *copy, uint64_t start,
                 uint64_t *ret_end)
{
    const struct pst_device_ops *device = queue->rank->exec->config.device;
    uint64_t rate = queue->rank->exec->config.copies.bytes_per_s, end = start;

    for (uint64_t at = 0; at < copy->bytes;) {
        uint64_t left = copy->bytes - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;

        if (ends(&queue->rank->copies)) {
            return false;
        }
        if (copy->out) {
            device->download(queue->rank->device, copy->host + at, copy->device + at, n);
        } else {
            device->upload(queue->rank->device, copy->device + at, copy->host + at, n);
        }
        at += n;
        if (rate > 0) {
            end = start + (uint64_t)((unsigned __int128)at * 1000000000u / rate);
        }
        if (end > pst_now_ns() + NAP_NS) {
            nap_until(&queue->rank->copies, end);
        }
    }
    *ret_end = rate > 0 ? end : pst_now_ns();
    return true;
}

/* --- looking at what was moved ---------------------------------------------------------------- */

/* Of what the device has. */
static uint64_t sum_of_device(const struct exec_copy_queue *queue, const struct exec_copy *copy)
{
    uint64_t sum = 0;

    for (uint64_t at = 0; at < copy->bytes; at += EXEC_CHECK_BYTES) {
        uint64_t left = copy->bytes - at, n = left < EXEC_CHECK_BYTES ? left : EXEC_CHECK_BYTES;

        queue->rank->exec->config.device->download(queue->rank->device, queue->chunk,
                                                   copy->device + at, n);
        sum = XXH3_64bits_withSeed(queue->chunk, (size_t)n, sum);
    }
    return sum;
}

static uint64_t sum_of_host(const struct exec_copy *copy)
{
    uint64_t sum = 0;

    for (uint64_t at = 0; at < copy->bytes; at += EXEC_CHECK_BYTES) {
        uint64_t left = copy->bytes - at, n = left < EXEC_CHECK_BYTES ? left : EXEC_CHECK_BYTES;

        sum = XXH3_64bits_withSeed(copy->host + at, (size_t)n, sum);
    }
    return sum;
}

static void fail_changed(struct exec_copy_queue *queue, const struct exec_posting *posting,
                         const char *what)
{
    struct exec_copies *copies = &queue->rank->copies;
    const struct pst_instr *instr = &posting->list->program->instrs[posting->instr];

    pthread_mutex_lock(&copies->mutex);
    if (!atomic_load(&copies->broken)) {
        pst_fail(&copies->error, PST_ERR_BUG, "run.copy",
                 "rank %u, %s of operator %s, micro-batch %u: %s", queue->rank->index,
                 pst_instr_name(instr->op), queue->rank->exec->config.graph->ops[instr->node].name,
                 instr->microbatch, what);
        copies->error.exit_code = 1;
    }
    atomic_store(&copies->broken, true);
    pthread_cond_broadcast(&copies->changed);
    pthread_mutex_unlock(&copies->mutex);
}

static bool check(struct exec_copy_queue *queue, const struct exec_posting *posting,
                  const struct exec_copy *copy)
{
    struct exec_copies *copies = &queue->rank->copies;
    uint64_t *sum = &copies->sums[(uint64_t)(copy->host - copies->host) / PST_VALUE_ALIGN];
    uint64_t host = sum_of_host(copy);

    if (!copy->out && host != *sum) {
        fail_changed(queue, posting, "what was copied to host memory has changed there");
        return false;
    }
    if (sum_of_device(queue, copy) != host) {
        fail_changed(queue, posting, "device and host memory differ behind the copy");
        return false;
    }
    *sum = host;
    return true;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void count(struct exec_copy_queue *queue)
{
    struct exec_copies *copies = &queue->rank->copies;

    atomic_store(&queue->done, atomic_load_explicit(&queue->done, memory_order_relaxed) + 1);
    if (atomic_load(&copies->sleepers) > 0) {
        exec_copies_wake(copies);
    }
}

/* slept: the link stood idle before this row, or may have. */
static bool run_row(struct exec_copy_queue *queue, const struct exec_posting *posting,
                    const struct exec_copy *copy, bool slept)
{
    const struct pst_exec_copy_config *config = &queue->rank->exec->config.copies;
    uint64_t start;

    if (!wait_for_turn(queue, posting, copy, &slept)) {
        return false;
    }
    start = pst_now_ns();
    if (!slept || start < queue->free_ns) {
        start = queue->free_ns;
    }
    if (!move(queue, copy, start, &queue->free_ns)) {
        return false;
    }
    if (queue->rank->copies.sums != NULL && !check(queue, posting, copy)) {
        return false;
    }
    if (copy->out && config->hook != NULL) {
        config->hook(config->context, queue->rank->index, copy->host, copy->bytes);
    }
    exec_copies_note(queue, posting, copy, start, queue->free_ns);
    count(queue);
    return true;
}

void *exec_copies_main(void *argument)
{
    struct exec_copy_queue *queue = argument;
    struct exec_posting posting;
    bool slept, more = true;

    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    while (more && take(queue, &posting, &slept)) {
        const struct pst_program_instr *rows = &posting.list->program->lists[posting.instr];

        for (uint32_t c = 0; c < rows->n_copies && more; c++) {
            more = run_row(queue, &posting, &posting.list->copies[rows->first_copy + c],
                           slept && c == 0);
        }
    }
    return NULL;
}
