/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies by the queues of a device that stands apart, out of and into pinned memory. The rank's
 * thread asks for a row as soon as the call that it waits for has been asked for: the copying queue
 * follows a mark behind that call, and for what comes back one behind its way out. A call that
 * waits for rows has the queue of kernels follow a mark behind them, between two timed ones: what
 * lies between these is how long kernels stood still. No host waits for any of it.
 */
#include "exec/internal.h"

static uint32_t queue_of(uint32_t index)
{
    return index == EXEC_TO_HOST ? PST_QUEUE_OUT : PST_QUEUE_IN;
}

static struct pst_mark *mark_of(const struct exec_copies *copies, uint32_t index, uint64_t row)
{
    return copies->queues[index].marks[row % copies->queues[index].n_ends];
}

pst_status exec_copies_order_init(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copies *copies = &rank->copies;
    pst_status status = device->mark_create(rank->device, false, &copies->calls_mark, err);

    for (uint32_t q = 0; q < copies->n_queues && status == PST_OK; q++) {
        struct exec_copy_queue *queue = &copies->queues[q];

        queue->marks = pst_arena_array(&rank->memory, queue->n_ends, sizeof *queue->marks);
        if (queue->marks == NULL) {
            return pst_fail_nomem(err);
        }
        for (uint32_t i = 0; i < queue->n_ends && status == PST_OK; i++) {
            status = device->mark_create(rank->device, false, &queue->marks[i], err);
        }
    }
    return status;
}

/* All that the row waits for has been asked for. */
static bool may_begin(const struct exec_copies *copies, const struct exec_posting *posting,
                      const struct exec_copy *copy)
{
    return (copy->calls == 0 || atomic_load_explicit(&copies->calls, memory_order_relaxed) >=
                                    posting->calls + copy->calls) &&
           atomic_load_explicit(&copies->queues[EXEC_TO_HOST].done, memory_order_relaxed) >=
               posting->rows;
}

static void begin_row(struct exec_rank *rank, uint32_t index, const struct exec_posting *posting,
                      const struct exec_copy *copy)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copies *copies = &rank->copies;
    struct exec_copy_queue *queue = &copies->queues[index];
    const uint64_t row = atomic_load_explicit(&queue->done, memory_order_relaxed) + 1;
    struct exec_timing *timing = exec_times_take(rank, posting->visit, posting->instr);
    const uint32_t q = queue_of(index);

    device->mark(rank->device, PST_QUEUE_COMPUTE, copies->calls_mark);
    device->follow(rank->device, q, copies->calls_mark);
    if (posting->rows > 0 && index != EXEC_TO_HOST) {
        device->follow(rank->device, q, mark_of(copies, EXEC_TO_HOST, posting->rows));
    }
    if (timing != NULL) {
        timing->queue = queue;
        timing->copy = copy;
        device->mark(rank->device, q, timing->start);
    }
    device->move(rank->device, q, copy->out ? copy->host : copy->device,
                 copy->out ? copy->device : copy->host, copy->bytes);
    if (timing != NULL) {
        device->mark(rank->device, q, timing->end);
        exec_times_put(timing);
    }
    device->mark(rank->device, q, mark_of(copies, index, row));
    atomic_store_explicit(&queue->done, row, memory_order_relaxed);
}

/* First in, first out; rows to the host first, for those from there wait for them. */
void exec_copies_advance(struct exec_rank *rank)
{
    struct exec_copies *copies = &rank->copies;

    for (uint32_t q = 0; q < copies->n_queues; q++) {
        struct exec_copy_queue *queue = &copies->queues[q];

        while (queue->n_taken < queue->n_put) {
            const struct exec_posting *posting = &queue->ring[queue->n_taken % queue->n_ring];
            const struct pst_program_instr *rows = &posting->list->program->lists[posting->instr];
            const struct exec_copy *copy = &posting->list->copies[rows->first_copy + queue->row];

            if (!may_begin(copies, posting, copy)) {
                break;
            }
            begin_row(rank, q, posting, copy);
            if (++queue->row == rows->n_copies) {
                queue->row = 0;
                queue->n_taken++;
            }
        }
    }
}

pst_status exec_copies_follow(struct exec_rank *rank, uint32_t index, uint64_t rows,
                              struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copies *copies = &rank->copies;
    struct exec_copy_queue *queue = &copies->queues[index];
    struct exec_timing *timing;

    if (rows <= queue->followed) {
        return PST_OK;
    }
    if (atomic_load_explicit(&queue->done, memory_order_relaxed) < rows) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u waits for a copy that waits for a later call", rank->index);
    }
    timing = exec_times_take(rank, copies->visit, copies->pass);
    if (timing != NULL) {
        timing->stall = true;
        device->mark(rank->device, PST_QUEUE_COMPUTE, timing->start);
    }
    device->follow(rank->device, PST_QUEUE_COMPUTE, mark_of(copies, index, rows));
    if (timing != NULL) {
        device->mark(rank->device, PST_QUEUE_COMPUTE, timing->end);
        exec_times_put(timing);
    }
    queue->followed = rows;
    return PST_OK;
}
