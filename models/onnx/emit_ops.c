/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of the graph for what a node was found to be: one function a kind. Axes of the
 * graph count from the last; those of an image are [height, width, channels].
 */
#include "emit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const struct onnx_value *result(const struct onnx_emitter *e)
{
    return onnx_out(e->model, e->node, 0);
}

static uint32_t params_of(struct onnx_emitter *e, const struct onnx_match *match, bool decay,
                          uint32_t ret_params[2])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < 2; i++) {
        ret_params[i] = PST_NONE;
        if (match->has_param[i]) {
            ret_params[i] = emit_param(e, &match->param[i], decay && match->param[i].rank > 1);
            n = i + 1;
        }
    }
    return n;
}

/* Place of an axis of a value counted from the last; of one that lies as an image. */
static uint32_t from_last(const struct onnx_value *value, uint32_t axis, bool image)
{
    static const uint32_t of_image[4] = {3, 0, 2, 1};

    return image ? of_image[axis] : value->rank - 1 - axis;
}

/* --- with parameters -------------------------------------------------------------------------- */

void onnx_emit_linear(struct onnx_emitter *e, const struct onnx_match *match)
{
    struct shape shape = emit_rows(emit_in(e, match, 0));
    uint32_t x = emit_get(e, emit_in(e, match, 0), shape), param[2];
    const uint32_t n = params_of(e, match, true, param);

    shape.dims[shape.rank - 1] = match->param[0].dims[match->op.transposed ? 0 : 1];
    emit_put(e, 0, emit_op(e, "", match->op, &x, 1, param, n), shape);
}

void onnx_emit_embedding(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *places = emit_in(e, match, 0);
    struct shape shape = emit_rows(places);
    uint32_t param[2], x = emit_get(e, places, shape);
    const uint32_t n = params_of(e, match, true, param);

    shape.dims[shape.rank++] = match->param[0].dims[1];
    emit_put(e, 0, emit_op(e, "", match->op, &x, 1, param, n), shape);
}

void onnx_emit_norm(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const struct shape shape = emit_rows(value);
    uint32_t x = emit_get(e, value, shape), param[2];
    const uint32_t n = params_of(e, match, false, param);

    emit_apart(e, value, value->rank - 1);
    emit_put(e, 0, emit_op(e, "", match->op, &x, 1, param, n), shape);
}

/* [places, width] of what attention reads. */
static uint32_t places_of(struct onnx_emitter *e, const struct onnx_value *value,
                          struct shape *ret_shape)
{
    const uint64_t width = value->dims[value->rank - 1];

    *ret_shape = (struct shape){2, {onnx_elems(value) / width, width}};
    return emit_get(e, value, *ret_shape);
}

void onnx_emit_attention(struct onnx_emitter *e, const struct onnx_match *match)
{
    uint32_t x[3], param[2];
    const uint32_t n = params_of(e, match, false, param);
    const struct pst_op join = {.kind = PST_OP_CONCAT};
    struct shape shape, keys;
    uint32_t n_in = 1;

    x[0] = places_of(e, emit_in(e, match, 0), &shape);
    if (match->flag) {
        shape.dims[1] /= 3;
    } else {
        x[1] = places_of(e, emit_in(e, match, 1), &keys);
        x[2] = places_of(e, emit_in(e, match, 2), &keys);
        if (keys.dims[0] == shape.dims[0]) {
            x[0] = emit_op(e, "qkv", join, x, 3, NULL, 0);
        } else {
            x[1] = emit_op(e, "kv", join, x + 1, 2, NULL, 0);
            n_in = 2;
        }
    }
    emit_put(e, 0, emit_op(e, "", match->op, x, n_in, param, n), shape);
}

/* --- images ----------------------------------------------------------------------------------- */

static void set_window(struct onnx_emitter *e, const struct onnx_value *x, struct pst_op *op)
{
    struct onnx_window w;

    if (onnx_window(e->model, e->node, &w, &e->error) != PST_OK) {
        emit_fail(e, "its window is none");
        return;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const uint64_t span = (w.kernel[k] - 1) * w.dilation[k] + 1;
        /* The last window ends so far after the image. This may be more than the padding of the
           file, if a window that is cut off counts, or less. */
        const int64_t end =
            (int64_t)((w.out[k] - 1) * w.stride[k] + span) - (int64_t)(x->dims[2 + k] + w.pad[k]);
        const int64_t after = end > (int64_t)w.pad[2 + k] ? end : (int64_t)w.pad[2 + k];

        if (w.kernel[k] != 1 && !emit_apart(e, x, 2 + k)) {
            return;
        }
        op->kernel[k] = (uint32_t)w.kernel[k];
        op->stride[k] = (uint32_t)w.stride[k];
        op->dilation[k] = (uint32_t)w.dilation[k];
        op->pad[k] = (uint32_t)w.pad[k];
        op->pad_more[k] = (int32_t)(after - (int64_t)w.pad[k]);
        if (op->whole && after > (int64_t)w.pad[2 + k]) {
            emit_fail(e, "count_include_pad together with ceil_mode is not supported");
        }
    }
}

