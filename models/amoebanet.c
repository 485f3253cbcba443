/* SPDX-License-Identifier: Apache-2.0
 *
 * AmoebaNet-D (Real et al.: "Regularized evolution for image classifier architecture search", AAAI
 * 2019) as pipelines are measured with it (Huang et al.: "GPipe", NeurIPS 2019; Kim et al.:
 * "torchgpipe", arXiv 2004.09910): (layers, filters) = (18, 208), (36, 544) and the like. A cell
 * reads the results of the two cells before it, and joins some of its five sums side by side; cells
 * that halve the image stand at the beginning and between three runs of layers / 3 others.
 *
 * A relu belongs to each convolution; a state that several read has one for all of them.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

#define N_STATES 7 /* two inputs and five sums */

struct amoebanet_config {
    int64_t layers, filters, image, channels, classes;
};

static const struct pst_param params[] = {
    PST_PARAM(struct amoebanet_config, layers, PST_PARAM_INT, "3", "3..3072",
              "Cells that keep the image's size; a multiple of 3."),
    PST_PARAM(struct amoebanet_config, filters, PST_PARAM_INT, "16", "8..65536",
              "Four times the channels of the first layer; a multiple of 8."),
    PST_PARAM(struct amoebanet_config, image, PST_PARAM_INT, "32", "32..16384",
              "Height and width of the images; a multiple of 32."),
    PST_PARAM(struct amoebanet_config, channels, PST_PARAM_INT, "3", "1..4096",
              "Channels of the images."),
    PST_PARAM(struct amoebanet_config, classes, PST_PARAM_INT, "10", "1..16777216",
              "Number of classes."),
};

/* What the search found: which state goes through what; two in a row are added. */
enum step { NONE, CONV_1X1, CONV_3X3, CONV_1X7_7X1, MAX_2X2, MAX_3X3, MEAN_3X3 };
struct gene {
    uint8_t state, step;
};

static const struct gene normal_cell[10] = {
    {1, CONV_1X1},     {1, MAX_3X3}, {1, NONE}, {0, CONV_1X7_7X1}, {0, CONV_1X1},
    {0, CONV_1X7_7X1}, {2, MAX_3X3}, {2, NONE}, {1, MEAN_3X3},     {5, CONV_1X1}};
static const struct gene halving_cell[10] = {
    {0, MAX_2X2}, {0, MAX_3X3}, {2, NONE},    {1, CONV_3X3}, {2, CONV_1X7_7X1},
    {2, MAX_3X3}, {3, NONE},    {1, MAX_2X2}, {2, MEAN_3X3}, {3, CONV_1X1}};
static const uint8_t normal_joined[] = {0, 3, 4, 6}, halving_joined[] = {4, 5, 6};

/* A result, its width, and its relu once somebody has asked for it. */
struct state {
    uint32_t x, relu;
    uint64_t width;
};

struct net {
    struct pst_graph_builder *builder;
    uint32_t n_cells;
    uint64_t width;            /* inside of cells */
    struct state last, before; /* results of the last two cells */
    bool halved;               /* by the last cell */
};

static uint32_t relu_of(struct net *net, const char *prefix, struct state *state)
{
    char name[PST_NAME_SIZE];

    if (state->relu == PST_NONE) {
        state->relu =
            pst_add_act(net->builder, pst_join_name(name, prefix, "relu"), state->x, PST_ACT_RELU);
    }
    return state->relu;
}

/* Convolution of relu(state) and its norm: "prefix.conv", "prefix.bn". */
static struct state add_conv(struct net *net, const char *prefix, struct state *state,
                             uint64_t width, const struct pst_window *window)
{
    char name[PST_NAME_SIZE];
    uint32_t x = relu_of(net, prefix, state);

    x = pst_add_conv(net->builder, pst_join_name(name, prefix, "conv"), x, state->width, width,
                     window);
    x = pst_add_batchnorm(net->builder, pst_join_name(name, prefix, "bn"), x, width);
    return (struct state){x, PST_NONE, width};
}

