/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the operator that a node becomes. A group of nodes is found by its last node and becomes
 * one of the fast operators of graphs; any other node becomes the general operator of its kind.
 * Values inside a group stay available to other nodes that read them.
 */
#include "match.h"

#include <string.h>

/* --- looking through nodes -------------------------------------------------------------------- */

static bool same_dims(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

bool onnx_drops(struct onnx_model *model, const struct onnx_node *node, double *ret_p)
{
    struct onnx_value *ratio = onnx_in(model, node, 1), *training = onnx_in(model, node, 2);
    const struct onnx_data *data = ratio == NULL ? NULL : onnx_known(model, ratio);
    const struct onnx_data *on = training == NULL ? NULL : onnx_known(model, training);

    *ret_p = data != NULL ? onnx_real(data, 0) : (double)onnx_float(node, "ratio", 0.5f);
    /* Before version 12 what trains drops. */
    return *ret_p > 0 && (model->opset < 12 || (on != NULL && onnx_integer(on, 0) != 0));
}

struct onnx_value *onnx_skip(struct onnx_model *model, struct onnx_value *value)
{
    for (;;) {
        const struct onnx_node *node = onnx_maker(model, value);
        struct onnx_value *x = node == NULL ? NULL : onnx_in(model, node, 0);
        double p;

        if (x == NULL || value->output != 0 || !same_dims(x, value)) {
            return value;
        }
        switch (node->op) {
        case ONNX_Identity:
        case ONNX_Reshape:
        case ONNX_Expand:
        case ONNX_Slice: /* of all: with another order of them it would step */
            break;
        case ONNX_Cast:
        case ONNX_CastLike:
            if (!onnx_is_real(x->type) || !onnx_is_real(value->type)) {
                return value;
            }
            break;
        case ONNX_Dropout:
            if (onnx_drops(model, node, &p)) {
                return value;
            }
            break;
        default:
            return value;
        }
        if (node->op == ONNX_Slice && !onnx_slice_is_whole(model, node)) {
            return value;
        }
        value = x;
    }
}

bool onnx_slice_is_whole(struct onnx_model *model, const struct onnx_node *node)
{
    int64_t start[ONNX_RANK], step[ONNX_RANK];
    uint64_t dims[ONNX_RANK];
    bool whole = onnx_slice(model, node, start, step, dims, NULL) == PST_OK;

    for (uint32_t i = 0; i < onnx_in(model, node, 0)->rank && whole; i++) {
        whole = start[i] == 0 && step[i] == 1;
    }
    return whole;
}

const struct onnx_node *match_maker(struct onnx_model *model, struct onnx_value *value, uint32_t op)
{
    const struct onnx_node *node = onnx_maker(model, onnx_skip(model, value));

    return node != NULL && node->op == op ? node : NULL;
}

bool onnx_number(struct onnx_model *model, const struct onnx_value *value, double *ret_number)
{
    const struct onnx_data *data =
        value->fixed && !value->learned ? onnx_known(model, (struct onnx_value *)value) : NULL;

    if (data == NULL || onnx_elems(value) == 0) {
        return false;
    }
    for (uint64_t i = 1; i < onnx_elems(value) && !data->uniform; i++) {
        if (data->i[i] != data->i[0]) { /* bits of either kind */
            return false;
        }
    }
    *ret_number = onnx_real(data, 0);
    return true;
}

/* --- parameters ------------------------------------------------------------------------------- */

/* Axes of a value as those of the initializer: of[i], or ONNX_RANK for one of length 1 that came
   in between. */
struct axes {
    uint32_t rank, of[ONNX_RANK];
};

static void transpose_axes(const struct onnx_node *node, struct axes *axes)
{
    struct axes before = *axes;
    uint32_t n;
    const int64_t *perm = onnx_ints(node, "perm", &n);

    for (uint32_t i = 0; i < axes->rank; i++) {
        axes->of[i] = before.of[perm == NULL ? axes->rank - 1 - i : (uint32_t)perm[i]];
    }
}

/* Through a view that moves only axes of length 1. */
static bool view_axes(const struct onnx_value *x, const struct onnx_value *y, struct axes *axes)
{
    struct axes after = {.rank = y->rank};
    uint32_t from = 0;

    for (uint32_t i = 0; i < y->rank; i++) {
        after.of[i] = ONNX_RANK;
        if (y->dims[i] != 1) {
            while (from < x->rank && x->dims[from] == 1) {
                from++;
            }
            if (from == x->rank || x->dims[from] != y->dims[i]) {
                return false;
            }
            after.of[i] = axes->of[from++];
        }
    }
    while (from < x->rank && x->dims[from] == 1) {
        from++;
    }
    *axes = after;
    return from == x->rank;
}

static bool is_base(const struct onnx_model *model, const struct onnx_value *value)
{
    const struct onnx_node *node = onnx_maker(model, value);

    return value->learned &&
           (value->tensor != NULL || (node != NULL && node->op == ONNX_ConstantOfShape));
}

/* From the initializer down to the value. */
static bool trace_axes(const struct onnx_model *model, const struct onnx_value *value,
                       const struct onnx_value **ret_base, struct axes *ret_axes)
{
    const struct onnx_node *chain[16];
    uint32_t n = 0;

    while (!is_base(model, value)) {
        const struct onnx_node *node = onnx_maker(model, value);

        if (node == NULL || n == 16 || onnx_in(model, node, 0) == NULL || value->output != 0) {
            return false;
        }
        chain[n++] = node;
        value = onnx_in(model, node, 0);
    }
    *ret_base = value;
    ret_axes->rank = value->rank;
    for (uint32_t i = 0; i < value->rank; i++) {
        ret_axes->of[i] = i;
    }
    while (n-- > 0) {
        const struct onnx_value *x = onnx_in(model, chain[n], 0);
        const struct onnx_value *y = onnx_out(model, chain[n], 0);

        switch (chain[n]->op) {
        case ONNX_Transpose:
            transpose_axes(chain[n], ret_axes);
            break;
        case ONNX_Identity:
            break;
        case ONNX_Cast:
        case ONNX_CastLike:
            if (!onnx_is_real(y->type)) {
                return false;
            }
            break;
        case ONNX_Reshape:
        case ONNX_Squeeze:
        case ONNX_Unsqueeze:
        case ONNX_Flatten:
            if (!same_dims(x, y) && !view_axes(x, y, ret_axes)) {
                return false;
            }
            break;
        default:
            return false;
        }
    }
    return true;
}

bool onnx_parameter(const struct onnx_model *model, const struct onnx_value *value,
                    struct onnx_param *ret_param, bool *ret_swapped)
{
    const struct onnx_value *base;
    struct onnx_param param = {0};
    uint32_t order[ONNX_RANK], n = 0;
    struct axes axes;
    bool whole, up = true, down = true;

    if (!value->learned || !trace_axes(model, value, &base, &axes)) {
        return false;
    }
    whole = base->rank <= 2; /* else axes of length 1 are left out */
    for (uint32_t i = 0; i < axes.rank; i++) {
        if (axes.of[i] != ONNX_RANK && (whole || base->dims[axes.of[i]] != 1)) {
            order[n++] = axes.of[i];
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        up = up && order[i] > order[i - 1];
        down = down && order[i] < order[i - 1];
    }
    *ret_swapped = n == 2 && down;
    param.base = (uint32_t)(base - model->values);
    if (model->tied != NULL && model->tied[param.base] != PST_NONE) {
        *ret_swapped = *ret_swapped != model->tied_swapped[param.base];
        param.base = model->tied[param.base];
        base = &model->values[param.base];
    }
    for (uint32_t i = 0; i < base->rank; i++) {
        if (whole || base->dims[i] != 1) {
            param.dims[param.rank++] = base->dims[i];
        }
    }
    *ret_param = param;
    return (up || (n == 2 && down)) && (n == param.rank || !whole);
}

/* A parameter of n numbers in a row, along the last axis. */
bool match_vector(const struct onnx_model *model, const struct onnx_value *value, uint64_t n,
                  struct onnx_param *ret_param)
{
    bool swapped;

    return value != NULL && value->rank > 0 && onnx_parameter(model, value, ret_param, &swapped) &&
           ret_param->rank == 1 && ret_param->dims[0] == n && value->dims[value->rank - 1] == n;
}

static bool matrix(const struct onnx_model *model, const struct onnx_value *value,
                   struct onnx_param *ret_param, bool *ret_swapped)
{
    return onnx_parameter(model, value, ret_param, ret_swapped) && ret_param->rank == 2;
}

/* --- rows of numbers -------------------------------------------------------------------------- */

static uint32_t index_in(const struct onnx_model *model, const struct onnx_value *value)
{
    return (uint32_t)(value - model->values);
}

void match_reads(const struct onnx_model *model, struct onnx_match *match,
                 const struct onnx_value *value)
{
    match->in[match->n_in++] = index_in(model, value);
}

/* x times a matrix that is a parameter. */
static bool match_product(struct onnx_model *model, struct onnx_value *x, struct onnx_value *w,
                          bool w_swapped, struct onnx_match *match)
{
    bool swapped;

    if (x->fixed || x->rank == 0 || !matrix(model, w, &match->param[0], &swapped)) {
        return false;
    }
    match->op.kind = PST_OP_LINEAR;
    match->op.transposed = swapped != w_swapped;
    match->emit = onnx_emit_linear;
    match->has_param[0] = true;
    match->n_in = 0;
    match_reads(model, match, x);
    return true;
}

static bool match_gemm(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    struct onnx_value *bias = onnx_in(model, node, 2);
    const uint64_t width = onnx_out(model, node, 0)->dims[1];
    double zero = 1;

    if (onnx_int(node, "transA", 0) != 0 || onnx_float(node, "alpha", 1) != 1.0f ||
        (bias != NULL && onnx_float(node, "beta", 1) != 1.0f)) {
        return false;
    }
    if (bias != NULL && !(onnx_number(model, bias, &zero) && zero == 0)) {
        if (!match_vector(model, bias, width, &match->param[1])) {
            return false;
        }
        match->has_param[1] = true;
    }
    return match_product(model, onnx_in(model, node, 0), onnx_in(model, node, 1),
                         onnx_int(node, "transB", 0) != 0, match);
}

/* The product that a bias is added to. */
static bool match_biased(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    const struct onnx_value *y = onnx_out(model, node, 0);

    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_node *product = match_maker(model, onnx_in(model, node, i), ONNX_MatMul);

        if (product != NULL && y->rank > 0 &&
            match_vector(model, onnx_in(model, node, 1 - i), y->dims[y->rank - 1],
                         &match->param[1]) &&
            match_product(model, onnx_in(model, product, 0), onnx_in(model, product, 1), false,
                          match)) {
            match->has_param[1] = true;
            return true;
        }
    }
    return false;
}

/* The input of the samples that a value is a view of; NULL: it is not one. */
static struct onnx_value *sample_input(struct onnx_model *model, struct onnx_value *value)
{
    for (;;) {
        const struct onnx_node *node = onnx_maker(model, value);

        if (node == NULL) {
            return value->input != NULL && !value->fixed ? value : NULL;
        }
        if (node->op != ONNX_Reshape && node->op != ONNX_Squeeze && node->op != ONNX_Unsqueeze &&
            node->op != ONNX_Identity && node->op != ONNX_Flatten &&
            (node->op != ONNX_Cast || onnx_is_real(value->type))) {
            return NULL;
        }
        value = onnx_in(model, node, 0);
    }
}

/* Other places than those of an input are tokens where a row of the table has no gradient. */
static bool match_embedding(struct onnx_model *model, const struct onnx_node *gather,
                            struct onnx_match *match)
{
    struct onnx_value *table = onnx_in(model, gather, 0), *places = onnx_in(model, gather, 1);
    const long padding = onnx_padding(model, gather);
    bool swapped;

    if (onnx_axis(onnx_int(gather, "axis", 0), table->rank) != 0 || table->rank != 2 ||
        (padding < 0 && (places->fixed || sample_input(model, places) == NULL)) ||
        !matrix(model, table, &match->param[0], &swapped) || swapped) {
        return false;
    }
    match->op.kind = PST_OP_EMBEDDING;
    match->op.padding = (uint32_t)(padding + 1);
    match->emit = onnx_emit_embedding;
    match->has_param[0] = true;
    match->n_in = 0;
    match_reads(model, match, places);
    return true;
}

/* Consecutive rows of a table, as many as `n` or all: a parameter of its own. */
static bool match_rows(struct onnx_model *model, struct onnx_value *value, uint64_t n,
                       struct onnx_param *ret_param)
{
    const struct onnx_node *gather = match_maker(model, value, ONNX_Gather);
    struct onnx_value *places = gather == NULL ? NULL : onnx_in(model, gather, 1);
    const long padding = gather == NULL ? -1 : onnx_padding(model, gather);
    const struct onnx_data *data;
    bool swapped;

    if (gather == NULL) {
        return matrix(model, value, ret_param, &swapped) && !swapped && ret_param->dims[0] == n;
    }
    if (!matrix(model, onnx_in(model, gather, 0), ret_param, &swapped) || swapped ||
        onnx_in(model, gather, 0)->rank != 2 || onnx_int(gather, "axis", 0) != 0 ||
        !places->fixed || onnx_elems(places) != n) {
        return false;
    }
    data = onnx_known(model, places);
    for (uint64_t i = 0; data != NULL && i < n; i++) {
        if (onnx_integer(data, i) != onnx_integer(data, 0) + (int64_t)i ||
            onnx_integer(data, i) < 0 || (uint64_t)onnx_integer(data, i) >= ret_param->dims[0] ||
            onnx_integer(data, i) == padding) {
            return false;
        }
    }
    if (data == NULL ||
        (ret_param->dims[0] != n && model->values[ret_param->base].tensor == NULL)) {
        return false;
    }
    ret_param->first = (uint64_t)onnx_integer(data, 0);
    ret_param->dims[0] = n;
    return true;
}

/* Embedded tokens and their positions. */
static bool match_positions(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_value *y = onnx_out(model, match->node, 0);

    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_node *gather =
            match_maker(model, onnx_in(model, match->node, i), ONNX_Gather);
        const struct onnx_value *places = gather == NULL ? NULL : onnx_in(model, gather, 1);

        if (places != NULL && places->rank > 0 &&
            onnx_elems(places) == places->dims[places->rank - 1] &&
            match_rows(model, onnx_in(model, match->node, 1 - i), places->dims[places->rank - 1],
                       &match->param[1]) &&
            match->param[1].dims[1] == y->dims[y->rank - 1] &&
            match_embedding(model, gather, match)) {
            match->has_param[1] = true;
            return true;
        }
    }
    return false;
}