void onnx_emit_conv(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    uint32_t x = emit_image(e, value), param[2];
    const uint32_t n = params_of(e, match, true, param);
    struct pst_op op = match->op;

    op.groups = (uint32_t)onnx_int(e->node, "group", 1);
    emit_apart(e, value, 1);
    set_window(e, value, &op);
    emit_put_image(e, 0, emit_op(e, "", op, &x, 1, param, n));
}

void onnx_emit_pool(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const bool most = e->node->op == ONNX_MaxPool;
    const long divisor = most ? 0 : onnx_divisor(e->model, e->node);
    struct pst_op op = {.kind = most ? PST_OP_MAXPOOL2D : PST_OP_AVGPOOL2D,
                        .whole = !most && divisor == 0 &&
                                 onnx_int(e->node, "count_include_pad", 0) != 0};
    uint32_t x = emit_image(e, value);

    set_window(e, value, &op);
    op.whole = op.whole || divisor != 0;
    if (!most && (op.dilation[0] != 1 || op.dilation[1] != 1)) {
        emit_fail(e, "means over dilated windows are not supported");
    }
    if (most && onnx_out(e->model, e->node, 1) != NULL && e->needed[e->node->out[1]]) {
        emit_fail(e, "places of maxima are not supported as a result");
    }
    x = emit_op(e, divisor == 0 ? "" : "mean", op, &x, 1, NULL, 0);
    if (divisor != 0) {
        const float all = (float)op.kernel[0] * (float)op.kernel[1];
        const struct pst_op scale = {
            .kind = PST_OP_MAP, .map = PST_MAP_AFFINE, .constants = {all / (float)divisor, 0}};

        x = emit_op(e, "", scale, &x, 1, NULL, 0);
    }
    emit_put_image(e, 0, x);
}

/* Mean over an image: [channels]. */
static void mean_of_image(struct onnx_emitter *e, const struct onnx_value *value)
{
    const struct shape shape = {1, {value->dims[1]}};
    uint32_t x = emit_image(e, value);

    emit_put(e, 0, emit_op(e, "", (struct pst_op){.kind = PST_OP_AVGPOOL}, &x, 1, NULL, 0), shape);
}

void onnx_emit_global_pool(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    struct shape shape;
    uint32_t x;

    if (value->rank == 4) {
        mean_of_image(e, value);
        return;
    }
    if (value->dims[0] != 1) {
        emit_fail(e, "it works on several images of a sample");
        return;
    }
    shape = emit_behind(value, 1);
    x = emit_get(e, value, shape);
    x = emit_op(e, "",
                (struct pst_op){.kind = PST_OP_REDUCE,
                                .reduce = PST_REDUCE_MEAN,
                                .axes = (1u << (value->rank - 2)) - 1},
                &x, 1, NULL, 0);
    emit_put(e, 0, x, emit_behind(result(e), 1));
}

void onnx_emit_batchnorm(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const bool image = value->rank == 4, places = value->rank == 3;
    const struct shape shape = places ? emit_behind(value, 1) : emit_rows(value);
    const uint32_t *in = e->node->in, last_first[2] = {1, 0};
    uint32_t x, param[2];
    struct onnx_origin origin = {.variance = in[4]};

    if (value->rank < 2 || value->rank > 4 || (value->rank == 3 && value->dims[0] != 1)) {
        emit_fail(e, "only images and rows of features are normalised over the batch");
        return;
    }
    for (uint32_t i = 1; i < e->node->n_out; i++) {
        if (e->node->out[i] != PST_NONE && e->needed[e->node->out[i]]) {
            emit_fail(e, "its statistics are not supported as a result");
        }
    }
    emit_apart(e, value, 1);
    x = image ? emit_image(e, value) : emit_get(e, value, shape);
    if (places) { /* channels come last */
        x = emit_permute(e, x, shape, last_first);
    }
    params_of(e, match, false, param);
    x = emit_op(e, "", match->op, &x, 1, param, 2);
    origin.param.base = in[3];
    origin.name = e->op_name;
    if (places) {
        x = emit_permute(e, x, (struct shape){2, {shape.dims[1], shape.dims[0]}}, last_first);
    }
    if (image) {
        emit_put_image(e, 0, x);
    } else {
        emit_put(e, 0, x, shape);
    }
    e->origins->origins[e->origins->n++] = origin;
}

