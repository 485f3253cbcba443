/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition, dropout and activation on their own. Items are tiles of a sample, since dropout counts
 * elements within the sample.
 */
#include "tile.h"

#include <string.h>

#include "base/philox.h"

struct map {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t elems, n_tiles; /* of a sample */
    const void *x, *base;    /* what is dropped or mapped; what is added, or NULL */
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

static struct map map_of(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    map.elems = request_out(map.request)->elems;
    map.n_tiles = map.elems / PST_TILE + (map.elems % PST_TILE != 0);
    return map;
}

static void dropout_tiles(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct map *map = context;
    const struct pst_simd *simd = map->request->device->simd;
    float *buffers = map->call->workspace;
    const struct pst_tile x_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 0);
    const struct pst_tile base_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 1);
    const struct pst_tile y_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 2);
    const float p = map->request->op->p;
    const bool drops = p > 0 && (map->call->flags & PST_CALL_TRAINING) != 0;
    struct pst_simd_dropout dropout = {
        .seed = map->call->seed,
        .threshold = (uint32_t)(p * 4294967296.0f),
        .scale = 1.0f / (1.0f - p),
    };

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t sample = i / map->n_tiles, first = i % map->n_tiles * PST_TILE;
        const uint64_t left = map->elems - first, n = left < PST_TILE ? left : PST_TILE;
        const uint64_t at = sample * map->elems + first;
        const float *x = pst_tile_read(&x_tile, map->x, at, n);
        const float *base = map->base == NULL ? NULL : pst_tile_read(&base_tile, map->base, at, n);
        float *y = pst_tile_write(&y_tile, map->y, at);

        if (drops) {
            dropout.stream =
                pst_dropout_stream(map->request->op->salt, map->call->first_sample + sample);
            simd->dropout(&dropout, y, x, base, first, n);
        } else if (base != NULL) {
            simd->add(y, base, x, n);
        } else {
            memcpy(y, x, n * sizeof *y);
        }
        pst_tile_done(&y_tile, map->y, at, n);
    }
}

static void add_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = map_of(kernel, call);

    map.base = call->x[0];
    map.x = call->x[1];
    map.y = call->y[0];
    pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, dropout_tiles, &map);
}

static void dropout_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = map_of(kernel, call);

    map.x = call->x[0];
    map.y = call->y[0];
    pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, dropout_tiles, &map);
}

/* The gradient goes through the same mask. That of an addition's x[0] is dy itself. */
static void dropout_backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = map_of(kernel, call);

    map.x = call->dy;
    map.y = request_operand(call->dx, map.request->op->kind == PST_OP_ADD ? 1 : 0);
    if (map.y != NULL) {
        pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, dropout_tiles,
                         &map);
    }
}

/* --- activation ------------------------------------------------------------------------------- */

static bool act_serves(const struct pst_op_request *request)
{
    return request->op->act == PST_ACT_RELU || request->op->act == PST_ACT_GELU;
}

/* x: the input; base: dy in the backward pass, where x is what the slope is told by. */
static void act_tiles(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct map *map = context;
    const struct pst_simd *simd = map->request->device->simd;
    const bool relu = map->request->op->act == PST_ACT_RELU;
    float *buffers = map->call->workspace;
    const struct pst_tile x_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 0);
    const struct pst_tile dy_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 1);
    const struct pst_tile y_tile = pst_tile_make(map->request, buffers, 3, PST_TILE, thread, 2);

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t first = i % map->n_tiles * PST_TILE, left = map->elems - first;
        const uint64_t at = i / map->n_tiles * map->elems + first;
        const uint64_t n = left < PST_TILE ? left : PST_TILE;
        const float *x = pst_tile_read(&x_tile, map->x, at, n);
        float *y = pst_tile_write(&y_tile, map->y, at);

        if (map->base == NULL) {
            (relu ? simd->relu : simd->gelu)(y, x, n);
        } else {
            const float *dy = pst_tile_read(&dy_tile, map->base, at, n);

            (relu ? simd->relu_back : simd->gelu_back)(y, dy, x, n);
        }
        pst_tile_done(&y_tile, map->y, at, n);
    }
}

static void act_forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = map_of(kernel, call);

    map.x = call->x[0];
    map.y = call->y[0];
    pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, act_tiles, &map);
}

static void act_backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct map map = map_of(kernel, call);

    map.x = map.request->op->act == PST_ACT_RELU ? call->y[0] : call->x[0];
    map.base = call->dy;
    map.y = request_operand(call->dx, 0);
    if (map.y != NULL) {
        pst_cpu_parallel(map.request->device, map.request->samples * map.n_tiles, act_tiles, &map);
    }
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
