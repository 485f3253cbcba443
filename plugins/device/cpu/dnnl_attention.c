/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax(scale q k^T + bias) v per head, in blocks of rows, so that the scores stay in the cache
 * and a causal block stops at its own columns. The backward pass recomputes the probabilities from
 * the log-sum-exp of each row (Dao et al., "FlashAttention", NeurIPS 2022). Heads are the items
 * that threads share; they are copied into the workspace, dense and in f32: strides of whole rows
 * of q|k|v may fall on few sets of the cache.
 *
 * The bias depends on key minus query alone: a head has one number for each of the T + S - 1
 * differences, and row i reads S of them from T - 1 - i on.
 */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "cpu.h"
#include "graph/distance.h"

/* Rows of scores at a time: few where that saves much of the causal triangle. */
#define MAX_BLOCK 64u
#define MIN_BLOCK 32u
#define FEW_ROWS  128u

/* One head of one sample: dense matrices [rows][depth] in f32. */
struct head {
    const struct pst_heads *shape;
    const struct pst_simd *simd;
    const float *q, *k, *v, *dy;
    float *y, *lse; /* lse: NULL where nobody wants it */
    float *dq, *dk, *dv;
    float *probs, *dprobs; /* [block][ld] */
    float *bias, *dbias;   /* by distance; NULL: none */
};

static bool serves(const struct pst_op_request *request)
{
    return request->op->window == 0 &&
           pst_op_kv_heads(request->op) == request->op->heads && request_in(request, 0)->dtype == request->dtype &&
           (request->op->n_in == 1 || request_in(request, 1)->dtype == request->dtype) &&
           (!request_has_param(request, 0) ||
            request->graph->params[request->op->param[0]].dtype == request->dtype);
}

/* With a bias: T + S - 1, else 0. */
static uint64_t distances_of(const struct pst_heads *shape)
{
    return shape->n_buckets > 0 ? shape->rows + shape->keys - 1 : 0;
}

/* Rows of scores at a time. */
static uint64_t block_of(const struct pst_heads *shape)
{
    const uint64_t block = shape->causal && shape->rows <= FEW_ROWS ? MIN_BLOCK : MAX_BLOCK;

    return shape->rows < block ? shape->rows : block;
}

/* From row to row of scores: S rounded up to 16, and off powers of two. */
static uint64_t ld_of(const struct pst_heads *shape)
{
    return (shape->keys + 15) / 16 * 16 + 16;
}

