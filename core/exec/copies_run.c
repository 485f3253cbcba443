/* SPDX-License-Identifier: Apache-2.0
 *
 * Posting copies, asking the device for what may begin, and having its kernels wait for rows. A row
 * is known by the host buffer that it moved last and the way it went, so what an earlier section
 * posted is found like what this one has.
 */
#include "exec/state.h"

void exec_copies_enter(struct exec_rank *rank)
{
    rank->copies.base_calls = rank->copies.calls;
}

static struct exec_row *row_of(struct exec_copy_queue *queue, uint64_t number)
{
    return &queue->rows[number % queue->n_rows];
}

/* --- asking for rows -------------------------------------------------------------------------- */

/* All that the row waits for has been asked for. */
static bool may_begin(const struct exec_copies *copies, const struct exec_posting *posting,
                      const struct exec_copy *copy)
{
    return (copy->calls == 0 || copies->calls >= posting->calls + copy->calls) &&
           copies->queues[EXEC_TO_HOST].n_asked >= posting->rows;
}

static struct exec_row *next_row(struct exec_rank *rank, const struct exec_posting *posting,
                                 const struct exec_copy *copy)
{
    struct exec_copies *copies = &rank->copies;
    struct exec_copy_queue *queue = &copies->queues[copy->queue];
    struct exec_row *row = row_of(queue, ++queue->n_asked);

    *row = (struct exec_row){
        .mark = row->mark,
        .rank = rank,
        .copy = copy,
        .list = posting->list,
        .instr = posting->instr,
        .way_out = posting->rows > 0 ? row_of(&copies->queues[EXEC_TO_HOST], posting->rows) : NULL};
    return row;
}

static void begin_row(struct exec_rank *rank, const struct exec_posting *posting,
                      const struct exec_copy *copy)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copies *copies = &rank->copies;
    const uint32_t q = copy->queue == EXEC_TO_HOST ? PST_QUEUE_OUT : PST_QUEUE_IN;
    struct exec_row *row = next_row(rank, posting, copy);
    struct exec_timing *timing = exec_times_take(rank, posting->visit, posting->instr);

    if (copies->watched) {
        exec_copies_watch_begin(row);
    }
    device->mark(rank->device, PST_QUEUE_COMPUTE, copies->calls_mark);
    device->follow(rank->device, q, copies->calls_mark);
    if (row->way_out != NULL && copy->queue != EXEC_TO_HOST) {
        device->follow(rank->device, q, row->way_out->mark);
    }
    if (timing != NULL) {
        timing->moved = &copies->queues[copy->queue].moved;
        timing->direction = copy->out ? EXEC_TO_HOST : EXEC_FROM_HOST;
        timing->bytes = copy->bytes;
        device->mark(rank->device, q, timing->start);
    }
    device->move(rank->device, q, copy->out ? copy->host : copy->device,
                 copy->out ? copy->device : copy->host, copy->bytes);
    if (copies->watched) {
        exec_copies_watch_end(row, q);
    }
    if (timing != NULL) {
        device->mark(rank->device, q, timing->end);
        exec_times_put(timing);
    }
    device->mark(rank->device, q, row->mark);
}

/* First in, first out; rows to the host first, for those from there wait for them. */
static void advance(struct exec_rank *rank)
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
            begin_row(rank, posting, copy);
            if (++queue->row == rows->n_copies) {
                queue->row = 0;
                queue->n_taken++;
            }
        }
    }
}

/* --- posting ---------------------------------------------------------------------------------- */

/* Numbers the rows of an instruction in their queue. A FETCH notes the last one of its OFFLOAD. */
static void number_rows(struct exec_copies *copies, const struct exec_list *list,
                        const struct pst_program_instr *rows, struct exec_posting *posting)
{
    for (uint32_t c = rows->first_copy; c < rows->first_copy + rows->n_copies; c++) {
        const struct exec_copy *copy = &list->copies[c];
        uint64_t out = copy->rows[EXEC_TO_HOST];

        posting->rows = !copy->out && out > posting->rows ? out : posting->rows;
        copy->rows[copy->out ? EXEC_TO_HOST : EXEC_FROM_HOST] = ++copies->posted_rows[copy->queue];
    }
}

