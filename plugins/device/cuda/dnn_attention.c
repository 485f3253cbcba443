/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as one kernel: scores never reach memory, so that memory grows with the length and not
 * with its square. In bf16, without a bias by distance. Forward leaves the same tensors for
 * backward as the simple kernels.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "attention.h"
#include "dnn.h"

/* The most workspace for slopes of scores. Each launch ends with idle multiprocessors, so few large
   ones are faster than many: on an H200 16 samples of GPT-2 take 0.32 ms at once, 0.44 in fours. */
#ifndef PST_CUDA_SLOPE_BYTES
#define PST_CUDA_SLOPE_BYTES ((uint64_t)512 << 20)
#endif

struct fused {
    struct pst_dnn_plan *plan;
    struct pst_dnn_attention shape; /* of a piece */
    uint64_t pieces;
};

/* Statistics of so many samples end where the next tensor may begin: at a multiple of 16 bytes. */
static bool is_even(const struct pst_heads *a, uint64_t samples)
{
    return samples * a->heads * a->rows * sizeof(float) % 16 == 0;
}

/* Ordered gradients take workspace for the slopes of all scores: as many samples at a time as it
   has room for, all pieces alike. */
static uint64_t piece_samples(const struct pst_op_request *r, const struct pst_heads *a,
                              bool ordered)
{
    const uint64_t slopes = pst_sat_mul(pst_sat_mul(2 * a->heads, a->rows), a->keys);
    uint64_t piece = r->samples;

    if (r->pass == PST_KERNEL_F || !ordered) {
        return piece;
    }
    for (uint64_t n = piece; n > 0 && pst_sat_mul(piece, slopes) > PST_CUDA_SLOPE_BYTES; n--) {
        piece = r->samples % n == 0 && is_even(a, n) ? n : piece;
    }
    return piece;
}

/* Gradients of all inputs, or of none. */
static bool all_wanted(const struct pst_op_request *r)
{
    bool all = true;

    for (uint32_t i = 0; i < r->op->n_in; i++) {
        all = all && request_in(r, i)->needs_grad;
    }
    return all;
}

/* false: not for cuDNN. */
static bool fuse(const struct pst_op_request *r, struct fused *ret_fused)
{
    const struct pst_heads a = request_heads(r);
    const bool ordered = r->device->choices.ordered;
    struct pst_dnn_graph graph;

    if (!pst_cuda_bf16(r) || a.n_buckets > 0 || request_slices(r) > 1 || a.depth % 8 != 0 ||
        r->pass > PST_KERNEL_B || (r->op->causal && a.rows != a.keys) ||
        (r->pass == PST_KERNEL_B && !all_wanted(r))) {
        return false;
    }
    ret_fused->shape = (struct pst_dnn_attention){
        .batch = piece_samples(r, &a, ordered),
        .heads = a.heads,
        .kv_heads = a.kv_heads,
        .window = a.window < a.keys ? a.window : 0,
        .rows = a.rows,
        .keys = a.keys,
        .depth = a.depth,
        .q_stride = a.q_stride,
        .kv_stride = a.kv_stride,
        .o_stride = a.columns,
        .scale = request_scale(&a),
        .causal = r->op->causal,
        .ordered = ordered,
    };
    ret_fused->pieces = r->samples / ret_fused->shape.batch;
    if (r->pass == PST_KERNEL_F) {
        pst_dnn_attention_forward(&ret_fused->shape, &graph);
    } else {
        pst_dnn_attention_backward(&ret_fused->shape, &graph);
    }
    ret_fused->plan = pst_cuda_dnn_propose(r->device, &graph);
    return ret_fused->plan != NULL;
}

static bool serves(const struct pst_op_request *r)
{
    struct fused f;

    return fuse(r, &f);
}

