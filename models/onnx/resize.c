/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in another size. Resize is linear in the image along each of its axes, so it becomes a
 * product with a constant matrix for each. A transposed convolution is a convolution, with its
 * windows backwards, of the image with zeros between its places.
 */
#include "emit.h"
#include "infer.h"

#include <math.h>
#include <string.h>

#define MAX_MATRIX (1u << 24) /* elements of such a constant */

/* The factor by which an axis grows, from `scales` or from `sizes`, which are absent otherwise.
 */
static bool scales_of(struct onnx_model *model, const struct onnx_node *node, double *ret_scales,
                      uint64_t *ret_dims)
{
    const struct onnx_value *x = onnx_in(model, node, 0);
    struct onnx_value *lists[2] = {onnx_in(model, node, 2), onnx_in(model, node, 3)};
    const uint32_t which = lists[1] != NULL;
    const struct onnx_data *data = lists[which] == NULL ? NULL : onnx_known(model, lists[which]);

    if (data == NULL || x->rank != 4 || onnx_elems(lists[which]) != 4 ||
        onnx_attribute(node, "axes") != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < 4; i++) {
        const double number = onnx_real(data, i);

        ret_scales[i] = which ? number / (double)x->dims[i] : number;
        ret_dims[i] = (uint64_t)(which ? number : floor((double)x->dims[i] * number));
        if (!(number > 0 && number < 1 << 20) || ret_dims[i] == 0 ||
            (i < 2 && ret_dims[i] != x->dims[i])) {
            return false;
        }
    }
    return true;
}

pst_status infer_resize(const struct rule *c)
{
    double scales[4];

    c->y->type = c->x->type;
    c->y->rank = 4;
    if (onnx_in(c->model, c->node, 3) != NULL &&
        !onnx_word_is(c->node, "keep_aspect_ratio_policy", "stretch", true)) {
        return infer_bad(c, "only keep_aspect_ratio_policy = stretch is supported");
    }
    return scales_of(c->model, c->node, scales, c->y->dims)
               ? PST_OK
               : infer_bad(c, "only height and width of images are resized, by known numbers");
}

/* Where a place of the result lies in the image. NaN: such a transformation is not read. */
static double source(const struct onnx_node *node, double place, double scale, uint64_t from,
                     uint64_t to)
{
    static const char name[] = "coordinate_transformation_mode";

    if (onnx_word_is(node, name, "half_pixel", true)) {
        return (place + 0.5) / scale - 0.5;
    }
    if (onnx_word_is(node, name, "pytorch_half_pixel", false)) {
        return to > 1 ? (place + 0.5) / scale - 0.5 : 0;
    }
    if (onnx_word_is(node, name, "align_corners", false)) {
        return to > 1 ? place * (double)(from - 1) / (double)(to - 1) : 0;
    }
    return onnx_word_is(node, name, "asymmetric", false) ? place / scale : (double)NAN;
}

/* Weights of the places from floor(x) - 1 to floor(x) + 2; t: x - floor(x). Keys: "Cubic
   convolution interpolation for digital image processing", IEEE ASSP 1981, with factor a. */
