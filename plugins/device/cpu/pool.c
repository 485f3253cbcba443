/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of f32 images, tap by tap over rows of channels. The first maximum of a window wins, NaN
 * beats numbers, padding never wins. Means are over the pixels that are no padding.
 */
#include "cpu.h"

#include <string.h>

struct pool {
    const struct pst_op_request *request;
    const struct pst_call *call;
    struct pst_window w;
    uint64_t channels, in, pixels; /* of a sample: elements of x, pixels of y */
    uint32_t taps;
};

static bool serves(const struct pst_op_request *request)
{
    return request->dtype == PST_F32 && request_is_plain_window(request);
}

static struct pool pool_of(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct pool pool = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    pool.w = request_window(pool.request);
    pool.channels = request_columns(request_out(pool.request));
    pool.in = request_in(pool.request, 0)->elems;
    pool.pixels = (uint64_t)pool.w.out[0] * pool.w.out[1];
    pool.taps = pool.w.kernel[0] * pool.w.kernel[1];
    return pool;
}

/* Element (of the sample) that tap k of the window at (oy, ox) falls on; false: on padding. */
static bool tap_at(const struct pool *pool, uint64_t oy, uint64_t ox, uint32_t tap,
                   uint64_t *ret_at)
{
    const struct pst_window *w = &pool->w;
    uint64_t y, x;

    if (!pst_window_at(w, 0, oy, tap / w->kernel[1], &y) ||
        !pst_window_at(w, 1, ox, tap % w->kernel[1], &x)) {
        return false;
    }
    *ret_at = (y * w->in[1] + x) * pool->channels;
    return true;
}

/* A row of results. A window that sees only padding gives -infinity and no index. */
static void forward_pixel(const struct pool *pool, const float *x, uint64_t oy, uint64_t ox,
                          float *y, int32_t *index)
{
    bool any = false;
    uint64_t at;

    for (uint32_t tap = 0; tap < pool->taps; tap++) {
        if (!tap_at(pool, oy, ox, tap, &at)) {
            continue;
        }
        if (any) {
            pool->request->device->simd->max_tap(y, index, x + at, (int32_t)tap, pool->channels);
            continue;
        }
        any = true;
        memcpy(y, x + at, pool->channels * sizeof *y);
        for (uint64_t c = 0; c < pool->channels; c++) {
            index[c] = (int32_t)tap;
        }
    }
    for (uint64_t c = 0; !any && c < pool->channels; c++) {
        y[c] = -__builtin_inff();
        index[c] = -1;
    }
}

/* Where nobody wants the indices they go to the workspace, a row per thread. */
static uint64_t workspace(const struct pst_op_request *request)
{
    return request->pass == PST_KERNEL_F
               ? request->device->threads * request_columns(request_out(request)) * sizeof(int32_t)
               : 0;
}

static void forward_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct pool *pool = context;
    const uint64_t out = pool->pixels * pool->channels;

    for (uint64_t sample = begin; sample < end; sample++) {
        const float *x = (const float *)pool->call->x[0] + sample * pool->in;

        for (uint64_t pixel = 0; pixel < pool->pixels; pixel++) {
            const uint64_t at = sample * out + pixel * pool->channels;
            int32_t *index = pool->call->y[1] == NULL
                                 ? (int32_t *)pool->call->workspace + thread * pool->channels
                                 : (int32_t *)pool->call->y[1] + at;

            forward_pixel(pool, x, pixel / pool->w.out[1], pixel % pool->w.out[1],
                          (float *)pool->call->y[0] + at, index);
        }
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct pool pool = pool_of(kernel, call);

    pst_cpu_parallel(pool.request->device, pool.request->samples, forward_samples, &pool);
}

static void backward_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct pool *pool = context;
    const uint64_t n = pool->channels, pixels = pool->pixels;
    uint64_t at;

    (void)thread;
    for (uint64_t sample = begin; sample < end; sample++) {
        float *dx = (float *)pool->call->dx[0] + sample * pool->in;

        memset(dx, 0, pool->in * sizeof *dx);
        for (uint64_t pixel = 0; pixel < pixels; pixel++) {
            const float *dy = (const float *)pool->call->dy + (sample * pixels + pixel) * n;
            const int32_t *index =
                (const int32_t *)pool->call->y[1] + (sample * pixels + pixel) * n;

            for (uint32_t tap = 0; tap < pool->taps; tap++) {
                if (tap_at(pool, pixel / pool->w.out[1], pixel % pool->w.out[1], tap, &at)) {
                    pool->request->device->simd->back_tap(dx + at, dy, index, (int32_t)tap, n);
                }
            }
        }
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct pool pool = pool_of(kernel, call);

    if (request_operand(call->dx, 0) != NULL) {
        pst_cpu_parallel(pool.request->device, pool.request->samples, backward_samples, &pool);
    }
}