/* --- one by one ------------------------------------------------------------------------------- */

/* s x + t, where that is what an arithmetic node does. */
static bool match_affine(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    const struct onnx_value *y = onnx_out(model, node, 0);
    double number;

    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_value *x = onnx_in(model, node, 1 - i);
        double s = 1, t = 0;

        if (!onnx_number(model, onnx_in(model, node, i), &number) || !same_dims(x, y)) {
            continue;
        }
        if (node->op == ONNX_Add) {
            t = number;
        } else if (node->op == ONNX_Sub) {
            s = i == 0 ? -1 : 1;
            t = i == 0 ? number : -number;
        } else if (node->op == ONNX_Mul) {
            s = number;
        } else if (node->op == ONNX_Div && i == 1) {
            s = 1 / number;
        } else if (node->op == ONNX_Pow && i == 1) {
            match->op.map = PST_MAP_POWER;
            s = number;
        } else {
            continue;
        }
        match->op.constants[0] = (float)s;
        match->op.constants[1] = (float)t;
        match->op.map = node->op == ONNX_Pow ? PST_MAP_POWER : PST_MAP_AFFINE;
        match->n_in = 0;
        match_reads(model, match, x);
        return true;
    }
    return false;
}

/* Node operators that are maps: which, constants by attribute. */
struct map_row {
    uint32_t op, map;
    const char *names[2];
    float otherwise[2];
};

