/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms and GELU by their parts, as exporters write them: products are taken apart into factors, so
 * that the order in which they were multiplied does not matter.
 */
#include "match.h"

#include <math.h>

#define MAX_FACTORS 6

/* A product, taken apart. */
struct product {
    uint32_t n;
    struct onnx_value *factor[MAX_FACTORS];
    bool inverse[MAX_FACTORS];
    double scale;
};

static bool take_factors(struct onnx_model *model, struct onnx_value *value, bool inverse,
                         uint32_t depth, struct product *product)
{
    struct onnx_value *at = onnx_skip(model, value);
    const struct onnx_node *node = onnx_maker(model, at);
    double number;

    if (onnx_number(model, at, &number)) {
        product->scale = inverse ? product->scale / number : product->scale * number;
        return true;
    }
    if (node != NULL && depth < 4 && !at->fixed) {
        switch (node->op) {
        case ONNX_Mul:
            return take_factors(model, onnx_in(model, node, 0), inverse, depth + 1, product) &&
                   take_factors(model, onnx_in(model, node, 1), inverse, depth + 1, product);
        case ONNX_Div:
            return take_factors(model, onnx_in(model, node, 0), inverse, depth + 1, product) &&
                   take_factors(model, onnx_in(model, node, 1), !inverse, depth + 1, product);
        case ONNX_Reciprocal:
            return take_factors(model, onnx_in(model, node, 0), !inverse, depth + 1, product);
        default:
            break;
        }
    }
    if (product->n == MAX_FACTORS) {
        return false;
    }
    product->factor[product->n] = at;
    product->inverse[product->n++] = inverse;
    return true;
}

/* The mean over the last axis of something. */
static struct onnx_value *mean_of(struct onnx_model *model, struct onnx_value *value)
{
    const struct onnx_node *node = match_maker(model, value, ONNX_ReduceMean);
    uint32_t axes;
    bool keep;

    if (node == NULL || onnx_in(model, node, 0)->rank == 0 ||
        onnx_reduced(model, node, &axes, &keep, NULL) != PST_OK || !keep ||
        axes != 1u << (onnx_in(model, node, 0)->rank - 1)) {
        return NULL;
    }
    return onnx_in(model, node, 0);
}

/* Returns true if a and b are one value, or both are one value minus one mean. */
static bool same(struct onnx_model *model, struct onnx_value *a, struct onnx_value *b)
{
    const struct onnx_node *left = match_maker(model, a, ONNX_Sub);
    const struct onnx_node *right = match_maker(model, b, ONNX_Sub);
    struct onnx_value *mean, *other;

    if (left == NULL || right == NULL) {
        return onnx_skip(model, a) == onnx_skip(model, b);
    }
    mean = mean_of(model, onnx_in(model, left, 1));
    other = mean_of(model, onnx_in(model, right, 1));
    return left == right ||
           (mean != NULL && other != NULL && onnx_skip(model, mean) == onnx_skip(model, other) &&
            onnx_skip(model, onnx_in(model, left, 0)) ==
                onnx_skip(model, onnx_in(model, right, 0)));
}

/* x of the mean of x^2, plus eps. */
static struct onnx_value *mean_square(struct onnx_model *model, struct onnx_value *value,
                                      double *ret_eps)
{
    const struct onnx_node *node = match_maker(model, value, ONNX_Add), *square;
    struct onnx_value *mean = NULL;
    double two = 0;

    for (uint32_t i = 0; i < 2 && node != NULL && mean == NULL; i++) {
        if (onnx_number(model, onnx_in(model, node, i), ret_eps)) {
            mean = mean_of(model, onnx_in(model, node, 1 - i));
        }
    }
    if (mean == NULL) {
        return NULL;
    }
    square = match_maker(model, mean, ONNX_Pow);
    if (square != NULL) {
        return onnx_number(model, onnx_in(model, square, 1), &two) && two == 2
                   ? onnx_in(model, square, 0)
                   : NULL;
    }
    square = match_maker(model, mean, ONNX_Mul);
    return square != NULL && same(model, onnx_in(model, square, 0), onnx_in(model, square, 1))
               ? onnx_in(model, square, 0)
               : NULL;
}

