/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual networks (He et al.: "Deep residual learning for image recognition", CVPR 2016), images
 * as [height, width, channels]. Names and layout are torchvision's; a bottleneck has its stride on
 * the 3x3 convolution. `depth` gives the published networks, "custom" small ones for small images.
 */
#include "block.h"

#include <stdio.h>

struct resnet_config {
    uint32_t depth; /* enum: custom | 18 | 34 | 50 | 101 | 152 */
    uint32_t stem;  /* enum: auto | small | large */
    int64_t image, channels, classes, width, stages, blocks;
    bool bottleneck;
};

static const struct pst_param params[] = {
    PST_PARAM(struct resnet_config, depth, PST_PARAM_ENUM, "custom", "custom|18|34|50|101|152",
              "A published network, or custom: defined by stages, blocks and bottleneck."),
    PST_PARAM(struct resnet_config, stem, PST_PARAM_ENUM, "auto", "auto|small|large",
              "First layer: small is a 3x3 convolution, large a 7x7 one of stride 2 and pooling; "
              "auto: large for images above 64."),
    PST_PARAM(struct resnet_config, image, PST_PARAM_INT, "32", "1..16384",
              "Height and width of the images."),
    PST_PARAM(struct resnet_config, channels, PST_PARAM_INT, "3", "1..4096",
              "Channels of the images."),
    PST_PARAM(struct resnet_config, classes, PST_PARAM_INT, "10", "1..16777216",
              "Number of classes."),
    PST_PARAM(struct resnet_config, width, PST_PARAM_INT, "16", "1..4096",
              "Channels of the first stage (published networks: 64); doubles with every stage."),
    PST_PARAM(struct resnet_config, stages, PST_PARAM_INT, "3", "1..8",
              "Stages of a custom network; all but the first halve the image."),
    PST_PARAM(struct resnet_config, blocks, PST_PARAM_INT, "2", "1..1024",
              "Blocks per stage of a custom network."),
    PST_PARAM(struct resnet_config, bottleneck, PST_PARAM_BOOL, "false", NULL,
              "Blocks of a custom network are 1x1, 3x3, 1x1 with four times the channels."),
};

/* The network that the config describes. */
struct layout {
    uint32_t n_stages, blocks[8];
    uint32_t expansion; /* channels of a block's result per channel inside */
    bool large_stem;
};

static struct layout make_layout(const struct resnet_config *c)
{
    static const uint32_t published[][4] = {
        {2, 2, 2, 2}, {3, 4, 6, 3}, {3, 4, 6, 3}, {3, 4, 23, 3}, {3, 8, 36, 3}};
    struct layout layout = {.n_stages = c->depth == 0 ? (uint32_t)c->stages : 4};
    bool bottleneck = c->depth == 0 ? c->bottleneck : c->depth >= 3;

    for (uint32_t i = 0; i < layout.n_stages; i++) {
        layout.blocks[i] = c->depth == 0 ? (uint32_t)c->blocks : published[c->depth - 1][i];
    }
    layout.expansion = bottleneck ? 4 : 1;
    layout.large_stem = c->stem == 2 || (c->stem == 0 && c->image > 64);
    return layout;
}

/* Convolution `index` of a block with its norm, and relu where wanted. Square, with the padding
   that keeps the size at stride 1. */
static uint32_t add_unit(struct pst_model *m, uint32_t index, uint32_t x, int64_t in, int64_t out,
                         uint32_t kernel, uint32_t stride, bool relu)
{
    const struct pst_window window = {{kernel, kernel}, {stride, stride}, {kernel / 2, kernel / 2}};
    char name[32];

    snprintf(name, sizeof name, "conv%u", index);
    x = pst_add_conv(m, name, x, in, out, &window);
    snprintf(name, sizeof name, "bn%u", index);
    x = pst_add_batchnorm(m, name, x, out);
    snprintf(name, sizeof name, "relu%u", index);
    return relu ? pst_add_act(m, name, x, PST_ACT_RELU) : x;
}

/* One block from `in` channels to inner * expansion. */
static uint32_t add_residual(struct pst_model *m, uint32_t x, int64_t in, int64_t inner,
                             uint32_t expansion, uint32_t stride)
{
    const struct pst_window window = {{1, 1}, {stride, stride}, {0, 0}};
    int64_t out = inner * expansion;
    uint32_t h, skip = x;

    if (expansion == 1) {
        h = add_unit(m, 1, x, in, inner, 3, stride, true);
        h = add_unit(m, 2, h, inner, inner, 3, 1, false);
    } else {
        h = add_unit(m, 1, x, in, inner, 1, 1, true);
        h = add_unit(m, 2, h, inner, inner, 3, stride, true);
        h = add_unit(m, 3, h, inner, out, 1, 1, false);
    }
    if (stride != 1 || in != out) {
        skip = pst_add_conv(m, "downsample.0", x, in, out, &window);
        skip = pst_add_batchnorm(m, "downsample.1", skip, out);
    }
    h = pst_add_sum(m, "add", skip, h);
    return pst_add_act(m, "relu", h, PST_ACT_RELU);
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct resnet_config *c = config;
    const struct layout layout = make_layout(c);
    uint64_t image[3] = {(uint64_t)c->image, (uint64_t)c->image, (uint64_t)c->channels};
    const bool large = layout.large_stem;
    int64_t in = c->width;
    uint32_t x, targets, layer = 1;

    x = pst_graph_input(m->graph, "image", PST_FIELD_X, pst_graph_dtype(m->graph), 3, image);
    targets = pst_graph_input(m->graph, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    x = add_unit(m, 1, x, c->channels, c->width, large ? 7 : 3, large ? 2 : 1, true);
    x = large ? pst_add_pool(m, "maxpool", PST_OP_MAXPOOL2D, x, 3, 2) : x;
    for (uint32_t s = 0; s < layout.n_stages; s++) {
        int64_t inner = c->width << s;

        for (uint32_t b = 0; b < layout.blocks[s]; b++) {
            pst_graph_layer(m->graph, layer++);
            pst_enter(m, "layer%u.%u", s + 1, b);
            x = add_residual(m, x, in, inner, layout.expansion, s != 0 && b == 0 ? 2 : 1);
            pst_leave(m, 0);
            in = inner * layout.expansion;
        }
    }
    pst_graph_layer(m->graph, layer);
    return pst_add_classifier(m, in, c->classes, x, targets);
}

PST_MODEL_BUILDER(resnet, "resnet",
                  "residual network for images: 18, 34, 50, 101, 152 layers or custom",
                  struct resnet_config, NULL);
