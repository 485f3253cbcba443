/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention from products: the scores of all heads of a sample at once, in f32, then the next
 * sample. Backward makes them again. Where heads share keys, their rows are put one after the
 * other, so that a product serves them all and sums over them. Memory grows with rows times keys:
 * this is what there is where no fused kernel serves, and what such kernels are compared with.
 *
 * With slices of sequences, the keys and values of earlier slices and of this one are first put one
 * after the other, and each slice has products of its own sizes.
 */
#include "attention.h"
#include "product.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/distance.h"

enum { SCORES = 0, VALUES = 1, DPROBS = 1, DV = 2, DQ = 3, DK = 4, N_PRODUCTS = 5 };

struct attention_state {
    struct pst_cuda_product (*products)[N_PRODUCTS]; /* [slice] */
    uint32_t n_slices;
    int32_t *buckets; /* device memory; NULL: no bias */
};

/* Pieces of the workspace. probs, dscores: the activations' type; in f32 the same as these two. q,
   o, and in backward dq: queries and rows of y or dy, head after head; NULL where keys are not
   shared. Of slices keys and values, and the gradients of both: [keys, 2, key heads, depth].
 */
struct pieces {
    void *product;
    float *scores, *dprobs, *diagonals;
    void *probs, *dscores;
    void *q, *o, *dq, *kv;
    float *dkv;
};

/* From row to row of keys and values that stand alone. */
static uint64_t kv_columns(const struct pst_heads *a)
{
    return 2 * a->kv_heads * a->depth;
}

/* The shape for products with the keys of a slice. */
static struct pst_heads heads_of(const struct pst_op_request *r, uint32_t slice)
{
    struct pst_heads a = request_heads_of(r, slice);

    a.kv_stride = request_slices(r) > 1 ? kv_columns(&a) : a.kv_stride;
    return a;
}

static struct pieces carve(const struct pst_op_request *r, const struct pst_heads *a, void *base,
                           uint64_t *ret_bytes)
{
    const uint64_t n = a->heads * a->rows * a->keys;
    const uint64_t rows = a->rows * a->columns * pst_dtype_bytes(r->dtype);
    const bool back = r->pass == PST_KERNEL_B, half = pst_cuda_bf16(r);
    struct pieces p = {0};
    uint64_t used = 0;

    if (r->pass != PST_KERNEL_W) {
        p.product = pst_cuda_carve(base, &used, PST_CUDA_PRODUCT_BYTES);
        p.scores = pst_cuda_carve(base, &used, n * sizeof(float));
        p.probs = half ? pst_cuda_carve(base, &used, n * 2) : p.scores;
    }
    if (back) {
        p.dprobs = pst_cuda_carve(base, &used, n * sizeof(float));
        p.dscores = half ? pst_cuda_carve(base, &used, n * 2) : p.dprobs;
    }
    if (back && a->n_buckets > 0) {
        p.diagonals =
            pst_cuda_carve(base, &used, a->heads * (a->rows + a->keys - 1) * sizeof(float));
    }
    if (r->pass != PST_KERNEL_W && a->group > 1) {
        p.q = pst_cuda_carve(base, &used, rows);
        p.o = pst_cuda_carve(base, &used, rows);
        p.dq = back ? pst_cuda_carve(base, &used, rows) : NULL;
    }
    if (r->pass != PST_KERNEL_W && request_slices(r) > 1) {
        const uint64_t kv = a->keys * kv_columns(a);

        p.kv = pst_cuda_carve(base, &used, kv * pst_dtype_bytes(r->dtype));
        p.dkv = back ? pst_cuda_carve(base, &used, kv * sizeof(float)) : NULL;
    }
    *ret_bytes = used;
    return p;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct pst_heads a = request_most_heads(r);
    uint64_t bytes = 0;

    carve(r, &a, NULL, &bytes);
    return bytes;
}

/* A product with a batch for each head of keys. Steps: `depth` for what lies side by side in a row.
 */
