/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as the operations that cuDNN recognizes as such: it matches the pattern as a whole, so
 * their order and the types of what is between them are part of the interface.
 */
#include <float.h>

#include "dnn_graph.h"

#define NONE PST_DNN_NONE

struct dims {
    int64_t q[4], kt[4], scores[4], stats[4];        /* kt: keys or values, transposed */
    int64_t q_at[4], o_at[4], kt_at[4], stats_at[4]; /* strides */
};

static struct dims dims_of(const struct pst_dnn_attention *a)
{
    const int64_t n = (int64_t)a->batch, h = (int64_t)a->heads, rows = (int64_t)a->rows;
    const int64_t shared = (int64_t)a->kv_heads;
    const int64_t keys = (int64_t)a->keys, d = (int64_t)a->depth, q = (int64_t)a->q_stride;
    const int64_t kv = (int64_t)a->kv_stride, o = (int64_t)a->o_stride;

    return (struct dims){
        .q = {n, h, rows, d},
        .kt = {n, shared, d, keys},
        .scores = {n, h, rows, keys},
        .stats = {n, h, rows, 1},
        .q_at = {q * rows, d, q, 1},
        .o_at = {o * rows, d, o, 1},
        .kt_at = {kv * keys, d, 1, kv},
        .stats_at = {h * rows, rows, 1, 1},
    };
}

/* Keys or values as rows of a head. */
static uint32_t rows_of_keys(struct pst_dnn_graph *g, const struct dims *d, uint32_t role)
{
    const int64_t dims[4] = {d->kt[0], d->kt[1], d->kt[3], d->kt[2]};
    const int64_t strides[4] = {d->kt_at[0], d->kt_at[1], d->kt_at[3], d->kt_at[2]};

    return pst_dnn_memory(g, role, PST_DNN_BF16, dims, strides);
}

/* Where the row and the key of a score are compared: the index of either. */
static uint32_t index_of(struct pst_dnn_graph *g, uint32_t scores, uint32_t axis)
{
    const uint32_t index = pst_dnn_inside(g, PST_DNN_I32, g->tensors[scores].dims);

    pst_dnn_op(g, PST_DNN_INDEX, scores, NONE, index);
    g->ops[g->n_ops - 1].axis = axis;
    return index;
}

/* Scores where x kind b does not hold become very small. */
static uint32_t keep_where(struct pst_dnn_graph *g, uint32_t scores, uint32_t kind, uint32_t x,
                           uint32_t b)
{
    const uint32_t keep = pst_dnn_inside(g, PST_DNN_BOOL, g->tensors[scores].dims);
    const uint32_t least = pst_dnn_value(g, -FLT_MAX);
    uint32_t kept;

    pst_dnn_op(g, kind, x, b, keep);
    kept = pst_dnn_map(g, PST_DNN_SELECT, scores, least);
    g->ops[g->n_ops - 1].t = keep;
    return kept;
}

/* Keys after the row, and those that the window has left. */
static uint32_t mask(struct pst_dnn_graph *g, const struct pst_dnn_attention *a, uint32_t scores)
{
    uint32_t row, key;

    if (a->causal) {
        row = index_of(g, scores, 2);
        key = index_of(g, scores, 3);
        scores = keep_where(g, scores, PST_DNN_GE, row, key);
    }
    if (a->window > 0) {
        row = index_of(g, scores, 2);
        key = index_of(g, scores, 3);
        key = pst_dnn_map(g, PST_DNN_ADD, key, pst_dnn_value(g, (float)a->window));
        scores = keep_where(g, scores, PST_DNN_GT, key, row);
    }
    return scores;
}

static uint32_t scaled_scores(struct pst_dnn_graph *g, const struct pst_dnn_attention *a,
                              const struct dims *d, uint32_t q, uint32_t kt)
{
    uint32_t scores = pst_dnn_inside(g, PST_DNN_F32, d->scores);

    pst_dnn_op(g, PST_DNN_MATMUL, q, kt, scores);
    return pst_dnn_map(g, PST_DNN_MUL, scores, pst_dnn_value(g, a->scale));
}

void pst_dnn_attention_forward(const struct pst_dnn_attention *a, struct pst_dnn_graph *g)
{
    const struct dims d = dims_of(a);
    uint32_t q, kt, v, o, stats, scores, most, sum, e, log_sum, probs;

    pst_dnn_graph_init(g);
    g->ordered = true; /* a replay has to repeat it */
    q = pst_dnn_memory(g, PST_DNN_Q, PST_DNN_BF16, d.q, d.q_at);
    kt = pst_dnn_memory(g, PST_DNN_K, PST_DNN_BF16, d.kt, d.kt_at);
    v = rows_of_keys(g, &d, PST_DNN_V);
    o = pst_dnn_memory(g, PST_DNN_O, PST_DNN_BF16, d.q, d.o_at);
    stats = pst_dnn_memory(g, PST_DNN_STATS, PST_DNN_F32, d.stats, d.stats_at);
    scores = scaled_scores(g, a, &d, q, kt);
    scores = mask(g, a, scores);
    most = pst_dnn_inside(g, PST_DNN_F32, d.stats);
    pst_dnn_op(g, PST_DNN_REDUCE_MAX, scores, NONE, most);
    e = pst_dnn_map(g, PST_DNN_EXP, pst_dnn_map(g, PST_DNN_SUB, scores, most), NONE);
    sum = pst_dnn_inside(g, PST_DNN_F32, d.stats);
    pst_dnn_op(g, PST_DNN_REDUCE_ADD, e, NONE, sum);
    log_sum = pst_dnn_map(g, PST_DNN_LOG, sum, NONE);
    pst_dnn_op(g, PST_DNN_ADD, most, log_sum, stats);
    probs = pst_dnn_inside(g, PST_DNN_BF16, d.scores);
    pst_dnn_op(g, PST_DNN_DIV, e, sum, probs);
    pst_dnn_op(g, PST_DNN_MATMUL, probs, v, o);
}

