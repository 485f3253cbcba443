/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding. Cosines and sines are tables of the device, made with the first kernel
 * that needs them and shared by all whose frequencies are the same. Items are rows.
 */
#include "tile.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/rotary.h"

struct pst_cpu_turns {
    struct pst_cpu_turns *next;
    struct pst_rope rope;
    uint32_t head_dim;
    uint64_t rows;
    float values[]; /* [rows][head_dim]: cosines of the pairs, then sines */
};

struct rotary_kernel {
    struct pst_cpu_kernel base; /* first */
    const struct pst_cpu_turns *turns;
};

struct rotation {
    const struct pst_op_request *request;
    const struct pst_cpu_turns *turns;
    float *buffers; /* of tiles */
    const void *x;
    void *y;
    const struct pst_call *call;
    uint64_t rows; /* of a sample */
    float way;     /* 1, or -1 back */
};

#define N_BUFFERS 2u

static bool serves(const struct pst_op_request *request)
{
    (void)request;
    return true;
}

/* Columns of a row that turn. */
static uint64_t turned(const struct pst_op_request *request)
{
    return (uint64_t)request->op->heads * request->op->head_dim;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return pst_tile_floats(request, N_BUFFERS, turned(request)) * sizeof(float);
}

static struct pst_cpu_turns *make_turns(const struct pst_op *op, uint64_t rows)
{
    const uint64_t half = op->head_dim / 2;
    struct pst_cpu_turns *turns =
        pst_alloc(1, sizeof *turns + rows * op->head_dim * sizeof *turns->values);

    turns->rope = op->rope;
    turns->head_dim = op->head_dim;
    turns->rows = rows;
    for (uint64_t i = 0; i < half; i++) {
        const double frequency = pst_rotary_frequency(&op->rope, op->head_dim, (uint32_t)i);

        for (uint64_t t = 0; t < rows; t++) {
            turns->values[t * op->head_dim + i] = (float)cos((double)t * frequency);
            turns->values[t * op->head_dim + half + i] = (float)sin((double)t * frequency);
        }
    }
    return turns;
}

static pst_status init(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    struct rotary_kernel *rotary = (struct rotary_kernel *)(void *)kernel;
    struct pst_device *device = kernel->request.device;
    const struct pst_op *op = kernel->request.op;
    const uint64_t rows = request_positions(&kernel->request) * kernel->request.graph->slices;
    struct pst_cpu_turns *turns = device->turns;

    (void)err;
    while (turns != NULL && (turns->head_dim != op->head_dim || turns->rows != rows ||
                             memcmp(&turns->rope, &op->rope, sizeof op->rope) != 0)) {
        turns = turns->next;
    }
    if (turns == NULL) {
        turns = make_turns(op, rows);
        turns->next = device->turns;
        device->turns = turns;
    }
    rotary->turns = turns;
    return PST_OK;
}

void pst_cpu_turns_finish(struct pst_device *device)
{
    for (struct pst_cpu_turns *turns = device->turns, *next; turns != NULL; turns = next) {
        next = turns->next;
        free(turns);
    }
}

static void rotate_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct rotation *rotation = context;
    const struct pst_op_request *request = rotation->request;
    const struct pst_simd *simd = request->device->simd;
    const struct pst_cpu_turns *turns = rotation->turns;
    const uint64_t columns = request_columns(request_out(request)), n = turned(request);
    const uint64_t bytes = pst_dtype_bytes(request->dtype), d = turns->head_dim;
    const struct pst_tile in = pst_tile_make(request, rotation->buffers, N_BUFFERS, n, thread, 0);
    const struct pst_tile out = pst_tile_make(request, rotation->buffers, N_BUFFERS, n, thread, 1);

    for (uint64_t r = begin; r < end; r++) {
        const float *x = pst_tile_read(&in, rotation->x, r * columns, n);
        float *y = pst_tile_write(&out, rotation->y, r * columns);
        const uint64_t position =
            request_row_position(rotation->request, rotation->call, rotation->rows, turns->rows, r);
        const float *row = turns->values + position * d;

        for (uint64_t at = 0; at < n; at += d) {
            simd->rotate(y + at, x + at, row, row + d / 2, rotation->way, d / 2);
        }
        pst_tile_done(&out, rotation->y, r * columns, n);
        memcpy((char *)rotation->y + (r * columns + n) * bytes,
               (const char *)rotation->x + (r * columns + n) * bytes, (columns - n) * bytes);
    }
}

static void run(const struct pst_kernel *base, const struct pst_call *call)
{
    const struct rotary_kernel *kernel = (const struct rotary_kernel *)(const void *)base;
    const struct pst_op_request *request = &kernel->base.request;
    const bool back = request->pass == PST_KERNEL_B;
    struct rotation rotation = {
        .request = request,
        .turns = kernel->turns,
        .buffers = call->workspace,
        .x = back ? call->dy : call->x[0],
        .y = back ? request_operand(call->dx, 0) : call->y[0],
        .way = back ? -1 : 1,
        .call = call,
        .rows = request_in(request, 0)->dims[0],
    };

    if (rotation.y != NULL) {
        pst_cpu_parallel(request->device, request_rows(request, request_out(request)), rotate_rows,
                         &rotation);
    }
}

const struct pst_cpu_family pst_cpu_rotary = {
    .kernel_bytes = sizeof(struct rotary_kernel),
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .run = {run, run, NULL},
};