static struct pst_cuda_product_shape product_of(const struct pst_op_request *r,
                                                const struct pst_heads *a, uint32_t which)
{
    const bool apart = a->group > 1, forward = r->pass == PST_KERNEL_F;
    const uint64_t rows = a->group * a->rows, square = rows * a->keys;
    const uint64_t q_stride = apart ? a->depth : a->q_stride;
    const uint64_t o_stride = apart ? a->depth : a->columns;
    const uint64_t step = apart ? rows * a->depth : a->depth; /* of both */
    struct pst_cuda_product_shape p = {.batches = a->kv_heads, .bf16 = pst_cuda_bf16(r)};

    p.align = pst_cuda_alignment(a->depth * pst_dtype_bytes(r->dtype));
    p.b_step = a->depth;
    if (which == SCORES || (which == DPROBS && !forward)) { /* [rows,keys] = q k^T, dy v^T */
        p.m = rows;
        p.n = p.ldd = a->keys;
        p.k = a->depth;
        p.lda = which == SCORES ? q_stride : o_stride;
        p.a_step = step;
        p.ldb = a->kv_stride;
        p.b_transposed = true;
        p.d_step = square;
        return p;
    }
    p.d_bf16 = p.bf16;
    p.n = a->depth;
    p.lda = a->keys;
    p.a_step = square;
    if (which == DV || which == DK) { /* [keys,depth] = probs^T dy, dscores^T q */
        p.m = a->keys;
        p.k = rows;
        p.a_transposed = true;
        p.ldb = which == DV ? o_stride : q_stride;
        p.b_step = step;
        p.d_bf16 = p.bf16 && request_slices(r) == 1; /* others add to them */
        p.ldd = a->kv_stride;
        p.d_step = a->depth;
        return p;
    }
    p.m = rows; /* [rows,depth] = probs v, dscores k */
    p.k = a->keys;
    p.ldb = a->kv_stride;
    p.ldd = which == DQ ? q_stride : o_stride;
    p.d_step = step;
    return p;
}

/* By key - row + rows - 1: which element of p0 a pair falls on. */
static pst_status init_buckets(const struct pst_op_request *r, const struct pst_heads *a,
                               struct attention_state *state, struct pst_error *err)
{
    const uint64_t n = a->rows + a->keys - 1;
    int32_t *host = pst_alloc(n, sizeof *host);
    pst_status status;

    for (uint64_t i = 0; i < n; i++) {
        host[i] = (int32_t)pst_distance_bucket((int64_t)i - (int64_t)(a->rows - 1), a->n_buckets,
                                               r->op->max_distance, r->op->causal);
    }
    status = pst_cuda_table(r->device, "a table of distances", host, n * sizeof *host,
                            (void **)&state->buckets, err);
    free(host);
    return status;
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_heads a = request_heads(r);
    struct attention_state *state = pst_alloc(1, sizeof *state);
    const uint32_t n = r->pass == PST_KERNEL_F ? VALUES + 1 : N_PRODUCTS;
    pst_status status = PST_OK;

    k->state = state;
    if (r->pass == PST_KERNEL_W) {
        return PST_OK;
    }
    state->n_slices = request_slices(r);
    state->products = pst_alloc(state->n_slices, sizeof *state->products);
    for (uint32_t i = 0; i < n * state->n_slices && status == PST_OK; i++) {
        const struct pst_heads of = heads_of(r, i / n);
        const struct pst_cuda_product_shape p = product_of(r, &of, i % n);

        status = pst_cuda_product_init(r->device, &p, &state->products[i / n][i % n], err);
    }
    return status == PST_OK && a.n_buckets > 0 ? init_buckets(r, &a, state, err) : status;
}

static void finish(struct pst_cuda_kernel *k)
{
    struct attention_state *state = k->state;

    for (uint32_t i = 0; state != NULL && i < N_PRODUCTS * state->n_slices; i++) {
        pst_cuda_product_finish(&state->products[i / N_PRODUCTS][i % N_PRODUCTS]);
    }
    if (state != NULL) {
        cudaFree(state->buckets);
        free(state->products);
        free(state);
    }
}