/* --- by element ------------------------------------------------------------------------------- */

static bool any_image(const struct onnx_emitter *e, const struct onnx_match *match)
{
    for (uint32_t i = 0; i < match->n_in; i++) {
        if (emit_is_image(e, emit_in(e, match, i))) {
            return true;
        }
    }
    return false;
}

/* Sums of equal shapes have a kind of their own. */
static bool is_plain_sum(const struct onnx_value *a, const struct onnx_value *b,
                         const struct onnx_match *match)
{
    return match->op.kind == PST_OP_MAP && match->op.map == PST_MAP_ADD && onnx_is_real(a->type) &&
           onnx_is_real(b->type) && !a->fixed && !b->fixed && a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Adds the operators of x != 0; their result is 1 or 0. */
static uint32_t emit_truth(struct onnx_emitter *e, uint32_t x)
{
    const uint32_t zero = 0;
    const struct pst_form form = {.dtype = PST_F32, .data = &zero};
    const struct pst_op invert = {.kind = PST_OP_MAP, .map = PST_MAP_AFFINE, .constants = {-1, 1}};
    uint32_t both[2] = {x};

    both[1] = emit_op(e, "zero", (struct pst_op){.kind = PST_OP_CONSTANT, .form = &form}, NULL, 0,
                      NULL, 0);
    both[0] = emit_op(e, "equal", (struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_EQUAL}, both,
                      2, NULL, 0);
    return emit_op(e, "", invert, both, 1, NULL, 0);
}

void onnx_emit_map(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *y = result(e);
    const bool image = y->rank == 4 && any_image(e, match);
    const uint32_t chain = match->op.map == PST_MAP_SELECT ? match->n_in : 2;
    struct pst_op op = match->op;
    uint32_t x[PST_MAX_INPUTS], last;

    for (uint32_t i = 0; i < match->n_in; i++) {
        const struct onnx_value *value = emit_in(e, match, i);

        x[i] = image ? emit_image(e, value) : emit_get(e, value, emit_stripped(value, value->rank));
    }
    if (e->status != PST_OK) {
        return;
    }
    if ((e->node->op == ONNX_Cast || e->node->op == ONNX_CastLike) && y->type == ONNX_BOOL &&
        emit_in(e, match, 0)->type != ONNX_BOOL) {
        last = emit_truth(e, x[0]);
    } else if (match->n_in == 1) {
        last = emit_op(e, "", op, x, 1, NULL, 0);
    } else if (chain == match->n_in) {
        if (is_plain_sum(emit_in(e, match, 0), emit_in(e, match, 1), match)) {
            op = (struct pst_op){.kind = PST_OP_ADD};
        }
        last = emit_op(e, "", op, x, match->n_in, NULL, 0);
    } else { /* of several, two by two */
        last = x[0];
        for (uint32_t i = 1; i < match->n_in; i++) {
            const uint32_t two[2] = {last, x[i]};

            last = emit_op(e, i + 1 == match->n_in ? "" : "part", op, two, 2, NULL, 0);
        }
    }
    if (image) {
        emit_put_image(e, 0, last);
    } else {
        emit_put(e, 0, last, emit_stripped(y, y->rank));
    }
}

void onnx_emit_dropout(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const bool image = emit_is_image(e, value);
    const struct shape shape = emit_stripped(value, value->rank);
    uint32_t x = image ? emit_image(e, value) : emit_get(e, value, shape);
    double p;

    if (onnx_drops(e->model, e->node, &p)) {
        x = emit_op(e, "", (struct pst_op){.kind = PST_OP_DROPOUT, .p = (float)p}, &x, 1, NULL, 0);
    }
    if (image) {
        emit_put_image(e, 0, x);
    } else {
        emit_put(e, 0, x, shape);
    }
}

/* --- along axes ------------------------------------------------------------------------------- */

/* The input, in its layout, with at least the axes from `lowest` on. */
static uint32_t take(struct onnx_emitter *e, const struct onnx_value *value, uint32_t lowest,
                     bool *ret_image, struct shape *ret_shape)
{
    *ret_image = emit_is_image(e, value);
    *ret_shape = *ret_image ? emit_image_shape(value) : emit_stripped(value, lowest);
    return *ret_image ? emit_image(e, value) : emit_get(e, value, *ret_shape);
}

void onnx_emit_reduce(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);
    struct pst_op op = {.kind = PST_OP_REDUCE,
                        .reduce = e->node->op == ONNX_ReduceSum    ? PST_REDUCE_SUM
                                  : e->node->op == ONNX_ReduceMean ? PST_REDUCE_MEAN
                                                                   : PST_REDUCE_MAX};
    uint32_t axes, lowest = 0, x;
    bool keep, image;
    struct shape shape;

    if (onnx_reduced(e->model, e->node, &axes, &keep, NULL) != PST_OK || axes == 0) {
        emit_fail(e, "it has no axes to reduce over");
        return;
    }
    if (op.reduce == PST_REDUCE_MEAN && value->rank == 4 && axes == 12 && emit_is_image(e, value)) {
        mean_of_image(e, value);
        return;
    }
    while ((axes >> lowest & 1) == 0) {
        lowest++;
    }
    x = take(e, value, lowest, &image, &shape);
    for (uint32_t i = 0; i < value->rank; i++) {
        if ((axes >> i & 1) != 0 && emit_apart(e, value, i) &&
            from_last(value, i, image) < shape.rank) {
            const uint32_t axis = from_last(value, i, image);

            op.axes |= 1u << axis;
            shape.dims[shape.rank - 1 - axis] = 1;
        }
    }
    if (e->status != PST_OK) {
        return;
    }
    x = emit_op(e, "", op, &x, 1, NULL, 0);
    if (image) { /* [height, width, channels], of which only the order counts now */
        const struct onnx_value four = {.rank = 4,
                                        .dims = {1, shape.dims[2], shape.dims[0], shape.dims[1]}};
        static const uint32_t order[3] = {2, 0, 1};

        x = emit_permute(e, x, shape, order);
        shape = emit_behind(&four, 1);
    }
    emit_put(e, 0, emit_reshape(e, x, shape, emit_stripped(y, y->rank)), emit_stripped(y, y->rank));
}