static const struct map_row map_rows[] = {
    {ONNX_Abs, PST_MAP_ABS, {0}, {0}},
    {ONNX_Add, PST_MAP_ADD, {0}, {0}},
    {ONNX_And, PST_MAP_MUL, {0}, {0}},
    {ONNX_Cast, PST_MAP_AFFINE, {0}, {1, 0}},
    {ONNX_CastLike, PST_MAP_AFFINE, {0}, {1, 0}},
    {ONNX_Clip, PST_MAP_CLIP, {0}, {0}},
    {ONNX_Cos, PST_MAP_COS, {0}, {0}},
    {ONNX_Div, PST_MAP_DIV, {0}, {0}},
    {ONNX_Elu, PST_MAP_ELU, {"alpha"}, {1, 0}},
    {ONNX_Equal, PST_MAP_EQUAL, {0}, {0}},
    {ONNX_Erf, PST_MAP_ERF, {0}, {0}},
    {ONNX_Exp, PST_MAP_EXP, {0}, {0}},
    {ONNX_Gelu, PST_MAP_GELU, {0}, {0}},
    {ONNX_Greater, PST_MAP_LESS, {0}, {0}},
    {ONNX_GreaterOrEqual, PST_MAP_LESS_EQUAL, {0}, {0}},
    {ONNX_HardSigmoid, PST_MAP_HARD_SIGMOID, {"alpha", "beta"}, {0.2f, 0.5f}},
    {ONNX_HardSwish, PST_MAP_HARD_SWISH, {0}, {0}},
    {ONNX_LeakyRelu, PST_MAP_LEAKY, {"alpha"}, {0.01f, 0}},
    {ONNX_Less, PST_MAP_LESS, {0}, {0}},
    {ONNX_LessOrEqual, PST_MAP_LESS_EQUAL, {0}, {0}},
    {ONNX_Log, PST_MAP_LOG, {0}, {0}},
    {ONNX_Max, PST_MAP_MAX, {0}, {0}},
    {ONNX_Min, PST_MAP_MIN, {0}, {0}},
    {ONNX_Mul, PST_MAP_MUL, {0}, {0}},
    {ONNX_Neg, PST_MAP_AFFINE, {0}, {-1, 0}},
    {ONNX_Not, PST_MAP_AFFINE, {0}, {-1, 1}},
    {ONNX_Or, PST_MAP_MAX, {0}, {0}},
    {ONNX_Pow, PST_MAP_POW, {0}, {0}},
    {ONNX_Reciprocal, PST_MAP_RECIPROCAL, {0}, {0}},
    {ONNX_Sigmoid, PST_MAP_SIGMOID, {0}, {0}},
    {ONNX_Sin, PST_MAP_SIN, {0}, {0}},
    {ONNX_Softplus, PST_MAP_SOFTPLUS, {0}, {0}},
    {ONNX_Sqrt, PST_MAP_SQRT, {0}, {0}},
    {ONNX_Sub, PST_MAP_SUB, {0}, {0}},
    {ONNX_Sum, PST_MAP_ADD, {0}, {0}},
    {ONNX_Tanh, PST_MAP_TANH, {0}, {0}},
    {ONNX_Where, PST_MAP_SELECT, {0}, {0}},
};

