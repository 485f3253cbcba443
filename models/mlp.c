/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of linear layers over one vector: the smallest chain there is.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

struct mlp_config {
    int64_t inputs, hidden, layers, classes;
    uint32_t act; /* enum: relu | gelu */
};

static const struct pst_param params[] = {
    PST_PARAM(struct mlp_config, inputs, PST_PARAM_INT, "64", "1..16777216",
              "Width of the input vector."),
    PST_PARAM(struct mlp_config, hidden, PST_PARAM_INT, "128", "1..16777216",
              "Width of the hidden layers."),
    PST_PARAM(struct mlp_config, layers, PST_PARAM_INT, "4", "1..65536",
              "Number of hidden layers; a linear layer to the classes follows."),
    PST_PARAM(struct mlp_config, classes, PST_PARAM_INT, "10", "1..16777216", "Number of classes."),
    PST_PARAM(struct mlp_config, act, PST_PARAM_ENUM, "relu", "relu|gelu",
              "Activation function of the hidden layers."),
};

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct mlp_config *c = config;
    uint64_t width = (uint64_t)c->inputs, hidden = (uint64_t)c->hidden;
    uint32_t x, targets, loss;
    struct pst_graph_builder *builder = NULL;
    char name[PST_NAME_SIZE];
    pst_status status = pst_graph_builder_create("mlp", dtype, &builder, err);

    if (status != PST_OK) {
        return status;
    }
    x = pst_graph_input(builder, "x", PST_FIELD_X, dtype, 1, &width);
    targets = pst_graph_input(builder, "targets", PST_FIELD_TARGET, PST_I32, 0, NULL);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(builder, i);
        snprintf(name, sizeof name, "layers.%u", i);
        x = pst_add_linear(builder, name, x, width, hidden, sqrtf(2.0f / (float)width), true);
        snprintf(name, sizeof name, "layers.%u.act", i);
        x = pst_add_act(builder, name, x, c->act == 0 ? PST_ACT_RELU : PST_ACT_GELU);
        width = hidden;
    }
    pst_graph_layer(builder, (uint32_t)c->layers);
    x = pst_add_linear(builder, "head", x, width, (uint64_t)c->classes, sqrtf(1.0f / (float)width),
                       true);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_mlp = {
    .id = "mlp",
    .summary = "multi-layer perceptron for classification",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct mlp_config),
    .build = build,
};
