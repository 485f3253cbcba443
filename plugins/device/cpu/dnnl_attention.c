/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax(scale q k^T + bias) v per head, in blocks of rows, so that the scores stay in the cache
 * and a causal block stops at its own columns. The backward pass recomputes the probabilities from
 * the log-sum-exp of each row (Dao et al., "FlashAttention", NeurIPS 2022). Key heads are the items
 * that threads share; each is copied into the workspace with the heads of its group, dense and in
 * f32: strides of whole rows of q|k|v may fall on few sets of the cache. The heads of a group,
 * which lie side by side, are rows of the same products: row i has token i / G. Products whose
 * results have a column for each key are the fastest where these lie in rows: so keys, values and
 * their gradients are turned, and columns rounded up to 16.
 *
 * The bias depends on key minus query alone: a head has one number for each of the T + S - 1
 * differences, and token t reads S of them from T - 1 - t on.
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

/* The heads of one sample that share a key head: dense matrices of f32, q, dy, y and dq
   [rows][group][depth], k and v [keys][depth], the others [depth][turned_ld]. */
struct group {
    const struct pst_heads *shape;
    const struct pst_simd *simd;
    const float *q, *dy;
    float *k, *v; /* v: forward */
    float *turned_k, *turned_v;
    float *y, *lse; /* lse: [group][rows]; NULL where nobody wants it */
    float *dq, *turned_dk, *turned_dv;
    float *probs, *dprobs; /* [block][group][ld] */
    float *factors;        /* [block][group] */
    float *bias, *dbias;   /* [group][distances]; NULL: none */
};

/* A stretch of keys. */
struct span {
    uint64_t begin, end;
};

static bool serves(const struct pst_op_request *request)
{
    return request->op->heads > 0 && request_in(request, 0)->dtype == request->dtype &&
           (request->op->n_in == 1 || request_in(request, 1)->dtype == request->dtype) &&
           (!request_has_param(request, 0) ||
            request->graph->params[request->op->param[0]].dtype == request->dtype);
}

/* With a bias: T + S - 1, else 0. */
static uint64_t distances_of(const struct pst_heads *shape)
{
    return shape->n_buckets > 0 ? shape->rows + shape->keys - 1 : 0;
}

/* Tokens whose scores are made at a time, each a row for every head of the group. */
static uint64_t block_of(const struct pst_heads *shape)
{
    const uint64_t rows = shape->causal && shape->rows <= FEW_ROWS ? MIN_BLOCK : MAX_BLOCK;
    const uint64_t block = rows > shape->group ? rows / shape->group : 1;

    return shape->rows < block ? shape->rows : block;
}

/* From row to row of scores: what a block sees rounded up to 16, and off powers of two. */
static uint64_t ld_of(const struct pst_heads *shape)
{
    const uint64_t most = shape->window + block_of(shape) - 1;
    const uint64_t keys = shape->window != 0 && most < shape->keys ? most : shape->keys;

    return (keys + 15) / 16 * 16 + 16;
}

