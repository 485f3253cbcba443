/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and shapes of what a node makes, at one batch: one rule an operator. Some follow from
 * numbers that hang on no sample (fold.c).
 */
#include "infer.h"

#include <stdio.h>
#include <string.h>

uint64_t onnx_elems(const struct onnx_value *value)
{
    uint64_t elems = 1;

    for (uint32_t i = 0; i < value->rank; i++) {
        if (__builtin_mul_overflow(elems, value->dims[i], &elems)) {
            return UINT64_MAX;
        }
    }
    return elems;
}

uint32_t onnx_axis(int64_t axis, uint32_t rank)
{
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (uint32_t)axis : rank;
}

bool onnx_broadcast(uint32_t n, const struct onnx_value *const *values, uint32_t *ret_rank,
                    uint64_t *ret_dims)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < n; i++) {
        rank = values[i]->rank > rank ? values[i]->rank : rank;
    }
    for (uint32_t k = 0; k < rank; k++) {
        ret_dims[k] = 1;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t missing = rank - values[i]->rank;
            const uint64_t dim = k < missing ? 1 : values[i]->dims[k - missing];

            if (dim != 1 && ret_dims[k] != 1 && ret_dims[k] != dim) {
                return false;
            }
            ret_dims[k] = dim != 1 ? dim : ret_dims[k];
        }
    }
    *ret_rank = rank;
    return true;
}

pst_status infer_bad(const struct rule *c, const char *why)
{
    const struct onnx_model *model = c->model;
    struct pst_error *err = c->err;
    char name[192], shape[128] = "", other[128] = "";
    const struct onnx_value *second = onnx_in(model, c->node, 1);

    if (c->x != NULL) {
        pst_shape_text(shape, sizeof shape, c->x->rank, c->x->dims);
    }
    if (second != NULL) {
        pst_shape_text(other, sizeof other, second->rank, second->dims);
    }
    return ONNX_BAD("input.syntax", "%s: %s%s%s%s%s", onnx_node_name(model, c->node, name), why,
                    shape[0] == '\0' ? "" : "; its inputs have shape ", shape,
                    other[0] == '\0' ? "" : " and ", other);
}

/* An export that holds the batch of its example fits no other batch. */
static pst_status bad_batch(const struct rule *c, const char *why)
{
    const struct onnx_model *model = c->model;
    struct pst_error *err = c->err;
    char name[192];

    if (model->fixed_batch == 0 && model->batch == 1) {
        return infer_bad(c, why);
    }
    return ONNX_BAD("input.unsupported",
                    "%s: the model was exported with a fixed batch%s; export with dynamic axes "
                    "(dynamic_axes, or dynamic_shapes, for axis 0 of every input)",
                    onnx_node_name(model, c->node, name), model->fixed_batch == 1 ? " of 1" : "");
}

static void shape_like(struct onnx_value *y, const struct onnx_value *x)
{
    y->rank = x->rank;
    memcpy(y->dims, x->dims, sizeof y->dims);
}

pst_status onnx_list(struct onnx_model *model, const struct onnx_node *node, uint32_t input,
                     const char *attribute, uint32_t most, int64_t *ret_list, uint32_t *ret_n,
                     bool *ret_there, struct pst_error *err)
{
    struct onnx_value *value = onnx_in(model, node, input);
    const struct onnx_data *data = value == NULL ? NULL : onnx_known(model, value);
    uint32_t n = 0;
    const int64_t *ints =
        value == NULL && attribute != NULL ? onnx_ints(node, attribute, &n) : NULL;
    char name[192];

    if (value != NULL && (data == NULL || value->rank > 1 || onnx_elems(value) > most)) {
        return ONNX_BAD("input.unsupported",
                        "%s: its input %u must be a short list that no sample changes",
                        onnx_node_name(model, node, name), input);
    }
    if (n > most) {
        return ONNX_BAD("input.syntax", "%s: attribute \"%s\" has %u numbers",
                        onnx_node_name(model, node, name), attribute, n);
    }
    if (value != NULL) {
        n = (uint32_t)onnx_elems(value);
    }
    for (uint32_t i = 0; i < n; i++) {
        ret_list[i] = ints != NULL ? ints[i] : onnx_integer(data, i);
    }
    *ret_n = n;
    *ret_there = value != NULL || ints != NULL;
    return PST_OK;
}

/* --- by element ------------------------------------------------------------------------------- */

static pst_status infer_same(const struct rule *c)
{
    c->y->type = c->x->type;
    shape_like(c->y, c->x);
    return PST_OK;
}

static pst_status infer_truth(const struct rule *c)
{
    c->y->type = ONNX_BOOL;
    shape_like(c->y, c->x);
    return PST_OK;
}

