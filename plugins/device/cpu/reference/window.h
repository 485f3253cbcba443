/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding windows over [H,W,C] images: which input pixel a window's element falls on.
 */
#ifndef PST_DEVICE_CPU_REFERENCE_WINDOW_H
#define PST_DEVICE_CPU_REFERENCE_WINDOW_H

#include "kernel.h"

struct window_shape {
    uint64_t samples, in_height, in_width, in_channels, out_height, out_width, out_channels;
    const struct pst_op *op;
};

static inline struct window_shape window_shape(const struct pst_reference *reference)
{
    const struct pst_tensor *x = reference_in(reference, 0), *y = reference_out(reference);
    struct window_shape shape;

    shape.samples = reference->samples;
    shape.in_height = x->dims[0];
    shape.in_width = x->dims[1];
    shape.in_channels = x->dims[2];
    shape.out_height = y->dims[0];
    shape.out_width = y->dims[1];
    shape.out_channels = y->dims[2];
    shape.op = reference->op;
    return shape;
}

/*
 * Input pixel (index into [H,W] of the sample) under element (ky, kx) of the window of output pixel
 * (oy, ox). False where that is padding.
 */
static inline bool window_pixel(const struct window_shape *shape, uint64_t oy, uint64_t ox,
                                uint64_t ky, uint64_t kx, uint64_t *ret_pixel)
{
    const uint64_t y = oy * shape->op->stride[0] + ky, x = ox * shape->op->stride[1] + kx;

    if (y < shape->op->pad[0] || y - shape->op->pad[0] >= shape->in_height ||
        x < shape->op->pad[1] || x - shape->op->pad[1] >= shape->in_width) {
        return false;
    }
    *ret_pixel = (y - shape->op->pad[0]) * shape->in_width + x - shape->op->pad[1];
    return true;
}

static inline uint64_t window_taps(const struct window_shape *shape)
{
    return (uint64_t)shape->op->kernel[0] * shape->op->kernel[1];
}

/* As window_pixel, for element `tap` of the window of output pixel i of the micro-batch. */
static inline bool window_tap(const struct window_shape *shape, uint64_t i, uint64_t tap,
                              uint64_t *ret_pixel)
{
    return window_pixel(shape, i / shape->out_width % shape->out_height, i % shape->out_width,
                        tap / shape->op->kernel[1], tap % shape->op->kernel[1], ret_pixel);
}

/* Elements of that window that are no padding. */
static inline uint64_t window_counted(const struct window_shape *shape, uint64_t i)
{
    uint64_t tap, pixel, counted = 0;

    for (tap = 0; tap < window_taps(shape); tap++) {
        counted += window_tap(shape, i, tap, &pixel);
    }
    return counted;
}

#endif