static bool match_clip(struct onnx_model *model, struct onnx_match *match)
{
    const char *const names[2] = {"min", "max"};

    match->n_in = 1;
    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_value *end = onnx_in(model, match->node, 1 + i);
        double number =
            (double)onnx_float(match->node, names[i], i == 0 ? -3.402823466e38f : 3.402823466e38f);

        if (end != NULL && !onnx_number(model, end, &number)) {
            return false;
        }
        match->op.constants[i] = (float)number;
    }
    if (match->op.constants[0] > match->op.constants[1]) { /* then all is the greatest */
        match->op.constants[0] = match->op.constants[1];
    }
    return true;
}

/* The bits of an integer; those of 64 have 32 in a graph. */
static uint32_t bits_of(uint32_t type)
{
    return type == ONNX_INT8 || type == ONNX_UINT8     ? 8
           : type == ONNX_INT16 || type == ONNX_UINT16 ? 16
                                                       : 32;
}

static bool is_unsigned(uint32_t type)
{
    return type == ONNX_UINT8 || type == ONNX_UINT16 || type == ONNX_UINT32 || type == ONNX_UINT64;
}

/* Quotients of integers and integers of reals are cut off, integers that do not fit into another
   type wrap around: graphs have no operator for these. */
static bool cuts_off(const struct onnx_node *node, const struct onnx_value *x,
                     const struct onnx_value *y)
{
    const bool integer = !onnx_is_real(y->type) && y->type != ONNX_BOOL;
    const bool cast = node->op == ONNX_Cast || node->op == ONNX_CastLike;
    const uint32_t room = bits_of(y->type) - (is_unsigned(x->type) && !is_unsigned(y->type));

    return integer &&
           (node->op == ONNX_Div || (cast && x->type != ONNX_BOOL && x->type != y->type &&
                                     (onnx_is_real(x->type) || bits_of(x->type) > room ||
                                      (is_unsigned(y->type) && !is_unsigned(x->type)))));
}

