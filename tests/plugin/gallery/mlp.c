/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in model "mlp" once more, name by name: it must train to the same bits.
 */
#include <math.h>

#include "gallery.h"

#ifndef GALLERY_ID
#define GALLERY_ID "again"
#endif

struct config {
    int64_t inputs, hidden, layers, classes;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, inputs, PST_PARAM_INT, "64", "1..1024", "Width of the input."),
    PST_PARAM(struct config, hidden, PST_PARAM_INT, "128", "1..1024", "Width of hidden layers."),
    PST_PARAM(struct config, layers, PST_PARAM_INT, "4", "1..64", "Hidden layers."),
    PST_PARAM(struct config, classes, PST_PARAM_INT, "10", "1..1024", "Classes."),
};

PST_INSTANCE(again, struct config)

static pst_status build(void *self_, struct pst_builder *b)
{
    const struct config *c = ((const struct again *)self_)->config;
    uint64_t width = (uint64_t)c->inputs;
    uint32_t x = pst_nn_input(b, "x", PST_FIELD_X, b->dtype, 1, &width);
    uint32_t targets = pst_nn_input(b, "targets", PST_FIELD_TARGET, PST_I32, 0, NULL);

    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_nn_scope(b, "layers.%u", i);
        x = pst_nn_linear(b, "", x, (uint64_t)c->hidden, sqrtf(2.0f / (float)width), true);
        x = pst_nn_act(b, "act", x, PST_ACT_RELU);
        b->layer(b);
        width = (uint64_t)c->hidden;
    }
    b->scope(b, "");
    x = pst_nn_linear(b, "head", x, (uint64_t)c->classes, sqrtf(1.0f / (float)width), true);
    pst_nn_loss(b, PST_OP_CROSS_ENTROPY, x, targets);
    return PST_OK;
}

PST_INTERFACE(PST_MODEL, struct pst_model_interface, .build = build)

GALLERY_PLUGIN("model", GALLERY_ID, "1.0", "The built-in mlp.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
