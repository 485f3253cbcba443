/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference kernels: the kernel object, the table of each operator, and the small
 * questions about shapes that kernels ask.
 */
#ifndef PST_DEVICE_CPU_REFERENCE_KERNEL_H
#define PST_DEVICE_CPU_REFERENCE_KERNEL_H

#include "exec/device.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

struct pst_reference {
    struct pst_kernel base; /* first */
    const struct pst_graph *graph;
    const struct pst_op *op;
    uint32_t pass, samples;
};

typedef void pst_reference_run(const struct pst_kernel *kernel, const struct pst_call *call);

struct pst_reference_family {
    pst_reference_run *run[3][3]; /* [f32, bf16, f64][pass]; NULL: nothing to do */
    /* Elements of the computing type that run() wants as workspace; NULL: none. */
    uint64_t (*workspace)(const struct pst_reference *reference);
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
    pst_reference_rmsnorm, pst_reference_avgpool2d, pst_reference_shift2d;

static inline const struct pst_reference *reference_of(const struct pst_kernel *kernel)
{
    return (const struct pst_reference *)(const void *)kernel;
}

static inline const struct pst_tensor *reference_in(const struct pst_reference *reference,
                                                    uint32_t i)
{
    return &reference->graph->tensors[reference->op->in[i]];
}

static inline const struct pst_tensor *reference_out(const struct pst_reference *reference)
{
    return &reference->graph->tensors[reference->op->out[0]];
}

/* Length of the last axis, and how many such rows the micro-batch has. */
static inline uint64_t reference_columns(const struct pst_tensor *tensor)
{
    return tensor->rank == 0 ? 1 : tensor->dims[tensor->rank - 1];
}

static inline uint64_t reference_rows(const struct pst_reference *reference,
                                      const struct pst_tensor *tensor)
{
    return reference->samples * (tensor->elems / reference_columns(tensor));
}

/* Operand i of an array that may be missing as a whole. */
static inline void *reference_operand(void *const *operands, uint32_t i)
{
    return operands == NULL ? NULL : operands[i];
}

/* Parameter i, NULL where the operator has none. */
static inline const void *reference_param(const struct pst_reference *reference,
                                          const struct pst_call *call, uint32_t i)
{
    const struct pst_op *op = reference->op;

    return i < op->n_param && op->param[i] != PST_NONE ? call->p[i] : NULL;
}

/* Where the gradient of parameter i goes, NULL where nobody wants it. Of the computing type. */
static inline void *reference_dp(const struct pst_reference *reference, const struct pst_call *call,
                                 uint32_t i)
{
    const struct pst_op *op = reference->op;

    return i < op->n_param && op->param[i] != PST_NONE ? (void *)call->dp[i] : NULL;
}

static inline uint64_t reference_param_elems(const struct pst_reference *reference, uint32_t i)
{
    return reference->graph->params[reference->op->param[i]].elems;
}

/* Does dropout keep element e of row `sample` of the micro-batch? */
static inline bool reference_keeps(const struct pst_reference *reference,
                                   const struct pst_call *call, uint64_t sample, uint64_t e)
{
    const struct pst_op *op = reference->op;
    uint64_t stream = pst_dropout_stream(op->salt, call->first_sample + sample);
    uint32_t word = pst_philox(call->seed, stream, e / 4).v[e % 4];

    return word >= (uint32_t)(op->p * 4294967296.0f);
}

#endif