void onnx_emit_softmax(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const bool old = e->model->opset < 13;
    const uint32_t axis = onnx_axis(onnx_int(e->node, "axis", old ? 1 : -1), value->rank);
    struct pst_op op = {.kind = PST_OP_SOFTMAX, .logarithm = e->node->op == ONNX_LogSoftmax};
    bool image;
    struct shape shape, whole;
    uint32_t x;

    if (axis == value->rank || !emit_apart(e, value, axis)) {
        emit_fail(e, "its axis is none");
        return;
    }
    for (uint32_t i = axis + 1; i < value->rank && old; i++) {
        emit_apart(e, value, i);
    }
    if (old) { /* over all axes from that one on, together */
        whole = emit_stripped(value, axis);
        shape = (struct shape){2, {1, 1}};
        for (uint32_t i = 0; i < value->rank; i++) {
            shape.dims[i >= axis] *= value->dims[i];
        }
        x = emit_reshape(e, emit_get(e, value, whole), whole, shape);
        x = emit_op(e, "", op, &x, 1, NULL, 0);
        emit_put(e, 0, x, shape);
        return;
    }
    x = take(e, value, axis, &image, &shape);
    op.axis = from_last(value, axis, image);
    x = emit_op(e, "", op, &x, 1, NULL, 0);
    if (image) {
        emit_put_image(e, 0, x);
    } else {
        emit_put(e, 0, x, shape);
    }
}

void onnx_emit_concat(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *y = result(e);
    const uint32_t axis = onnx_axis(onnx_int(e->node, "axis", 1), y->rank);
    const bool image = y->rank == 4 && any_image(e, match);
    uint32_t x[PST_MAX_INPUTS], n = 0;
    struct pst_op op = {.kind = PST_OP_CONCAT, .axis = from_last(y, axis, image)};

    for (uint32_t i = 0; i < match->n_in; i++) {
        const struct onnx_value *value = emit_in(e, match, i);

        if (!emit_apart(e, value, axis) || value->dims[axis] == 0) {
            continue;
        }
        x[n++] = image ? emit_image(e, value) : emit_get(e, value, emit_stripped(value, 0));
    }
    if (e->status != PST_OK || n == 0) {
        return;
    }
    x[0] = n == 1 ? x[0] : emit_op(e, "", op, x, n, NULL, 0);
    if (image) {
        emit_put_image(e, 0, x[0]);
    } else {
        emit_put(e, 0, x[0], emit_stripped(y, 0));
    }
}