static pst_status infer_cast(const struct rule *c)
{
    const struct onnx_value *like = onnx_in(c->model, c->node, 1);

    shape_like(c->y, c->x);
    c->y->type = like != NULL ? like->type : (uint32_t)onnx_int(c->node, "to", 0);
    switch (c->y->type) {
    case ONNX_FLOAT:
    case ONNX_DOUBLE:
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
    case ONNX_BOOL:
    case ONNX_INT32:
    case ONNX_INT64:
    case ONNX_INT8:
    case ONNX_UINT8:
    case ONNX_INT16:
    case ONNX_UINT16:
    case ONNX_UINT32:
    case ONNX_UINT64:
        return PST_OK;
    default:
        return infer_bad(c, "it casts to a type that is not read");
    }
}

static pst_status infer_broadcast(const struct rule *c)
{
    const struct onnx_value *values[64];
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->node->n_in; i++) {
        if (n == 64 || onnx_in(c->model, c->node, i) == NULL) {
            return infer_bad(c, "it has too many inputs, or lacks one");
        }
        values[n++] = onnx_in(c->model, c->node, i);
    }
    c->y->type = values[n - 1]->type; /* Where: of what it takes from */
    return onnx_broadcast(n, values, &c->y->rank, c->y->dims)
               ? PST_OK
               : bad_batch(c, "the shapes do not go together");
}

/* The type is that of the base. A power of integers is one by itself only where the exponents are
   integers from 0 on; others would be cut off. */
static pst_status infer_pow(const struct rule *c)
{
    const struct onnx_value *base = c->x, *exponent = onnx_in(c->model, c->node, 1);
    pst_status status = infer_broadcast(c);
    bool whole = exponent != NULL && exponent->data != NULL && !onnx_is_real(exponent->type);

    if (status != PST_OK) {
        return status;
    }
    c->y->type = base->type;
    for (uint64_t i = 0; whole && i < onnx_elems(exponent); i++) {
        whole = onnx_integer(exponent->data, i) >= 0;
    }
    return whole || onnx_is_real(base->type) || (c->y->fixed && !exponent->learned)
               ? PST_OK
               : infer_bad(c, "powers of integers that are no integers are cut off");
}

static pst_status infer_compare(const struct rule *c)
{
    pst_status status = infer_broadcast(c);

    c->y->type = ONNX_BOOL;
    return status;
}

/* --- layout ----------------------------------------------------------------------------------- */

/* A shape that names the batch of the exporter's example where this one's belongs is repaired: the
   rest of it tells. */
static bool repair(const struct rule *c, const int64_t *wanted, uint32_t n, uint64_t elems)
{
    uint64_t rest = 1;

    for (uint32_t i = 1; i < n; i++) {
        if (wanted[i] <= 0) {
            return false;
        }
        rest *= (uint64_t)wanted[i];
    }
    if (n == 0 || c->model->fixed_batch == 0 || wanted[0] != (int64_t)c->model->fixed_batch ||
        rest * c->model->batch != elems) {
        return false;
    }
    c->y->dims[0] = c->model->batch;
    return true;
}

static pst_status infer_reshape(const struct rule *c)
{
    const uint64_t elems = onnx_elems(c->x);
    const bool zero = onnx_int(c->node, "allowzero", 0) != 0;
    int64_t wanted[ONNX_RANK];
    uint32_t n, open = ONNX_RANK;
    uint64_t known = 1;
    bool there;
    pst_status status =
        onnx_list(c->model, c->node, 1, NULL, ONNX_RANK, wanted, &n, &there, c->err);

    if (status != PST_OK) {
        return status;
    }
    c->y->type = c->x->type;
    c->y->rank = n;
    for (uint32_t i = 0; i < n; i++) {
        if (wanted[i] < -1 || (wanted[i] == 0 && !zero && i >= c->x->rank) ||
            (wanted[i] == -1 && open != ONNX_RANK)) {
            return infer_bad(c, "such a shape cannot be");
        }
        c->y->dims[i] = wanted[i] == 0 && !zero ? c->x->dims[i] : (uint64_t)wanted[i];
        open = wanted[i] == -1 ? i : open;
        if (wanted[i] != -1 && c->y->dims[i] > 0 && known > MAX_ELEMS / c->y->dims[i]) {
            return infer_bad(c, "the shape is too large");
        }
        known *= wanted[i] == -1 ? 1 : c->y->dims[i];
    }
    if (open != ONNX_RANK) {
        if (known == 0 || elems % known != 0) {
            return bad_batch(c, "the shape has another number of elements");
        }
        c->y->dims[open] = elems / known;
    } else if (known != elems && !repair(c, wanted, n, elems)) {
        return bad_batch(c, "the shape has another number of elements");
    }
    return PST_OK;
}