static bool match_map(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    const struct map_row *row = NULL;

    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++) {
        row = map_rows[i].op == node->op ? &map_rows[i] : row;
    }
    if (row == NULL || node->n_in > 8 ||
        cuts_off(node, onnx_in(model, node, 0), onnx_out(model, node, 0))) {
        return false;
    }
    match->emit = onnx_emit_map;
    match->op.kind = PST_OP_MAP;
    match->op.map = row->map;
    for (uint32_t i = 0; i < 2; i++) {
        match->op.constants[i] = row->names[i] == NULL
                                     ? row->otherwise[i]
                                     : onnx_float(node, row->names[i], row->otherwise[i]);
    }
    for (uint32_t i = 0; i < (node->op == ONNX_CastLike ? 1u : node->n_in); i++) {
        if (onnx_in(model, node, i) != NULL) {
            match_reads(model, match, onnx_in(model, node, i));
        }
    }
    if (node->op == ONNX_Gelu) {
        match_become_gelu(match, onnx_word_is(node, "approximate", "tanh", false));
    }
    if (node->op == ONNX_Clip) {
        return match_clip(model, match);
    }
    if (node->n_in == 2 && match_affine(model, match)) {
        return true;
    }
    if (node->op == ONNX_Greater || node->op == ONNX_GreaterOrEqual) {
        const uint32_t first = match->in[0];

        match->in[0] = match->in[1];
        match->in[1] = first;
    }
    return true;
}

