/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting up what copies: the host arena, allocated once, rows with their pointers, queues.
 */
#include "exec/state.h"

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
        const uint32_t op = list->program->instrs[i].op;

        if (op <= PST_I_R) {
            pass = i;
        } else if (op != PST_I_OFFLOAD && op != PST_I_FETCH) {
            pass = PST_NONE;
        } else if (pass != PST_NONE) {
            list->instrs[i].ahead = true;
            list->instrs[pass].n_behind++;
        }
    }
}

static pst_status bind_rows(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    uint64_t *rows =
        pst_arena_array(&rank->memory, program->n_values, EXEC_DIRECTIONS * sizeof *rows);
    pst_status status = PST_OK;

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

/* --- queues ---------------------------------------------------------------------------------- */

/* Postings of two visits of every section. */
static uint32_t most_postings(const struct pst_program *program)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_instrs; i++) {
        n += program->lists[i].n_copies > 0;
    }
    return 2 * n + 1;
}

enum { REQUESTS = 8 }; /* of the device, for a row: marks, waits, moves, a look */

static pst_status make_queue(struct exec_rank *rank, const struct pst_program *program,
                             uint32_t index, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_copy_queue *queue = &rank->copies.queues[index];
    pst_status status = PST_OK;

    queue->n_ring = most_postings(program);
    queue->ring = pst_arena_array(&rank->memory, queue->n_ring, sizeof *queue->ring);
    queue->n_rows = 2 * program->n_copies + 1;
    queue->rows = pst_arena_array(&rank->memory, queue->n_rows, sizeof *queue->rows);
    for (uint32_t i = 0; i < queue->n_rows && status == PST_OK; i++) {
        status = device->mark_create(rank->device, false, &queue->rows[i].mark, err);
    }
    if (status == PST_OK && device->queue_open != NULL) {
        status =
            device->queue_open(rank->device, index == EXEC_TO_HOST ? PST_QUEUE_OUT : PST_QUEUE_IN,
                               REQUESTS * (uint64_t)queue->n_rows, err);
    }
    return status;
}

/* Makes room to compare: checksums of the host arena, and a second copy of the device's bytes. */
static pst_status make_check(struct exec_rank *rank, const struct pst_program *program,
                             struct pst_error *err)
{
    struct exec_copies *copies = &rank->copies;
    uint64_t most = 1;
    pst_status status = PST_OK;

    for (uint32_t c = 0; c < program->n_copies; c++) {
        most = program->copies[c].bytes > most ? program->copies[c].bytes : most;
    }
    copies->sums = pst_arena_array(&rank->memory, program->host_bytes / PST_VALUE_ALIGN + 1,
                                   sizeof *copies->sums);
    for (uint32_t q = 0; q < copies->n_queues && status == PST_OK; q++) {
        status =
            rank->exec->config.device->pinned(rank->device, most, &copies->queues[q].again, err);
    }
    return status;
}

static pst_status make_queues(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct pst_program *program = list->program;
    struct exec_copies *copies = &rank->copies;
    void *host = NULL;
    pst_status status =
        device->pinned(rank->device, program->host_bytes > 0 ? program->host_bytes : 1, &host, err);

    copies->host = host;
    list->copies = pst_arena_array(&rank->memory, program->n_copies, sizeof *list->copies);
    PST_TRY(status, device->mark_create(rank->device, false, &copies->calls_mark, err));
    for (uint32_t q = 0; q < copies->n_queues && status == PST_OK; q++) {
        status = make_queue(rank, program, q, err);
    }
    return status;
}

pst_status exec_copies_init(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_exec_copy_config *how = &config->copies;
    const bool hollow = (config->device->flags & PST_DEVICE_NO_DATA) != 0;
    struct exec_copies *copies = &rank->copies;
    pst_status status;

    if (list->program->n_copies == 0) {
        return PST_OK;
    }
    if (hollow && config->device_config.times->host_ns == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "device %s: no host link is described",
                        config->device->id);
    }
    copies->watched = !hollow && (how->check || how->hook != NULL || how->bytes_per_s > 0);
    copies->n_queues = how->shared_link ? 1 : EXEC_DIRECTIONS;
    status = make_queues(rank, list, err);
    if (status == PST_OK && how->check && !hollow) {
        status = make_check(rank, list->program, err);
    }
    PST_TRY(status, bind_rows(rank, list, err));
    copies->active = status == PST_OK;
    return status;
}