/* --- places ----------------------------------------------------------------------------------- */

void onnx_emit_view(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);

    if (emit_is_image(e, value) && y->rank == 4 &&
        memcmp(value->dims, y->dims, sizeof y->dims) == 0) {
        emit_put_image(e, 0, emit_image(e, value));
        return;
    }
    emit_put(e, 0, emit_get(e, value, emit_stripped(y, y->rank)), emit_stripped(y, y->rank));
}

/* Axes of x as `form` says, all of them, with their steps and where they begin. */
static void emit_strided(struct onnx_emitter *e, uint32_t output, const struct onnx_value *value,
                         struct pst_form *form)
{
    const struct onnx_value *y = onnx_out(e->model, e->node, output);
    const struct shape shape = emit_behind(y, 0);
    uint32_t x = emit_get(e, value, emit_behind(value, 0));

    form->rank = y->rank;
    memcpy(form->dims, y->dims, sizeof form->dims);
    x = emit_op(e, output == 0 ? "" : "part", (struct pst_op){.kind = PST_OP_STRIDED, .form = form},
                &x, 1, NULL, 0);
    emit_put(e, output, x, shape);
}

static void plain_form(struct pst_form *form)
{
    *form = (struct pst_form){0};
    for (uint32_t i = 0; i < ONNX_RANK; i++) {
        form->from[i] = i;
        form->step[i] = 1;
    }
}

void onnx_emit_transpose(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);
    uint32_t n, order[ONNX_RANK];
    const int64_t *perm = onnx_ints(e->node, "perm", &n);

    for (uint32_t i = 0; i < value->rank; i++) {
        order[i] = perm == NULL ? value->rank - 1 - i : (uint32_t)perm[i];
    }
    n = emit_permute(e, emit_get(e, value, emit_behind(value, 0)), emit_behind(value, 0), order);
    emit_put(e, 0, n, emit_behind(y, 0));
}

void onnx_emit_slice(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);
    uint64_t dims[ONNX_RANK];
    struct pst_form form;
    bool whole = true;

    plain_form(&form);
    if (onnx_slice(e->model, e->node, form.start, form.step, dims, NULL) != PST_OK ||
        onnx_elems(y) == 0) {
        emit_fail(e, "nothing is left");
        return;
    }
    for (uint32_t i = 0; i < value->rank; i++) {
        const bool all = form.start[i] == 0 && form.step[i] == 1 && dims[i] == value->dims[i];

        whole = whole && all;
        if (!all && !emit_apart(e, value, i)) {
            return;
        }
    }
    if (whole) {
        onnx_emit_view(e, match);
    } else {
        emit_strided(e, 0, value, &form);
    }
}

void onnx_emit_split(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const uint32_t axis = onnx_axis(onnx_int(e->node, "axis", 0), value->rank);
    int64_t first = 0;

    for (uint32_t i = 0; i < e->node->n_out && emit_apart(e, value, axis); i++) {
        const struct onnx_value *y = onnx_out(e->model, e->node, i);
        struct pst_form form;

        if (y == NULL) {
            emit_fail(e, "one of its parts has no name");
            return;
        }
        plain_form(&form);
        form.start[axis] = first;
        first += (int64_t)y->dims[axis];
        if (e->needed[e->node->out[i]]) {
            emit_strided(e, i, value, &form);
        }
    }
}

void onnx_emit_part(struct onnx_emitter *e, const struct onnx_match *match)
{
    uint32_t axis;
    uint64_t first, size;
    struct pst_form form;

    plain_form(&form);
    if (onnx_part(e->model, e->node, &axis, &first, &size) != NULL &&
        emit_apart(e, emit_in(e, match, 0), axis)) {
        form.start[axis] = (int64_t)first;
        emit_strided(e, 0, emit_in(e, match, 0), &form);
    }
}

void onnx_emit_pad(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *with = onnx_in(e->model, e->node, 2);
    int64_t pads[2 * ONNX_RANK];
    double fill = (double)onnx_float(e->node, "value", 0);
    struct pst_form form;
    uint32_t n;
    bool there;

    plain_form(&form);
    if (onnx_list(e->model, e->node, 1, "pads", 2 * ONNX_RANK, pads, &n, &there, NULL) != PST_OK ||
        (with != NULL && !onnx_number(e->model, with, &fill)) || onnx_elems(result(e)) == 0) {
        emit_fail(e, "what it pads with is not known, or nothing is left");
        return;
    }
    for (uint32_t i = 0; i < value->rank; i++) {
        form.start[i] = -pads[i];
        if ((pads[i] != 0 || pads[i + n / 2] != 0) && !emit_apart(e, value, i)) {
            return;
        }
    }
    form.fill = (float)fill;
    emit_strided(e, 0, value, &form);
}

