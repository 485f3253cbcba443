/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated linear units: act(gate) up. Items are stretches of a row's gate with what they gate.
 */
#include "tile.h"

/* Widened by a thread. Forward: gate, up, y; backward: dy and the gradients of the first two. */
#define N_BUFFERS 5u

struct gates {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t n, n_tiles; /* of a row of y */
};

static bool serves(const struct pst_op_request *request)
{
    return request->op->act == PST_ACT_SILU || request->op->act == PST_ACT_GELU;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return pst_tile_floats(request, N_BUFFERS, PST_TILE) * sizeof(float);
}

static void forward_tile(const struct gates *gates, const struct pst_tile tile[N_BUFFERS],
                         uint64_t x_at, uint64_t y_at, uint64_t n)
{
    const struct pst_simd *simd = gates->request->device->simd;
    const struct pst_call *call = gates->call;
    const float *gate = pst_tile_read(&tile[0], call->x[0], x_at, n);
    const float *up = pst_tile_read(&tile[1], call->x[0], x_at + gates->n, n);
    float *y = pst_tile_write(&tile[2], call->y[0], y_at);

    (gates->request->op->act == PST_ACT_SILU ? simd->silu_gate : simd->gelu_gate)(y, gate, up, n);
    pst_tile_done(&tile[2], call->y[0], y_at, n);
}

static void backward_tile(const struct gates *gates, const struct pst_tile tile[N_BUFFERS],
                          uint64_t x_at, uint64_t y_at, uint64_t n)
{
    const struct pst_simd *simd = gates->request->device->simd;
    const struct pst_call *call = gates->call;
    const float *gate = pst_tile_read(&tile[0], call->x[0], x_at, n);
    const float *up = pst_tile_read(&tile[1], call->x[0], x_at + gates->n, n);
    const float *dy = pst_tile_read(&tile[2], call->dy, y_at, n);
    float *dgate = pst_tile_write(&tile[3], call->dx[0], x_at);
    float *dup = pst_tile_write(&tile[4], call->dx[0], x_at + gates->n);

    (gates->request->op->act == PST_ACT_SILU ? simd->silu_gate_back
                                             : simd->gelu_gate_back)(dgate, dup, dy, gate, up, n);
    pst_tile_done(&tile[3], call->dx[0], x_at, n);
    pst_tile_done(&tile[4], call->dx[0], x_at + gates->n, n);
}

static void tiles(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct gates *gates = context;
    struct pst_tile tile[N_BUFFERS];

    for (uint32_t i = 0; i < N_BUFFERS; i++) {
        tile[i] =
            pst_tile_make(gates->request, gates->call->workspace, N_BUFFERS, PST_TILE, thread, i);
    }
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t row = i / gates->n_tiles, first = i % gates->n_tiles * PST_TILE;
        const uint64_t left = gates->n - first, n = left < PST_TILE ? left : PST_TILE;

        (gates->request->pass == PST_KERNEL_F ? forward_tile : backward_tile)(
            gates, tile, 2 * row * gates->n + first, row * gates->n + first, n);
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;
    struct gates gates = {.request = request, .call = call};

    gates.n = request_columns(request_out(request));
    gates.n_tiles = (gates.n + PST_TILE - 1) / PST_TILE;
    if (request->pass == PST_KERNEL_F || request_operand(call->dx, 0) != NULL) {
        pst_cpu_parallel(request->device,
                         request_rows(request, request_out(request)) * gates.n_tiles, tiles,
                         &gates);
    }
}

const struct pst_cpu_family pst_cpu_glu = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, run, NULL},
};