static struct pst_cuda_attention kernel_shape(const struct pst_cuda_kernel *k,
                                              const struct pst_heads *a)
{
    const struct attention_state *state = k->state;
    struct pst_cuda_attention shape;

    shape.heads = a->heads;
    shape.rows = a->rows;
    shape.keys = a->keys;
    shape.first = a->first;
    shape.causal = a->causal;
    shape.window = a->window;
    shape.buckets = state->buckets;
    shape.n_buckets = a->n_buckets;
    return shape;
}

void *pst_cuda_keys(const struct pst_op_request *r, const struct pst_heads *a,
                    void *const *operands, uint64_t sample)
{
    void *base = request_operand(operands, a->packed ? 0 : 1);

    return base == NULL ? NULL : pst_cuda_at(r, base, sample * a->keys * a->kv_stride + a->k_at);
}

void *pst_cuda_queries(const struct pst_op_request *r, const struct pst_heads *a,
                       void *const *operands, uint64_t sample)
{
    void *base = request_operand(operands, 0);

    return base == NULL ? NULL : pst_cuda_at(r, base, sample * a->rows * a->q_stride);
}

/* Rows of heads side by side as products take them: where they are, or in `apart`. */
static const void *rows_of(const struct pst_op_request *r, const struct pst_heads *a,
                           const void *packed, uint64_t stride, void *apart)
{
    if (apart == NULL) {
        return packed;
    }
    pst_cuda_split_heads(r->device->compute, pst_cuda_bf16(r), a->heads, a->rows, a->depth, stride,
                         apart, packed);
    return apart;
}

/* The result of a product, which went there, to its place. */
static void put_rows(const struct pst_op_request *r, const struct pst_heads *a, void *packed,
                     uint64_t stride, const void *apart)
{
    if (apart != NULL) {
        pst_cuda_join_heads(r->device->compute, pst_cuda_bf16(r), a->heads, a->rows, a->depth,
                            stride, packed, apart);
    }
}

/* Keys and values of a sample as products take them: where they are, or of all slices in kv. */
static const void *keys_of(const struct pst_op_request *r, const struct pst_heads *a,
                           const struct pst_call *call, uint64_t sample, void *kv)
{
    for (uint64_t j = 0; kv != NULL && j < a->keys; j += a->rows) {
        const void *from = request_keys_from(a, call, j);

        pst_cuda_split_heads(r->device->compute, pst_cuda_bf16(r), 1, a->rows, kv_columns(a),
                             a->q_stride, pst_cuda_at(r, kv, j * kv_columns(a)),
                             pst_cuda_at(r, from, sample * a->rows * a->q_stride + a->k_at));
    }
    return kv != NULL ? kv : pst_cuda_keys(r, a, call->x, sample);
}

/* Gradients of keys and values of a sample: those of earlier slices go to where they wait for
   these; to the own ones, the last, is added what waits for them. */
static void share_past(const struct pst_op_request *r, const struct pst_heads *a,
                       const struct pst_call *call, uint64_t sample, const float *dkv)
{
    const uint64_t n = a->rows * kv_columns(a), own = a->first / a->rows;
    const bool last = call->slice + 1 == request_slices(r);
    cudaStream_t stream = r->device->compute;
    void *dx = pst_cuda_queries(r, a, call->dx, sample);

    for (uint64_t i = 0; i < own; i++) {
        float *past = (float *)call->dpast[i] + sample * n;

        if (last) {
            pst_cuda_note(r->device, r->op->name,
                          cudaMemcpyAsync(past, dkv + i * n, n * sizeof *past,
                                          cudaMemcpyDeviceToDevice, stream));
        } else {
            pst_cuda_accumulate(stream, past, dkv + i * n, n);
        }
    }
    if (dx != NULL) {
        const float *past = call->dpast[own];

        pst_cuda_store_keys(stream, pst_cuda_bf16(r), a->rows, kv_columns(a), a->q_stride,
                            pst_cuda_at(r, dx, a->k_at), dkv + own * n,
                            past == NULL ? NULL : past + sample * n);
    }
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct attention_state *state = k->state;
    const struct pst_cuda_product *products = state->products[call->slice];
    const struct pst_heads a = heads_of(r, call->slice);
    const struct pst_cuda_attention shape = kernel_shape(k, &a);
    const char *name = r->op->name;
    uint64_t bytes;
    const struct pieces w = carve(r, &a, call->workspace, &bytes);

    for (uint64_t s = 0; s < r->samples; s++) {
        const void *keys = keys_of(r, &a, call, s, w.kv);
        const void *q = rows_of(r, &a, pst_cuda_queries(r, &a, call->x, s), a.q_stride, w.q);
        void *y = pst_cuda_at(r, call->y[0], s * a.rows * a.columns);
        float *lse = call->y[1];

        pst_cuda_product_run(&products[SCORES], name, w.scores, q, keys, request_scale(&a), 0,
                             w.product);
        pst_cuda_softmax(r->device->compute, pst_cuda_bf16(r), &shape, w.scores, w.probs,
                         request_param(r, call, 0),
                         lse == NULL ? NULL : lse + s * a.heads * a.rows);
        pst_cuda_product_run(&products[VALUES], name, w.o == NULL ? y : w.o, w.probs,
                             pst_cuda_values(r, &a, keys), 1, 0, w.product);
        put_rows(r, &a, y, a.columns, w.o);
    }
}

