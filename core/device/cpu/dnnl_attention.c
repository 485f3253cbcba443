/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax(q k^T / sqrt(D)) v per head over packed q|k|v, in blocks of rows, so that the scores stay
 * in the cache and a causal block stops at its own columns. The backward pass recomputes the
 * probabilities from the log-sum-exp of each row (Dao et al., "FlashAttention", NeurIPS 2022).
 * Heads are the items that threads share; they are copied into the workspace, dense and in f32:
 * strides of whole rows of q|k|v may fall on few sets of the cache.
 */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "cpu.h"

/* Rows of scores at a time: few where that saves much of the causal triangle. */
#define MAX_BLOCK 64u
#define MIN_BLOCK 32u
#define FEW_ROWS  128u

struct attention_shape {
    uint64_t rows, columns, heads, depth; /* T, C, H, D */
    uint64_t block;                       /* rows of scores at a time */
    uint64_t ld;                          /* of scores: T rounded up to 16, and off powers of two */
    bool causal;
    float scale;
};

/* One head of one sample: dense matrices [rows][depth] in f32. */
struct head {
    const struct attention_shape *shape;
    const struct pst_simd *simd;
    const float *q, *k, *v, *dy;
    float *y, *lse; /* lse: NULL where nobody wants it */
    float *dq, *dk, *dv;
    float *probs, *dprobs; /* [block][ld] */
};

static bool serves(const struct pst_cpu_request *request)
{
    return request->op->heads > 0 && pst_cpu_in(request, 0)->dtype == request->dtype;
}

static struct attention_shape shape_of(const struct pst_cpu_request *request)
{
    const struct pst_tensor *y = pst_cpu_out(request);
    struct attention_shape shape = {.columns = pst_cpu_columns(y), .heads = request->op->heads};

    shape.causal = request->op->causal;
    shape.rows = y->elems / shape.columns;
    shape.depth = shape.columns / shape.heads;
    shape.block = shape.causal && shape.rows <= FEW_ROWS ? MIN_BLOCK : MAX_BLOCK;
    shape.block = shape.rows < shape.block ? shape.rows : shape.block;
    shape.ld = (shape.rows + 15) / 16 * 16 + 16;
    shape.scale = 1.0f / sqrtf((float)shape.depth);
    return shape;
}

/* Floats of a thread: scores (and their gradients), then q, k, v and the result, or q, k, v, dy and
   the gradients of q, k, v. */
static uint64_t thread_floats(const struct pst_cpu_request *request,
                              const struct attention_shape *shape)
{
    const uint64_t scores = shape->block * shape->ld, part = shape->rows * shape->depth;
    const uint64_t floats =
        request->pass == PST_KERNEL_B ? 2 * scores + 7 * part : scores + 4 * part;

    return (floats + 15) / 16 * 16;
}