/* The factor 1 / sqrt(mean(x^2) + eps): x. */
static struct onnx_value *deviation(struct onnx_model *model, struct onnx_value *factor,
                                    bool inverse, double *ret_eps)
{
    const struct onnx_node *node = match_maker(model, factor, inverse ? ONNX_Sqrt : ONNX_Pow);
    double half = -0.5;

    if (node == NULL || (!inverse && (!onnx_number(model, onnx_in(model, node, 1), &half)))) {
        return NULL;
    }
    return half == -0.5 ? mean_square(model, onnx_in(model, node, 0), ret_eps) : NULL;
}

/* gain * x / sqrt(mean(x^2) + eps): x; the gain into param[0]. */
static struct onnx_value *normed(struct onnx_model *model, struct onnx_value *value,
                                 struct onnx_match *match)
{
    struct product product = {.scale = 1};
    struct onnx_value *x = NULL, *squared = NULL;
    uint32_t gain = MAX_FACTORS;
    double eps = 0;

    if (!take_factors(model, value, false, 0, &product) || product.n != 3 || product.scale != 1) {
        return NULL;
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct onnx_value *of = deviation(model, product.factor[i], product.inverse[i], &eps);

        if (of != NULL) {
            squared = of;
        } else if (product.factor[i]->learned && !product.inverse[i]) {
            gain = i;
        } else if (!product.inverse[i]) {
            x = product.factor[i];
        }
    }
    if (squared == NULL || x == NULL || gain == MAX_FACTORS || !same(model, x, squared) ||
        x->rank == 0 || !(eps > 0) ||
        !match_vector(model, product.factor[gain], x->dims[x->rank - 1], &match->param[0])) {
        return NULL;
    }
    match->op.eps = (float)eps;
    match->has_param[0] = true;
    match->emit = onnx_emit_norm;
    return x;
}

bool match_rmsnorm(struct onnx_model *model, struct onnx_match *match)
{
    struct onnx_value *x = normed(model, onnx_out(model, match->node, 0), match);

    if (x == NULL || x->fixed) {
        return false;
    }
    match->op.kind = PST_OP_RMSNORM;
    match_reads(model, match, x);
    return true;
}

bool match_layernorm_parts(struct onnx_model *model, struct onnx_match *match)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct onnx_value *shift = onnx_in(model, match->node, i);
        struct onnx_value *x =
            shift->learned ? normed(model, onnx_in(model, match->node, 1 - i), match) : NULL;
        const struct onnx_node *sub = x == NULL ? NULL : match_maker(model, x, ONNX_Sub);
        struct onnx_value *mean = sub == NULL ? NULL : mean_of(model, onnx_in(model, sub, 1));

        if (mean != NULL && same(model, mean, onnx_in(model, sub, 0)) &&
            match_vector(model, shift, mean->dims[mean->rank - 1], &match->param[1])) {
            match->op.kind = PST_OP_LAYERNORM;
            match->has_param[1] = true;
            match_reads(model, match, onnx_in(model, sub, 0));
            return true;
        }
    }
    return false;
}

bool match_norm_op(struct onnx_model *model, struct onnx_match *match)
{
    const struct onnx_node *node = match->node;
    struct onnx_value *x = onnx_in(model, node, 0), *shift = onnx_in(model, node, 2);
    const uint64_t width = x->rank == 0 ? 0 : x->dims[x->rank - 1];

    if (width == 0 || x->fixed || onnx_axis(onnx_int(node, "axis", -1), x->rank) != x->rank - 1 ||
        !match_vector(model, onnx_in(model, node, 1), width, &match->param[0])) {
        return false;
    }
    match->op.kind = node->op == ONNX_RMSNormalization ? PST_OP_RMSNORM : PST_OP_LAYERNORM;
    match->op.eps = onnx_float(node, "epsilon", 1e-5f);
    match->emit = onnx_emit_norm;
    match->has_param[0] = true;
    match->has_param[1] = node->op == ONNX_LayerNormalization;
    match_reads(model, match, x);
    return node->op == ONNX_RMSNormalization ||
           (shift != NULL && match_vector(model, shift, width, &match->param[1]));
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * fabs(b);
}

