/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over images, NHWC. A thread has an element of the result and reads what it needs, in
 * backward passes from the windows that saw its pixel, in ascending order: nothing is scattered.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

/* An element of a batch of images. */
struct spot {
    uint64_t sample, y, x, c;
};

__device__ static struct spot spot_of(uint64_t i, const uint32_t size[2], uint64_t channels)
{
    struct spot s;

    s.c = i % channels;
    s.x = i / channels % size[1];
    s.y = i / channels / size[1] % size[0];
    s.sample = i / channels / size[1] / size[0];
    return s;
}

__device__ static uint64_t spot_at(uint64_t sample, uint64_t y, uint64_t x, uint64_t c,
                                   const uint32_t size[2], uint64_t channels)
{
    return ((sample * size[0] + y) * size[1] + x) * channels + c;
}

static uint64_t elems_of(const uint32_t size[2], uint64_t samples, uint64_t channels)
{
    return samples * size[0] * size[1] * channels;
}

/* The first maximum; padding never wins, NaN does. */
template <class S>
__global__ void maxpool_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *y,
                               int32_t *index, const S *x)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.out, channels);
        float most = -CUDART_INF_F;
        int32_t best = -1;
        uint64_t iy, ix;

        for (uint64_t ky = 0; ky < w.kernel[0]; ky++) {
            for (uint64_t kx = 0; kx < w.kernel[1]; kx++) {
                float value;

                if (!pst_window_at(&w, 0, s.y, ky, &iy) || !pst_window_at(&w, 1, s.x, kx, &ix)) {
                    continue;
                }
                value = pst_load(x[spot_at(s.sample, iy, ix, s.c, w.in, channels)]);
                if (best < 0 || value > most || value != value) {
                    most = value;
                    best = (int32_t)(ky * w.kernel[1] + kx);
                }
            }
        }
        pst_store(&y[i], most);
        if (index != NULL) {
            index[i] = best;
        }
    }
}

template <class S>
__global__ void maxpool_back_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *dx,
                                    const S *dy, const int32_t *index)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.in, channels);
        const uint64_t end_y = pst_window_end(&w, 0, s.y), end_x = pst_window_end(&w, 1, s.x);
        float sum = 0;

        for (uint64_t oy = pst_window_first(&w, 0, s.y); oy < end_y; oy++) {
            for (uint64_t ox = pst_window_first(&w, 1, s.x); ox < end_x; ox++) {
                const uint64_t at = spot_at(s.sample, oy, ox, s.c, w.out, channels);
                const uint64_t ky = s.y + w.pad[0] - oy * w.stride[0];
                const uint64_t kx = s.x + w.pad[1] - ox * w.stride[1];

                if (index[at] == (int32_t)(ky * w.kernel[1] + kx)) {
                    sum += pst_load(dy[at]);
                }
            }
        }
        pst_store(&dx[i], sum);
    }
}

template <class S>
__global__ void avgpool2d_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *y,
                                 const S *x)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.out, channels);
        const uint64_t counted = pst_window_inside(&w, 0, s.y) * pst_window_inside(&w, 1, s.x);
        float sum = 0;
        uint64_t iy, ix;

        for (uint64_t ky = 0; ky < w.kernel[0]; ky++) {
            for (uint64_t kx = 0; kx < w.kernel[1]; kx++) {
                if (pst_window_at(&w, 0, s.y, ky, &iy) && pst_window_at(&w, 1, s.x, kx, &ix)) {
                    sum += pst_load(x[spot_at(s.sample, iy, ix, s.c, w.in, channels)]);
                }
            }
        }
        pst_store(&y[i], counted == 0 ? 0 : sum / (float)counted);
    }
}

template <class S>
__global__ void avgpool2d_back_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *dx,
                                      const S *dy)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.in, channels);
        const uint64_t end_y = pst_window_end(&w, 0, s.y), end_x = pst_window_end(&w, 1, s.x);
        float sum = 0;

        for (uint64_t oy = pst_window_first(&w, 0, s.y); oy < end_y; oy++) {
            for (uint64_t ox = pst_window_first(&w, 1, s.x); ox < end_x; ox++) {
                const uint64_t counted =
                    pst_window_inside(&w, 0, oy) * pst_window_inside(&w, 1, ox);

                sum += 1 / (float)counted *
                       pst_load(dy[spot_at(s.sample, oy, ox, s.c, w.out, channels)]);
            }
        }
        pst_store(&dx[i], sum);
    }
}