/* Sums of dy over the rows of y, which the slopes of a row's scores are taken against. */
static uint32_t delta_of(struct pst_dnn_graph *g, const struct dims *d, uint32_t dy, uint32_t o)
{
    const uint32_t sums = pst_dnn_inside(g, PST_DNN_F32, d->stats);
    const uint32_t delta = pst_dnn_memory(g, PST_DNN_DELTA, PST_DNN_F32, d->stats, d->stats_at);

    pst_dnn_op(g, PST_DNN_REDUCE_ADD, pst_dnn_map(g, PST_DNN_MUL, dy, o), NONE, sums);
    return pst_dnn_op(g, PST_DNN_MUL, sums, pst_dnn_value(g, 1), delta);
}

/* y [keys, depth] = the transposed squares times rows, summed over heads that share keys. */
static void transposed_product(struct pst_dnn_graph *g, const struct dims *d, uint32_t squares,
                               uint32_t rows, uint32_t y)
{
    const int64_t dims[4] = {d->scores[0], d->scores[1], d->scores[3], d->scores[2]};
    const uint32_t flat = pst_dnn_inside(g, PST_DNN_BF16, dims);

    g->tensors[flat].strides[2] = 1;
    g->tensors[flat].strides[3] = d->scores[3];
    pst_dnn_op(g, PST_DNN_RESHAPE, squares, NONE, flat);
    if (g->tensors[y].dims[1] != d->scores[1]) {
        const int64_t all[4] = {d->scores[0], d->scores[1], d->scores[3], d->q[3]};
        const uint32_t full = pst_dnn_inside(g, PST_DNN_BF16, all);

        pst_dnn_op(g, PST_DNN_MATMUL, flat, rows, full);
        pst_dnn_op(g, PST_DNN_REDUCE_ADD, full, NONE, y);
    } else {
        pst_dnn_op(g, PST_DNN_MATMUL, flat, rows, y);
    }
}

/* dq from the slopes of the scores. */
static void queries_back(struct pst_dnn_graph *g, const struct pst_dnn_attention *a,
                         const struct dims *d, uint32_t slopes, uint32_t kt)
{
    const int64_t dims[4] = {d->kt[0], d->kt[1], d->kt[3], d->kt[2]};
    const int64_t dense[4] = {d->q[1] * d->q[2] * d->q[3], d->q[2] * d->q[3], d->q[3], 1};
    const uint32_t k = pst_dnn_inside(g, PST_DNN_BF16, dims);
    const uint32_t dq = pst_dnn_memory(g, PST_DNN_DQ, PST_DNN_BF16, d->q, d->q_at);
    uint32_t sums = dq;

    for (uint32_t i = 0; i < 4; i++) {
        g->tensors[k].strides[i] = d->kt_at[i == 2 ? 3 : i == 3 ? 2 : i];
    }
    pst_dnn_op(g, PST_DNN_RESHAPE, kt, NONE, k);
    if (!a->ordered) {
        sums = pst_dnn_memory(g, PST_DNN_DQ_SUM, PST_DNN_F32, d->q, dense);
    }
    pst_dnn_op(g, PST_DNN_MATMUL, slopes, k, sums);
    if (!a->ordered) {
        pst_dnn_op(g, PST_DNN_IDENTITY, sums, NONE, dq);
    }
}

void pst_dnn_attention_backward(const struct pst_dnn_attention *a, struct pst_dnn_graph *g)
{
    const struct dims d = dims_of(a);
    uint32_t q, kt, vt, o, dy, stats, delta, scores, e, dprobs, slopes;

    pst_dnn_graph_init(g);
    g->ordered = a->ordered;
    q = pst_dnn_memory(g, PST_DNN_Q, PST_DNN_BF16, d.q, d.q_at);
    kt = pst_dnn_memory(g, PST_DNN_K, PST_DNN_BF16, d.kt, d.kt_at);
    vt = pst_dnn_memory(g, PST_DNN_V, PST_DNN_BF16, d.kt, d.kt_at);
    o = pst_dnn_memory(g, PST_DNN_O, PST_DNN_BF16, d.q, d.o_at);
    dy = pst_dnn_memory(g, PST_DNN_DO, PST_DNN_BF16, d.q, d.o_at);
    stats = pst_dnn_memory(g, PST_DNN_STATS, PST_DNN_F32, d.stats, d.stats_at);
    delta = delta_of(g, &d, dy, o);
    scores = pst_dnn_map(g, PST_DNN_SUB, scaled_scores(g, a, &d, q, kt), stats);
    scores = mask(g, a, scores);
    e = pst_dnn_map(g, PST_DNN_EXP, scores, NONE);
    transposed_product(g, &d, e, dy, rows_of_keys(g, &d, PST_DNN_DV));
    dprobs = pst_dnn_inside(g, PST_DNN_F32, d.scores);
    pst_dnn_op(g, PST_DNN_MATMUL, dy, vt, dprobs);
    slopes = pst_dnn_map(g, PST_DNN_MUL, pst_dnn_map(g, PST_DNN_SUB, dprobs, delta), e);
    slopes = pst_dnn_map(g, PST_DNN_MUL, slopes, pst_dnn_value(g, a->scale));
    transposed_product(g, &d, slopes, q, rows_of_keys(g, &d, PST_DNN_DK));
    queries_back(g, a, &d, slopes, kt);
}