static uint64_t workspace(const struct pst_cpu_request *request)
{
    const struct attention_shape shape = shape_of(request);

    return request->device->threads * thread_floats(request, &shape) * sizeof(float);
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
static uint64_t keys_of(const struct attention_shape *shape, uint64_t end)
{
    return shape->causal ? end : shape->rows;
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

static void forward_block(const struct head *head, uint64_t first, uint64_t rows)
{
    const struct attention_shape *shape = head->shape;
    const uint64_t n = keys_of(shape, first + rows), depth = shape->depth;
    float factor[MAX_BLOCK];

    multiply('N', 'T', rows, n, depth, head->q + first * depth, depth, head->k, depth, 0,
             head->probs, shape->ld);
    for (uint64_t i = 0; i < rows; i++) {
        float *row = head->probs + i * shape->ld, shift, sum;
        const uint64_t padded = pad_row(row, keys_of(shape, first + i + 1), -INFINITY);

        sum = head->simd->exp_row(row, shape->scale, padded, &shift);
        clear_from(row, padded, n);
        factor[i] = 1.0f / sum;
        if (head->lse != NULL) {
            head->lse[first + i] = shift + (float)log((double)sum);
        }
    }
    multiply('N', 'N', rows, depth, n, head->probs, shape->ld, head->v, depth, 0,
             head->y + first * depth, depth);
    for (uint64_t i = 0; i < rows; i++) {
        float *y = head->y + (first + i) * depth;

        head->simd->scale(y, y, factor[i], depth);
    }
}

static void backward_block(const struct head *head, uint64_t first, uint64_t rows, float beta)
{
    const struct attention_shape *shape = head->shape;
    const uint64_t n = keys_of(shape, first + rows), depth = shape->depth;
    const float *q = head->q + first * depth, *dy = head->dy + first * depth;

    multiply('N', 'T', rows, n, depth, q, depth, head->k, depth, 0, head->probs, shape->ld);
    multiply('N', 'T', rows, n, depth, dy, depth, head->v, depth, 0, head->dprobs, shape->ld);
    for (uint64_t i = 0; i < rows; i++) {
        float *p = head->probs + i * shape->ld, *dp = head->dprobs + i * shape->ld;
        const uint64_t keys = keys_of(shape, first + i + 1);
        const uint64_t padded = pad_row(p, keys, -INFINITY);

        pad_row(dp, keys, 0);
        head->simd->exp_known(p, p, shape->scale, head->lse[first + i], padded);
        head->simd->softmax_back(dp, p, shape->scale, padded);
        clear_from(p, padded, n);
        clear_from(dp, padded, n);
    }
    multiply('N', 'N', rows, depth, n, head->dprobs, shape->ld, head->k, depth, 0,
             head->dq + first * depth, depth);
    multiply('T', 'N', n, depth, rows, head->dprobs, shape->ld, q, depth, beta, head->dk, depth);
    multiply('T', 'N', n, depth, rows, head->probs, shape->ld, dy, depth, beta, head->dv, depth);
}

static void run_head(const struct head *head, uint32_t pass)
{
    const struct attention_shape *shape = head->shape;

    if (pass == PST_KERNEL_F) {
        for (uint64_t first = 0; first < shape->rows; first += shape->block) {
            const uint64_t left = shape->rows - first;

            forward_block(head, first, left < shape->block ? left : shape->block);
        }
        return;
    }
    /* From the last block on, which sees all keys: it overwrites their gradients, others add. */
    for (uint64_t end = shape->rows, begin; end > 0; end = begin) {
        begin = (end - 1) / shape->block * shape->block;
        backward_block(head, begin, end - begin, end == shape->rows ? 0.0f : 1.0f);
    }
}

/* --- operands of a head ----------------------------------------------------------------------- */

struct job {
    const struct pst_cpu_request *request;
    const struct pst_call *call;
    struct attention_shape shape;
};

/* Rows of a head, f32 and dense, from and to where they lie among the others. */
static void load_rows(const struct job *job, float *dst, const void *src, uint64_t at, uint64_t ld)
{
    const uint64_t depth = job->shape.depth;

    for (uint64_t i = 0; i < job->shape.rows; i++, at += ld, dst += depth) {
        if (job->request->dtype == PST_F32) {
            memcpy(dst, (const float *)src + at, depth * sizeof *dst);
        } else {
            job->request->device->simd->widen(dst, (const uint16_t *)src + at, depth);
        }
    }
}

static void store_rows(const struct job *job, void *dst, uint64_t at, uint64_t ld, const float *src)
{
    const uint64_t depth = job->shape.depth;

    for (uint64_t i = 0; i < job->shape.rows; i++, at += ld, src += depth) {
        if (job->request->dtype == PST_F32) {
            memcpy((float *)dst + at, src, depth * sizeof *src);
        } else {
            job->request->device->simd->narrow((uint16_t *)dst + at, src, depth);
        }
    }
}

static void load_and_run(const struct job *job, uint64_t sample, uint64_t index, float *floats,
                         struct head *head)
{
    const struct attention_shape *shape = &job->shape;
    const uint64_t part = shape->rows * shape->depth, c = shape->columns;
    const uint64_t packed = sample * shape->rows * 3 * c + index * shape->depth;
    const uint64_t plain = sample * shape->rows * c + index * shape->depth;

    for (uint32_t i = 0; i < 3; i++) {
        load_rows(job, floats + i * part, job->call->x[0], packed + i * c, 3 * c);
    }
    head->q = floats;
    head->k = floats + part;
    head->v = floats + 2 * part;
    head->y = floats + 3 * part;
    if (job->request->pass == PST_KERNEL_F) {
        run_head(head, PST_KERNEL_F);
        store_rows(job, job->call->y[0], plain, c, head->y);
        return;
    }
    load_rows(job, floats + 3 * part, job->call->dy, plain, c);
    head->dy = floats + 3 * part;
    head->dq = floats + 4 * part;
    head->dk = floats + 5 * part;
    head->dv = floats + 6 * part;
    run_head(head, PST_KERNEL_B);
    for (uint32_t i = 0; i < 3; i++) {
        store_rows(job, job->call->dx[0], packed + i * c, 3 * c, head->dq + i * part);
    }
}

static void run_heads(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct job *job = context;
    const struct attention_shape *shape = &job->shape;
    const uint64_t scores = shape->block * shape->ld;
    float *floats = job->call->workspace;
    float *lse = job->call->y[1];

    floats += thread * thread_floats(job->request, shape);
    for (uint64_t i = begin; i < end; i++) {
        const bool back = job->request->pass == PST_KERNEL_B;
        struct head head = {.shape = shape, .simd = job->request->device->simd};

        head.lse = lse == NULL ? NULL : lse + i * shape->rows;
        head.probs = floats;
        head.dprobs = floats + scores;
        load_and_run(job, i / shape->heads, i % shape->heads, floats + (back ? 2 : 1) * scores,
                     &head);
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct job job = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    if (job.request->pass == PST_KERNEL_B && pst_cpu_operand(call->dx, 0) == NULL) {
        return;
    }
    job.shape = shape_of(job.request);
    pst_cpu_parallel(job.request->device, job.request->samples * job.shape.heads, run_heads, &job);
}

const struct pst_cpu_family pst_cpu_attention = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, run, NULL},
};
