/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference kernels: the kernel object and the table of each operator.
 */
#ifndef PST_DEVICE_CPU_REFERENCE_KERNEL_H
#define PST_DEVICE_CPU_REFERENCE_KERNEL_H

#include "exec/request.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

struct pst_reference {
    struct pst_kernel base; /* first */
    struct pst_op_request request;
};

typedef void pst_reference_run(const struct pst_kernel *kernel, const struct pst_call *call);

struct pst_reference_family {
    pst_reference_run *run[3][3]; /* [f32, bf16, f64][pass]; NULL: nothing to do */
    /* Elements of the computing type that run() wants as workspace; NULL: none. */
    uint64_t (*workspace)(const struct pst_op_request *request);
};

#define PST_REFERENCE_F_B_W(name)                                                                  \
    {                                                                                              \
        {name##_f_f32, name##_b_f32, name##_w_f32}, {name##_f_bf16, name##_b_bf16, name##_w_bf16}, \
            {name##_f_f64, name##_b_f64, name##_w_f64},                                            \
    }
#define PST_REFERENCE_F_B(name)                                                                    \
    {                                                                                              \
        {name##_f_f32, name##_b_f32, NULL}, {name##_f_bf16, name##_b_bf16, NULL},                  \
            {name##_f_f64, name##_b_f64, NULL},                                                    \
    }
#define PST_REFERENCE_F_W(name)                                                                    \
    {                                                                                              \
        {name##_f_f32, NULL, name##_w_f32}, {name##_f_bf16, NULL, name##_w_bf16},                  \
            {name##_f_f64, NULL, name##_w_f64},                                                    \
    }

extern const struct pst_reference_family pst_reference_embedding, pst_reference_linear,
    pst_reference_layernorm, pst_reference_attention, pst_reference_add, pst_reference_dropout,
    pst_reference_act, pst_reference_cross_entropy, pst_reference_conv2d, pst_reference_batchnorm,
    pst_reference_maxpool2d, pst_reference_avgpool, pst_reference_concat, pst_reference_mse,
    pst_reference_avgpool2d, pst_reference_shift2d;

static inline const struct pst_op_request *reference_of(const struct pst_kernel *kernel)
{
    return &((const struct pst_reference *)(const void *)kernel)->request;
}

/* Images that windows slide over; pixels and channels of a sample. */
struct window_shape {
    struct pst_window w;
    uint64_t samples, in_pixels, in_channels, out_pixels, out_channels, taps;
};

static inline struct window_shape window_shape(const struct pst_op_request *request)
{
    struct window_shape shape = {.w = request_window(request), .samples = request->samples};

    shape.in_channels = request_columns(request_in(request, 0));
    shape.out_channels = request_columns(request_out(request));
    shape.in_pixels = (uint64_t)shape.w.in[0] * shape.w.in[1];
    shape.out_pixels = (uint64_t)shape.w.out[0] * shape.w.out[1];
    shape.taps = (uint64_t)shape.w.kernel[0] * shape.w.kernel[1];
    return shape;
}

/* Does dropout keep element e of row `sample` of the micro-batch? */
static inline bool reference_keeps(const struct pst_op_request *request,
                                   const struct pst_call *call, uint64_t sample, uint64_t e)
{
    const struct pst_op *op = request->op;
    uint64_t stream = pst_dropout_stream(op->salt, call->first_sample + sample);
    uint32_t word = pst_philox(call->seed, stream, e / 4).v[e % 4];

    return word >= (uint32_t)(op->p * 4294967296.0f);
}

#endif
