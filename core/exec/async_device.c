/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices whose memory is not the host's, and which work off queues. A rank's thread asks for
 * passes, transfers and sums without waiting for them; they come in the order of the queues. It
 * waits where the host reads something: losses and norms, the end of a step. A wait looks at a mark
 * now and then, so that a rank that fails or a device that stands still ends it. The thread is a
 * bounded number of passes ahead, so that the limit on stalls is one on a few of them.
 */
#include "exec/state.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define LOOK_NS 1000000u

static bool is_apart(const struct exec_rank *rank)
{
    return (rank->exec->config.device->flags & PST_DEVICE_APART) != 0;
}

pst_status exec_before_post(struct exec_rank *rank, struct pst_error *err)
{
    return rank->exec->config.transport->ordered ? PST_OK : exec_join(rank, err);
}

/* --- setting up ------------------------------------------------------------------------------- */

static uint64_t largest_load(const struct exec_list *list)
{
    const struct pst_program *program = list->program;
    uint64_t most = 0;

    for (uint32_t i = 0; program != NULL && i < program->n_calls; i++) {
        const struct pst_program_call *call = &program->calls[i];
        uint64_t bytes =
            call->kind == PST_C_LOAD ? list->graph->tensors[call->op].bytes * call->samples : 0;

        most = bytes > most ? bytes : most;
    }
    return most;
}

static pst_status make_marks(struct exec_rank *rank, struct pst_mark **marks, uint32_t n,
                             struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        status = rank->exec->config.device->mark_create(rank->device, false, &marks[i], err);
    }
    return status;
}

pst_status exec_async_init(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct exec_async *async = &rank->async;
    const uint64_t train = largest_load(&rank->train);
    const uint64_t eval = largest_load(&rank->eval);
    const uint64_t squares = (uint64_t)rank->n_squared * sizeof(double);
    const uint64_t losses = 2 * (uint64_t)rank->n_losses * sizeof(float);
    void *base;
    pst_status status;

    status = exec_times_init(rank, err);
    if (status == PST_OK && (is_apart(rank) || rank->copies.active)) {
        status = config->device->mark_create(rank->device, false, &rank->last, err);
    }
    if (status != PST_OK || !is_apart(rank)) {
        return status;
    }
    async->squared = pst_arena_array(&rank->memory, rank->n_squared, sizeof *async->squared);
    async->load_bytes = pst_value_align(train > eval ? train : eval);
    status = config->device->pinned(rank->device, EXEC_LOADS * async->load_bytes + squares + losses,
                                    &base, err);
    if (status == PST_OK) {
        async->loads = base;
        rank->squares = (double *)(void *)(async->loads + EXEC_LOADS * async->load_bytes);
        rank->losses = (float *)(void *)(rank->squares + rank->n_squared);
        memset(rank->losses, 0, losses);
        status = make_marks(rank, async->ahead, EXEC_AHEAD, err);
    }
    PST_TRY(status, make_marks(rank, async->loaded, EXEC_LOADS, err));
    async->active = status == PST_OK;
    if (status == PST_OK && config->transport->attach != NULL) {
        status = config->transport->attach(rank->exec->transport, rank->index, err);
    }
    return status;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static pst_status await_oldest(struct exec_rank *rank, struct pst_error *err)
{
    struct exec_async *async = &rank->async;
    pst_status status = exec_await(rank, async->ahead[async->n_passed % EXEC_AHEAD], NULL, err);

    async->n_passed += status == PST_OK;
    return status;
}

static pst_status set_mark(struct exec_rank *rank, struct pst_error *err)
{
    struct exec_async *async = &rank->async;
    pst_status status = PST_OK;

    if (async->n_set - async->n_passed == EXEC_AHEAD) {
        status = await_oldest(rank, err);
    }
    if (status == PST_OK) {
        rank->exec->config.device->mark(rank->device, PST_QUEUE_COMPUTE,
                                        async->ahead[async->n_set++ % EXEC_AHEAD]);
    }
    return status;
}

pst_status exec_pace(struct exec_rank *rank, struct pst_error *err)
{
    pst_status status = pst_error_pass(err, &rank->times.error);

    return status == PST_OK && rank->async.active ? set_mark(rank, err) : status;
}

pst_status exec_join(struct exec_rank *rank, struct pst_error *err)
{
    pst_status status = exec_pace(rank, err);

    while (status == PST_OK && rank->async.n_passed < rank->async.n_set) {
        status = await_oldest(rank, err);
    }
    if (status != PST_OK || rank->device == NULL) {
        return status;
    }
    exec_times_read(rank);
    if (!is_apart(rank)) {
        return PST_OK;
    }
    status = rank->exec->config.device->sync(rank->device, err);
    if (status != PST_OK) {
        pst_error_prefix(err, "rank %u", rank->index);
    }
    return status == PST_OK ? exec_check(rank, err) : status;
}

/* Others may still read what is this rank's: nobody closes a device before all have been here. What
   does not end within the limit on stalls never will, and whoever closed a device would wait for
   it: all devices are left as they are then. */
void exec_settle(struct exec_rank *rank)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const uint64_t begin = pst_now_ns();

    atomic_store(&rank->copies.quit, true);
    if (!exec_detach(rank)) {
        atomic_store(&rank->exec->stuck, true);
        return;
    }
    for (uint32_t q = 0; rank->last != NULL && q < PST_QUEUES; q++) {
        bool passed;

        device->mark(rank->device, q, rank->last);
        do {
            passed = device->wait(rank->device, rank->last, LOOK_NS);
        } while (!passed && pst_now_ns() - begin < rank->exec->stall_ns);
        if (!passed) {
            atomic_store(&rank->exec->stuck, true);
            return;
        }
    }
}