static pst_status infer_flatten(const struct rule *c)
{
    int64_t axis = onnx_int(c->node, "axis", 1);

    axis += axis < 0 ? c->x->rank : 0;
    if (axis < 0 || axis > c->x->rank) {
        return infer_bad(c, "its axis is none");
    }
    c->y->type = c->x->type;
    c->y->rank = 2;
    c->y->dims[0] = c->y->dims[1] = 1;
    for (uint32_t i = 0; i < c->x->rank; i++) {
        c->y->dims[i >= axis] *= c->x->dims[i];
    }
    return PST_OK;
}

/* Bits of the axes that an input or attribute lists, of `rank`. */
static pst_status axes_of(const struct rule *c, uint32_t rank, uint32_t *ret_axes, bool *ret_there)
{
    int64_t list[ONNX_RANK];
    uint32_t n;
    pst_status status =
        onnx_list(c->model, c->node, 1, "axes", ONNX_RANK, list, &n, ret_there, c->err);

    *ret_axes = 0;
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        const uint32_t axis = onnx_axis(list[i], rank);

        if (axis >= rank || (*ret_axes >> axis & 1) != 0) {
            return infer_bad(c, "its axes are none, or twice the same");
        }
        *ret_axes |= 1u << axis;
    }
    return status;
}

static pst_status infer_squeeze(const struct rule *c)
{
    uint32_t axes;
    bool there;
    pst_status status = axes_of(c, c->x->rank, &axes, &there);

    c->y->type = c->x->type;
    for (uint32_t i = 0; i < c->x->rank && status == PST_OK; i++) {
        const bool drop = there ? (axes >> i & 1) != 0 : c->x->dims[i] == 1;

        if (drop && c->x->dims[i] != 1) {
            return bad_batch(c, "an axis to leave out is longer than 1");
        }
        if (!drop) {
            c->y->dims[c->y->rank++] = c->x->dims[i];
        }
    }
    return status;
}

static pst_status infer_unsqueeze(const struct rule *c)
{
    int64_t list[ONNX_RANK];
    uint32_t n, axes, from = 0;
    bool there;
    pst_status status =
        onnx_list(c->model, c->node, 1, "axes", ONNX_RANK, list, &n, &there, c->err);

    if (status == PST_OK && c->x->rank + n > ONNX_RANK) {
        return infer_bad(c, "the result has too many axes");
    }
    PST_TRY(status, axes_of(c, c->x->rank + n, &axes, &there));
    if (status != PST_OK) {
        return status;
    }
    c->y->type = c->x->type;
    c->y->rank = c->x->rank + n;
    for (uint32_t i = 0; i < c->y->rank; i++) {
        c->y->dims[i] = (axes >> i & 1) != 0 ? 1 : c->x->dims[from++];
    }
    return PST_OK;
}

static pst_status infer_transpose(const struct rule *c)
{
    uint32_t n, seen = 0;
    const int64_t *perm = onnx_ints(c->node, "perm", &n);

    if (perm != NULL && n != c->x->rank) {
        return infer_bad(c, "its permutation has another number of axes");
    }
    c->y->type = c->x->type;
    c->y->rank = c->x->rank;
    for (uint32_t i = 0; i < c->x->rank; i++) {
        const int64_t from = perm == NULL ? (int64_t)(c->x->rank - 1 - i) : perm[i];

        if (from < 0 || from >= c->x->rank || (seen >> from & 1) != 0) {
            return infer_bad(c, "its permutation is none");
        }
        seen |= 1u << from;
        c->y->dims[i] = c->x->dims[from];
    }
    return PST_OK;
}

static pst_status infer_expand(const struct rule *c)
{
    struct onnx_value shape = {0};
    const struct onnx_value *both[2] = {c->x, &shape};
    int64_t wanted[ONNX_RANK];
    bool there;
    pst_status status =
        onnx_list(c->model, c->node, 1, NULL, ONNX_RANK, wanted, &shape.rank, &there, c->err);

    for (uint32_t i = 0; i < shape.rank && status == PST_OK; i++) {
        if (wanted[i] < 0) {
            return infer_bad(c, "such a shape cannot be");
        }
        shape.dims[i] = (uint64_t)wanted[i];
    }
    c->y->type = c->x->type;
    return status != PST_OK ? status
           : onnx_broadcast(2, both, &c->y->rank, c->y->dims)
               ? PST_OK
               : bad_batch(c, "the shapes do not go together");
}

static pst_status infer_tile(const struct rule *c)
{
    int64_t times[ONNX_RANK];
    uint32_t n;
    bool there;
    pst_status status = onnx_list(c->model, c->node, 1, NULL, ONNX_RANK, times, &n, &there, c->err);

    if (status == PST_OK && n != c->x->rank) {
        return infer_bad(c, "its repeats have another number of axes");
    }
    shape_like(c->y, c->x);
    c->y->type = c->x->type;
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        if (times[i] < 0 || (c->y->dims[i] > 0 && (uint64_t)times[i] > MAX_ELEMS / c->y->dims[i])) {
            return infer_bad(c, "such repeats cannot be");
        }
        c->y->dims[i] *= (uint64_t)times[i];
    }
    return status;
}

