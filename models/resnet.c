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
              "A published network, or custom: stages, blocks and bottleneck say what it is."),
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

/* What the config comes to. */
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

/* Square, with the padding that keeps the size at stride 1. */
static uint32_t add_conv(struct pst_graph_builder *builder, const char *name, uint32_t x,
                         uint64_t in, uint64_t out, uint32_t kernel, uint32_t stride)
{
    const struct pst_window window = {{kernel, kernel}, {stride, stride}, {kernel / 2, kernel / 2}};

    return pst_add_conv(builder, name, x, in, out, &window);
}

/* Convolution `index` of a block with its norm, and relu where wanted. */
static uint32_t add_unit(struct pst_graph_builder *builder, const char *prefix, uint32_t index,
                         uint32_t x, uint64_t in, uint64_t out, uint32_t kernel, uint32_t stride,
                         bool relu)
{
    char name[PST_NAME_SIZE], part[32];

    snprintf(part, sizeof part, "conv%u", index);
    x = add_conv(builder, pst_join_name(name, prefix, part), x, in, out, kernel, stride);
    snprintf(part, sizeof part, "bn%u", index);
    x = pst_add_batchnorm(builder, pst_join_name(name, prefix, part), x, out);
    if (relu) {
        snprintf(part, sizeof part, "relu%u", index);
        x = pst_add_act(builder, pst_join_name(name, prefix, part), x, PST_ACT_RELU);
    }
    return x;
}

/* One block from `in` channels to inner * expansion. */
static uint32_t add_residual(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                             uint64_t in, uint64_t inner, uint32_t expansion, uint32_t stride)
{
    char name[PST_NAME_SIZE];
    uint64_t out = inner * expansion;
    uint32_t h, skip = x;

    if (expansion == 1) {
        h = add_unit(builder, prefix, 1, x, in, inner, 3, stride, true);
        h = add_unit(builder, prefix, 2, h, inner, inner, 3, 1, false);
    } else {
        h = add_unit(builder, prefix, 1, x, in, inner, 1, 1, true);
        h = add_unit(builder, prefix, 2, h, inner, inner, 3, stride, true);
        h = add_unit(builder, prefix, 3, h, inner, out, 1, 1, false);
    }
    if (stride != 1 || in != out) {
        skip =
            add_conv(builder, pst_join_name(name, prefix, "downsample.0"), x, in, out, 1, stride);
        skip = pst_add_batchnorm(builder, pst_join_name(name, prefix, "downsample.1"), skip, out);
    }
    h = pst_add_sum(builder, pst_join_name(name, prefix, "add"), skip, h);
    return pst_add_act(builder, pst_join_name(name, prefix, "relu"), h, PST_ACT_RELU);
}

static uint32_t add_stem(struct pst_graph_builder *builder, const struct resnet_config *c,
                         bool large, uint32_t x)
{
    struct pst_op pool = {.kind = PST_OP_MAXPOOL2D,
                          .name = "maxpool",
                          .n_in = 1,
                          .in = &x,
                          .kernel = {3, 3},
                          .stride = {2, 2},
                          .pad = {1, 1}};

    x = add_unit(builder, "", 1, x, (uint64_t)c->channels, (uint64_t)c->width, large ? 7 : 3,
                 large ? 2 : 1, true);
    return large ? pst_graph_add(builder, &pool) : x;
}

static uint32_t add_stages(struct pst_graph_builder *builder, const struct resnet_config *c,
                           const struct layout *layout, uint32_t x, uint64_t *ret_width)
{
    uint64_t in = (uint64_t)c->width;
    uint32_t layer = 1;

    for (uint32_t s = 0; s < layout->n_stages; s++) {
        uint64_t inner = (uint64_t)c->width << s;

        for (uint32_t b = 0; b < layout->blocks[s]; b++) {
            char prefix[64];

            pst_graph_layer(builder, layer++);
            snprintf(prefix, sizeof prefix, "layer%u.%u", s + 1, b);
            x = add_residual(builder, prefix, x, in, inner, layout->expansion,
                             s != 0 && b == 0 ? 2 : 1);
            in = inner * layout->expansion;
        }
    }
    pst_graph_layer(builder, layer);
    *ret_width = in;
    return x;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct resnet_config *c = config;
    struct layout layout = make_layout(c);
    uint64_t image[3] = {(uint64_t)c->image, (uint64_t)c->image, (uint64_t)c->channels};
    uint64_t width = 0;
    uint32_t x, targets, loss;
    struct pst_graph_builder *builder = NULL;
    pst_status status = pst_graph_builder_create("resnet", dtype, &builder, err);

    if (status != PST_OK) {
        return status;
    }
    x = pst_graph_input(builder, "image", PST_FIELD_X, dtype, 3, image);
    targets = pst_graph_input(builder, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    x = add_stem(builder, c, layout.large_stem, x);
    x = add_stages(builder, c, &layout, x, &width);
    x = pst_add_classifier(builder, width, (uint64_t)c->classes, x);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_resnet = {
    .id = "resnet",
    .summary = "residual network for images: 18, 34, 50, 101, 152 layers or custom",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct resnet_config),
    .build = build,
};
