/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting up what copies: the host arena, allocated once, rows with their pointers, threads.
 */
#include "exec/internal.h"

#include <string.h>
#include <time.h>

/* --- rows ------------------------------------------------------------------------------------- */

static pst_status bind_row(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                           uint32_t row, uint64_t *rows, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_program_copy *from = &program->copies[row];
    const struct pst_program_section *range = &program->sections[section];
    struct exec_copies *copies = &rank->copies;
    struct exec_copy *to = &list->copies[row];
    bool ok = from->value < program->n_values && from->host < program->n_values &&
              program->values[from->value].kind != PST_V_HOST &&
              program->values[from->host].kind == PST_V_HOST &&
              from->bytes <= program->values[from->value].bytes &&
              from->bytes <= program->values[from->host].bytes;
    uint32_t first_call = program->lists[range->first_instr].first_call;

    ok = ok && (from->after == PST_NONE || from->after < row) && from->instr < program->n_instrs;
    ok = ok && (from->start_call == PST_NONE ||
                (from->start_call >= first_call && from->start_call < program->n_calls));
    if (!ok) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal", "rank %u: copy %u is out of place",
                        rank->index, row);
    }
    *to = (struct exec_copy){
        .device = exec_value(rank, program, from->value),
        .host = copies->host + program->values[from->host].offset,
        .bytes = from->bytes,
        .out = from->out,
        .queue = from->out || copies->n_queues == 1 ? EXEC_TO_HOST : EXEC_FROM_HOST,
        .calls = from->start_call == PST_NONE ? 0 : from->start_call - first_call + 1,
        .rows = &rows[(size_t)EXEC_DIRECTIONS * from->host],
    };
    return PST_OK;
}

/* Marks the copies that stand directly behind a pass. */
static void find_ahead(struct exec_list *list, const struct pst_program_section *range)
{
    uint32_t pass = PST_NONE;

    for (uint32_t i = range->first_instr; i < range->first_instr + range->n_instrs; i++) {
        struct exec_instr *instr = &list->instrs[i];

        if (instr->op <= PST_I_R) {
            pass = i;
        } else if (instr->op != PST_I_OFFLOAD && instr->op != PST_I_FETCH) {
            pass = PST_NONE;
        } else if (pass != PST_NONE) {
            instr->ahead = true;
            list->instrs[pass].n_behind++;
        }
    }
}

static pst_status bind_rows(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    uint64_t *rows =
        pst_arena_array(&rank->memory, program->n_values, EXEC_DIRECTIONS * sizeof *rows);
    pst_status status = rows != NULL ? PST_OK : pst_fail_nomem(err);

    for (uint32_t s = 0; s < program->n_sections && status == PST_OK; s++) {
        const struct pst_program_section *range = &program->sections[s];

        for (uint32_t i = range->first_instr; i < range->first_instr + range->n_instrs; i++) {
            const struct pst_program_instr *instr = &program->lists[i];

            for (uint32_t c = instr->first_copy;
                 c < instr->first_copy + instr->n_copies && status == PST_OK; c++) {
                status = bind_row(rank, list, s, c, rows, err);
            }
        }
        find_ahead(list, range);
    }
    return status;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* A hollow device moves nothing, so its host arena needs no memory. */
static pst_status make_arena(struct exec_rank *rank, uint64_t bytes, struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    pst_status status = PST_OK;
    void *base;

    if (copies->ordered) {
        status = rank->exec->config.device->pinned(rank->device, bytes, &base, err);
        if (status == PST_OK) {
            memset(base, 0xFF, bytes);
            copies->host = base;
        }
        return status;
    }
    if ((rank->exec->config.device->flags & PST_DEVICE_HOLLOW) == 0) {
        status = pst_guarded_init(&copies->block, bytes, err);
    }
    copies->host = (char *)copies->block.base;
    return status;
}

static uint32_t longest_calls(const struct pst_program *program)
{
    uint32_t most = 0;

    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *range = &program->sections[s];
        uint32_t n = 0;

        for (uint32_t i = range->first_instr; i < range->first_instr + range->n_instrs; i++) {
            n += program->lists[i].n_calls;
        }
        most = n > most ? n : most;
    }
    return most;
}

/* Postings of two visits of every section. */
static uint32_t most_postings(const struct pst_program *program)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_instrs; i++) {
        n += program->lists[i].n_copies > 0;
    }
    return 2 * n + 1;
}