/* --- what the host gives and reads ------------------------------------------------------------ */

pst_status exec_load(struct exec_rank *rank, void *dst, const void *src, uint64_t bytes,
                     struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_async *async = &rank->async;
    const uint32_t slot = (uint32_t)(async->n_loads % EXEC_LOADS);
    char *staged;
    pst_status status = PST_OK;

    if (!async->active) {
        device->upload(rank->device, dst, src, bytes);
        return PST_OK;
    }
    staged = async->loads + slot * async->load_bytes;
    if (async->n_loads >= EXEC_LOADS) {
        status = exec_await(rank, async->loaded[slot], NULL, err);
    }
    if (status == PST_OK) {
        memcpy(staged, src, bytes);
        device->move(rank->device, PST_QUEUE_COMPUTE, dst, staged, bytes);
        device->mark(rank->device, PST_QUEUE_COMPUTE, async->loaded[slot]);
        async->n_loads++;
    }
    return status;
}

pst_status exec_squares(struct exec_rank *rank, uint64_t t, uint32_t stage, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    uint32_t n = 0;

    for (uint32_t i = 0; i < rank->n_squared; i++) {
        const struct exec_square *square = &rank->squared[i];
        const struct exec_param *param = &rank->params[square->param];
        const float *grad = param->grads[t % 2] + (square->first - param->shard.first);

        if (stage != PST_NONE ? param->stage != stage : !param->owner) {
            continue;
        }
        if (rank->async.active) {
            rank->async.squared[n++] = (struct pst_squared){grad, square->elems, &rank->squares[i]};
        } else {
            rank->squares[i] = device->square_sum(rank->device, grad, square->elems);
        }
    }
    if (n > 0) {
        device->squares(rank->device, rank->async.squared, n);
    }
    return exec_join(rank, err);
}

/* --- who watches the device ------------------------------------------------------------------- */

/* As traces name it. */
static void name_range(const struct pst_instr *instr, char *text, size_t size)
{
    static const char letters[] = {
        [PST_I_F] = 'F', [PST_I_B] = 'I', [PST_I_W] = 'W', [PST_I_BW] = 'B', [PST_I_R] = 'R'};

    if (instr->op <= PST_I_R) {
        snprintf(text, size, "%u%c%u", instr->stage, letters[instr->op], instr->microbatch);
    } else if (instr->op == PST_I_TIE || instr->op == PST_I_NORM) {
        snprintf(text, size, "%s", pst_instr_name(instr->op));
    } else {
        snprintf(text, size, "%s %u", pst_instr_name(instr->op), instr->stage);
    }
}

void exec_range_begin(const struct exec_rank *rank, const struct exec_list *list, uint32_t instr)
{
    char text[24];

    if (rank->exec->config.device->range != NULL && list == &rank->train) {
        name_range(&list->program->instrs[instr], text, sizeof text);
        rank->exec->config.device->range(rank->device, text);
    }
}

void exec_range_end(const struct exec_rank *rank, const struct exec_list *list)
{
    if (rank->exec->config.device->range != NULL && list == &rank->train) {
        rank->exec->config.device->range(rank->device, NULL);
    }
}
