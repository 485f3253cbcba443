/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of what windows over images leave: convolutions and pools.
 */
#include "infer.h"

#include <string.h>

static pst_status window_lists(const struct rule *c, struct onnx_window *w)
{
    const struct onnx_value *weight = onnx_in(c->model, c->node, 1);
    const char *const names[4] = {"kernel_shape", "strides", "dilations", "pads"};
    uint64_t *const to[4] = {w->kernel, w->stride, w->dilation, w->pad};

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t n;
        const int64_t *list = onnx_ints(c->node, names[i], &n);

        if (list != NULL && n != (i == 3 ? 4u : 2u)) {
            return infer_bad(c, "only images of two axes have windows");
        }
        for (uint32_t k = 0; k < (i == 3 ? 4u : 2u); k++) {
            int64_t value = list != NULL ? list[k] : i == 3 ? 0 : 1;

            if (i == 0 && list == NULL) {
                value = weight != NULL && weight->rank == 4 ? (int64_t)weight->dims[2 + k] : 0;
            }
            if (value < (i == 3 ? 0 : 1) || value > 1 << 20) {
                return infer_bad(c, "its window cannot be");
            }
            to[i][k] = (uint64_t)value;
        }
    }
    return PST_OK;
}

/* Pads so that the result has as many places as strides fit into the image. */
static void pad_same(const struct rule *c, struct onnx_window *w, bool upper)
{
    for (uint32_t k = 0; k < 2; k++) {
        const uint64_t size = c->x->dims[2 + k];
        const uint64_t out = (size + w->stride[k] - 1) / w->stride[k];
        const uint64_t span = (w->kernel[k] - 1) * w->dilation[k] + 1;
        const uint64_t needed = out == 0 ? 0 : (out - 1) * w->stride[k] + span;
        const uint64_t pad = needed > size ? needed - size : 0;

        w->pad[k] = upper ? pad / 2 : pad - pad / 2;
        w->pad[2 + k] = pad - w->pad[k];
    }
}

pst_status onnx_window(const struct onnx_model *model, const struct onnx_node *node,
                       struct onnx_window *ret_window, struct pst_error *err)
{
    const struct rule rule = {.model = (struct onnx_model *)model,
                              .node = node,
                              .x = onnx_in(model, node, 0),
                              .err = err};
    const bool ceil = onnx_int(node, "ceil_mode", 0) != 0;
    struct onnx_window *w = ret_window;
    pst_status status;

    memset(w, 0, sizeof *w);
    if (rule.x->rank != 4) {
        return infer_bad(&rule, "only images [batch, channels, height, width] have windows");
    }
    status = window_lists(&rule, w);
    if (status != PST_OK) {
        return status;
    }
    if (onnx_word_is(node, "auto_pad", "SAME_UPPER", false) ||
        onnx_word_is(node, "auto_pad", "SAME_LOWER", false)) {
        pad_same(&rule, w, onnx_word_is(node, "auto_pad", "SAME_UPPER", false));
    } else if (onnx_word_is(node, "auto_pad", "VALID", false)) {
        memset(w->pad, 0, sizeof w->pad);
    }
    for (uint32_t k = 0; k < 2; k++) {
        const uint64_t size = rule.x->dims[2 + k] + w->pad[k] + w->pad[2 + k];
        const uint64_t span = (w->kernel[k] - 1) * w->dilation[k] + 1;

        if (size < span) {
            return infer_bad(&rule, "its window is larger than the image");
        }
        w->out[k] = (size - span + (ceil ? w->stride[k] - 1 : 0)) / w->stride[k] + 1;
        /* A window must not begin after the image and its padding before it (PyTorch's rule). */
        if (ceil && (w->out[k] - 1) * w->stride[k] >= rule.x->dims[2 + k] + w->pad[k]) {
            w->out[k]--;
        }
    }
    return PST_OK;
}

pst_status onnx_window_back(const struct onnx_model *model, const struct onnx_node *node,
                            struct onnx_window *ret_window, struct pst_error *err)
{
    const struct rule rule = {.model = (struct onnx_model *)model,
                              .node = node,
                              .x = onnx_in(model, node, 0),
                              .err = err};
    const struct onnx_value *weight = onnx_in(model, node, 1);
    struct onnx_window *w = ret_window;
    uint32_t n;
    const int64_t *more = onnx_ints(node, "output_padding", &n);
    pst_status status;

    memset(w, 0, sizeof *w);
    if (rule.x->rank != 4 || weight->rank != 4 || weight->dims[0] != rule.x->dims[1] ||
        onnx_int(node, "group", 1) != 1 || onnx_attribute(node, "output_shape") != NULL ||
        !onnx_word_is(node, "auto_pad", "NOTSET", true) || (more != NULL && n != 2)) {
        return infer_bad(&rule, "only images of the weights' channels, in one group, with pads");
    }
    status = window_lists(&rule, w);
    for (uint32_t k = 0; k < 2 && status == PST_OK; k++) {
        const uint64_t span = (w->kernel[k] - 1) * w->dilation[k] + 1;
        const int64_t extra = more == NULL ? 0 : more[k];

        w->out[k] = (rule.x->dims[2 + k] - 1) * w->stride[k] + span;
        if (extra < 0 || extra >= 1 << 20 || w->kernel[k] != weight->dims[2 + k] ||
            w->out[k] + (uint64_t)extra <= w->pad[k] + w->pad[2 + k]) {
            return infer_bad(&rule, "its window cannot be");
        }
        w->out[k] += (uint64_t)extra - w->pad[k] - w->pad[2 + k];
    }
    return status;
}

pst_status infer_conv_transpose(const struct rule *c)
{
    struct onnx_window window;
    pst_status status = onnx_window_back(c->model, c->node, &window, c->err);

    if (status == PST_OK) {
        c->y->type = c->x->type;
        c->y->rank = 4;
        c->y->dims[0] = c->x->dims[0];
        c->y->dims[1] = onnx_in(c->model, c->node, 1)->dims[1];
        c->y->dims[2] = window.out[0];
        c->y->dims[3] = window.out[1];
    }
    return status;
}

pst_status infer_pool(const struct rule *c)
{
    const struct onnx_value *weight =
        c->node->op == ONNX_Conv ? onnx_in(c->model, c->node, 1) : NULL;
    struct onnx_window window;
    pst_status status = onnx_window(c->model, c->node, &window, c->err);
    const int64_t group = onnx_int(c->node, "group", 1);

    if (status != PST_OK) {
        return status;
    }
    c->y->type = c->x->type;
    c->y->rank = c->x->rank;
    memcpy(c->y->dims, c->x->dims, sizeof c->y->dims);
    c->y->dims[2] = window.out[0];
    c->y->dims[3] = window.out[1];
    if (weight != NULL) {
        if (weight->rank != 4 || group < 1 || (uint64_t)group > c->x->dims[1] ||
            weight->dims[1] * (uint64_t)group != c->x->dims[1] ||
            weight->dims[0] % (uint64_t)group != 0) {
            return infer_bad(c, "the weights do not go with the image's channels");
        }
        c->y->dims[1] = weight->dims[0];
    }
    return PST_OK;
}

pst_status infer_global_pool(const struct rule *c)
{
    if (c->x->rank < 3) {
        return infer_bad(c, "only images have a mean over their axes");
    }
    c->y->type = c->x->type;
    c->y->rank = c->x->rank;
    memcpy(c->y->dims, c->x->dims, sizeof c->y->dims);
    for (uint32_t i = 2; i < c->y->rank; i++) {
        c->y->dims[i] = 1;
    }
    return PST_OK;
}