template <class S>
__global__ void mean_kernel(uint64_t n, uint64_t pixels, uint64_t channels, S *y, const S *x)
{
    PST_EACH(i, n)
    {
        double sum = 0;

        for (uint64_t p = 0; p < pixels; p++) {
            sum += (double)pst_load(x[(i / channels * pixels + p) * channels + i % channels]);
        }
        pst_store(&y[i], (float)(sum / (double)pixels));
    }
}

template <class S>
__global__ void mean_back_kernel(uint64_t n, uint64_t pixels, uint64_t channels, S *dx, const S *dy)
{
    PST_EACH(i, n)
    {
        pst_store(&dx[i],
                  pst_load(dy[i / channels / pixels * channels + i % channels]) / (float)pixels);
    }
}

template <class S>
__global__ void shift_kernel(struct pst_window w, uint64_t n, uint64_t channels, bool back, S *y,
                             const S *x)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.in, channels);
        const uint64_t down = w.pad[0], right = w.pad[1];
        float value = 0;

        if (back ? s.y >= down && s.x >= right : s.y + down < w.in[0] && s.x + right < w.in[1]) {
            value = pst_load(x[spot_at(s.sample, back ? s.y - down : s.y + down,
                                       back ? s.x - right : s.x + right, s.c, w.in, channels)]);
        }
        pst_store(&y[i], value);
    }
}

template <class S>
__global__ void im2col_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *col,
                              const S *x)
{
    PST_EACH(i, n)
    {
        const uint64_t c = i % channels, tap = i / channels % (w.kernel[0] * w.kernel[1]);
        const uint64_t pixel = i / channels / (w.kernel[0] * w.kernel[1]);
        uint64_t iy, ix;
        float value = 0;

        if (pst_window_at(&w, 0, pixel / w.out[1], tap / w.kernel[1], &iy) &&
            pst_window_at(&w, 1, pixel % w.out[1], tap % w.kernel[1], &ix)) {
            value = pst_load(x[spot_at(0, iy, ix, c, w.in, channels)]);
        }
        pst_store(&col[i], value);
    }
}

template <class S>
__global__ void col2im_kernel(struct pst_window w, uint64_t n, uint64_t channels, S *dx,
                              const float *dcol)
{
    PST_EACH(i, n)
    {
        const struct spot s = spot_of(i, w.in, channels);
        const uint64_t end_y = pst_window_end(&w, 0, s.y), end_x = pst_window_end(&w, 1, s.x);
        float sum = 0;

        for (uint64_t oy = pst_window_first(&w, 0, s.y); oy < end_y; oy++) {
            for (uint64_t ox = pst_window_first(&w, 1, s.x); ox < end_x; ox++) {
                const uint64_t ky = s.y + w.pad[0] - oy * w.stride[0];
                const uint64_t kx = s.x + w.pad[1] - ox * w.stride[1];

                sum += dcol[((oy * w.out[1] + ox) * w.kernel[0] * w.kernel[1] + ky * w.kernel[1] +
                             kx) *
                                channels +
                            s.c];
            }
        }
        pst_store(&dx[i], sum);
    }
}

void pst_cuda_im2col(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *col, const void *x)
{
    const uint64_t n = elems_of(w->out, 1, channels) * w->kernel[0] * w->kernel[1];

    PST_TYPED(bf16, PST_LAUNCH(im2col_kernel<S>, pst_blocks(n), stream, *w, n, channels, (S *)col,
                               (const S *)x));
}

void pst_cuda_col2im(cudaStream_t stream, bool bf16, const struct pst_window *w, uint64_t channels,
                     void *dx, const float *dcol)
{
    const uint64_t n = elems_of(w->in, 1, channels);

    PST_TYPED(bf16,
              PST_LAUNCH(col2im_kernel<S>, pst_blocks(n), stream, *w, n, channels, (S *)dx, dcol));
}

/* --- families ----------------------------------------------------------------------------------*/

