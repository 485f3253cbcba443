/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rank's thread has to do with copies: it posts them, says which calls have ended, and
 * waits for rows. A row is known by the host buffer that it moved last and the way it went, so what
 * an earlier section posted is found like what this one has.
 */
#include "exec/internal.h"

void exec_copies_enter(struct exec_rank *rank, const struct exec_list *list, uint32_t section)
{
    struct exec_copies *copies = &rank->copies;

    (void)list;
    copies->section = section;
    copies->base_calls = atomic_load_explicit(&copies->calls, memory_order_relaxed);
}

static void put(struct exec_copies *copies, struct exec_copy_queue *queue,
                const struct exec_posting *posting)
{
    PST_ASSERT(queue->n_put - queue->n_taken < queue->n_ring);
    queue->ring[queue->n_put % queue->n_ring] = *posting;
    queue->n_put++;
    if (!copies->timed && !copies->ordered) {
        pthread_cond_broadcast(&copies->changed);
    }
}

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
    if (copies->timed) {
        posting.posted_ns = exec_clock_now(rank);
        put(copies, queue, &posting);
        for (uint32_t c = rows->first_copy; c < rows->first_copy + rows->n_copies; c++) {
            exec_clock_touch(rank, list->copies[c].device, list->copies[c].bytes);
        }
        return;
    }
    if (copies->ordered) {
        put(copies, queue, &posting);
        exec_copies_advance(rank);
        return;
    }
    pthread_mutex_lock(&copies->mutex);
    put(copies, queue, &posting);
    pthread_mutex_unlock(&copies->mutex);
}

/* Rows of its queue that have ended once this one has. */
static uint64_t rows_with(const struct exec_copy *copy)
{
    return copy->rows[copy->out ? EXEC_TO_HOST : EXEC_FROM_HOST];
}

pst_status exec_copies_before(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                              uint64_t *stall_ns, struct pst_error *err)
{
    const struct pst_program_call *from = &list->program->calls[call];
    pst_status status = PST_OK;

    for (uint32_t w = 0; w < from->n_copy_waits && status == PST_OK; w++) {
        const struct exec_copy *copy =
            &list->copies[list->program->copy_waits[from->first_copy_wait + w]];

        status = exec_copies_await(rank, copy->queue, rows_with(copy), stall_ns, err);
    }
    return status;
}

void exec_copies_behind(struct exec_rank *rank, const struct exec_list *list, uint32_t call)
{
    struct exec_copies *copies = &rank->copies;
    const struct pst_program *program = list->program;
    uint64_t ended = atomic_load_explicit(&copies->calls, memory_order_relaxed) + 1;
    bool wake = false;

    if (copies->timed) {
        uint32_t first = program->lists[program->sections[copies->section].first_instr].first_call;

        copies->call_ns[call - first] = exec_clock_now(rank);
    }
    atomic_store(&copies->calls, ended);
    if (copies->ordered) {
        exec_copies_advance(rank);
        return;
    }
    for (uint32_t q = 0; q < copies->n_queues; q++) {
        wake = wake || atomic_load(&copies->queues[q].wanted) <= ended;
    }
    if (wake) {
        exec_copies_wake(copies);
    }
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
    return exec_copies_await(rank, last->queue, rows_with(last), &rank->copies.stall_ns, err);
}

pst_status exec_copies_drain(struct exec_rank *rank, struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    pst_status status = PST_OK;

    for (uint32_t q = 0; q < copies->n_queues && status == PST_OK; q++) {
        status = exec_copies_await(rank, q, copies->posted_rows[q], &copies->stall_ns, err);
    }
    return status;
}

/* Times are worked out from the ends of the calls of the section, which the next one forgets. */
void exec_copies_leave(struct exec_rank *rank)
{
    struct exec_copies *copies = &rank->copies;

    for (uint32_t q = 0; copies->timed && q < copies->n_queues; q++) {
        exec_copies_time(rank, q, copies->posted_rows[q]);
    }
}

/* --- for whoever copies ----------------------------------------------------------------------- */

void exec_copies_note(struct exec_copy_queue *queue, const struct exec_posting *posting,
                      const struct exec_copy *copy, uint64_t start_ns, uint64_t end_ns)
{
    uint32_t direction = copy->out ? EXEC_TO_HOST : EXEC_FROM_HOST;

    queue->moved.bytes[direction] += copy->bytes;
    queue->moved.ns[direction] += end_ns - start_ns;
    exec_record_copied(posting->visit, posting->instr, start_ns, end_ns);
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
