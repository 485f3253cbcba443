/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies as somebody wants to see them: no faster than a link, or compared with what the device
 * has. The device does all of it in the order of the copying queue, a thread of the host included;
 * what that may touch is in host memory.
 */
#define XXH_INLINE_ALL
#include "exec/state.h"

#include <time.h>
#include <xxhash.h>

#include "base/util.h"

#define NAP_NS  50000u    /* shorter naps are not worth it */
#define LOOK_NS 20000000u /* in longer ones it looks whether it shall leave */

/* Devices may call for all ranks in turn. */
static bool is_ending(const struct exec_rank *rank)
{
    return atomic_load_explicit(&rank->copies.quit, memory_order_relaxed) ||
           atomic_load_explicit(&rank->copies.broken, memory_order_relaxed) ||
           atomic_load_explicit(&rank->exec->failed, memory_order_relaxed) != 0;
}

static void nap_until(const struct exec_rank *rank, uint64_t ns)
{
    for (uint64_t now = pst_now_ns(); now < ns && !is_ending(rank); now = pst_now_ns()) {
        uint64_t end = ns - now > LOOK_NS ? now + LOOK_NS : ns;
        struct timespec until = pst_timespec(end);

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void fail_row(const struct exec_row *row, pst_status status, const char *kind,
                     const char *what)
{
    struct exec_copies *copies = &row->rank->copies;
    const struct pst_instr *instr = &row->list->program->instrs[row->instr];

    if (atomic_exchange(&copies->breaks, true)) {
        return; /* the other queue has seen something first */
    }
    pst_fail(&copies->error, status, kind, "rank %u, %s of operator %s, micro-batch %u: %s",
             row->rank->index, pst_instr_name(instr->op),
             row->rank->exec->config.graph->ops[instr->node].name, instr->microbatch, what);
    copies->error.exit_code = 1;
    atomic_store(&copies->broken, true);
}

/*
 * The end by the rate counts, so that a thread which was woken late makes up for it. Queues take a
 * limited number of calls: where all wait for this copy the thread of the rank may wait for room in
 * one of them, and cannot see that the run stalls.
 */
static void slow_down(struct exec_row *row)
{
    struct exec_copy_queue *queue = &row->rank->copies.queues[row->copy->queue];
    const uint64_t rate = row->rank->exec->config.copies.bytes_per_s;
    const uint64_t limit = pst_now_ns() + row->rank->exec->stall_ns;
    uint64_t start = later_of(row->ready_ns, queue->free_ns);

    start = later_of(start, row->way_out != NULL ? row->way_out->end_ns : 0);
    row->end_ns = start + (uint64_t)((unsigned __int128)row->copy->bytes * 1000000000u / rate);
    queue->free_ns = row->end_ns;
    if (row->end_ns > pst_now_ns() + NAP_NS) {
        nap_until(row->rank, row->end_ns < limit ? row->end_ns : limit);
    }
    if (row->end_ns > limit && !is_ending(row->rank)) {
        fail_row(row, PST_ERR_CANCELLED, "run.stalled",
                 "at run.host_bandwidth the copy takes longer than run.stall_limit");
    }
}

static void compare(const struct exec_row *row)
{
    struct exec_copies *copies = &row->rank->copies;
    const struct exec_copy *copy = row->copy;
    uint64_t *sum = &copies->sums[(uint64_t)(copy->host - copies->host) / PST_VALUE_ALIGN];
    const uint64_t host = XXH3_64bits(copy->host, (size_t)copy->bytes);

    if (!copy->out && host != *sum) {
        fail_row(row, PST_ERR_BUG, "run.copy", "what was copied to host memory has changed there");
    } else if (XXH3_64bits(copies->queues[copy->queue].again, (size_t)copy->bytes) != host) {
        fail_row(row, PST_ERR_BUG, "run.copy", "device and host memory differ after the copy");
    }
    *sum = host;
}

static void look_at_copy(void *context)
{
    struct exec_row *row = context;
    const struct exec_copies *copies = &row->rank->copies;
    const struct pst_exec_copy_config *config = &row->rank->exec->config.copies;

    if (config->bytes_per_s > 0 && !is_ending(row->rank)) {
        slow_down(row);
    }
    if (copies->sums != NULL && !is_ending(row->rank)) {
        compare(row);
    }
    if (row->copy->out && config->hook != NULL && !is_ending(row->rank)) {
        config->hook(config->context, row->rank->index, row->copy->host, row->copy->bytes);
    }
}

static void note_ready(void *context)
{
    struct exec_row *row = context;

    row->ready_ns = pst_now_ns();
}

void exec_copies_watch_begin(struct exec_row *row)
{
    struct exec_rank *rank = row->rank;

    if (rank->exec->config.copies.bytes_per_s > 0) {
        rank->exec->config.device->call(rank->device, PST_QUEUE_COMPUTE, note_ready, row);
    }
}

void exec_copies_watch_end(struct exec_row *row, uint32_t queue)
{
    const struct pst_device_ops *device = row->rank->exec->config.device;
    const struct exec_copies *copies = &row->rank->copies;

    if (copies->sums != NULL) {
        device->move(row->rank->device, queue, copies->queues[row->copy->queue].again,
                     row->copy->device, row->copy->bytes);
    }
    device->call(row->rank->device, queue, look_at_copy, row);
}
