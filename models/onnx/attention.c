/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by its parts: softmax(scale q k' + what is added) v over heads that were split off and
 * are put together again. What is added hangs on no sample: a mask that hides nothing or what comes
 * later, or T5's numbers by distance (graph/distance.h).
 */
#include "match.h"

#include <math.h>
#include <string.h>

#include "graph/distance.h"

#define HIDDEN (-1e4) /* no score this low is heard */

struct attention {
    struct onnx_model *model;
    struct onnx_value *q, *k, *v; /* [..., heads * width], where heads are split off */
    uint64_t heads, width, queries, keys;
    double scale;
    bool causal, has_bias, one_way;
    struct onnx_param bias;
    uint32_t max_distance;
};

/* Multiplications by numbers, taken off. */
static struct onnx_value *unscaled(struct onnx_model *model, struct onnx_value *value,
                                   double *scale)
{
    for (;;) {
        const struct onnx_node *node;
        double number;

        value = onnx_skip(model, value);
        node = onnx_maker(model, value);
        if (node == NULL || (node->op != ONNX_Mul && node->op != ONNX_Div)) {
            return value;
        }
        if (onnx_number(model, onnx_in(model, node, 1), &number)) {
            *scale = node->op == ONNX_Mul ? *scale * number : *scale / number;
            value = onnx_in(model, node, 0);
        } else if (node->op == ONNX_Mul && onnx_number(model, onnx_in(model, node, 0), &number)) {
            *scale *= number;
            value = onnx_in(model, node, 1);
        } else {
            return value;
        }
    }
}

/* [1, places, heads * width] after a split into heads and the permutation `wanted` of [1, places,
   heads, width]; NULL: it is none. */
static struct onnx_value *split_off(struct attention *a, struct onnx_value *value,
                                    const uint32_t wanted[4], double *scale,
                                    struct onnx_value **ret_split)
{
    uint32_t perm[4] = {0, 1, 2, 3};
    const struct onnx_node *node;
    struct onnx_value *from;

    for (;;) {
        uint32_t n, before[4];
        const int64_t *list;

        value = unscaled(a->model, value, scale);
        node = onnx_maker(a->model, value);
        if (node == NULL || node->op != ONNX_Transpose || value->rank != 4) {
            break;
        }
        list = onnx_ints(node, "perm", &n);
        memcpy(before, perm, sizeof before);
        for (uint32_t i = 0; i < 4; i++) {
            perm[i] = list == NULL ? 3 - before[i] : (uint32_t)list[before[i]];
        }
        value = onnx_in(a->model, node, 0);
    }
    if (node == NULL || node->op != ONNX_Reshape || value->rank != 4 || value->dims[0] != 1 ||
        memcmp(perm, wanted, sizeof perm) != 0) {
        return NULL;
    }
    from = onnx_in(a->model, node, 0);
    if (from->rank == 0 || from->dims[from->rank - 1] != value->dims[2] * value->dims[3]) {
        return NULL;
    }
    *ret_split = value;
    return unscaled(a->model, from, scale);
}

/* Which places see which: hidden(query, key) of a mask that is added, or of what Where keeps. */
struct mask {
    const struct onnx_value *value;
    const struct onnx_data *data;
    bool kept_where; /* truth values: where not this, it is hidden */
    bool truth;
};

static bool read_mask(const struct attention *a, const struct mask *mask, bool *ret_causal,
                      bool *ret_plain)
{
    const struct onnx_value *m = mask->value;
    const uint64_t columns = m->rank > 0 ? m->dims[m->rank - 1] : 1;
    const uint64_t rows = m->rank > 1 ? m->dims[m->rank - 2] : 1;

    if (mask->data == NULL || onnx_elems(m) == 0 || (rows != 1 && rows != a->queries) ||
        (columns != 1 && columns != a->keys)) {
        return false;
    }
    *ret_causal = *ret_plain = true;
    for (uint64_t at = 0; at < onnx_elems(m) / columns * a->keys; at++) { /* of all heads */
        const uint64_t i = at / a->keys % rows, j = at % a->keys;
        const double x = onnx_real(mask->data, at / a->keys * columns + (columns == 1 ? 0 : j));
        const bool hidden = mask->truth ? (x != 0) != mask->kept_where : x <= HIDDEN;

        if (!mask->truth && !hidden && x != 0) {
            return false;
        }
        *ret_plain = *ret_plain && !hidden;
        *ret_causal = *ret_causal && rows == a->queries && hidden == (j > i);
    }
    return true;
}

static bool add_mask(struct attention *a, const struct mask *mask)
{
    bool causal, none;

    if (!read_mask(a, mask, &causal, &none) || (!none && !causal)) {
        return false;
    }
    a->causal = a->causal || (causal && !none);
    return true;
}

static bool all_in_buckets(const struct attention *a, const struct onnx_data *data,
                           uint32_t buckets, uint32_t max_distance, bool one_way)
{
    for (uint64_t i = 0; i < a->queries; i++) {
        for (uint64_t j = 0; j < a->keys; j++) {
            if (onnx_integer(data, i * a->keys + j) !=
                pst_distance_bucket((int64_t)j - (int64_t)i, buckets, max_distance, one_way)) {
                return false;
            }
        }
    }
    return true;
}

/* Rows of a table by how far a key is from a query. The distance beyond which all are one follows
   from the numbers; where none is that far, any does. */
static bool add_distances(struct attention *a, struct onnx_value *value)
{
    const struct onnx_node *node;
    struct onnx_value *places;
    const struct onnx_data *data;
    uint32_t buckets;
    uint32_t n;
    const int64_t *perm;
    bool swapped;

    while ((node = onnx_maker(a->model, value = onnx_skip(a->model, value))) != NULL &&
           node->op == ONNX_Unsqueeze) {
        value = onnx_in(a->model, node, 0);
    }
    if (node == NULL || node->op != ONNX_Transpose || value->rank != 3 || a->has_bias) {
        return false;
    }
    perm = onnx_ints(node, "perm", &n);
    node = match_maker(a->model, onnx_in(a->model, node, 0), ONNX_Gather);
    if (perm == NULL || perm[0] != 2 || perm[1] != 0 || node == NULL ||
        onnx_int(node, "axis", 0) != 0 || onnx_padding(a->model, node) >= 0 ||
        !onnx_parameter(a->model, onnx_in(a->model, node, 0), &a->bias, &swapped) || swapped ||
        a->bias.rank != 2) {
        return false;
    }
    places = onnx_in(a->model, node, 1);
    data = places->fixed ? onnx_known(a->model, places) : NULL;
    buckets = (uint32_t)a->bias.dims[0];
    if (data == NULL || places->rank != 2 || places->dims[0] != a->queries ||
        places->dims[1] != a->keys || a->bias.dims[1] != a->heads || buckets < 4 ||
        (buckets & (buckets - 1)) != 0 || buckets > 65536) {
        return false;
    }
    for (uint32_t most = 128; most <= 128 + 4096; most++) {
        const uint32_t max_distance = most <= 4096 ? most : most - 4096;

        for (uint32_t one_way = 0; one_way < 2 && max_distance > buckets / 2; one_way++) {
            if (all_in_buckets(a, data, buckets, max_distance, one_way != 0)) {
                a->has_bias = true;
                a->one_way = one_way != 0;
                a->max_distance = max_distance;
                return true;
            }
        }
    }
    return false;
}

/* Where(truth, scores, far below), or the other way round: the scores. */
static struct onnx_value *chosen(struct attention *a, const struct onnx_node *node)
{
    struct onnx_value *truth = onnx_in(a->model, node, 0);

    for (uint32_t i = 1; i < 3; i++) {
        struct onnx_value *low = onnx_in(a->model, node, i);
        double number;

        if (truth->fixed && onnx_number(a->model, low, &number) && number <= HIDDEN &&
            add_mask(a, &(struct mask){.value = truth,
                                       .data = onnx_known(a->model, truth),
                                       .truth = true,
                                       .kept_where = i == 2})) {
            return onnx_in(a->model, node, 3 - i);
        }
    }
    return NULL;
}

/* Adds a term of the scores: a mask, numbers by distance, or a sum of such terms. */
static bool add_term(struct attention *a, struct onnx_value *value, uint32_t depth)
{
    const struct onnx_node *node;

    value = onnx_skip(a->model, value);
    node = onnx_maker(a->model, value);
    if (!value->learned) {
        return add_mask(a, &(struct mask){.value = value, .data = onnx_known(a->model, value)});
    }
    if (node != NULL && node->op == ONNX_Add && depth < 4) {
        return add_term(a, onnx_in(a->model, node, 0), depth + 1) &&
               add_term(a, onnx_in(a->model, node, 1), depth + 1);
    }
    if (node != NULL && node->op == ONNX_Where && depth < 4) {
        value = chosen(a, node);
        return value != NULL && add_term(a, value, depth + 1);
    }
    return add_distances(a, value);
}

/* From the scores, as softmax reads them, to the product of q and k. */
static const struct onnx_node *scores(struct attention *a, struct onnx_value *value)
{
    while (value != NULL) {
        const struct onnx_node *node;
        double before = a->scale;

        value = unscaled(a->model, value, &a->scale);
        if (a->scale != before && a->has_bias) {
            return NULL; /* the numbers by distance would be scaled, too */
        }
        node = onnx_maker(a->model, value);
        if (node == NULL || node->op == ONNX_MatMul) {
            return node;
        }
        if (node->op == ONNX_Add) {
            const uint32_t i = onnx_in(a->model, node, 0)->fixed ? 0 : 1;

            value = onnx_in(a->model, node, i)->fixed && add_term(a, onnx_in(a->model, node, i), 0)
                        ? onnx_in(a->model, node, 1 - i)
                        : NULL;
        } else {
            value = node->op == ONNX_Where ? chosen(a, node) : NULL;
        }
    }
    return NULL;
}

/* The softmax in Where(IsNaN(it), a number, it), a guard of exporters against rows of which all is
   hidden; NULL: the node is something else. */
static struct onnx_value *guarded(struct onnx_model *model, const struct onnx_node *node)
{
    const struct onnx_node *test = match_maker(model, onnx_in(model, node, 0), ONNX_IsNaN);
    struct onnx_value *y = onnx_in(model, node, 2);

    return test != NULL && onnx_in(model, test, 0) == y &&
                   match_maker(model, y, ONNX_Softmax) != NULL
               ? y
               : NULL;
}

bool match_guard(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_value *y = guarded(model, match->node);

    if (y != NULL) {
        match->emit = onnx_emit_view;
        match_reads(model, match, y);
    }
    return y != NULL;
}

/* Softmax over the keys. */
static const struct onnx_node *softmax(struct onnx_model *model, struct onnx_value *value)
{
    const struct onnx_node *node = match_maker(model, value, ONNX_Where);
    struct onnx_value *inside = node == NULL ? NULL : guarded(model, node);

    node = match_maker(model, inside == NULL ? value : inside, ONNX_Softmax);
    return node != NULL && onnx_in(model, node, 0)->rank == 4 &&
                   onnx_axis(onnx_int(node, "axis", model->opset < 13 ? 1 : -1), 4) == 3
               ? node
               : NULL;
}

/* q, k and v are the thirds of one. */
static struct onnx_value *packed(struct attention *a)
{
    struct onnx_value *const parts[3] = {a->q, a->k, a->v};
    struct onnx_value *whole = NULL;

    for (uint32_t i = 0; i < 3; i++) {
        const struct onnx_node *node = onnx_maker(a->model, parts[i]);
        const uint64_t width = a->heads * a->width;
        struct onnx_value *x = NULL;
        uint64_t first = parts[i]->output * width, size = 0;
        uint32_t axis = 0;

        if (node != NULL && node->op == ONNX_Split && parts[i]->rank > 0) {
            x = onnx_in(a->model, node, 0);
            axis = onnx_axis(onnx_int(node, "axis", 0), x->rank);
            size = parts[i]->dims[parts[i]->rank - 1];
        } else if (node != NULL && node->op == ONNX_SequenceAt) {
            x = onnx_part(a->model, node, &axis, &first, &size);
        }
        if (x == NULL || (whole != NULL && x != whole) || axis + 1 != x->rank ||
            first != i * width || size != width || x->dims[axis] != 3 * width) {
            return NULL;
        }
        whole = x;
    }
    return whole;
}

static bool find_parts(struct attention *a, const struct onnx_node *node)
{
    static const uint32_t rows[4] = {0, 2, 1, 3}, columns[4] = {0, 2, 3, 1};
    struct onnx_value *x = onnx_in(a->model, node, 0), *split[3];
    const struct onnx_node *back = match_maker(a->model, x, ONNX_Transpose), *out, *product, *soft;
    double none = 1;
    uint32_t n;
    const int64_t *perm = back == NULL ? NULL : onnx_ints(back, "perm", &n);

    if (perm == NULL || n != 4 || perm[0] != 0 || perm[1] != 2 || perm[2] != 1 || perm[3] != 3) {
        return false;
    }
    out = match_maker(a->model, onnx_in(a->model, back, 0), ONNX_MatMul);
    soft = out == NULL ? NULL : softmax(a->model, onnx_in(a->model, out, 0));
    if (soft == NULL) {
        return false;
    }
    a->v = split_off(a, onnx_in(a->model, out, 1), rows, &none, &split[2]);
    if (a->v == NULL || none != 1) {
        return false;
    }
    a->heads = split[2]->dims[2];
    a->width = split[2]->dims[3];
    a->keys = split[2]->dims[1];
    a->queries = onnx_in(a->model, soft, 0)->dims[2];
    product = scores(a, onnx_in(a->model, soft, 0));
    if (product == NULL) {
        return false;
    }
    a->q = split_off(a, onnx_in(a->model, product, 0), rows, &a->scale, &split[0]);
    a->k = split_off(a, onnx_in(a->model, product, 1), columns, &a->scale, &split[1]);
    return a->q != NULL && a->k != NULL && !a->q->fixed && !a->k->fixed && !a->v->fixed &&
           split[0]->dims[2] == a->heads && split[0]->dims[3] == a->width &&
           split[0]->dims[1] == a->queries && split[1]->dims[1] == a->keys &&
           split[1]->dims[2] == a->heads && split[1]->dims[3] == a->width;
}

/* The scale that attention has by itself. */
static bool is_usual(double scale, uint64_t width)
{
    return fabs(scale * sqrt((double)width) - 1) < 1e-6;
}

bool match_attention(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_value *y = onnx_out(model, match->node, 0);
    struct attention a = {.model = model, .scale = 1};
    const struct onnx_value *whole;
    bool alone;

    if (!find_parts(&a, match->node) || y->rank == 0 || y->dims[y->rank - 1] != a.heads * a.width ||
        (a.has_bias && a.one_way != a.causal)) {
        return false;
    }
    alone = a.queries == a.keys;
    if (!alone && (a.causal || a.has_bias)) {
        return false;
    }
    whole = packed(&a);
    match->op.kind = PST_OP_ATTENTION;
    match->op.heads = (uint32_t)a.heads;
    match->op.causal = a.causal;
    match->op.scale = is_usual(a.scale, a.width) ? 0 : (float)a.scale;
    match->op.max_distance = a.has_bias ? a.max_distance : 0;
    match->has_param[0] = a.has_bias;
    match->param[0] = a.bias;
    match->emit = onnx_emit_attention;
    match->flag = whole != NULL;
    match->n_in = whole != NULL ? 1 : 3;
    match->in[0] = (uint32_t)((whole != NULL ? whole : a.q) - model->values);
    match->in[1] = (uint32_t)(a.k - model->values);
    match->in[2] = (uint32_t)(a.v - model->values);
    return true;
}