/* Images of x and y; elements of the micro-batch. */
struct images {
    struct pst_window w;
    uint64_t channels, in, out;
    bool bf16;
    cudaStream_t stream;
};

static struct images images_of(const struct pst_op_request *r)
{
    struct images m;

    m.w = request_window(r);
    m.channels = request_columns(request_in(r, 0));
    m.in = elems_of(m.w.in, r->samples, m.channels);
    m.out = elems_of(m.w.out, r->samples, m.channels);
    m.bf16 = pst_cuda_bf16(r);
    m.stream = pst_cuda_stream(r);
    return m;
}

PST_CUDA_RUN(maxpool_f)
{
    const struct images m = images_of(&k->request);

    PST_TYPED(m.bf16, PST_LAUNCH(maxpool_kernel<S>, pst_blocks(m.out), m.stream, m.w, m.out,
                                 m.channels, (S *)call->y[0], (int32_t *)call->y[1],
                                 (const S *)call->x[0]));
}

PST_CUDA_RUN(maxpool_b)
{
    const struct images m = images_of(&k->request);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(m.bf16, PST_LAUNCH(maxpool_back_kernel<S>, pst_blocks(m.in), m.stream, m.w, m.in,
                                     m.channels, (S *)dx, (const S *)call->dy,
                                     (const int32_t *)call->y[1]));
    }
}

PST_CUDA_RUN(avgpool2d_f)
{
    const struct images m = images_of(&k->request);

    PST_TYPED(m.bf16, PST_LAUNCH(avgpool2d_kernel<S>, pst_blocks(m.out), m.stream, m.w, m.out,
                                 m.channels, (S *)call->y[0], (const S *)call->x[0]));
}

PST_CUDA_RUN(avgpool2d_b)
{
    const struct images m = images_of(&k->request);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(m.bf16, PST_LAUNCH(avgpool2d_back_kernel<S>, pst_blocks(m.in), m.stream, m.w,
                                     m.in, m.channels, (S *)dx, (const S *)call->dy));
    }
}

/* Mean over all pixels of a sample. */
PST_CUDA_RUN(avgpool_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t channels = request_columns(request_out(r)), n = r->samples * channels;

    PST_TYPED(pst_cuda_bf16(r), PST_LAUNCH(mean_kernel<S>, pst_blocks(n), pst_cuda_stream(r), n,
                                           request_in(r, 0)->elems / channels, channels,
                                           (S *)call->y[0], (const S *)call->x[0]));
}

PST_CUDA_RUN(avgpool_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t channels = request_columns(request_out(r));
    const uint64_t elems = request_in(r, 0)->elems, n = r->samples * elems;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(mean_back_kernel<S>, pst_blocks(n), pst_cuda_stream(r), n,
                             elems / channels, channels, (S *)dx, (const S *)call->dy));
    }
}

/* y[h,w] = x[h + pad[0], w + pad[1]], 0 beyond the image; back: the other way round. */
static void shift(const struct pst_op_request *r, bool back, void *y, const void *x)
{
    const struct images m = images_of(r);

    if (y != NULL) {
        PST_TYPED(m.bf16, PST_LAUNCH(shift_kernel<S>, pst_blocks(m.in), m.stream, m.w, m.in,
                                     m.channels, back, (S *)y, (const S *)x));
    }
}

PST_CUDA_RUN(shift_f)
{
    shift(&k->request, false, call->y[0], call->x[0]);
}

PST_CUDA_RUN(shift_b)
{
    shift(&k->request, true, request_operand(call->dx, 0), call->dy);
}

const struct pst_cuda_family pst_cuda_maxpool2d_family = {NULL, NULL, NULL, NULL,
                                                          {maxpool_f, maxpool_b, NULL}};
const struct pst_cuda_family pst_cuda_avgpool2d_family = {NULL, NULL, NULL, NULL,
                                                          {avgpool2d_f, avgpool2d_b, NULL}};
const struct pst_cuda_family pst_cuda_avgpool_family = {NULL, NULL, NULL, NULL,
                                                        {avgpool_f, avgpool_b, NULL}};
const struct pst_cuda_family pst_cuda_shift2d_family = {NULL, NULL, NULL, NULL,
                                                        {shift_f, shift_b, NULL}};