static pst_status infer_concat(const struct rule *c)
{
    const uint32_t axis = onnx_axis(onnx_int(c->node, "axis", 1), c->x->rank);

    if (axis == c->x->rank) {
        return infer_bad(c, "its axis is none");
    }
    shape_like(c->y, c->x);
    c->y->type = c->x->type;
    for (uint32_t i = 1; i < c->node->n_in; i++) {
        const struct onnx_value *x = onnx_in(c->model, c->node, i);

        if (x == NULL || x->rank != c->x->rank) {
            return infer_bad(c, "the shapes do not go together");
        }
        for (uint32_t k = 0; k < x->rank; k++) {
            if (k != axis && x->dims[k] != c->y->dims[k]) {
                return bad_batch(c, "the shapes do not go together");
            }
        }
        c->y->dims[axis] += x->dims[axis];
    }
    return PST_OK;
}

static pst_status infer_split(const struct rule *c)
{
    const uint32_t axis = onnx_axis(onnx_int(c->node, "axis", 0), c->x->rank);
    int64_t list[64];
    uint32_t n;
    uint64_t sum = 0, part;
    bool there;
    pst_status status = onnx_list(c->model, c->node, 1, "split", 64, list, &n, &there, c->err);

    if (status != PST_OK) {
        return status;
    }
    if (axis == c->x->rank || (there && n != c->node->n_out)) {
        return infer_bad(c, "its axis is none, or its parts are not as many as its outputs");
    }
    part = (c->x->dims[axis] + c->node->n_out - 1) / c->node->n_out;
    for (uint32_t i = 0; i < c->node->n_out; i++) {
        struct onnx_value *y = onnx_out(c->model, c->node, i);
        const uint64_t left = c->x->dims[axis] - sum;
        const uint64_t size = there ? (uint64_t)list[i] : part < left ? part : left;

        if ((there && list[i] < 0) || size > left) {
            return infer_bad(c, "its parts are more than there is");
        }
        sum += size;
        if (y != NULL) {
            shape_like(y, c->x);
            y->type = c->x->type;
            y->dims[axis] = size;
        }
    }
    return sum == c->x->dims[axis] ? PST_OK : infer_bad(c, "its parts are less than there is");
}

#define MAX_PARTS 65536 /* of a sequence */

struct onnx_value *onnx_part(struct onnx_model *model, const struct onnx_node *node,
                             uint32_t *ret_axis, uint64_t *ret_first, uint64_t *ret_size)
{
    const struct onnx_node *split = onnx_maker(model, onnx_in(model, node, 0));
    struct onnx_value *x = split == NULL ? NULL : onnx_in(model, split, 0);
    struct onnx_value *sizes = split == NULL ? NULL : onnx_in(model, split, 1);
    const struct onnx_data *at = onnx_known(model, onnx_in(model, node, 1));
    const struct onnx_data *data = sizes == NULL ? NULL : onnx_known(model, sizes);
    uint64_t left;

    if (split == NULL || split->op != ONNX_SplitToSequence || at == NULL || data == NULL ||
        onnx_elems(onnx_in(model, node, 1)) != 1 || onnx_integer(at, 0) > MAX_PARTS) {
        return NULL;
    }
    *ret_axis = onnx_axis(onnx_int(split, "axis", 0), x->rank);
    *ret_first = 0;
    if (*ret_axis == x->rank) {
        return NULL;
    }
    left = x->dims[*ret_axis];
    for (int64_t i = 0; i <= onnx_integer(at, 0); i++) {
        const int64_t size = sizes->rank == 0                  ? onnx_integer(data, 0)
                             : (uint64_t)i < onnx_elems(sizes) ? onnx_integer(data, (uint64_t)i)
                                                               : 0;

        *ret_first += i == 0 ? 0 : *ret_size;
        *ret_size = size > 0 && (uint64_t)size < left ? (uint64_t)size : left;
        if (size <= 0 || left == 0 || (sizes->rank == 1 && (uint64_t)size > left)) {
            return NULL;
        }
        left -= *ret_size;
    }
    return onnx_integer(at, 0) >= 0 ? x : NULL;
}

static pst_status infer_part(const struct rule *c)
{
    uint32_t axis;
    uint64_t first, size;
    const struct onnx_value *x = onnx_part(c->model, c->node, &axis, &first, &size);

    if (x == NULL) {
        return infer_bad(c, "only a part, by its number, of what is split in known sizes is read");
    }
    shape_like(c->y, x);
    c->y->type = x->type;
    c->y->dims[axis] = size;
    return PST_OK;
}