/* The library's own, then scratch: statistics where nobody keeps them; of gradients. */
static void *carve(const struct pst_op_request *r, const struct fused *f, void *base,
                   void *operands[PST_DNN_ROLES], uint64_t *ret_bytes)
{
    const struct pst_dnn_attention *s = &f->shape;
    const uint64_t rows = s->batch * s->heads * s->rows;
    uint64_t used = 0;
    void *library = pst_cuda_carve(base, &used, pst_dnn_plan_bytes(f->plan));

    if (r->pass == PST_KERNEL_F) {
        operands[PST_DNN_STATS] = pst_cuda_carve(base, &used, rows * sizeof(float));
    } else {
        operands[PST_DNN_DELTA] = pst_cuda_carve(base, &used, rows * sizeof(float));
    }
    if (r->pass == PST_KERNEL_B && !s->ordered) {
        operands[PST_DNN_DQ_SUM] = pst_cuda_carve(base, &used, rows * s->depth * sizeof(float));
    }
    *ret_bytes = used;
    return library;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    void *operands[PST_DNN_ROLES];
    struct fused f;
    uint64_t bytes = 0;

    if (fuse(r, &f)) {
        carve(r, &f, NULL, operands, &bytes);
    }
    return bytes;
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    struct fused *f = pst_alloc(1, sizeof *f);

    k->state = f;
    if (!fuse(&k->request, f)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda, %s: cuDNN does not support it any more", k->request.op->name);
    }
    return pst_cuda_dnn_compile(k->request.device, f->plan, k->request.op->name, err);
}

static void finish(struct pst_cuda_kernel *k)
{
    free(k->state);
}

static void inputs_of(const struct pst_op_request *r, const struct pst_heads *a,
                      const struct pst_call *call, uint64_t sample, void *operands[PST_DNN_ROLES])
{
    char *keys = pst_cuda_keys(r, a, call->x, sample);

    operands[PST_DNN_Q] = pst_cuda_queries(r, a, call->x, sample);
    operands[PST_DNN_K] = keys;
    operands[PST_DNN_V] = pst_cuda_values(r, a, keys);
    operands[PST_DNN_O] = pst_cuda_at(r, call->y[0], sample * a->rows * a->columns);
    if (call->y[1] != NULL) {
        operands[PST_DNN_STATS] = (float *)call->y[1] + sample * a->heads * a->rows;
    }
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_heads a = request_heads(r);
    const struct fused *f = k->state;
    void *operands[PST_DNN_ROLES];
    uint64_t bytes;
    void *library = carve(r, f, call->workspace, operands, &bytes);

    inputs_of(r, &a, call, 0, operands);
    pst_cuda_dnn_run(r->device, r->op->name, f->plan, operands, library);
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_heads a = request_heads(r);
    const struct fused *f = k->state;
    void *operands[PST_DNN_ROLES];
    uint64_t bytes;
    void *library = carve(r, f, call->workspace, operands, &bytes);

    for (uint64_t piece = 0; piece < f->pieces; piece++) {
        const uint64_t sample = piece * f->shape.batch;
        char *dkeys = pst_cuda_keys(r, &a, call->dx, sample);

        inputs_of(r, &a, call, sample, operands);
        operands[PST_DNN_DO] = pst_cuda_at(r, call->dy, sample * a.rows * a.columns);
        operands[PST_DNN_DQ] = pst_cuda_queries(r, &a, call->dx, sample);
        operands[PST_DNN_DK] = dkeys;
        operands[PST_DNN_DV] = dkeys == NULL ? NULL : pst_cuda_values(r, &a, dkeys);
        if (operands[PST_DNN_DQ] == NULL || dkeys == NULL) {
            pst_cuda_note_text(r->device, r->op->name, "attention",
                               "a gradient has no place to go to");
            return;
        }
        pst_cuda_dnn_run(r->device, r->op->name, f->plan, operands, library);
    }
}

const struct pst_cuda_family pst_cuda_dnn_attention_family = {
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, NULL},
};