static bool make_queue(struct exec_rank *rank, const struct pst_program *program, uint32_t index)
{
    struct exec_copy_queue *queue = &rank->copies.queues[index];

    queue->rank = rank;
    queue->n_ring = most_postings(program);
    queue->ring = pst_arena_array(&rank->memory, queue->n_ring, sizeof *queue->ring);
    atomic_init(&queue->done, 0);
    atomic_init(&queue->wanted, UINT64_MAX);
    queue->n_ends = 2 * program->n_copies + 1;
    queue->ends = pst_arena_array(&rank->memory, queue->n_ends, sizeof *queue->ends);
    if (rank->exec->config.copies.check) {
        queue->chunk = pst_arena_array(&rank->memory, EXEC_CHECK_BYTES, 1);
    }
    return queue->ring != NULL && queue->ends != NULL &&
           (queue->chunk != NULL || !rank->exec->config.copies.check);
}

static bool make_tables(struct exec_rank *rank, struct exec_list *list)
{
    const struct pst_program *program = list->program;
    struct exec_copies *copies = &rank->copies;
    bool ok = true;

    list->copies = pst_arena_array(&rank->memory, program->n_copies, sizeof *list->copies);
    for (uint32_t q = 0; q < copies->n_queues; q++) {
        ok = make_queue(rank, program, q) && ok;
    }
    if (rank->exec->config.copies.check && !copies->timed) {
        copies->sums = pst_arena_array(&rank->memory, program->host_bytes / PST_VALUE_ALIGN + 1,
                                       sizeof *copies->sums);
        ok = ok && copies->sums != NULL;
    }
    if (copies->timed) {
        copies->call_ns = pst_arena_array(&rank->memory, (size_t)longest_calls(program) + 1,
                                          sizeof *copies->call_ns);
        ok = ok && copies->call_ns != NULL;
    }
    return ok && list->copies != NULL;
}

/* --- threads ---------------------------------------------------------------------------------- */

static bool make_locks(struct exec_copies *copies)
{
    pthread_condattr_t attributes;
    bool ok;

    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(&copies->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (ok && pthread_mutex_init(&copies->mutex, NULL) != 0) {
        pthread_cond_destroy(&copies->changed);
        ok = false;
    }
    copies->ready = ok;
    return ok;
}

static pst_status start_threads(struct exec_copies *copies, struct pst_error *err)
{
    if (!make_locks(copies)) {
        return pst_fail_nomem(err);
    }
    for (uint32_t q = 0; q < copies->n_queues; q++) {
        struct exec_copy_queue *queue = &copies->queues[q];

        if (pthread_create(&queue->thread, NULL, exec_copies_main, queue) != 0) {
            return pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                            "cannot start a thread for copies: out of threads");
        }
        queue->started = true;
    }
    return PST_OK;
}

pst_status exec_copies_init(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_program *program = list->program;
    struct exec_copies *copies = &rank->copies;
    pst_status status;

    if (program->n_copies == 0) {
        return PST_OK;
    }
    if (config->device->now != NULL && config->links->host_ns == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "device %s: no host link is described",
                        config->device->id);
    }
    copies->timed = config->device->now != NULL;
    copies->ordered = (config->device->flags & PST_DEVICE_APART) != 0 && !config->copies.check &&
                      config->copies.hook == NULL && config->copies.bytes_per_s == 0;
    copies->n_queues = config->copies.shared_link ? 1 : EXEC_DIRECTIONS;
    status = make_arena(rank, program->host_bytes > 0 ? program->host_bytes : 1, err);
    if (status == PST_OK && !make_tables(rank, list)) {
        status = pst_fail_nomem(err);
    }
    if (status == PST_OK) {
        status = bind_rows(rank, list, err);
    }
    if (status == PST_OK && copies->ordered) {
        status = exec_copies_order_init(rank, err);
    } else if (status == PST_OK && !copies->timed) {
        status = start_threads(copies, err);
    }
    copies->active = status == PST_OK;
    return status;
}

void exec_copies_finish(struct exec_rank *rank)
{
    struct exec_copies *copies = &rank->copies;

    if (copies->ready) {
        pthread_mutex_lock(&copies->mutex);
        atomic_store(&copies->quit, true);
        pthread_cond_broadcast(&copies->changed);
        pthread_mutex_unlock(&copies->mutex);
        for (uint32_t q = 0; q < copies->n_queues; q++) {
            if (copies->queues[q].started) {
                pthread_join(copies->queues[q].thread, NULL);
            }
        }
        pthread_cond_destroy(&copies->changed);
        pthread_mutex_destroy(&copies->mutex);
    }
    pst_guarded_finish(&copies->block);
}