pst_status onnx_slice(struct onnx_model *model, const struct onnx_node *node, int64_t *ret_start,
                      int64_t *ret_step, uint64_t *ret_dims, struct pst_error *err)
{
    const struct rule rule = {
        .model = model, .node = node, .x = onnx_in(model, node, 0), .err = err};
    const char *const names[4] = {"starts", "ends", "axes", "steps"};
    int64_t list[4][ONNX_RANK];
    uint32_t n[4];
    bool there[4];

    for (uint32_t i = 0; i < 4; i++) {
        pst_status status = onnx_list(model, node, 1 + i, i < 3 ? names[i] : NULL, ONNX_RANK,
                                      list[i], &n[i], &there[i], err);

        if (status != PST_OK) {
            return status;
        }
    }
    if (!there[0] || n[0] != n[1] || (there[2] && n[2] != n[0]) || (there[3] && n[3] != n[0]) ||
        n[0] > rule.x->rank) {
        return infer_bad(&rule, "its starts, ends, axes and steps do not go together");
    }
    for (uint32_t i = 0; i < rule.x->rank; i++) {
        ret_start[i] = 0;
        ret_step[i] = 1;
        ret_dims[i] = rule.x->dims[i];
    }
    for (uint32_t i = 0, seen = 0; i < n[0]; i++) {
        const uint32_t axis = there[2] ? onnx_axis(list[2][i], rule.x->rank) : i;
        const int64_t step = there[3] ? list[3][i] : 1;
        int64_t size, start = list[0][i], end = list[1][i];

        if (axis >= rule.x->rank || (seen >> axis & 1) != 0 || step == 0 || step < -(1ll << 40) ||
            step > 1ll << 40) {
            return infer_bad(&rule, "its axes or steps are none, or an axis comes twice");
        }
        seen |= 1u << axis;
        size = (int64_t)rule.x->dims[axis];
        start = start < -size ? -1 : start < 0 ? start + size : start > size ? size : start;
        start = start < 0 ? 0 : step < 0 && start > size - 1 ? size - 1 : start;
        end = end < -size ? -1 : end < 0 ? end + size : end > size ? size : end;
        end = step > 0 && end < 0 ? 0 : end;
        ret_start[axis] = start;
        ret_step[axis] = step;
        ret_dims[axis] = size == 0 ? 0
                         : step > 0
                             ? (end > start ? (uint64_t)((end - start + step - 1) / step) : 0)
                         : end < start ? (uint64_t)((start - end - step - 1) / -step)
                                       : 0;
    }
    return PST_OK;
}

static pst_status infer_slice(const struct rule *c)
{
    int64_t start[ONNX_RANK], step[ONNX_RANK];

    c->y->type = c->x->type;
    c->y->rank = c->x->rank;
    return onnx_slice(c->model, c->node, start, step, c->y->dims, c->err);
}

static pst_status infer_pad(const struct rule *c)
{
    int64_t pads[2 * ONNX_RANK];
    uint32_t n;
    bool there;
    pst_status status =
        onnx_list(c->model, c->node, 1, "pads", 2 * ONNX_RANK, pads, &n, &there, c->err);

    if (status != PST_OK) {
        return status;
    }
    if (n != 2 * c->x->rank || onnx_in(c->model, c->node, 3) != NULL ||
        !onnx_word_is(c->node, "mode", "constant", true)) {
        return infer_bad(c, "only constants on all axes can be padded with");
    }
    c->y->type = c->x->type;
    c->y->rank = c->x->rank;
    for (uint32_t i = 0; i < c->x->rank; i++) {
        const int64_t size = (int64_t)c->x->dims[i];

        if (pads[i] < -size || pads[i] > 1ll << 40 || pads[i + n / 2] > 1ll << 40 ||
            pads[i + n / 2] < -size || size + pads[i] + pads[i + n / 2] < 0) {
            return infer_bad(c, "such padding cannot be");
        }
        c->y->dims[i] = (uint64_t)(size + pads[i] + pads[i + n / 2]);
    }
    return PST_OK;
}

/* --- by place --------------------------------------------------------------------------------- */

static pst_status infer_gather(const struct rule *c)
{
    const struct onnx_value *at = onnx_in(c->model, c->node, 1);
    const uint32_t axis = onnx_axis(onnx_int(c->node, "axis", 0), c->x->rank);

    if (axis == c->x->rank || c->x->rank - 1 + at->rank > ONNX_RANK) {
        return infer_bad(c, "its axis is none, or the result has too many axes");
    }
    c->y->type = c->x->type;
    for (uint32_t i = 0; i < c->x->rank; i++) {
        for (uint32_t k = 0; k < at->rank && i == axis; k++) {
            c->y->dims[c->y->rank++] = at->dims[k];
        }
        if (i != axis) {
            c->y->dims[c->y->rank++] = c->x->dims[i];
        }
    }
    return PST_OK;
}

