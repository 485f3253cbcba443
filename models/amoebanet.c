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

/* The cells that the search found: a gene is a step on a state; two genes in a row are added. */
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
    int64_t width;
};

struct net {
    struct pst_model *model;
    uint32_t n_cells;
    int64_t width;             /* inside of cells */
    struct state last, before; /* results of the last two cells */
    bool halved;               /* by the last cell */
};

static const struct pst_window one = {{1, 1}, {1, 1}, {0, 0}};

static uint32_t relu_of(struct pst_model *m, struct state *state)
{
    if (state->relu == PST_NONE) {
        state->relu = pst_add_act(m, "relu", state->x, PST_ACT_RELU);
    }
    return state->relu;
}

/* Convolution of relu(state) and its norm: "name.conv", "name.bn". */
static struct state add_conv(struct pst_model *m, const char *name, struct state *state,
                             int64_t width, const struct pst_window *window)
{
    size_t before = pst_enter(m, "%s", name);
    uint32_t x = relu_of(m, state);

    x = pst_add_conv(m, "conv", x, state->width, width, window);
    x = pst_add_batchnorm(m, "bn", x, width);
    pst_leave(m, before);
    return (struct state){x, PST_NONE, width};
}

/* 1x1 to a quarter of the width, what is between, and 1x1 back. */
static struct state add_bottleneck(struct pst_model *m, struct state *state, uint32_t step,
                                   uint32_t stride)
{
    const struct pst_window square = {{3, 3}, {stride, stride}, {1, 1}};
    const struct pst_window row = {{1, 7}, {1, stride}, {0, 3}};
    const struct pst_window column = {{7, 1}, {stride, 1}, {3, 0}};
    int64_t width = state->width, quarter = width / 4;
    struct state s = add_conv(m, "in", state, quarter, &one);

    if (step == CONV_3X3) {
        s = add_conv(m, "3x3", &s, quarter, &square);
    } else {
        s = add_conv(m, "1x7", &s, quarter, &row);
        s = add_conv(m, "7x1", &s, quarter, &column);
    }
    return add_conv(m, "out", &s, width, &one);
}

/* Half of the image and another width: two 1x1 convolutions of stride 2, one of them a pixel
   further, side by side. */
static struct state add_halving(struct pst_model *m, struct state *state, int64_t width)
{
    const struct pst_window window = {{1, 1}, {2, 2}, {0, 0}};
    uint32_t x = relu_of(m, state), halves[2];

    halves[0] = pst_add_conv(m, "conv1", x, state->width, width / 2, &window);
    x = pst_add_op(m, "shift",
                   &(struct pst_op){.kind = PST_OP_SHIFT2D, .n_in = 1, .in = &x, .pad = {1, 1}});
    halves[1] = pst_add_conv(m, "conv2", x, state->width, width / 2, &window);
    x = pst_add_concat(m, "join", halves, 2);
    x = pst_add_batchnorm(m, "bn", x, width);
    return (struct state){x, PST_NONE, width};
}

static uint32_t add_step(struct pst_model *m, struct state *state, uint32_t step, uint32_t stride)
{
    const struct pst_window strided = {{1, 1}, {stride, stride}, {0, 0}};

    switch (step) {
    case NONE: /* the searched cells have none of stride 2 */
        return state->x;
    case CONV_1X1:
        return add_conv(m, "", state, state->width, &strided).x;
    case MAX_2X2:
        return pst_add_pool(m, "max", PST_OP_MAXPOOL2D, state->x, 2, stride);
    case MAX_3X3:
        return pst_add_pool(m, "max", PST_OP_MAXPOOL2D, state->x, 3, stride);
    case MEAN_3X3:
        return pst_add_pool(m, "mean", PST_OP_AVGPOOL2D, state->x, 3, stride);
    default:
        return add_bottleneck(m, state, step, stride).x;
    }
}

/* The two inputs, brought to the width and the image of this cell. */
static void add_inputs(struct net *net, struct state *states)
{
    struct pst_model *m = net->model;
    struct state last = net->last, before = net->before;
    size_t outside;

    states[0] = add_conv(m, "reduce1", &last, net->width, &one);
    states[1] = before;
    if (net->halved) {
        outside = pst_enter(m, "reduce2");
        states[1] = add_halving(m, &before, net->width);
        pst_leave(m, outside);
    } else if (before.width != net->width) {
        states[1] = add_conv(m, "reduce2", &before, net->width, &one);
    }
}

static void add_cell(struct net *net, bool halves)
{
    struct pst_model *m = net->model;
    const struct gene *genes = halves ? halving_cell : normal_cell;
    const uint8_t *joined = halves ? halving_joined : normal_joined;
    struct state states[N_STATES];
    uint32_t in[4], sums[2], n = halves ? 3 : 4;
    char name[16];
    size_t cell;

    net->width *= halves ? 2 : 1;
    pst_graph_layer(m->graph, 1 + net->n_cells);
    pst_enter(m, "cell.%u", net->n_cells++);
    add_inputs(net, states);
    for (uint32_t i = 0; i < 10; i++) {
        struct state *from = &states[genes[i].state];

        cell = pst_enter(m, "op%u", i);
        sums[i % 2] = add_step(m, from, genes[i].step, halves && from < states + 2 ? 2 : 1);
        pst_leave(m, cell);
        if (i % 2 == 1) {
            snprintf(name, sizeof name, "sum%u", i / 2);
            states[2 + i / 2] =
                (struct state){pst_add_sum(m, name, sums[0], sums[1]), PST_NONE, net->width};
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        in[i] = states[joined[i]].x;
    }
    net->before = net->last;
    net->last = (struct state){pst_add_concat(m, "join", in, n), PST_NONE, n * net->width};
    net->halved = halves;
    pst_leave(m, 0);
}

static pst_status check(const void *config, struct pst_error *err)
{
    const struct amoebanet_config *c = config;
    const struct {
        const char *key;
        int64_t value, factor;
    } rows[] = {{"layers", c->layers, 3}, {"filters", c->filters, 8}, {"image", c->image, 32}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value % rows[i].factor != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "\"%s\" in [model] is %lld, which is not a multiple of %lld",
                            rows[i].key, (long long)rows[i].value, (long long)rows[i].factor);
        }
    }
    return PST_OK;
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct amoebanet_config *c = config;
    const struct pst_window stem = {{3, 3}, {2, 2}, {1, 1}};
    uint64_t image[3] = {(uint64_t)c->image, (uint64_t)c->image, (uint64_t)c->channels};
    struct net net = {.model = m, .width = c->filters / 4};
    uint32_t x, targets;

    x = pst_graph_input(m->graph, "image", PST_FIELD_X, pst_graph_dtype(m->graph), 3, image);
    targets = pst_graph_input(m->graph, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    net.last = (struct state){x, x, c->channels}; /* no relu of the data */
    net.last = net.before = add_conv(m, "stem", &net.last, net.width, &stem);
    add_cell(&net, true);
    for (uint32_t run = 0; run < 3; run++) {
        add_cell(&net, true);
        for (uint32_t i = 0; i < (uint32_t)c->layers / 3; i++) {
            add_cell(&net, false);
        }
    }
    pst_graph_layer(m->graph, 1 + net.n_cells);
    return pst_add_classifier(m, net.last.width, c->classes, net.last.x, targets);
}

PST_MODEL_BUILDER(
    amoebanet, "amoebanet",
    "AmoebaNet-D: image classifier of branching cells that read the two cells before them",
    struct amoebanet_config, check);
