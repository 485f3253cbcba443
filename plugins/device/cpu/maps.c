/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition, dropout and activation on their own. Items are tiles of a sample, since dropout counts
 * elements within the sample.
 */
#include "tile.h"

#include <string.h>

#include "base/philox.h"
#include "graph/split.h"

struct map {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t elems, n_tiles; /* of a sample */
    /* x: what is dropped or mapped; base: what is added, or dy; NULL: nothing */
    void (*tile)(const struct map *map, uint64_t sample, uint64_t first, uint64_t n, float *y,
                 const float *x, const float *base);
    const void *x, *base;
    void *y;
};

static bool serves(const struct pst_op_request *request)
{
    return request->op->p >= 0 && request->op->p < 1;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return pst_tile_floats(request, 3, PST_TILE) * sizeof(float);
}

static void map_tiles(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct map *map = context;
    struct pst_tile tile[3];

    for (uint32_t i = 0; i < 3; i++) {
        tile[i] = pst_tile_make(map->request, map->call->workspace, 3, PST_TILE, thread, i);
    }
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t sample = i / map->n_tiles, first = i % map->n_tiles * PST_TILE;
        const uint64_t left = map->elems - first, n = left < PST_TILE ? left : PST_TILE;
        const uint64_t at = sample * map->elems + first;
        const float *x = pst_tile_read(&tile[0], map->x, at, n);
        const float *base = map->base == NULL ? NULL : pst_tile_read(&tile[1], map->base, at, n);
        float *y = pst_tile_write(&tile[2], map->y, at);

        map->tile(map, sample, first, n, y, x, base);
        pst_tile_done(&tile[2], map->y, at, n);
    }
}

/* y NULL: nobody wants it. */
static void run(const struct pst_kernel *kernel, struct map map)
{
    map.request = &pst_cpu_kernel_of(kernel)->request;
    map.elems = request_out(map.request)->elems;
    map.n_tiles = map.elems / PST_TILE + (map.elems % PST_TILE != 0);
    if (map.y != NULL) {
        pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, map_tiles, &map);
    }
}

/* --- addition and dropout --------------------------------------------------------------------- */

/* Elements that stand side by side in the whole sample, row by row. */
static void drop_rows(const struct map *map, const struct pst_simd_dropout *dropout, uint64_t first,
                      uint64_t n, float *y, const float *x, const float *base)
{
    const struct pst_op *op = map->request->op;
    const uint64_t row = op->row > 0 ? op->row : map->elems;

    for (uint64_t at = 0, more; at < n; at += more) {
        more = row - (first + at) % row;
        more = more < n - at ? more : n - at;
        map->request->device->simd->dropout(
            dropout, y + at, x + at, base != NULL ? base + at : NULL,
            pst_part_place(op, map->call->part, map->elems, first + at), more);
    }
}

static void drop_tile(const struct map *map, uint64_t sample, uint64_t first, uint64_t n, float *y,
                      const float *x, const float *base)
{
    const struct pst_simd *simd = map->request->device->simd;
    const struct pst_op *op = map->request->op;
    const struct pst_simd_dropout dropout = {
        .seed = map->call->seed,
        .stream = pst_dropout_stream(op->salt, map->call->first_sample + sample),
        .threshold = (uint32_t)(op->p * 4294967296.0f),
        .scale = 1.0f / (1.0f - op->p),
    };

    if (op->p > 0 && (map->call->flags & PST_CALL_TRAINING) != 0) {
        drop_rows(map, &dropout, first, n, y, x, base);
    } else if (base != NULL) {
        simd->add(y, base, x, n);
    } else {
        memcpy(y, x, n * sizeof *y);
    }
}

static void add_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    run(kernel,
        (struct map){
            .call = call, .tile = drop_tile, .x = call->x[1], .base = call->x[0], .y = call->y[0]});
}

static void dropout_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    run(kernel, (struct map){.call = call, .tile = drop_tile, .x = call->x[0], .y = call->y[0]});
}

/* The gradient goes through the same mask. That of an addition's x[0] is dy itself. */
static void dropout_backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const bool adds = pst_cpu_kernel_of(kernel)->request.op->kind == PST_OP_ADD;

    run(kernel, (struct map){.call = call,
                             .tile = drop_tile,
                             .x = call->dy,
                             .y = request_operand(call->dx, adds ? 1 : 0)});
}

/* --- activation ------------------------------------------------------------------------------- */

static bool act_serves(const struct pst_op_request *request)
{
    return request->op->act >= PST_ACT_RELU && request->op->act <= PST_ACT_SILU;
}

/* base: dy in the backward pass, where x is what the slope is told by. */
static void act_tile(const struct map *map, uint64_t sample, uint64_t first, uint64_t n, float *y,
                     const float *x, const float *base)
{
    const struct pst_simd *simd = map->request->device->simd;
    const uint32_t act = map->request->op->act;

    (void)sample;
    (void)first;
    if (base == NULL) {
        (act == PST_ACT_RELU ? simd->relu : act == PST_ACT_GELU ? simd->gelu : simd->silu)(y, x, n);
    } else {
        (act == PST_ACT_RELU   ? simd->relu_back
         : act == PST_ACT_GELU ? simd->gelu_back
                               : simd->silu_back)(y, base, x, n);
    }
}

static void act_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    run(kernel, (struct map){.call = call, .tile = act_tile, .x = call->x[0], .y = call->y[0]});
}

static void act_backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const bool relu = pst_cpu_kernel_of(kernel)->request.op->act == PST_ACT_RELU;

    run(kernel, (struct map){.call = call,
                             .tile = act_tile,
                             .x = relu ? call->y[0] : call->x[0],
                             .base = call->dy,
                             .y = request_operand(call->dx, 0)});
}

const struct pst_cpu_family pst_cpu_add = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {add_forward, dropout_backward, NULL},
};
const struct pst_cpu_family pst_cpu_dropout = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {dropout_forward, dropout_backward, NULL},
};
const struct pst_cpu_family pst_cpu_act = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = act_serves,
    .workspace = workspace,
    .run = {act_forward, act_backward, NULL},
};