static uint32_t add_pool(struct net *net, uint32_t kind, const char *name, uint32_t x,
                         uint32_t kernel, uint32_t stride)
{
    uint32_t pad = kernel == 3 ? 1 : 0;
    struct pst_op op = {.kind = kind,
                        .name = name,
                        .n_in = 1,
                        .in = &x,
                        .kernel = {kernel, kernel},
                        .stride = {stride, stride},
                        .pad = {pad, pad}};

    return pst_graph_add(net->builder, &op);
}

/* 1x1 to a quarter of the width, what is between, and 1x1 back. */
static struct state add_bottleneck(struct net *net, const char *prefix, struct state *state,
                                   uint32_t step, uint32_t stride)
{
    const struct pst_window one = {{1, 1}, {1, 1}, {0, 0}};
    const struct pst_window square = {{3, 3}, {stride, stride}, {1, 1}};
    const struct pst_window row = {{1, 7}, {1, stride}, {0, 3}};
    const struct pst_window column = {{7, 1}, {stride, 1}, {3, 0}};
    uint64_t width = state->width, quarter = width / 4;
    char name[PST_NAME_SIZE];
    struct state s = add_conv(net, pst_join_name(name, prefix, "in"), state, quarter, &one);

    if (step == CONV_3X3) {
        s = add_conv(net, pst_join_name(name, prefix, "3x3"), &s, quarter, &square);
    } else {
        s = add_conv(net, pst_join_name(name, prefix, "1x7"), &s, quarter, &row);
        s = add_conv(net, pst_join_name(name, prefix, "7x1"), &s, quarter, &column);
    }
    return add_conv(net, pst_join_name(name, prefix, "out"), &s, width, &one);
}

/* Half of the image and another width: two 1x1 convolutions of stride 2, one of them a pixel
   further, side by side. */
static struct state add_halving(struct net *net, const char *prefix, struct state *state,
                                uint64_t width)
{
    const struct pst_window window = {{1, 1}, {2, 2}, {0, 0}};
    char name[PST_NAME_SIZE];
    uint32_t x = relu_of(net, prefix, state), halves[2];
    struct pst_op shift = {.kind = PST_OP_SHIFT2D, .n_in = 1, .in = &x, .pad = {1, 1}};
    struct pst_op concat = {.kind = PST_OP_CONCAT, .n_in = 2, .in = halves};

    halves[0] = pst_add_conv(net->builder, pst_join_name(name, prefix, "conv1"), x, state->width,
                             width / 2, &window);
    shift.name = pst_join_name(name, prefix, "shift");
    x = pst_graph_add(net->builder, &shift);
    halves[1] = pst_add_conv(net->builder, pst_join_name(name, prefix, "conv2"), x, state->width,
                             width / 2, &window);
    concat.name = pst_join_name(name, prefix, "join");
    x = pst_graph_add(net->builder, &concat);
    x = pst_add_batchnorm(net->builder, pst_join_name(name, prefix, "bn"), x, width);
    return (struct state){x, PST_NONE, width};
}

static uint32_t add_step(struct net *net, const char *prefix, struct state *state, uint32_t step,
                         uint32_t stride)
{
    const struct pst_window one = {{1, 1}, {stride, stride}, {0, 0}};
    char name[PST_NAME_SIZE];

    switch (step) {
    case NONE: /* the searched cells have none of stride 2 */
        return state->x;
    case CONV_1X1:
        return add_conv(net, prefix, state, state->width, &one).x;
    case MAX_2X2:
        return add_pool(net, PST_OP_MAXPOOL2D, pst_join_name(name, prefix, "max"), state->x, 2,
                        stride);
    case MAX_3X3:
        return add_pool(net, PST_OP_MAXPOOL2D, pst_join_name(name, prefix, "max"), state->x, 3,
                        stride);
    case MEAN_3X3:
        return add_pool(net, PST_OP_AVGPOOL2D, pst_join_name(name, prefix, "mean"), state->x, 3,
                        stride);
    default:
        return add_bottleneck(net, prefix, state, step, stride).x;
    }
}