/* Operators that a function of their own makes, with their inputs as tensors. */
static onnx_emit_fn *const plain[ONNX_N_OPS] = {
    [ONNX_AveragePool] = onnx_emit_pool,
    [ONNX_Concat] = onnx_emit_concat,
    [ONNX_Dropout] = onnx_emit_dropout,
    [ONNX_Expand] = onnx_emit_expand,
    [ONNX_GatherND] = onnx_emit_gather,
    [ONNX_Flatten] = onnx_emit_view,
    [ONNX_Gather] = onnx_emit_gather,
    [ONNX_Gemm] = onnx_emit_gemm,
    [ONNX_GlobalAveragePool] = onnx_emit_global_pool,
    [ONNX_Identity] = onnx_emit_view,
    [ONNX_LRN] = onnx_emit_lrn,
    [ONNX_LogSoftmax] = onnx_emit_softmax,
    [ONNX_MatMul] = onnx_emit_matmul,
    [ONNX_MaxPool] = onnx_emit_pool,
    [ONNX_Pad] = onnx_emit_pad,
    [ONNX_ReduceMax] = onnx_emit_reduce,
    [ONNX_ReduceMean] = onnx_emit_reduce,
    [ONNX_ReduceSum] = onnx_emit_reduce,
    [ONNX_Relu] = onnx_emit_map,
    [ONNX_Reshape] = onnx_emit_view,
    [ONNX_Resize] = onnx_emit_resize,
    [ONNX_SequenceAt] = onnx_emit_part,
    [ONNX_Slice] = onnx_emit_slice,
    [ONNX_Softmax] = onnx_emit_softmax,
    [ONNX_Split] = onnx_emit_split,
    [ONNX_Tile] = onnx_emit_tile,
    [ONNX_Squeeze] = onnx_emit_view,
    [ONNX_Transpose] = onnx_emit_transpose,
    [ONNX_Trilu] = onnx_emit_trilu,
    [ONNX_Unsqueeze] = onnx_emit_view,
};

/* Returns how many inputs of those are tensors; the others are known numbers. */
static uint32_t tensors_of(const struct onnx_node *node)
{
    switch (node->op) {
    case ONNX_Concat:
    case ONNX_Gemm:
    case ONNX_MatMul:
    case ONNX_Gather:
    case ONNX_GatherND:
        return node->n_in;
    default:
        return 1;
    }
}

/* GatherND's places along the first axis alone. */
static bool has_one_index(const struct onnx_value *places)
{
    return places->rank > 0 && places->dims[places->rank - 1] == 1;
}