/* c x by one factor: c. */
static bool scaled(struct onnx_model *model, struct onnx_value *value, struct onnx_value *x,
                   double *ret_scale)
{
    struct product product = {.scale = 1};

    if (!take_factors(model, value, false, 0, &product) || product.n != 1 || product.inverse[0] ||
        product.factor[0] != x) {
        return false;
    }
    *ret_scale = product.scale;
    return true;
}

/* x + 0.044715 x^3 */
static bool is_cubic(struct onnx_model *model, struct onnx_value *value, struct onnx_value *x)
{
    const struct onnx_node *add = match_maker(model, value, ONNX_Add);
    double three;

    for (uint32_t i = 0; i < 2 && add != NULL; i++) {
        struct product product = {.scale = 1};
        const struct onnx_node *pow;

        if (onnx_skip(model, onnx_in(model, add, i)) != x ||
            !take_factors(model, onnx_in(model, add, 1 - i), false, 0, &product) ||
            !is_near(product.scale, 0.044715)) {
            continue;
        }
        pow = product.n == 1 ? match_maker(model, product.factor[0], ONNX_Pow) : NULL;
        if (pow != NULL && onnx_skip(model, onnx_in(model, pow, 0)) == x &&
            onnx_number(model, onnx_in(model, pow, 1), &three) && three == 3) {
            return true;
        }
        if (product.n == 3 && product.factor[0] == x && product.factor[1] == x &&
            product.factor[2] == x) {
            return true;
        }
    }
    return false;
}

/* Matches 1 + erf(x / sqrt 2) or, *ret_tanh, 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)). */
static bool gate(struct onnx_model *model, struct onnx_value *value, struct onnx_value *x,
                 bool *ret_tanh)
{
    const struct onnx_node *add = match_maker(model, value, ONNX_Add), *inner;
    struct product product = {.scale = 1};
    double one = 0, scale;

    for (uint32_t i = 0; i < 2 && add != NULL; i++) {
        struct onnx_value *other = onnx_in(model, add, 1 - i);

        if (!onnx_number(model, onnx_in(model, add, i), &one) || one != 1) {
            continue;
        }
        inner = match_maker(model, other, ONNX_Erf);
        if (inner != NULL && scaled(model, onnx_in(model, inner, 0), x, &scale)) {
            *ret_tanh = false;
            return is_near(scale, 0.7071067811865476);
        }
        inner = match_maker(model, other, ONNX_Tanh);
        if (inner != NULL && take_factors(model, onnx_in(model, inner, 0), false, 0, &product) &&
            product.n == 1 && is_near(product.scale, 0.7978845608028654)) {
            *ret_tanh = true;
            return is_cubic(model, product.factor[0], x);
        }
    }
    return false;
}

void match_become_gelu(struct onnx_match *match, bool by_tanh)
{
    match->op.kind = by_tanh ? PST_OP_ACT : PST_OP_MAP;
    match->op.act = by_tanh ? PST_ACT_GELU : PST_ACT_NONE;
    match->op.map = by_tanh ? 0 : PST_MAP_GELU;
    match->emit = onnx_emit_map;
}

bool match_gelu(struct onnx_model *model, struct onnx_match *match)
{
    struct product product = {.scale = 1};
    bool by_tanh;

    if (!take_factors(model, onnx_out(model, match->node, 0), false, 0, &product) ||
        product.n != 2 || product.inverse[0] || product.inverse[1] || product.scale != 0.5) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!product.factor[i]->fixed &&
            gate(model, product.factor[1 - i], product.factor[i], &by_tanh)) {
            match_become_gelu(match, by_tanh);
            match_reads(model, match, product.factor[i]);
            return true;
        }
    }
    return false;
}
