/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of a few tokens that follow those seen before, forward (pst_graph_decode). Keys and
 * values of all tokens are in the state; keys transposed, so that scores are sums of whole rows.
 * The new ones are put there first. Items are pairs of a token and a head of keys. Tokens beyond
 * the last position are nobody's: they leave zeros.
 */
#include <math.h>
#include <string.h>

#include "cpu.h"

struct cached {
    const struct pst_op_request *request;
    const struct pst_call *call;
    struct pst_heads shape;
    uint64_t first, positions; /* of the first token; of a text */
};

static bool serves(const struct pst_op_request *request)
{
    (void)request;
    return true;
}

static uint64_t padded(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Floats of a thread: scores, then a query and a result. */
static uint64_t thread_floats(const struct pst_op_request *request)
{
    return padded(request_positions(request)) + 2 * padded(request_heads(request).depth);
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return request->device->threads * thread_floats(request) * sizeof(float);
}

static void load(const struct cached *c, float *dst, uint64_t at)
{
    if (c->request->dtype == PST_F32) {
        memcpy(dst, (const float *)c->call->x[0] + at, c->shape.depth * sizeof *dst);
    } else {
        c->request->device->simd->widen(dst, (const uint16_t *)c->call->x[0] + at, c->shape.depth);
    }
}

static void store(const struct cached *c, uint64_t at, const float *src)
{
    if (c->request->dtype == PST_F32) {
        memcpy((float *)c->call->y[0] + at, src, c->shape.depth * sizeof *src);
    } else {
        c->request->device->simd->narrow((uint16_t *)c->call->y[0] + at, src, c->shape.depth);
    }
}

static float *keys_of(const struct cached *c, uint64_t kv_head)
{
    return c->call->state[0] + kv_head * 2 * c->positions * c->shape.depth;
}

static float *values_of(const struct cached *c, uint64_t kv_head)
{
    return keys_of(c, kv_head) + c->positions * c->shape.depth;
}

/* Keys and values of token r, at its position. */
static void keep(const struct cached *c, uint64_t r, uint64_t kv_head, float *buffer)
{
    const uint64_t depth = c->shape.depth, position = c->first + r;
    const uint64_t row = r * c->shape.kv_stride + kv_head * depth;
    float *keys = keys_of(c, kv_head);

    load(c, buffer, row + c->shape.k_at);
    for (uint64_t i = 0; i < depth; i++) {
        keys[i * c->positions + position] = buffer[i];
    }
    load(c, values_of(c, kv_head) + position * depth, row + c->shape.v_at);
}

/* y = softmax(scale q k^T) v over keys begin ... end - 1. */
static void attend(const struct cached *c, uint64_t kv_head, uint64_t begin, uint64_t end,
                   float *scores, const float *q, float *y)
{
    const uint64_t depth = c->shape.depth, n = end - begin, filled = padded(n);
    float sum, shift;

    memset(scores, 0, n * sizeof *scores);
    for (uint64_t i = 0; i < depth; i++) {
        const float *keys = keys_of(c, kv_head) + i * c->positions + begin;

        for (uint64_t j = 0; j < n; j++) {
            scores[j] += q[i] * keys[j];
        }
    }
    for (uint64_t j = n; j < filled; j++) {
        scores[j] = -INFINITY;
    }
    sum = c->request->device->simd->exp_row(scores, request_scale(&c->shape), filled, &shift);
    memset(y, 0, depth * sizeof *y);
    for (uint64_t j = 0; j < n; j++) {
        const float *values = values_of(c, kv_head) + (begin + j) * depth;

        for (uint64_t i = 0; i < depth; i++) {
            y[i] += scores[j] * values[i];
        }
    }
    for (uint64_t i = 0; i < depth; i++) {
        y[i] /= sum;
    }
}

static void attend_all(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct cached *c = context;
    const struct pst_heads *shape = &c->shape;
    float *scores = (float *)c->call->workspace + thread * thread_floats(c->request);
    float *q = scores + padded(c->positions), *y = q + padded(shape->depth);

    for (uint64_t item = begin; item < end; item++) {
        const uint64_t r = item / shape->kv_heads, kv_head = item % shape->kv_heads;
        const uint64_t seen = c->first + r + 1;
        const uint64_t from = shape->window > 0 && seen > shape->window ? seen - shape->window : 0;

        for (uint64_t g = 0; g < shape->group; g++) {
            const uint64_t column = (kv_head * shape->group + g) * shape->depth;

            if (seen > c->positions) {
                memset(y, 0, shape->depth * sizeof *y);
            } else {
                load(c, q, r * shape->q_stride + column);
                attend(c, kv_head, from, seen, scores, q, y);
            }
            store(c, r * shape->columns + column, y);
        }
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct cached c = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};
    uint64_t n;

    c.shape = request_heads(c.request);
    c.positions = request_positions(c.request);
    c.first =
        request_row_position(c.request, call, request_in(c.request, 0)->dims[0], c.positions, 0);
    n = c.request->samples * c.shape.rows;
    for (uint64_t r = 0; r < n && c.first + r < c.positions; r++) {
        for (uint64_t head = 0; head < c.shape.kv_heads; head++) {
            keep(&c, r, head, call->workspace);
        }
    }
    pst_cpu_parallel(c.request->device, n * c.shape.kv_heads, attend_all, &c);
}

const struct pst_cpu_family pst_cpu_cached = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, NULL, NULL},
};