const struct pst_cpu_family pst_cpu_maxpool2d = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, NULL},
};

/* --- means ------------------------------------------------------------------------------------ */

/* The part of a window that falls on the image: rows and columns from begin to end. */
struct window {
    uint64_t y_begin, y_end, x_begin, x_end;
};

static void clip(uint64_t at, uint64_t kernel, uint64_t pad, uint64_t size, uint64_t *ret_begin,
                 uint64_t *ret_end)
{
    *ret_begin = at > pad ? at - pad : 0;
    *ret_end = at + kernel > pad ? at + kernel - pad : 0;
    *ret_end = *ret_end < size ? *ret_end : size;
    *ret_begin = *ret_begin < *ret_end ? *ret_begin : *ret_end;
}

static struct window window_at(const struct pool *pool, uint64_t pixel)
{
    const struct pst_window *w = &pool->w;
    struct window window;

    clip(pixel / w->out[1] * w->stride[0], w->kernel[0], w->pad[0], w->in[0], &window.y_begin,
         &window.y_end);
    clip(pixel % w->out[1] * w->stride[1], w->kernel[1], w->pad[1], w->in[1], &window.x_begin,
         &window.x_end);
    return window;
}

/* Backward: a row of the gradient's share, per thread. */
static uint64_t mean_workspace(const struct pst_op_request *request)
{
    return request->pass == PST_KERNEL_B
               ? request->device->threads * request_columns(request_out(request)) * sizeof(float)
               : 0;
}

/* Adds up the window: pixels of x into y, or y to each pixel of dx. */
static void add_window(const struct pool *pool, const struct window *window, float *y,
                       const float *x, float *dx)
{
    const struct pst_simd *simd = pool->request->device->simd;
    const uint64_t n = pool->channels, width = window->x_end - window->x_begin;

    for (uint64_t row = window->y_begin; row < window->y_end; row++) {
        const uint64_t at = (row * pool->w.in[1] + window->x_begin) * n;

        if (x != NULL) {
            simd->column_sums(y, x + at, width, n, n);
            continue;
        }
        for (uint64_t i = 0; i < width; i++) {
            simd->add(dx + at + i * n, dx + at + i * n, y, n);
        }
    }
}

static void mean_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct pool *pool = context;
    const struct pst_simd *simd = pool->request->device->simd;
    const uint64_t n = pool->channels, pixels = pool->pixels;
    const bool back = pool->request->pass == PST_KERNEL_B;
    float *share = back ? (float *)pool->call->workspace + thread * n : NULL;

    for (uint64_t i = begin * pixels; i < end * pixels; i++) {
        const uint64_t pixel = i % pixels, sample = i / pixels;
        const struct window window = window_at(pool, pixel);
        const uint64_t count = (window.y_end - window.y_begin) * (window.x_end - window.x_begin);

        if (back) {
            float *dx = (float *)pool->call->dx[0] + sample * pool->in;

            if (pixel == 0) {
                memset(dx, 0, pool->in * sizeof *dx);
            }
            simd->scale(share, (const float *)pool->call->dy + i * n, 1.0f / (float)count, n);
            add_window(pool, &window, share, NULL, dx);
        } else {
            float *y = (float *)pool->call->y[0] + i * n;

            memset(y, 0, n * sizeof *y);
            add_window(pool, &window, y, (const float *)pool->call->x[0] + sample * pool->in, NULL);
            if (count > 0) {
                simd->scale(y, y, 1.0f / (float)count, n);
            }
        }
    }
}

static void mean(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct pool pool = pool_of(kernel, call);

    if (pool.request->pass == PST_KERNEL_F || request_operand(call->dx, 0) != NULL) {
        pst_cpu_parallel(pool.request->device, pool.request->samples, mean_samples, &pool);
    }
}

const struct pst_cpu_family pst_cpu_avgpool2d = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = mean_workspace,
    .run = {mean, mean, NULL},
};
