/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of linear layers over one vector: the smallest chain there is.
 */
#include "block.h"

#include <math.h>

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

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct mlp_config *c = config;
    int64_t width = c->inputs;
    uint32_t x = pst_add_input(m, "x", PST_FIELD_X, pst_graph_dtype(m->graph), width);
    uint32_t targets = pst_graph_input(m->graph, "targets", PST_FIELD_TARGET, PST_I32, 0, NULL);

    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(m->graph, i);
        pst_enter(m, "layers.%u", i);
        x = pst_add_linear(m, "", x, width, c->hidden, sqrtf(2.0f / (float)width), true);
        x = pst_add_act(m, "act", x, c->act == 0 ? PST_ACT_RELU : PST_ACT_GELU);
        pst_leave(m, 0);
        width = c->hidden;
    }
    pst_graph_layer(m->graph, (uint32_t)c->layers);
    x = pst_add_linear(m, "head", x, width, c->classes, sqrtf(1.0f / (float)width), true);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(mlp, "mlp", "multi-layer perceptron for classification", struct mlp_config, NULL);