static pst_status infer_gather_elements(const struct rule *c)
{
    const struct onnx_value *at = onnx_in(c->model, c->node, 1);

    if (at->rank != c->x->rank ||
        onnx_axis(onnx_int(c->node, "axis", 0), c->x->rank) == c->x->rank) {
        return infer_bad(c, "the shapes do not go together");
    }
    c->y->type = c->x->type;
    shape_like(c->y, at);
    return PST_OK;
}

static pst_status infer_gather_nd(const struct rule *c)
{
    const struct onnx_value *at = onnx_in(c->model, c->node, 1);
    const uint64_t depth = at->rank == 0 ? 0 : at->dims[at->rank - 1];

    if (depth == 0 || depth > c->x->rank || onnx_int(c->node, "batch_dims", 0) != 0 ||
        at->rank - 1 + c->x->rank - depth > ONNX_RANK) {
        return infer_bad(c, "the shapes do not go together, or some axes are batch_dims");
    }
    c->y->type = c->x->type;
    for (uint32_t i = 0; i + 1 < at->rank; i++) {
        c->y->dims[c->y->rank++] = at->dims[i];
    }
    for (uint32_t i = (uint32_t)depth; i < c->x->rank; i++) {
        c->y->dims[c->y->rank++] = c->x->dims[i];
    }
    return PST_OK;
}

/* --- numbers from nothing --------------------------------------------------------------------- */

static pst_status infer_constant(const struct rule *c)
{
    const Onnx__AttributeProto *value = onnx_attribute(c->node, "value");
    const Onnx__AttributeProto *real = onnx_attribute(c->node, "value_float");
    const Onnx__AttributeProto *reals = onnx_attribute(c->node, "value_floats");
    const Onnx__AttributeProto *integer = onnx_attribute(c->node, "value_int");
    const Onnx__AttributeProto *integers = onnx_attribute(c->node, "value_ints");

    if (value != NULL && value->t != NULL) {
        return onnx_tensor_check(c->model, value->t, c->y, c->err);
    }
    c->y->rank = reals != NULL || integers != NULL;
    c->y->type = real != NULL || reals != NULL ? ONNX_FLOAT : ONNX_INT64;
    c->y->dims[0] = reals != NULL ? reals->n_floats : integers != NULL ? integers->n_ints : 0;
    return real != NULL || reals != NULL || integer != NULL || integers != NULL
               ? PST_OK
               : infer_bad(c, "it has no numbers");
}

static pst_status infer_filled(const struct rule *c)
{
    const Onnx__AttributeProto *value = onnx_attribute(c->node, "value");
    struct onnx_value one = {.type = ONNX_FLOAT};
    int64_t dims[ONNX_RANK];
    uint64_t elems = 1;
    bool there;
    pst_status status =
        onnx_list(c->model, c->node, 0, NULL, ONNX_RANK, dims, &c->y->rank, &there, c->err);

    if (status == PST_OK && value != NULL && value->t != NULL) {
        status = onnx_tensor_check(c->model, value->t, &one, c->err);
    }
    for (uint32_t i = 0; i < c->y->rank && status == PST_OK; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && (uint64_t)dims[i] > MAX_ELEMS / (elems ? elems : 1))) {
            return infer_bad(c, "such a shape cannot be");
        }
        c->y->dims[i] = (uint64_t)dims[i];
        elems *= c->y->dims[i];
    }
    c->y->type = one.type;
    return status != PST_OK || onnx_elems(&one) == 1 ? status
                                                     : infer_bad(c, "its value is not one");
}

static pst_status infer_shape(const struct rule *c)
{
    struct onnx_data *data;
    int64_t start = onnx_int(c->node, "start", 0), end = onnx_int(c->node, "end", ONNX_RANK);

    start += start < 0 ? c->x->rank : 0;
    end += end < 0 ? c->x->rank : 0;
    start = start < 0 ? 0 : start > c->x->rank ? c->x->rank : start;
    end = end < start ? start : end > c->x->rank ? c->x->rank : end;
    c->y->type = ONNX_INT64;
    c->y->rank = 1;
    c->y->dims[0] = (uint64_t)(end - start);
    data = onnx_data_new(c->model, c->y, false);
    for (int64_t i = start; i < end && data != NULL; i++) {
        data->i[i - start] = (int64_t)c->x->dims[i];
    }
    c->y->data = data;
    c->y->fixed = true;
    return PST_OK;
}

static pst_status infer_size(const struct rule *c)
{
    struct onnx_data *data;

    c->y->type = ONNX_INT64;
    data = onnx_data_new(c->model, c->y, true);
    if (data != NULL) {
        data->i[0] = (int64_t)onnx_elems(c->x);
    }
    c->y->data = data;
    c->y->fixed = true;
    return PST_OK;
}