void onnx_emit_expand(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);
    struct onnx_value wide = *value;
    struct pst_form form;
    uint32_t x;

    if (onnx_elems(value) == onnx_elems(y)) {
        onnx_emit_view(e, match);
        return;
    }
    plain_form(&form);
    wide.rank = y->rank;
    for (uint32_t i = 0; i < y->rank; i++) {
        const uint32_t missing = y->rank - value->rank;

        wide.dims[i] = i < missing ? 1 : value->dims[i - missing];
        form.step[i] = wide.dims[i] == y->dims[i];
    }
    x = emit_get(e, value, emit_behind(&wide, 0));
    form.rank = y->rank;
    memcpy(form.dims, y->dims, sizeof form.dims);
    x = emit_op(e, "", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &x, 1, NULL, 0);
    emit_put(e, 0, x, emit_behind(y, 0));
}

/* Each axis that is repeated has one of its repeats before it. */
void onnx_emit_tile(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *y = result(e);
    struct shape from = {0}, to = {0};
    struct pst_form form;
    uint32_t x;

    plain_form(&form);
    for (uint32_t i = 0; i < value->rank; i++) {
        const uint64_t times = value->dims[i] == 0 ? 0 : y->dims[i] / value->dims[i];

        if (times != 1 && !emit_apart(e, value, i)) {
            return;
        }
        if (times == 0 || to.rank + 2 > ONNX_RANK) {
            emit_fail(e, "nothing is left, or too many axes");
            return;
        }
        if (times != 1) {
            form.step[to.rank] = 0;
            from.dims[to.rank] = 1;
            to.dims[to.rank++] = times;
        }
        from.dims[to.rank] = to.dims[to.rank] = value->dims[i];
        to.rank++;
    }
    from.rank = form.rank = to.rank;
    memcpy(form.dims, to.dims, sizeof form.dims);
    x = emit_get(e, value, from);
    x = emit_op(e, "", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &x, 1, NULL, 0);
    emit_put(e, 0, emit_reshape(e, x, to, emit_behind(y, 0)), emit_behind(y, 0));
}

/* Places along an axis of `size` that are known, counted from its beginning, which files may count
   from the end; NULL: those that samples have, which were checked when they were read. */
static const struct onnx_data *counted_places(struct onnx_emitter *e,
                                              const struct onnx_value *places, uint64_t size)
{
    const struct onnx_data *data =
        places->fixed ? onnx_known(e->model, (struct onnx_value *)places) : NULL;
    struct onnx_data *counted = data == NULL ? NULL : onnx_data_new(e->model, places, false);
    char why[128];

    for (uint64_t i = 0; counted != NULL && i < onnx_elems(places); i++) {
        const int64_t place = onnx_integer(data, i);

        counted->i[i] = place < 0 ? place + (int64_t)size : place;
        if (counted->i[i] < 0 || (uint64_t)counted->i[i] >= size) {
            snprintf(why, sizeof why,
                     "its index %lld is outside of the axis, which has %llu places",
                     (long long)place, (unsigned long long)size);
            emit_fail(e, why);
        }
    }
    return counted;
}

/* Returns true if the places are equally spaced, in steps other than 0. */
static bool in_steps(const struct onnx_data *places, uint64_t n, int64_t *ret_step)
{
    *ret_step = n < 2 ? 1 : places->i[1] - places->i[0];
    for (uint64_t i = 2; i < n; i++) {
        if (places->i[i] - places->i[i - 1] != *ret_step) {
            return false;
        }
    }
    return n > 0 && *ret_step != 0;
}

