/* SPDX-License-Identifier: Apache-2.0
 *
 * A convolution, with what is added to it, or one of its gradients.
 */
#include "dnn_graph.h"

static void axes(int64_t n, int64_t channels, int64_t height, int64_t width, int64_t ret_dims[4],
                 int64_t ret_strides[4])
{
    ret_dims[0] = n;
    ret_dims[1] = channels;
    ret_dims[2] = height;
    ret_dims[3] = width;
    ret_strides[0] = height * width * channels;
    ret_strides[1] = 1;
    ret_strides[2] = width * channels;
    ret_strides[3] = channels;
}

/* An f32 tensor inside that becomes t by one more operation. */
static uint32_t before(struct pst_dnn_graph *g, uint32_t t)
{
    const uint32_t inside = pst_dnn_inside(g, PST_DNN_F32, g->tensors[t].dims);

    for (uint32_t i = 0; i < 4; i++) {
        g->tensors[inside].strides[i] = g->tensors[t].strides[i];
    }
    return inside;
}

static void forward(const struct pst_dnn_conv *c, struct pst_dnn_graph *g, uint32_t x,
                    uint32_t filter, uint32_t y)
{
    const int64_t out = (int64_t)c->out, dims[4] = {1, out, 1, 1}, strides[4] = {out, 1, out, out};
    uint32_t sums;

    if (!c->bias) {
        pst_dnn_op(g, PST_DNN_CONV, x, filter, y);
        return;
    }
    sums = pst_dnn_op(g, PST_DNN_CONV, x, filter, before(g, y));
    pst_dnn_op(g, PST_DNN_ADD, sums, pst_dnn_memory(g, PST_DNN_BIAS, PST_DNN_F32, dims, strides),
               y);
}

/* In bf16 the library leaves f32 only after a separate operation. */
static void filter_back(const struct pst_dnn_conv *c, struct pst_dnn_graph *g, uint32_t x,
                        uint32_t filter, uint32_t y)
{
    if (!c->bf16) {
        pst_dnn_op(g, PST_DNN_CONV_B, x, y, filter);
        return;
    }
    pst_dnn_op(g, PST_DNN_IDENTITY, pst_dnn_op(g, PST_DNN_CONV_B, x, y, before(g, filter)),
               PST_DNN_NONE, filter);
}

void pst_dnn_conv_graph(const struct pst_dnn_conv *c, uint32_t kind, struct pst_dnn_graph *g)
{
    const struct pst_window *w = &c->window;
    const uint32_t type = c->bf16 ? PST_DNN_BF16 : PST_DNN_F32;
    int64_t dims[4], strides[4];
    uint32_t x, filter, y;

    pst_dnn_graph_init(g);
    g->ordered = true;
    g->tf32 = c->tf32;
    g->window = *w;
    axes((int64_t)c->samples, (int64_t)c->in, w->in[0], w->in[1], dims, strides);
    x = pst_dnn_memory(g, PST_DNN_X, type, dims, strides);
    axes((int64_t)c->out, (int64_t)c->in, w->kernel[0], w->kernel[1], dims, strides);
    filter = pst_dnn_memory(g, PST_DNN_FILTER, kind == PST_DNN_CONV_B ? PST_DNN_F32 : type, dims,
                            strides);
    axes((int64_t)c->samples, (int64_t)c->out, w->out[0], w->out[1], dims, strides);
    y = pst_dnn_memory(g, PST_DNN_Y, type, dims, strides);
    if (kind == PST_DNN_CONV) {
        forward(c, g, x, filter, y);
    } else if (kind == PST_DNN_CONV_X) {
        pst_dnn_op(g, kind, y, filter, x);
    } else {
        filter_back(c, g, x, filter, y);
    }
}
