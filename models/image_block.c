/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of models for images.
 */
#include <math.h>

#include "block.h"

uint32_t pst_add_conv(struct pst_graph_builder *builder, const char *name, uint32_t x, uint64_t in,
                      uint64_t out, const struct pst_window *window)
{
    char weight[PST_NAME_SIZE];
    uint64_t dims[4] = {window->kernel[0], window->kernel[1], in, out};
    uint32_t param;
    float taps = (float)window->kernel[0] * (float)window->kernel[1];
    struct pst_op op = {.kind = PST_OP_CONV2D,
                        .name = name,
                        .n_in = 1,
                        .in = &x,
                        .n_param = 1,
                        .param = &param,
                        .kernel = {window->kernel[0], window->kernel[1]},
                        .stride = {window->stride[0], window->stride[1]},
                        .pad = {window->pad[0], window->pad[1]}};

    param = pst_graph_param(builder, pst_join_name(weight, name, "weight"), 4, dims,
                            PST_INIT_NORMAL, sqrtf(2.0f / (taps * (float)out)), true);
    return pst_graph_add(builder, &op);
}

uint32_t pst_add_batchnorm(struct pst_graph_builder *builder, const char *name, uint32_t x,
                           uint64_t channels)
{
    char text[PST_NAME_SIZE];
    uint32_t param[2];
    struct pst_op op = {.kind = PST_OP_BATCHNORM,
                        .name = name,
                        .n_in = 1,
                        .in = &x,
                        .n_param = 2,
                        .param = param,
                        .eps = 1e-5f,
                        .momentum = 0.1f};

    param[0] = pst_graph_param(builder, pst_join_name(text, name, "weight"), 1, &channels,
                               PST_INIT_ONE, 0.0f, false);
    param[1] = pst_graph_param(builder, pst_join_name(text, name, "bias"), 1, &channels,
                               PST_INIT_ZERO, 0.0f, false);
    return pst_graph_add(builder, &op);
}

uint32_t pst_add_classifier(struct pst_graph_builder *builder, uint64_t width, uint64_t classes,
                            uint32_t x)
{
    uint64_t dims[2] = {width, classes};
    uint32_t param[2], pooled;
    float bound = sqrtf(1.0f / (float)width);
    struct pst_op pool = {.kind = PST_OP_AVGPOOL, .name = "avgpool", .n_in = 1, .in = &x};
    struct pst_op fc = {.kind = PST_OP_LINEAR,
                        .name = "fc",
                        .n_in = 1,
                        .in = &pooled,
                        .n_param = 2,
                        .param = param};

    pooled = pst_graph_add(builder, &pool);
    param[0] = pst_graph_param(builder, "fc.weight", 2, dims, PST_INIT_UNIFORM, bound, true);
    param[1] = pst_graph_param(builder, "fc.bias", 1, &classes, PST_INIT_UNIFORM, bound, false);
    return pst_graph_add(builder, &fc);
}
