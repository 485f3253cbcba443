/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows that slide over the pixels of an image: which input pixel an element of a window falls
 * on, and which windows see a pixel. Shared by host and CUDA code.
 */
#ifndef PST_COMMON_CONV_WINDOW_H
#define PST_COMMON_CONV_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"

/* [0] height, [1] width. */
struct pst_window {
    uint32_t in[2], out[2], kernel[2], stride[2], pad[2];
    uint32_t dilation[2]; /* at least 1; more: only the functions that take a tap heed it */
};

/* Input row or column under element k of the window of output o; false: padding. */
PST_HD bool pst_window_at(const struct pst_window *w, uint32_t axis, uint64_t o, uint64_t k,
                          uint64_t *ret_i)
{
    const uint64_t at = o * w->stride[axis] + k * w->dilation[axis];

    if (at < w->pad[axis] || at - w->pad[axis] >= w->in[axis]) {
        return false;
    }
    *ret_i = at - w->pad[axis];
    return true;
}

/* Pixel of the image under element `tap` of the window of pixel i of the results, which may be of
   any sample; false: padding. */
PST_HD bool pst_window_tap(const struct pst_window *w, uint64_t i, uint64_t tap,
                           uint64_t *ret_pixel)
{
    uint64_t y, x;

    if (!pst_window_at(w, 0, i / w->out[1] % w->out[0], tap / w->kernel[1], &y) ||
        !pst_window_at(w, 1, i % w->out[1], tap % w->kernel[1], &x)) {
        return false;
    }
    *ret_pixel = y * w->in[1] + x;
    return true;
}

/* The windows first ... end - 1 along an axis see input i; first >= end: none does. */
PST_HD uint64_t pst_window_first(const struct pst_window *w, uint32_t axis, uint64_t i)
{
    const uint64_t at = i + w->pad[axis], k = w->kernel[axis], s = w->stride[axis];

    return at < k ? 0 : (at - k) / s + 1;
}

PST_HD uint64_t pst_window_end(const struct pst_window *w, uint32_t axis, uint64_t i)
{
    const uint64_t end = (i + w->pad[axis]) / w->stride[axis] + 1;

    return end < w->out[axis] ? end : w->out[axis];
}

/* Elements of the window of output o along an axis that are no padding. */
PST_HD uint64_t pst_window_inside(const struct pst_window *w, uint32_t axis, uint64_t o)
{
    const uint64_t begin = o * w->stride[axis], end = begin + w->kernel[axis];
    const uint64_t low = begin > w->pad[axis] ? begin : w->pad[axis];
    const uint64_t last = (uint64_t)w->in[axis] + w->pad[axis], high = end < last ? end : last;

    return high > low ? high - low : 0;
}

#endif