static bool weights_of(const struct onnx_node *node, double t, double weights[4])
{
    const double a = (double)onnx_float(node, "cubic_coeff_a", -0.75f);

    memset(weights, 0, 4 * sizeof *weights);
    if (onnx_word_is(node, "mode", "nearest", true)) {
        static const char name[] = "nearest_mode";
        const bool up = onnx_word_is(node, name, "ceil", false)                ? t > 0
                        : onnx_word_is(node, name, "round_prefer_ceil", false) ? t >= 0.5
                        : onnx_word_is(node, name, "round_prefer_floor", true) ? t > 0.5
                                                                               : false;

        weights[up ? 2 : 1] = 1;
        return true;
    }
    if (onnx_word_is(node, "mode", "linear", false)) {
        weights[1] = 1 - t;
        weights[2] = t;
        return true;
    }
    for (uint32_t i = 0; i < 4; i++) {
        const double d = fabs(t + 1 - i);

        weights[i] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                            : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
    return onnx_word_is(node, "mode", "cubic", false);
}

/* The matrix [to, from] of one axis, a constant; PST_NONE: it cannot be. */
static uint32_t make_matrix(struct onnx_emitter *e, double scale, uint64_t from, uint64_t to)
{
    struct pst_form form = {.rank = 2, .dims = {to, from}, .dtype = PST_F32};
    float *matrix;

    if (from * to > MAX_MATRIX || onnx_int(e->node, "antialias", 0) != 0 ||
        onnx_int(e->node, "exclude_outside", 0) != 0) {
        return PST_NONE;
    }
    matrix = pst_arena_array(&e->model->arena, from * to, sizeof *matrix);
    for (uint64_t i = 0; i < to; i++) {
        const double x = source(e->node, (double)i, scale, from, to), low = floor(x);
        double weights[4];

        if (isnan(x) || !weights_of(e->node, x - low, weights)) {
            return PST_NONE;
        }
        for (uint32_t k = 0; k < 4; k++) { /* beyond its end the last place goes on */
            const double place = low - 1 + k, last = (double)(from - 1);
            const uint64_t at = (uint64_t)(place < 0 ? 0 : place > last ? last : place);

            matrix[i * from + at] += (float)weights[k];
        }
    }
    form.data = matrix;
    return emit_op(e, "matrix", (struct pst_op){.kind = PST_OP_CONSTANT, .form = &form}, NULL, 0,
                   NULL, 0);
}

void onnx_emit_resize(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = onnx_out(e->model, e->node, 0);
    const uint64_t height = value->dims[2], width = value->dims[3], channels = value->dims[1];
    struct shape shape = emit_image_shape(value), flat = {2, {height, width * channels}};
    const struct pst_op product = {.kind = PST_OP_MATMUL};
    uint64_t dims[4];
    double scales[4];
    uint32_t x[2];

    x[1] = emit_image(e, value);
    if (e->status != PST_OK || !scales_of(e->model, e->node, scales, dims)) {
        emit_fail(e, "its sizes are not known");
        return;
    }
    if ((scales[2] != 1 && !emit_apart(e, value, 2)) ||
        (scales[3] != 1 && !emit_apart(e, value, 3))) {
        return;
    }
    x[0] = make_matrix(e, scales[2], height, y->dims[2]);
    if (x[0] != PST_NONE) {
        x[1] = emit_reshape(e, x[1], shape, flat);
        x[1] = emit_op(e, "height", product, x, 2, NULL, 0);
        flat.dims[0] = shape.dims[0] = y->dims[2];
        x[1] = emit_reshape(e, x[1], flat, shape);
        x[0] = make_matrix(e, scales[3], width, y->dims[3]);
    }
    if (x[0] == PST_NONE) {
        emit_fail(e, "this way of resizing, or so large a result, is not supported");
        return;
    }
    emit_put_image(e, 0, emit_op(e, "", product, x, 2, NULL, 0));
}

/* Between each two places come stride - 1 zeros, and around them as many as the windows reach. */
static uint32_t spread(struct onnx_emitter *e, const struct onnx_value *value,
                       const struct onnx_window *w)
{
    const struct shape shape = emit_image_shape(value);
    struct shape apart = {5, {shape.dims[0], 1, shape.dims[1], 1, shape.dims[2]}}, close;
    struct pst_form form = {
        .rank = 5,
        .dims = {shape.dims[0], w->stride[0], shape.dims[1], w->stride[1], shape.dims[2]},
        .from = {0, 1, 2, 3, 4},
        .step = {1, 1, 1, 1, 1}};
    uint32_t x = emit_reshape(e, emit_image(e, value), shape, apart);

    x = emit_op(e, "apart", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &x, 1, NULL, 0);
    memcpy(apart.dims, form.dims, sizeof apart.dims);
    close = (struct shape){
        3, {shape.dims[0] * w->stride[0], shape.dims[1] * w->stride[1], shape.dims[2]}};
    x = emit_reshape(e, x, apart, close);
    form = (struct pst_form){
        .rank = 3, .dims = {0, 0, shape.dims[2]}, .from = {0, 1, 2}, .step = {1, 1, 1}};
    for (uint32_t k = 0; k < 2; k++) {
        const uint64_t reach = (w->kernel[k] - 1) * w->dilation[k];

        form.dims[k] = w->out[k] + reach;
        form.start[k] = (int64_t)w->pad[k] - (int64_t)reach;
    }
    return emit_op(e, "spread", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &x, 1, NULL,
                   0);
}

void onnx_emit_conv_transpose(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    struct onnx_window w;
    struct pst_op op = match->op;
    uint32_t x, param[2];

    if (onnx_window_back(e->model, e->node, &w, &e->error) != PST_OK) {
        emit_fail(e, "its window is none");
        return;
    }
    emit_apart(e, value, 1);
    x = spread(e, value, &w);
    for (uint32_t k = 0; k < 2 && (w.kernel[k] == 1 || emit_apart(e, value, 2 + k)); k++) {
        op.kernel[k] = (uint32_t)w.kernel[k];
        op.dilation[k] = (uint32_t)w.dilation[k];
        op.stride[k] = 1;
    }
    op.groups = 1;
    param[0] = emit_param(e, &match->param[0], true);
    param[1] = match->has_param[1] ? emit_param(e, &match->param[1], false) : PST_NONE;
    emit_put_image(e, 0, emit_op(e, "", op, &x, 1, param, match->has_param[1] ? 2 : 1));
}