static pst_status infer_range(const struct rule *c)
{
    double ends[3], count;

    for (uint32_t i = 0; i < 3; i++) {
        const struct onnx_data *data = onnx_known(c->model, onnx_in(c->model, c->node, i));

        if (data == NULL || onnx_elems(onnx_in(c->model, c->node, i)) != 1) {
            return infer_bad(c, "its ends are no numbers, or samples change them");
        }
        ends[i] = onnx_real(data, 0);
    }
    count = (ends[1] - ends[0]) / ends[2];
    if (!(count < 0x1p30)) {
        return infer_bad(c, "its ends are too far apart");
    }
    c->y->type = c->x->type;
    c->y->rank = 1;
    c->y->dims[0] = count > 0 ? (uint64_t)count + (count > (double)(uint64_t)count) : 0;
    return PST_OK;
}

/* --- reductions ------------------------------------------------------------------------------- */

pst_status onnx_reduced(struct onnx_model *model, const struct onnx_node *node, uint32_t *ret_axes,
                        bool *ret_keep, struct pst_error *err)
{
    const struct rule rule = {
        .model = model, .node = node, .x = onnx_in(model, node, 0), .err = err};
    const uint32_t all = (1u << rule.x->rank) - 1;
    bool there;
    pst_status status = axes_of(&rule, rule.x->rank, ret_axes, &there);

    if (status == PST_OK && *ret_axes == 0) {
        *ret_axes = onnx_int(node, "noop_with_empty_axes", 0) != 0 ? 0 : all;
    }
    *ret_keep = onnx_int(node, "keepdims", 1) != 0;
    return status;
}

static void reduce(const struct rule *c, uint32_t axes, bool keep)
{
    for (uint32_t i = 0; i < c->x->rank; i++) {
        if ((axes >> i & 1) == 0 || keep) {
            c->y->dims[c->y->rank++] = (axes >> i & 1) == 0 ? c->x->dims[i] : 1;
        }
    }
}

static pst_status infer_reduce(const struct rule *c)
{
    uint32_t axes;
    bool keep;
    pst_status status = onnx_reduced(c->model, c->node, &axes, &keep, c->err);

    c->y->type = c->x->type;
    if (status == PST_OK) {
        reduce(c, axes, keep);
    }
    return status;
}

static pst_status infer_arg(const struct rule *c)
{
    const uint32_t axis = onnx_axis(onnx_int(c->node, "axis", 0), c->x->rank);

    if (axis == c->x->rank) {
        return infer_bad(c, "its axis is none");
    }
    c->y->type = ONNX_INT64;
    reduce(c, 1u << axis, onnx_int(c->node, "keepdims", 1) != 0);
    return PST_OK;
}

/* --- products --------------------------------------------------------------------------------- */

static pst_status infer_matmul(const struct rule *c)
{
    const struct onnx_value *b = onnx_in(c->model, c->node, 1);
    struct onnx_value left = *c->x, right = *b;
    const struct onnx_value *both[2] = {&left, &right};
    uint64_t k;

    if (left.rank == 0 || right.rank == 0) {
        return infer_bad(c, "a number has no axis to sum over");
    }
    k = left.dims[left.rank - 1];
    if (right.dims[right.rank == 1 ? 0 : right.rank - 2] != k) {
        return bad_batch(c, "the inner axes differ");
    }
    left.rank -= left.rank == 1 ? 1 : 2;
    right.rank -= right.rank == 1 ? 1 : 2;
    if (!onnx_broadcast(2, both, &c->y->rank, c->y->dims)) {
        return bad_batch(c, "the shapes do not go together");
    }
    if (c->x->rank > 1) {
        c->y->dims[c->y->rank++] = c->x->dims[c->x->rank - 2];
    }
    if (b->rank > 1) {
        c->y->dims[c->y->rank++] = b->dims[b->rank - 1];
    }
    c->y->type = c->x->type;
    return PST_OK;
}

static pst_status infer_gemm(const struct rule *c)
{
    const struct onnx_value *b = onnx_in(c->model, c->node, 1);
    const uint32_t ta = onnx_int(c->node, "transA", 0) != 0;
    const uint32_t tb = onnx_int(c->node, "transB", 0) != 0;

    if (c->x->rank != 2 || b->rank != 2 || c->x->dims[1 - ta] != b->dims[tb]) {
        return bad_batch(c, "the inner axes differ");
    }
    c->y->type = c->x->type;
    c->y->rank = 2;
    c->y->dims[0] = c->x->dims[ta];
    c->y->dims[1] = b->dims[1 - tb];
    return PST_OK;
}