void onnx_emit_gather(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *places = emit_in(e, match, 1);
    const uint32_t axis = onnx_axis(onnx_int(e->node, "axis", 0), value->rank);
    const struct shape shape = emit_behind(value, 0);
    /* Leading axes of length 1 of the places are not there; the last one of GatherND's has one. */
    struct shape at = emit_stripped(places, places->rank);
    const struct onnx_data *known;
    struct shape y = {0}, cut = shape;
    struct pst_form form;
    uint32_t x[2];

    if (onnx_padding(e->model, e->node) >= 0) {
        emit_fail(e, "a row of its table gets no gradient (padding_idx), which is supported only "
                     "if the table is a parameter");
        return;
    }
    if (!emit_apart(e, value, axis)) {
        return;
    }
    at.rank -= e->node->op == ONNX_GatherND && at.rank > 0;
    known = counted_places(e, places, value->dims[axis]);
    for (uint32_t i = 0; i < shape.rank; i++) {
        for (uint32_t k = 0; k < at.rank && i == axis; k++) {
            y.dims[y.rank++] = at.dims[k];
        }
        if (i != axis) {
            y.dims[y.rank++] = shape.dims[i];
        }
    }
    x[0] = emit_get(e, value, shape);
    plain_form(&form);
    if (known != NULL && in_steps(known, onnx_elems(places), &form.step[axis])) {
        form.rank = shape.rank;
        form.start[axis] = known->i[0];
        cut.dims[axis] = onnx_elems(places);
        memcpy(form.dims, cut.dims, sizeof form.dims);
        x[0] =
            emit_op(e, "", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, x, 1, NULL, 0);
        emit_put(e, 0, emit_reshape(e, x[0], cut, y), y);
        return;
    }
    x[1] = known != NULL ? emit_constant(e, places, known, at) : emit_get(e, places, at);
    if (e->status == PST_OK) {
        x[0] =
            emit_op(e, "", (struct pst_op){.kind = PST_OP_GATHER, .axis = value->rank - 1 - axis},
                    x, 2, NULL, 0);
        emit_put(e, 0, x[0], y);
    }
}

/* --- products --------------------------------------------------------------------------------- */

void onnx_emit_matmul(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *y = result(e);
    struct shape shape = emit_stripped(y, y->rank);
    uint32_t x[2];

    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_value *value = emit_in(e, match, i);
        struct shape rows = emit_stripped(value, value->rank < 2 ? 0 : value->rank - 2);

        if (value->rank == 1) { /* a row on the left, a column on the right */
            rows = (struct shape){2, {i == 0 ? 1 : value->dims[0], i == 0 ? value->dims[0] : 1}};
        }
        x[i] = emit_get(e, value, rows);
    }
    if (e->status != PST_OK) {
        return;
    }
    x[0] = emit_op(e, "", (struct pst_op){.kind = PST_OP_MATMUL}, x, 2, NULL, 0);
    /* The product has both factors' rows and columns, and their other axes. */
    const struct onnx_value *a = emit_in(e, match, 0), *b = emit_in(e, match, 1);
    const uint32_t ra = a->rank < 2 ? 2 : emit_stripped(a, a->rank - 2).rank;
    const uint32_t rb = b->rank < 2 ? 2 : emit_stripped(b, b->rank - 2).rank;
    struct shape full = {.rank = ra > rb ? ra : rb};
    const uint32_t lost = (a->rank == 1) + (b->rank == 1);
    uint32_t from = 0;

    for (uint32_t i = 0; i + 2 < full.rank; i++) {
        full.dims[i] = y->dims[y->rank + lost - full.rank + i];
    }
    from = full.rank - 2;
    full.dims[from] = a->rank == 1 ? 1 : a->dims[a->rank - 2];
    full.dims[from + 1] = b->rank == 1 ? 1 : b->dims[b->rank - 1];
    emit_put(e, 0, emit_reshape(e, x[0], full, shape), shape);
}

void onnx_emit_gemm(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *y = result(e);
    const float alpha = onnx_float(e->node, "alpha", 1), beta = onnx_float(e->node, "beta", 1);
    struct pst_op op = {
        .kind = PST_OP_MATMUL,
        .swapped = {onnx_int(e->node, "transA", 0) != 0, onnx_int(e->node, "transB", 0) != 0}};
    uint32_t x[2], sum[2];

    for (uint32_t i = 0; i < 2; i++) {
        x[i] = emit_get(e, emit_in(e, match, i), emit_behind(emit_in(e, match, i), 0));
    }
    sum[0] = emit_op(e, match->n_in == 3 || alpha != 1.0f ? "product" : "", op, x, 2, NULL, 0);
    op = (struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_AFFINE};
    if (alpha != 1.0f) {
        op.constants[0] = alpha;
        sum[0] = emit_op(e, match->n_in == 3 ? "scaled" : "", op, sum, 1, NULL, 0);
    }
    if (match->n_in == 3) {
        const struct onnx_value *c = emit_in(e, match, 2);

        sum[1] = emit_get(e, c, emit_behind(c, 0));
        if (beta != 1.0f) {
            op.constants[0] = beta;
            sum[1] = emit_op(e, "addend", op, &sum[1], 1, NULL, 0);
        }
        op.map = PST_MAP_ADD;
        sum[0] = emit_op(e, "", op, sum, 2, NULL, 0);
    }
    emit_put(e, 0, sum[0], emit_behind(y, 0));
}