void exec_copies_post(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                      struct exec_visit *visit)
{
    struct exec_copies *copies = &rank->copies;
    const struct pst_program_instr *rows = &list->program->lists[instr];
    struct exec_posting posting = {
        .list = list, .instr = instr, .calls = copies->base_calls, .visit = visit};
    struct exec_copy_queue *queue;

    if (rows->n_copies == 0) {
        return;
    }
    queue = &copies->queues[list->copies[rows->first_copy].queue];
    number_rows(copies, list, rows, &posting);
    PST_ASSERT(queue->n_put - queue->n_taken < queue->n_ring);
    queue->ring[queue->n_put++ % queue->n_ring] = posting;
    advance(rank);
}

void exec_copies_behind(struct exec_rank *rank)
{
    rank->copies.calls++;
    advance(rank);
}

/* --- waiting for rows ------------------------------------------------------------------------- */

/* Kernels on the rank's own thread come behind a mark once the thread has waited for it, with a
   limit on each row. */
static pst_status await_rows(struct exec_rank *rank, struct exec_copy_queue *queue, uint64_t rows,
                             struct pst_error *err)
{
    const bool shared = rank->copies.n_queues == 1;
    const char *what = shared ? "a copy to or from host memory"
                       : queue == &rank->copies.queues[EXEC_TO_HOST] ? "a copy to host memory"
                                                                     : "a copy from host memory";
    pst_status status = PST_OK;

    for (uint64_t r = queue->n_followed + 1; r <= rows && status == PST_OK; r++) {
        status = exec_await(rank, row_of(queue, r)->mark, what, err);
    }
    return status;
}

/* The queue of kernels comes behind so many rows of a queue. */
static pst_status follow_rows(struct exec_rank *rank, uint32_t index, uint64_t rows,
                              struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copies *copies = &rank->copies;
    struct exec_copy_queue *queue = &copies->queues[index];
    struct exec_timing *timing;
    pst_status status = PST_OK;

    if (rows <= queue->n_followed) {
        return PST_OK;
    }
    if (queue->n_asked < rows) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u waits for a copy that waits for a later call", rank->index);
    }
    timing = exec_times_take(rank, copies->visit, copies->pass);
    if (timing != NULL) {
        timing->stall_ns = &copies->stall_ns;
        device->mark(rank->device, PST_QUEUE_COMPUTE, timing->start);
    }
    if (!rank->async.active) {
        status = await_rows(rank, queue, rows, err);
    }
    if (status != PST_OK) {
        return status;
    }
    device->follow(rank->device, PST_QUEUE_COMPUTE, row_of(queue, rows)->mark);
    if (timing != NULL) {
        device->mark(rank->device, PST_QUEUE_COMPUTE, timing->end);
        exec_times_put(timing);
    }
    queue->n_followed = rows;
    return PST_OK;
}

/* Rows of its queue that have ended once this one has. */
static uint64_t rows_with(const struct exec_copy *copy)
{
    return copy->rows[copy->out ? EXEC_TO_HOST : EXEC_FROM_HOST];
}

pst_status exec_copies_before(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                              struct pst_error *err)
{
    const struct pst_program_call *from = &list->program->calls[call];
    pst_status status = PST_OK;

    for (uint32_t w = 0; w < from->n_copy_waits && status == PST_OK; w++) {
        const struct exec_copy *copy =
            &list->copies[list->program->copy_waits[from->first_copy_wait + w]];

        status = follow_rows(rank, copy->queue, rows_with(copy), err);
    }
    return status;
}

pst_status exec_copies_join(struct exec_rank *rank, const struct exec_list *list, uint32_t instr,
                            struct pst_error *err)
{
    const struct pst_program_instr *rows = &list->program->lists[instr];
    const struct exec_copy *last;

    if (rows->n_copies == 0) {
        return PST_OK;
    }
    last = &list->copies[rows->first_copy + rows->n_copies - 1];
    return follow_rows(rank, last->queue, rows_with(last), err);
}

pst_status exec_copies_drain(struct exec_rank *rank, struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    pst_status status = PST_OK;

    for (uint32_t q = 0; q < copies->n_queues && status == PST_OK; q++) {
        status = follow_rows(rank, q, copies->posted_rows[q], err);
    }
    return status;
}

void exec_copied(const struct exec_rank *rank, struct pst_exec_copies *ret_copies)
{
    const struct exec_copies *copies = &rank->copies;
    struct pst_exec_copies sum = {.stall_ns = copies->stall_ns};

    for (uint32_t q = 0; q < copies->n_queues; q++) {
        for (uint32_t d = 0; d < EXEC_DIRECTIONS; d++) {
            sum.bytes[d] += copies->queues[q].moved.bytes[d];
            sum.ns[d] += copies->queues[q].moved.ns[d];
        }
    }
    *ret_copies = sum;
}