static void backward_sample(const struct pst_cuda_kernel *k, const struct pst_call *call,
                            const struct pst_heads *a, uint64_t s)
{
    const struct pst_op_request *r = &k->request;
    const struct pst_cuda_attention shape = kernel_shape(k, a);
    const struct attention_state *state = k->state;
    const struct pst_cuda_product *products = state->products[call->slice];
    void *dq = pst_cuda_queries(r, a, call->dx, s), *dkeys;
    const float *lse = (const float *)call->y[1] + s * a->heads * a->rows;
    const char *name = r->op->name;
    uint64_t bytes;
    const struct pieces w = carve(r, a, call->workspace, &bytes);
    const void *keys = keys_of(r, a, call, s, w.kv);
    const void *q = rows_of(r, a, pst_cuda_queries(r, a, call->x, s), a->q_stride, w.q);
    const void *dy =
        rows_of(r, a, pst_cuda_at(r, call->dy, s * a->rows * a->columns), a->columns, w.o);

    pst_cuda_product_run(&products[SCORES], name, w.scores, q, keys, request_scale(a), 0,
                         w.product);
    pst_cuda_product_run(&products[DPROBS], name, w.dprobs, dy, pst_cuda_values(r, a, keys), 1, 0,
                         w.product);
    pst_cuda_softmax_back(r->device->compute, pst_cuda_bf16(r), &shape, w.scores, w.dprobs, w.probs,
                          w.dscores, request_param(r, call, 0), lse);
    if (a->n_buckets > 0) {
        pst_cuda_bucket_sums(r->device->compute, &shape, call->z[0], w.dprobs, s > 0, w.diagonals);
    }
    if (dq != NULL) {
        pst_cuda_product_run(&products[DQ], name, w.dq == NULL ? dq : w.dq, w.dscores, keys,
                             request_scale(a), 0, w.product);
        put_rows(r, a, dq, a->q_stride, w.dq);
    }
    dkeys = w.dkv != NULL ? w.dkv : pst_cuda_keys(r, a, call->dx, s);
    if (dkeys != NULL) {
        float *values = w.dkv == NULL ? NULL : w.dkv + kv_columns(a) / 2;

        pst_cuda_product_run(&products[DK], name, dkeys, w.dscores, q, request_scale(a), 0,
                             w.product);
        pst_cuda_product_run(&products[DV], name,
                             values != NULL ? values : pst_cuda_values(r, a, dkeys), w.probs, dy, 1,
                             0, w.product);
    }
    if (w.dkv != NULL) {
        share_past(r, a, call, s, w.dkv);
    }
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_heads a = heads_of(&k->request, call->slice);

    for (uint64_t s = 0; s < k->request.samples; s++) {
        backward_sample(k, call, &a, s);
    }
}

const struct pst_cuda_family pst_cuda_attention_family = {
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, pst_cuda_copy_scratch},
};