/* --- made of several -------------------------------------------------------------------------- */

/* x (bias + alpha / size * the sum of squares over `size` channels around)^-beta
   (Krizhevsky et al.: "ImageNet classification with deep convolutional neural networks", NIPS 2012,
   section 3.3). */
void onnx_emit_lrn(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0);
    const int64_t size = onnx_int(e->node, "size", 1);
    const struct pst_op add = {.kind = PST_OP_MAP, .map = PST_MAP_ADD};
    struct pst_op op = {.kind = PST_OP_MAP, .map = PST_MAP_POWER, .constants = {2, 0}};
    uint32_t x, square, sum = PST_NONE, two[2];

    if (value->rank != 4 || size < 1 || size > 64) {
        emit_fail(e, "only images, over 1 to 64 channels");
        return;
    }
    if (size != 1 && !emit_apart(e, value, 1)) {
        return;
    }
    x = emit_image(e, value);
    square = emit_op(e, "square", op, &x, 1, NULL, 0);
    for (int64_t i = 0; i < size; i++) {
        struct pst_form form;
        const struct shape shape = emit_image_shape(value);

        plain_form(&form);
        form.rank = 3;
        memcpy(form.dims, shape.dims, sizeof form.dims);
        form.start[2] = i - (size - 1) / 2;
        two[1] = emit_op(e, "near", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &square,
                         1, NULL, 0);
        two[0] = sum;
        sum = i == 0 ? two[1] : emit_op(e, "sum", add, two, 2, NULL, 0);
    }
    op.map = PST_MAP_AFFINE;
    op.constants[0] = onnx_float(e->node, "alpha", 1e-4f) / (float)size;
    op.constants[1] = onnx_float(e->node, "bias", 1);
    sum = emit_op(e, "scale", op, &sum, 1, NULL, 0);
    op.map = PST_MAP_POWER;
    op.constants[0] = -onnx_float(e->node, "beta", 0.75f);
    two[0] = x;
    two[1] = emit_op(e, "power", op, &sum, 1, NULL, 0);
    op.map = PST_MAP_MUL;
    emit_put_image(e, 0, emit_op(e, "", op, two, 2, NULL, 0));
}

/* The elements on the other side of the diagonal become 0. */
void onnx_emit_trilu(struct onnx_emitter *e, const struct onnx_match *match)
{
    const struct onnx_value *value = emit_in(e, match, 0), *k = onnx_in(e->model, e->node, 1);
    const bool upper = onnx_int(e->node, "upper", 1) != 0;
    const uint64_t rows = value->rank < 2 ? 0 : value->dims[value->rank - 2];
    const uint64_t columns = value->rank < 2 ? 0 : value->dims[value->rank - 1];
    struct pst_form form = {.rank = 2, .dims = {rows, columns}, .dtype = PST_F32};
    double shift = 0;
    uint32_t x[3];
    float *kept, zero = 0;

    if (rows == 0 || rows * columns > 1u << 26 ||
        (k != NULL && !onnx_number(e->model, k, &shift)) ||
        !emit_apart(e, value, value->rank - 1) || !emit_apart(e, value, value->rank - 2)) {
        emit_fail(e, "only matrices, by a diagonal that is known");
        return;
    }
    kept = pst_arena_array(&e->model->arena, rows * columns, sizeof *kept);
    for (uint64_t i = 0; i < rows * columns; i++) {
        const double over = (double)(i % columns) - (double)(i / columns) - shift;

        kept[i] = upper ? over >= 0 : over <= 0;
    }
    form.data = kept;
    x[0] = emit_op(e, "side", (struct pst_op){.kind = PST_OP_CONSTANT, .form = &form}, NULL, 0,
                   NULL, 0);
    x[1] = emit_get(e, value, emit_behind(value, 0));
    form = (struct pst_form){.dtype = PST_F32, .data = &zero};
    x[2] = emit_op(e, "zero", (struct pst_op){.kind = PST_OP_CONSTANT, .form = &form}, NULL, 0,
                   NULL, 0);
    emit_put(
        e, 0,
        emit_op(e, "", (struct pst_op){.kind = PST_OP_MAP, .map = PST_MAP_SELECT}, x, 3, NULL, 0),
        emit_behind(value, 0));
}