static uint64_t padded(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Floats of a thread: bias, scores (and their gradients), then q, k, v and the result, or q, k, v,
   dy and the gradients of q, k, v. */
static uint64_t thread_floats(const struct pst_op_request *request, const struct pst_heads *shape)
{
    const uint64_t scores = block_of(shape) * ld_of(shape);
    const uint64_t q = shape->rows * shape->depth, k = shape->keys * shape->depth;
    const uint64_t floats =
        request->pass == PST_KERNEL_B ? 2 * scores + 3 * q + 4 * k : scores + 2 * q + 2 * k;

    return padded(floats) + padded(distances_of(shape));
}

/* Backward: the gradients of all heads of all samples by distance, behind the threads' floats. */
static uint64_t distance_floats(const struct pst_op_request *request, const struct pst_heads *shape)
{
    return request->pass == PST_KERNEL_B ? request->samples * shape->heads * distances_of(shape)
                                         : 0;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct pst_heads shape = request_heads(request);

    if (request->pass == PST_KERNEL_W) {
        return 0;
    }
    return (request->device->threads * thread_floats(request, &shape) +
            distance_floats(request, &shape)) *
           sizeof(float);
}

static void multiply(char trans_a, char trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a,
                     uint64_t lda, const float *b, uint64_t ldb, float beta, float *c, uint64_t ldc)
{
    const dnnl_status_t status =
        dnnl_sgemm(trans_a, trans_b, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                   (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc);

    PST_ASSERT(status == dnnl_success);
}

/* How many keys the rows before `end` see. */
static uint64_t keys_of(const struct pst_heads *shape, uint64_t end)
{
    return shape->causal ? end : shape->keys;
}

/* Rows are done in whole vectors: what is beyond the keys of the row gets `value` up to there. */
static uint64_t pad_row(float *row, uint64_t keys, float value)
{
    const uint64_t padded = (keys + 15) / 16 * 16;

    for (uint64_t j = keys; j < padded; j++) {
        row[j] = value;
    }
    return padded;
}

static void clear_from(float *row, uint64_t begin, uint64_t end)
{
    if (begin < end) {
        memset(row + begin, 0, (end - begin) * sizeof *row);
    }
}

/* Scores of row i as products become scores with bias, which are scaled already; returns the scale
   that is left to do. */
static float add_bias(const struct head *head, uint64_t i, float *row, uint64_t keys)
{
    if (head->bias == NULL) {
        return request_scale(head->shape);
    }
    head->simd->scale(row, row, request_scale(head->shape), keys);
    head->simd->add(row, row, head->bias + head->shape->rows - 1 - i, keys);
    return 1.0f;
}

static void forward_block(const struct head *head, uint64_t first, uint64_t rows)
{
    const struct pst_heads *shape = head->shape;
    const uint64_t n = keys_of(shape, first + rows), depth = shape->depth;
    float factor[MAX_BLOCK];

    multiply('N', 'T', rows, n, depth, head->q + first * depth, depth, head->k, depth, 0,
             head->probs, ld_of(shape));
    for (uint64_t i = 0; i < rows; i++) {
        float *row = head->probs + i * ld_of(shape), shift, sum;
        const uint64_t keys = keys_of(shape, first + i + 1);
        const float scale = add_bias(head, first + i, row, keys);
        const uint64_t filled = pad_row(row, keys, -INFINITY);

        sum = head->simd->exp_row(row, scale, filled, &shift);
        clear_from(row, filled, n);
        factor[i] = 1.0f / sum;
        if (head->lse != NULL) {
            head->lse[first + i] = shift + (float)log((double)sum);
        }
    }
    multiply('N', 'N', rows, depth, n, head->probs, ld_of(shape), head->v, depth, 0,
             head->y + first * depth, depth);
    for (uint64_t i = 0; i < rows; i++) {
        float *y = head->y + (first + i) * depth;

        head->simd->scale(y, y, factor[i], depth);
    }
}

/* dscores: those behind the bias; they become those of the products. */
static void bias_gradient(const struct head *head, uint64_t i, float *dscores, uint64_t keys)
{
    if (head->bias != NULL) {
        float *dbias = head->dbias + head->shape->rows - 1 - i;

        head->simd->add(dbias, dbias, dscores, keys);
        head->simd->scale(dscores, dscores, request_scale(head->shape), keys);
    }
}

static void backward_block(const struct head *head, uint64_t first, uint64_t rows, float beta)
{
    const struct pst_heads *shape = head->shape;
    const uint64_t n = keys_of(shape, first + rows), depth = shape->depth;
    const float *q = head->q + first * depth, *dy = head->dy + first * depth;

    multiply('N', 'T', rows, n, depth, q, depth, head->k, depth, 0, head->probs, ld_of(shape));
    multiply('N', 'T', rows, n, depth, dy, depth, head->v, depth, 0, head->dprobs, ld_of(shape));
    for (uint64_t i = 0; i < rows; i++) {
        float *p = head->probs + i * ld_of(shape), *dp = head->dprobs + i * ld_of(shape);
        const uint64_t keys = keys_of(shape, first + i + 1);
        const float scale = add_bias(head, first + i, p, keys);
        const uint64_t filled = pad_row(p, keys, -INFINITY);

        pad_row(dp, keys, 0);
        head->simd->exp_known(p, p, scale, head->lse[first + i], filled);
        head->simd->softmax_back(dp, p, scale, filled);
        bias_gradient(head, first + i, dp, keys);
        clear_from(p, filled, n);
        clear_from(dp, filled, n);
    }
    multiply('N', 'N', rows, depth, n, head->dprobs, ld_of(shape), head->k, depth, 0,
             head->dq + first * depth, depth);
    multiply('T', 'N', n, depth, rows, head->dprobs, ld_of(shape), q, depth, beta, head->dk, depth);
    multiply('T', 'N', n, depth, rows, head->probs, ld_of(shape), dy, depth, beta, head->dv, depth);
}

static void run_head(const struct head *head, uint32_t pass)
{
    const struct pst_heads *shape = head->shape;

    if (pass == PST_KERNEL_F) {
        for (uint64_t first = 0; first < shape->rows; first += block_of(shape)) {
            const uint64_t left = shape->rows - first;

            forward_block(head, first, left < block_of(shape) ? left : block_of(shape));
        }
        return;
    }
    /* From the last block on, which sees all keys: it overwrites their gradients, others add. */
    for (uint64_t end = shape->rows, begin; end > 0; end = begin) {
        begin = (end - 1) / block_of(shape) * block_of(shape);
        backward_block(head, begin, end - begin, end == shape->rows ? 0.0f : 1.0f);
    }
}

/* --- operands of a head ----------------------------------------------------------------------- */

struct job {
    const struct pst_op_request *request;
    const struct pst_call *call;
    struct pst_heads shape;
};

/* Rows of a head, f32 and dense, from and to where they lie among the others. */
static void load_rows(const struct job *job, float *dst, const void *src, uint64_t rows,
                      uint64_t at, uint64_t ld)
{
    const uint64_t depth = job->shape.depth;

    for (uint64_t i = 0; i < rows; i++, at += ld, dst += depth) {
        if (job->request->dtype == PST_F32) {
            memcpy(dst, (const float *)src + at, depth * sizeof *dst);
        } else {
            job->request->device->simd->widen(dst, (const uint16_t *)src + at, depth);
        }
    }
}

static void store_rows(const struct job *job, void *dst, uint64_t rows, uint64_t at, uint64_t ld,
                       const float *src)
{
    const uint64_t depth = job->shape.depth;

    for (uint64_t i = 0; i < rows; i++, at += ld, src += depth) {
        if (job->request->dtype == PST_F32) {
            memcpy((float *)dst + at, src, depth * sizeof *src);
        } else {
            job->request->device->simd->narrow((uint16_t *)dst + at, src, depth);
        }
    }
}

/* Where a head lies in its tensors: q, then k and v, which are packed with it or apart. */
struct place {
    uint32_t tensor[3];
    uint64_t rows[3], at[3], ld[3];
    uint64_t y; /* first element in result and dy */
};

static struct place place_of(const struct pst_heads *shape, uint64_t sample, uint64_t index)
{
    const uint64_t c = shape->columns, at = index * shape->depth;
    const uint64_t parts = shape->packed ? 3 : 2, first = shape->packed ? 1 : 0;
    struct place place = {.tensor = {0, shape->packed ? 0 : 1, shape->packed ? 0 : 1},
                          .rows = {shape->rows, shape->keys, shape->keys},
                          .ld = {shape->packed ? 3 * c : c, parts * c, parts * c}};

    place.at[0] = sample * shape->rows * place.ld[0] + at;
    for (uint64_t i = 0; i < 2; i++) {
        place.at[1 + i] = sample * shape->keys * place.ld[1 + i] + (first + i) * c + at;
    }
    place.y = sample * shape->rows * c + at;
    return place;
}

static void load_and_run(const struct job *job, const struct place *place, float *floats,
                         struct head *head)
{
    const struct pst_heads *shape = &job->shape;
    const uint64_t q = shape->rows * shape->depth, k = shape->keys * shape->depth;
    float *parts[3] = {floats, floats + q, floats + q + k}, *gradients[3];

    for (uint32_t i = 0; i < 3; i++) {
        load_rows(job, parts[i], job->call->x[place->tensor[i]], place->rows[i], place->at[i],
                  place->ld[i]);
    }
    head->q = parts[0];
    head->k = parts[1];
    head->v = parts[2];
    head->y = parts[2] + k;
    if (job->request->pass == PST_KERNEL_F) {
        run_head(head, PST_KERNEL_F);
        store_rows(job, job->call->y[0], shape->rows, place->y, shape->columns, head->y);
        return;
    }
    load_rows(job, head->y, job->call->dy, shape->rows, place->y, shape->columns);
    head->dy = head->y;
    gradients[0] = head->dq = head->y + q;
    gradients[1] = head->dk = head->dq + q;
    gradients[2] = head->dv = head->dk + k;
    run_head(head, PST_KERNEL_B);
    for (uint32_t i = 0; i < 3; i++) {
        void *dx = request_operand(job->call->dx, place->tensor[i]);

        if (dx != NULL) {
            store_rows(job, dx, place->rows[i], place->at[i], place->ld[i], gradients[i]);
        }
    }
}

/* --- bias by distance ------------------------------------------------------------------------- */

/* Column `head` of p0, spread over the distances from the first key and last query on. */
static void load_bias(const struct job *job, uint64_t head, float *bias)
{
    const struct pst_heads *shape = &job->shape;
    const struct pst_op *op = job->request->op;
    const uint64_t *dims = job->request->graph->params[op->param[0]].dims;

    for (uint64_t d = 0; d < distances_of(shape); d++) {
        const uint64_t at = pst_distance_bucket((int64_t)d - (int64_t)(shape->rows - 1),
                                                (uint32_t)dims[0], op->max_distance, op->causal) *
                                shape->heads +
                            head;

        if (job->request->dtype == PST_F32) {
            bias[d] = ((const float *)job->call->p[0])[at];
        } else {
            job->request->device->simd->widen(&bias[d], (const uint16_t *)job->call->p[0] + at, 1);
        }
    }
}

/* z0 from the gradients of all heads, in the order of samples and distances. */
static void sum_bias(const struct job *job, const float *gradients)
{
    const struct pst_heads *shape = &job->shape;
    const struct pst_op *op = job->request->op;
    const struct pst_parameter *param = &job->request->graph->params[op->param[0]];
    float *sums = job->call->z[0];

    memset(sums, 0, param->elems * sizeof *sums);
    for (uint64_t i = 0; i < job->request->samples * shape->heads; i++) {
        for (uint64_t d = 0; d < distances_of(shape); d++) {
            sums[pst_distance_bucket((int64_t)d - (int64_t)(shape->rows - 1),
                                     (uint32_t)param->dims[0], op->max_distance, op->causal) *
                     shape->heads +
                 i % shape->heads] += gradients[i * distances_of(shape) + d];
        }
    }
}

/* --- all heads -------------------------------------------------------------------------------- */

static float *distance_gradients(const struct job *job)
{
    return (float *)job->call->workspace +
           job->request->device->threads * thread_floats(job->request, &job->shape);
}

static void run_heads(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct job *job = context;
    const struct pst_heads *shape = &job->shape;
    const bool back = job->request->pass == PST_KERNEL_B;
    const uint64_t scores = block_of(shape) * ld_of(shape);
    float *bias = (float *)job->call->workspace + thread * thread_floats(job->request, shape);
    float *floats = bias + padded(distances_of(shape)), *lse = job->call->y[1];

    for (uint64_t i = begin; i < end; i++) {
        const struct place place = place_of(shape, i / shape->heads, i % shape->heads);
        struct head head = {.shape = shape, .simd = job->request->device->simd};

        head.lse = lse == NULL ? NULL : lse + i * shape->rows;
        head.probs = floats;
        head.dprobs = floats + scores;
        if (distances_of(shape) > 0) {
            load_bias(job, i % shape->heads, bias);
            head.bias = bias;
            head.dbias = distance_gradients(job) + i * distances_of(shape);
        }
        if (back && distances_of(shape) > 0) {
            memset(head.dbias, 0, distances_of(shape) * sizeof *head.dbias);
        }
        load_and_run(job, &place, floats + (back ? 2 : 1) * scores, &head);
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct job job = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    job.shape = request_heads(job.request);
    if (job.request->pass == PST_KERNEL_B && distances_of(&job.shape) == 0 &&
        request_operand(call->dx, 0) == NULL &&
        request_operand(call->dx, job.shape.packed ? 0 : 1) == NULL) {
        return;
    }
    pst_cpu_parallel(job.request->device, job.request->samples * job.shape.heads, run_heads, &job);
    if (job.request->pass == PST_KERNEL_B && distances_of(&job.shape) > 0) {
        sum_bias(&job, distance_gradients(&job));
    }
}

const struct pst_cpu_family pst_cpu_attention = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, run, pst_cpu_copy_scratch},
};