/* The two inputs, brought to the width and the image of this cell. */
static void add_inputs(struct net *net, const char *prefix, struct state *states)
{
    const struct pst_window one = {{1, 1}, {1, 1}, {0, 0}};
    char name[PST_NAME_SIZE];
    struct state last = net->last, before = net->before;

    states[0] = add_conv(net, pst_join_name(name, prefix, "reduce1"), &last, net->width, &one);
    pst_join_name(name, prefix, "reduce2");
    if (net->halved) {
        states[1] = add_halving(net, name, &before, net->width);
    } else if (before.width != net->width) {
        states[1] = add_conv(net, name, &before, net->width, &one);
    } else {
        states[1] = before;
    }
}

static void add_cell(struct net *net, bool halves)
{
    const struct gene *genes = halves ? halving_cell : normal_cell;
    const uint8_t *joined = halves ? halving_joined : normal_joined;
    struct state states[N_STATES];
    uint32_t in[4], sums[2];
    char cell[32], name[PST_NAME_SIZE];
    struct pst_op concat = {.kind = PST_OP_CONCAT, .n_in = halves ? 3 : 4, .in = in};

    net->width *= halves ? 2 : 1;
    pst_graph_layer(net->builder, 1 + net->n_cells);
    snprintf(cell, sizeof cell, "cell.%u", net->n_cells++);
    add_inputs(net, cell, states);
    for (uint32_t i = 0; i < 10; i++) {
        struct state *from = &states[genes[i].state];

        snprintf(name, sizeof name, "%s.op%u", cell, i);
        sums[i % 2] = add_step(net, name, from, genes[i].step, halves && from < states + 2 ? 2 : 1);
        if (i % 2 == 1) {
            snprintf(name, sizeof name, "%s.sum%u", cell, i / 2);
            states[2 + i / 2] = (struct state){pst_add_sum(net->builder, name, sums[0], sums[1]),
                                               PST_NONE, net->width};
        }
    }
    for (uint32_t i = 0; i < concat.n_in; i++) {
        in[i] = states[joined[i]].x;
    }
    concat.name = pst_join_name(name, cell, "join");
    net->before = net->last;
    net->last =
        (struct state){pst_graph_add(net->builder, &concat), PST_NONE, concat.n_in * net->width};
    net->halved = halves;
}

static void add_cells(struct net *net, const struct amoebanet_config *c)
{
    add_cell(net, true);
    for (uint32_t run = 0; run < 3; run++) {
        add_cell(net, true);
        for (uint32_t i = 0; i < (uint32_t)c->layers / 3; i++) {
            add_cell(net, false);
        }
    }
}

static pst_status check(const struct amoebanet_config *c, struct pst_error *err)
{
    const struct {
        const char *key;
        int64_t value, factor;
    } rows[] = {{"layers", c->layers, 3}, {"filters", c->filters, 8}, {"image", c->image, 32}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value % rows[i].factor != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "\"%s\" in [model] is %lld, which is no multiple of %lld", rows[i].key,
                            (long long)rows[i].value, (long long)rows[i].factor);
        }
    }
    return PST_OK;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct amoebanet_config *c = config;
    const struct pst_window stem = {{3, 3}, {2, 2}, {1, 1}};
    uint64_t image[3] = {(uint64_t)c->image, (uint64_t)c->image, (uint64_t)c->channels};
    struct net net = {.width = (uint64_t)c->filters / 4};
    uint32_t x, targets, loss;
    pst_status status = check(c, err);

    if (status == PST_OK) {
        status = pst_graph_builder_create("amoebanet", dtype, &net.builder, err);
    }
    if (status != PST_OK) {
        return status;
    }
    x = pst_graph_input(net.builder, "image", PST_FIELD_X, dtype, 3, image);
    targets = pst_graph_input(net.builder, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    net.last = (struct state){x, x, (uint64_t)c->channels}; /* no relu of the data */
    net.last = net.before = add_conv(&net, "stem", &net.last, net.width, &stem);
    add_cells(&net, c);
    pst_graph_layer(net.builder, 1 + net.n_cells);
    x = pst_add_classifier(net.builder, net.last.width, (uint64_t)c->classes, net.last.x);
    loss = pst_add_cross_entropy(net.builder, x, targets);
    status = pst_graph_finish(net.builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(net.builder);
    return status;
}

const struct pst_model_builder pst_model_amoebanet = {
    .id = "amoebanet",
    .summary = "AmoebaNet-D: cells of branches for images, which read the two cells before them",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct amoebanet_config),
    .build = build,
};