static pst_status infer_loss(const struct rule *c)
{
    c->y->type = c->x->type;
    return PST_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static rule_fn *const rules[ONNX_N_OPS] = {
    [ONNX_Abs] = infer_same,
    [ONNX_Add] = infer_broadcast,
    [ONNX_And] = infer_compare,
    [ONNX_ArgMax] = infer_arg,
    [ONNX_ArgMin] = infer_arg,
    [ONNX_AveragePool] = infer_pool,
    [ONNX_BatchNormalization] = infer_same,
    [ONNX_Cast] = infer_cast,
    [ONNX_CastLike] = infer_cast,
    [ONNX_Ceil] = infer_same,
    [ONNX_Clip] = infer_same,
    [ONNX_Concat] = infer_concat,
    [ONNX_Constant] = infer_constant,
    [ONNX_ConstantOfShape] = infer_filled,
    [ONNX_Conv] = infer_pool,
    [ONNX_ConvTranspose] = infer_conv_transpose,
    [ONNX_Cos] = infer_same,
    [ONNX_CumSum] = infer_same,
    [ONNX_Div] = infer_broadcast,
    [ONNX_Dropout] = infer_same,
    [ONNX_Elu] = infer_same,
    [ONNX_Equal] = infer_compare,
    [ONNX_Erf] = infer_same,
    [ONNX_Exp] = infer_same,
    [ONNX_Expand] = infer_expand,
    [ONNX_Flatten] = infer_flatten,
    [ONNX_Floor] = infer_same,
    [ONNX_Gather] = infer_gather,
    [ONNX_GatherElements] = infer_gather_elements,
    [ONNX_GatherND] = infer_gather_nd,
    [ONNX_Gelu] = infer_same,
    [ONNX_Gemm] = infer_gemm,
    [ONNX_GlobalAveragePool] = infer_global_pool,
    [ONNX_Greater] = infer_compare,
    [ONNX_GreaterOrEqual] = infer_compare,
    [ONNX_HardSigmoid] = infer_same,
    [ONNX_HardSwish] = infer_same,
    [ONNX_Identity] = infer_same,
    [ONNX_IsNaN] = infer_truth,
    [ONNX_LRN] = infer_same,
    [ONNX_LayerNormalization] = infer_same,
    [ONNX_LeakyRelu] = infer_same,
    [ONNX_Less] = infer_compare,
    [ONNX_LessOrEqual] = infer_compare,
    [ONNX_Log] = infer_same,
    [ONNX_LogSoftmax] = infer_same,
    [ONNX_MatMul] = infer_matmul,
    [ONNX_Max] = infer_broadcast,
    [ONNX_MaxPool] = infer_pool,
    [ONNX_Min] = infer_broadcast,
    [ONNX_Mod] = infer_broadcast,
    [ONNX_Mul] = infer_broadcast,
    [ONNX_Neg] = infer_same,
    [ONNX_Not] = infer_truth,
    [ONNX_Or] = infer_compare,
    [ONNX_Pad] = infer_pad,
    [ONNX_Pow] = infer_pow,
    [ONNX_RMSNormalization] = infer_same,
    [ONNX_Range] = infer_range,
    [ONNX_Reciprocal] = infer_same,
    [ONNX_ReduceMax] = infer_reduce,
    [ONNX_ReduceMean] = infer_reduce,
    [ONNX_ReduceProd] = infer_reduce,
    [ONNX_ReduceSum] = infer_reduce,
    [ONNX_Relu] = infer_same,
    [ONNX_Reshape] = infer_reshape,
    [ONNX_Resize] = infer_resize,
    [ONNX_Round] = infer_same,
    [ONNX_ScatterND] = infer_same,
    [ONNX_SequenceAt] = infer_part,
    [ONNX_Shape] = infer_shape,
    [ONNX_Sigmoid] = infer_same,
    [ONNX_Sign] = infer_same,
    [ONNX_Sin] = infer_same,
    [ONNX_Size] = infer_size,
    [ONNX_Slice] = infer_slice,
    [ONNX_Softmax] = infer_same,
    [ONNX_SoftmaxCrossEntropyLoss] = infer_loss,
    [ONNX_Softplus] = infer_same,
    [ONNX_SplitToSequence] = infer_same, /* parts are read by infer_part alone */
    [ONNX_Split] = infer_split,
    [ONNX_Sqrt] = infer_same,
    [ONNX_Squeeze] = infer_squeeze,
    [ONNX_Sub] = infer_broadcast,
    [ONNX_Sum] = infer_broadcast,
    [ONNX_Tanh] = infer_same,
    [ONNX_Tile] = infer_tile,
    [ONNX_Transpose] = infer_transpose,
    [ONNX_Trilu] = infer_same,
    [ONNX_Unsqueeze] = infer_unsqueeze,
    [ONNX_Where] = infer_broadcast,
    [ONNX_Xor] = infer_compare,
};

pst_status infer_node_shape(const struct rule *rule)
{
    return rules[rule->node->op](rule);
}
