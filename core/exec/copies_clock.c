/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies on a device with a clock: when they begin and end follows from when they were posted and
 * when calls ended, so nobody has to be awake for them. A row is timed once somebody needs its end;
 * the calls that it waits for have ended by then, or the plan would stand still on any device.
 */
#include "exec/internal.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t end_of(const struct exec_copy_queue *queue, uint64_t row)
{
    return row > 0 ? queue->ends[row % queue->n_ends] : 0;
}

/* The next row of the posting at the head. */
static void time_row(struct exec_rank *rank, struct exec_copy_queue *queue)
{
    struct exec_copies *copies = &rank->copies;
    const struct exec_posting *posting = &queue->ring[queue->n_taken % queue->n_ring];
    const struct pst_program_instr *rows = &posting->list->program->lists[posting->instr];
    const struct exec_copy *copy = &posting->list->copies[rows->first_copy + queue->row];
    const struct pst_exec_links *links = rank->exec->config.links;
    uint64_t start = later(posting->posted_ns, queue->free_ns), number;

    if (copy->calls > 0) {
        start = later(start, copies->call_ns[copy->calls - 1]);
    }
    start = later(start, exec_copies_time(rank, EXEC_TO_HOST, posting->rows));
    queue->free_ns = start + links->host_ns(links->context, copy->bytes);
    exec_copies_note(queue, posting, copy, start, queue->free_ns);
    number = atomic_load_explicit(&queue->done, memory_order_relaxed) + 1;
    queue->ends[number % queue->n_ends] = queue->free_ns;
    atomic_store_explicit(&queue->done, number, memory_order_relaxed);
    if (++queue->row == rows->n_copies) {
        queue->row = 0;
        queue->n_taken++;
    }
}

uint64_t exec_copies_time(struct exec_rank *rank, uint32_t index, uint64_t rows)
{
    struct exec_copy_queue *queue = &rank->copies.queues[index];

    while (atomic_load_explicit(&queue->done, memory_order_relaxed) < rows) {
        PST_ASSERT(queue->n_taken < queue->n_put);
        time_row(rank, queue);
    }
    return end_of(queue, rows);
}