static bool match_plain(const struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;

    if (plain[node->op] == NULL || tensors_of(node) > PST_MAX_INPUTS ||
        (node->op == ONNX_GatherND && !has_one_index(onnx_in(model, node, 1)))) {
        return false;
    }
    match->emit = plain[node->op];
    match->n_in = 0;
    for (uint32_t i = 0; i < tensors_of(node); i++) {
        if (onnx_in(model, node, i) != NULL) {
            match_reads(model, match, onnx_in(model, node, i));
        }
    }
    if (node->op == ONNX_SequenceAt) { /* of what was split */
        match->in[0] = onnx_maker(model, onnx_in(model, node, 0))->in[0];
    }
    match->op.kind = PST_OP_ACT;
    match->op.act = PST_ACT_RELU;
    return true;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Weights of a convolution are put the way images lie here. */
static bool match_conv(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    const struct onnx_value *weight = onnx_in(model, node, 1), *bias = onnx_in(model, node, 2);
    const uint64_t width = onnx_out(model, node, 0)->dims[1];
    struct onnx_param *p = &match->param[0];
    bool swapped;
    double zero = 1;

    if (!onnx_parameter(model, weight, p, &swapped) || swapped) {
        return false;
    }
    p->image = true;
    p->turned = node->op == ONNX_ConvTranspose;
    p->rank = 4;
    memcpy(p->dims, weight->dims, 4 * sizeof *p->dims);
    if (p->turned) {
        p->dims[0] = weight->dims[1];
        p->dims[1] = weight->dims[0];
    }
    match->has_param[0] = true;
    if (bias != NULL && !(onnx_number(model, bias, &zero) && zero == 0)) {
        match->has_param[1] = match_vector(model, bias, width, &match->param[1]);
        if (!match->has_param[1]) {
            return false;
        }
    }
    match->op.kind = PST_OP_CONV2D;
    match->emit = p->turned ? onnx_emit_conv_transpose : onnx_emit_conv;
    match_reads(model, match, onnx_in(model, node, 0));
    return true;
}

static bool match_batchnorm(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    const struct onnx_value *x = onnx_in(model, node, 0);
    const uint64_t width = x->rank < 2 ? 0 : x->dims[1];

    for (uint32_t i = 0; i < 2; i++) {
        if (width == 0 ||
            !match_vector(model, onnx_in(model, node, 1 + i), width, &match->param[i])) {
            return false;
        }
        match->has_param[i] = true;
    }
    match->op.kind = PST_OP_BATCHNORM;
    match->op.eps = onnx_float(node, "epsilon", 1e-5f);
    match->op.momentum = 1 - onnx_float(node, "momentum", 0.9f);
    match->emit = onnx_emit_batchnorm;
    match_reads(model, match, x);
    return true;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Tried in this order. */
static const struct {
    uint32_t op;
    match_fn *match;
} tries[] = {
    {ONNX_Add, match_layernorm_parts},
    {ONNX_Add, match_biased},
    {ONNX_Add, match_positions},
    {ONNX_BatchNormalization, match_batchnorm},
    {ONNX_Conv, match_conv},
    {ONNX_ConvTranspose, match_conv},
    {ONNX_Div, match_rmsnorm},
    {ONNX_Gemm, match_gemm},
    {ONNX_LayerNormalization, match_norm_op},
    {ONNX_Mul, match_gelu},
    {ONNX_Mul, match_rmsnorm},
    {ONNX_Div, match_gelu},
    {ONNX_RMSNormalization, match_norm_op},
    {ONNX_Reshape, match_attention},
    {ONNX_Where, match_guard},
};

bool onnx_match(struct onnx_model *model, const struct onnx_node *node,
                struct onnx_match *ret_match)
{
    struct onnx_match match = {.node = node};

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        match = (struct onnx_match){.node = node};
        if (tries[i].op == node->op && tries[i].match(model, &match)) {
            *ret_match = match;
            return true;
        }
    }
    match = (struct onnx_match){.node = node};
    if ((node->op == ONNX_MatMul &&
         match_product(model, onnx_in(model, node, 0), onnx_in(model, node, 1), false, &match)) ||
        (node->op == ONNX_Gather && match_embedding(model, node, &match))) {
        *ret_match = match;
        return true;
    }
    match = (struct onnx_match){.node = node};
    if (match_map(model, &match) || match_plain(model, &match)) {
        *ret_match = match;
        return true;
    }
    return false;
}