static uint64_t padded(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* From row to row of what is turned: any stretch of the keys may be rounded up to 16. */
static uint64_t turned_ld(const struct pst_heads *shape)
{
    return padded(shape->keys) + 16;
}

/* Floats of a thread: bias, factors, scores (and their gradients), then what run_group() reads and
   writes: three matrices, or eight. */
static uint64_t thread_floats(const struct pst_op_request *request, const struct pst_heads *shape)
{
    const uint64_t rows = block_of(shape) * shape->group, scores = rows * ld_of(shape);
    const uint64_t q = shape->rows * shape->group * shape->depth, k = shape->keys * shape->depth;
    const uint64_t turned = shape->depth * turned_ld(shape);
    const uint64_t floats = request->pass == PST_KERNEL_B ? 2 * scores + 3 * q + k + 4 * turned
                                                          : scores + 2 * q + k + turned;

    return padded(floats) + padded(rows) + padded(shape->group * distances_of(shape));
}

/* Backward: the gradients of all heads of all samples by distance, after the threads' floats. */
static uint64_t distance_floats(const struct pst_op_request *request, const struct pst_heads *shape)
{
    return request->pass == PST_KERNEL_B ? request->samples * shape->heads * distances_of(shape)
                                         : 0;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct pst_heads shape = request_most_heads(request);

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

    pst_dnnl_must(status);
}

/* The keys that tokens first ... end - 1 of the rows see. */
static struct span keys_of(const struct pst_heads *shape, uint64_t first, uint64_t end)
{
    first += shape->first;
    end += shape->first;
    return (struct span){
        .begin = shape->window != 0 && first >= shape->window ? first + 1 - shape->window : 0,
        .end = shape->causal ? end : shape->keys,
    };
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

/* Clears the probabilities of the keys that a row does not see: before `first`, from `end` on. */
static void clear_rest(float *row, uint64_t first, uint64_t end, uint64_t n)
{
    memset(row, 0, first * sizeof *row);
    if (end < n) {
        memset(row + end, 0, (n - end) * sizeof *row);
    }
}

/* A row of scores: head i of the group, token t, which sees `keys`. */
struct row {
    uint64_t i, t;
    struct span keys;
    uint64_t at, n; /* its first key and their number, in the row */
};

/* Row r of a block from token `first` on, whose scores begin with key `begin`. */
static struct row row_of(const struct pst_heads *shape, uint64_t first, uint64_t r, uint64_t begin)
{
    struct row row = {.i = r % shape->group, .t = first + r / shape->group};

    row.keys = keys_of(shape, row.t, row.t + 1);
    row.at = row.keys.begin - begin;
    row.n = row.keys.end - row.keys.begin;
    return row;
}

/* The bias of the row's first key, or its gradient. */
static float *bias_of(const struct group *group, float *bias, const struct row *row)
{
    const struct pst_heads *shape = group->shape;

    return bias + row->i * distances_of(shape) + shape->rows - 1 - row->t + row->keys.begin;
}

/* Scores as products become scores with bias, which are scaled already; returns the scale that is
   left to do. */
static float add_bias(const struct group *group, const struct row *row, float *scores)
{
    if (group->bias == NULL) {
        return request_scale(group->shape);
    }
    group->simd->scale(scores, scores, request_scale(group->shape), row->n);
    group->simd->add(scores, scores, bias_of(group, group->bias, row), row->n);
    return 1.0f;
}

static void forward_block(const struct group *group, uint64_t first, uint64_t tokens)
{
    const struct pst_heads *shape = group->shape;
    const struct span keys = keys_of(shape, first, first + tokens);
    const uint64_t n = keys.end - keys.begin, depth = shape->depth, rows = tokens * shape->group;
    const float *v = group->v + keys.begin * depth;
    float *y = group->y + first * shape->group * depth;

    multiply('N', 'N', rows, padded(n), depth, group->q + first * shape->group * depth, depth,
             group->turned_k + keys.begin, turned_ld(shape), 0, group->probs, ld_of(shape));
    for (uint64_t r = 0; r < rows; r++) {
        const struct row row = row_of(shape, first, r, keys.begin);
        float *scores = group->probs + r * ld_of(shape) + row.at, shift, sum;
        const float scale = add_bias(group, &row, scores);
        const uint64_t filled = pad_row(scores, row.n, -INFINITY);

        sum = group->simd->exp_row(scores, scale, filled, &shift);
        clear_rest(scores - row.at, row.at, row.at + filled, n);
        group->factors[r] = 1.0f / sum;
        if (group->lse != NULL) {
            group->lse[row.i * shape->rows + row.t] = shift + (float)log((double)sum);
        }
    }
    multiply('N', 'N', rows, depth, n, group->probs, ld_of(shape), v, depth, 0, y, depth);
    for (uint64_t r = 0; r < rows; r++) {
        group->simd->scale(y + r * depth, y + r * depth, group->factors[r], depth);
    }
}

/* dscores: those after the bias; they become those of the products. */
static void bias_gradient(const struct group *group, const struct row *row, float *dscores)
{
    if (group->bias != NULL) {
        float *dbias = bias_of(group, group->dbias, row);

        group->simd->add(dbias, dbias, dscores, row->n);
        group->simd->scale(dscores, dscores, request_scale(group->shape), row->n);
    }
}

static void backward_block(const struct group *group, uint64_t first, uint64_t tokens, float beta)
{
    const struct pst_heads *shape = group->shape;
    const struct span keys = keys_of(shape, first, first + tokens);
    const uint64_t n = padded(keys.end - keys.begin), depth = shape->depth, ld = ld_of(shape);
    const uint64_t rows = tokens * shape->group, at = first * shape->group * depth;
    const uint64_t turned = turned_ld(shape);
    const float *q = group->q + at, *dy = group->dy + at;

    multiply('N', 'N', rows, n, depth, q, depth, group->turned_k + keys.begin, turned, 0,
             group->probs, ld);
    multiply('N', 'N', rows, n, depth, dy, depth, group->turned_v + keys.begin, turned, 0,
             group->dprobs, ld);
    for (uint64_t r = 0; r < rows; r++) {
        const struct row row = row_of(shape, first, r, keys.begin);
        float *p = group->probs + r * ld + row.at, *dp = group->dprobs + r * ld + row.at;
        const float scale = add_bias(group, &row, p);
        const uint64_t filled = pad_row(p, row.n, -INFINITY);

        pad_row(dp, row.n, 0);
        group->simd->exp_known(p, p, scale, group->lse[row.i * shape->rows + row.t], filled);
        group->simd->softmax_back(dp, p, scale, filled);
        bias_gradient(group, &row, dp);
        clear_rest(p - row.at, row.at, row.at + filled, n);
        clear_rest(dp - row.at, row.at, row.at + filled, n);
    }
    multiply('N', 'N', rows, depth, keys.end - keys.begin, group->dprobs, ld,
             group->k + keys.begin * depth, depth, 0, group->dq + at, depth);
    multiply('T', 'N', depth, n, rows, q, depth, group->dprobs, ld, beta,
             group->turned_dk + keys.begin, turned);
    multiply('T', 'N', depth, n, rows, dy, depth, group->probs, ld, beta,
             group->turned_dv + keys.begin, turned);
}

static void run_group(const struct group *group, uint32_t pass)
{
    const struct pst_heads *shape = group->shape;

    if (pass == PST_KERNEL_F) {
        for (uint64_t first = 0; first < shape->rows; first += block_of(shape)) {
            const uint64_t left = shape->rows - first;

            forward_block(group, first, left < block_of(shape) ? left : block_of(shape));
        }
        return;
    }
    if (shape->window != 0) { /* keys that the last block does not see, either */
        memset(group->turned_dk, 0, shape->depth * turned_ld(shape) * sizeof(float));
        memset(group->turned_dv, 0, shape->depth * turned_ld(shape) * sizeof(float));
    }
    /* From the last block on: it overwrites the gradients of the keys that it sees, others add. */
    for (uint64_t end = shape->rows, begin; end > 0; end = begin) {
        begin = (end - 1) / block_of(shape) * block_of(shape);
        backward_block(group, begin, end - begin, end == shape->rows ? 0.0f : 1.0f);
    }
}

/* --- operands of a group ---------------------------------------------------------------------- */

struct job {
    const struct pst_op_request *request;
    const struct pst_call *call;
    struct pst_heads shape;
};

/* Where rows of a group lie in a tensor. */
struct place {
    uint32_t tensor; /* which input, for q, k and v */
    uint64_t rows, width, at, ld;
};

/* The rows, f32 and dense. */
static void load_rows(const struct job *job, float *dst, const void *src, struct place place)
{
    for (uint64_t i = 0; i < place.rows; i++, place.at += place.ld, dst += place.width) {
        if (job->request->dtype == PST_F32) {
            memcpy(dst, (const float *)src + place.at, place.width * sizeof *dst);
        } else {
            job->request->device->simd->widen(dst, (const uint16_t *)src + place.at, place.width);
        }
    }
}

static void store_rows(const struct job *job, void *dst, struct place place, const float *src)
{
    for (uint64_t i = 0; i < place.rows; i++, place.at += place.ld, src += place.width) {
        if (job->request->dtype == PST_F32) {
            memcpy((float *)dst + place.at, src, place.width * sizeof *src);
        } else {
            job->request->device->simd->narrow((uint16_t *)dst + place.at, src, place.width);
        }
    }
}

/* q, then k and v, which are packed with it or apart; then result and dy. */
static void places_of(const struct pst_heads *shape, uint64_t sample, uint64_t kv_head,
                      struct place ret_places[4])
{
    const uint64_t width = shape->group * shape->depth;
    const uint64_t kv_rows = shape->packed ? shape->rows : shape->keys;
    const uint64_t kv = sample * kv_rows * shape->kv_stride + kv_head * shape->depth;
    const uint32_t other = shape->packed ? 0 : 1;

    ret_places[0] =
        (struct place){0, shape->rows, width,
                       sample * shape->rows * shape->q_stride + kv_head * width, shape->q_stride};
    ret_places[1] =
        (struct place){other, kv_rows, shape->depth, kv + shape->k_at, shape->kv_stride};
    ret_places[2] = ret_places[1];
    ret_places[2].at = kv + shape->v_at;
    ret_places[3] =
        (struct place){0, shape->rows, width,
                       sample * shape->rows * shape->columns + kv_head * width, shape->columns};
}

/* Keys or values: those of earlier slices, then the own ones. */
static void load_keys(const struct job *job, float *dst, const struct place *place)
{
    for (uint64_t j = 0; j < job->shape.keys; j += place->rows) {
        load_rows(job, dst + j * place->width, request_keys_from(&job->shape, job->call, j),
                  *place);
    }
}

/* Gradients of keys (0) or values (1) of one key head. Those of earlier slices are added to their
   dpast; those of this slice, the last, get what later ones added. */
static void share_past(const struct job *job, uint64_t sample, uint64_t kv_head, uint32_t values,
                       float *sums)
{
    const struct pst_heads *shape = &job->shape;
    const struct pst_simd *simd = job->request->device->simd;
    const uint64_t depth = shape->depth, half = shape->kv_heads * depth;
    const bool last = job->call->slice + 1 == request_slices(job->request);
    const uint64_t at = sample * shape->rows * 2 * half + values * half + kv_head * depth;

    for (uint64_t j = 0; request_slices(job->request) > 1 && j < shape->keys; j++) {
        float *past = job->call->dpast[j / shape->rows], *sum = sums + j * depth;

        if (past == NULL) {
            continue;
        }
        past += at + j % shape->rows * 2 * half;
        if (j >= shape->first) {
            simd->add(sum, past, sum, depth);
        } else if (last) {
            memcpy(past, sum, depth * sizeof *past);
        } else {
            simd->add(past, past, sum, depth);
        }
    }
}

/* [keys][depth] to [depth][turned_ld], or back. */
static void turn(const struct group *group, float *dst, const float *src)
{
    const struct pst_heads *shape = group->shape;

    group->simd->turn(dst, turned_ld(shape), src, shape->depth, shape->keys, shape->depth);
}

static void turn_back(const struct group *group, float *dst, const float *src)
{
    const struct pst_heads *shape = group->shape;

    group->simd->turn(dst, shape->depth, src, turned_ld(shape), shape->depth, shape->keys);
}

/* Keys are where values will be until they have been turned. */
static void run_forward(const struct job *job, const struct place places[4], struct group *group)
{
    load_keys(job, group->v, &places[1]);
    turn(group, group->turned_k, group->v);
    load_keys(job, group->v, &places[2]);
    run_group(group, PST_KERNEL_F);
    store_rows(job, job->call->y[0], places[3], group->y);
}

static void run_backward(const struct job *job, const struct place places[4], uint64_t item,
                         struct group *group)
{
    const struct pst_heads *shape = &job->shape;
    const uint64_t sample = item / shape->kv_heads, kv_head = item % shape->kv_heads;
    const uint64_t own = shape->first * shape->depth;
    /* Where keys were, once they have been read. */
    float *const gradients[3] = {group->dq, group->k, group->turned_k};

    load_keys(job, group->turned_dv, &places[2]);
    turn(group, group->turned_v, group->turned_dv);
    load_keys(job, group->k, &places[1]);
    turn(group, group->turned_k, group->k);
    load_rows(job, group->y, job->call->dy, places[3]);
    run_group(group, PST_KERNEL_B);
    turn_back(group, gradients[1], group->turned_dk);
    turn_back(group, gradients[2], group->turned_dv);
    share_past(job, sample, kv_head, 0, gradients[1]);
    share_past(job, sample, kv_head, 1, gradients[2]);
    for (uint32_t i = 0; i < 3; i++) {
        void *dx = request_operand(job->call->dx, places[i].tensor);

        if (dx != NULL) {
            store_rows(job, dx, places[i], gradients[i] + (i == 0 ? 0 : own));
        }
    }
}

static void load_and_run(const struct job *job, uint64_t item, float *floats, struct group *group)
{
    struct place places[4];
    const struct pst_heads *shape = &job->shape;
    const uint64_t q = shape->rows * shape->group * shape->depth, k = shape->keys * shape->depth;
    const uint64_t turned = shape->depth * turned_ld(shape);

    places_of(shape, item / shape->kv_heads, item % shape->kv_heads, places);
    load_rows(job, floats, job->call->x[0], places[0]);
    group->q = floats;
    group->y = floats + q;
    group->k = group->v = floats + 2 * q;
    group->turned_k = group->k + k;
    if (job->request->pass == PST_KERNEL_F) {
        run_forward(job, places, group);
        return;
    }
    group->dy = group->y;
    group->turned_v = group->turned_k + turned;
    group->turned_dk = group->turned_v + turned;
    group->turned_dv = group->turned_dk + turned;
    group->dq = group->turned_dv + turned;
    run_backward(job, places, item, group);
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

static void run_groups(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct job *job = context;
    const struct pst_heads *shape = &job->shape;
    const bool back = job->request->pass == PST_KERNEL_B;
    const uint64_t rows = block_of(shape) * shape->group, scores = rows * ld_of(shape);
    const uint64_t distances = distances_of(shape), n = shape->group;
    float *bias = (float *)job->call->workspace + thread * thread_floats(job->request, shape);
    float *factors = bias + padded(n * distances), *floats = factors + padded(rows);
    float *lse = job->call->y[1];

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t kv_head = i % shape->kv_heads;
        struct group group = {.shape = shape, .simd = job->request->device->simd};

        group.lse = lse == NULL ? NULL : lse + i * n * shape->rows;
        group.factors = factors;
        group.probs = floats;
        group.dprobs = floats + scores;
        for (uint64_t h = 0; h < n && distances > 0; h++) {
            load_bias(job, kv_head * n + h, bias + h * distances);
            group.bias = bias;
            group.dbias = distance_gradients(job) + i * n * distances;
        }
        if (back && distances > 0) {
            memset(group.dbias, 0, n * distances * sizeof *group.dbias);
        }
        load_and_run(job, i, floats + (back ? 2 : 1) * scores, &group);
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct job job = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    job.shape = request_heads_of(job.request, call->slice);
    if (job.request->pass == PST_KERNEL_B && distances_of(&job.shape) == 0 &&
        request_operand(call->dx, 0) == NULL &&
        request_operand(call->dx, job.shape.packed ? 0 : 1) == NULL) {
        return;
    }
    pst_cpu_parallel(job.request->device, job.request->samples * job.shape.kv_heads, run_groups,
                     &job);
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
