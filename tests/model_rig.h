/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of a plugin that has every kind of operator but the other losses, without a shared
 * object.
 */
#ifndef TESTS_MODEL_RIG_H
#define TESTS_MODEL_RIG_H

#include <penstock/penstock.h>

#include "models/plugin/model.h"

static inline uint32_t rig_image(struct pst_builder *b, uint32_t x)
{
    static const uint64_t image[3] = {2, 3, 8};
    struct pst_op_decl shift;
    uint32_t y;

    x = pst_nn_reshape(b, "image", x, 3, image);
    y = pst_nn_conv2d(b, "conv", x, 8, 3, 1, 1, 0.1f);
    y = pst_nn_batchnorm(b, "bn", y, 1e-5f, 0.1f);
    y = pst_nn_pool2d(b, "max", PST_OP_MAXPOOL2D, y, 3, 1, 1);
    y = pst_nn_pool2d(b, "mean", PST_OP_AVGPOOL2D, y, 3, 1, 1);
    shift = pst_nn_decl(PST_OP_SHIFT2D, "shift", 1, &y, 0, NULL);
    shift.pad[1] = 1;
    return pst_nn_avgpool(b, "avg", b->op(b, &shift));
}

/* x [6, 8] */
static inline uint32_t rig_general(struct pst_builder *b, uint32_t x)
{
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t places[6] = {5, 4, 3, 2, 1, 0};
    static const uint64_t eight[2] = {8, 8}, six = 6;
    static const uint32_t turned[2] = {1, 0};
    uint32_t w =
        pst_nn_value(b, "w", pst_nn_parameter(b, "w", "value", 2, eight, PST_INIT_NORMAL, 0.1f));
    uint32_t y = pst_nn_matmul(b, "matmul", x, w, true);

    y = pst_nn_softmax(b, "softmax", y, 0);
    y = pst_nn_transpose(b, "turn", y, turned);
    y = pst_nn_transpose(b, "back", y, turned);
    y = pst_nn_gather(b, "gather", y, pst_nn_constant(b, "places", PST_I32, 1, &six, places), 1);
    y = pst_nn_map2(b, "times", PST_MAP_MUL, y,
                    pst_nn_constant(b, "numbers", PST_F32, 1, eight, numbers));
    y = pst_nn_map2(b, "less", PST_MAP_SUB, y,
                    pst_nn_reduce(b, "reduce", PST_REDUCE_MEAN, y, 1u << 0));
    return pst_nn_map(b, "tanh", PST_MAP_TANH, y, 0, 0);
}

static inline pst_status rig_build(void *self, struct pst_builder *b)
{
    static const uint64_t six = 6;
    uint32_t tokens = pst_nn_input(b, "tokens", PST_FIELD_X, PST_I32, 1, &six), table;
    uint32_t targets = pst_nn_input(b, "targets", PST_FIELD_TARGET, PST_I32, 1, &six);
    uint32_t x = pst_nn_embedding(b, "embed", tokens, 16, 8, 0.02f, &table), y, w, both[2];

    (void)self;
    b->layer(b);
    pst_nn_scope(b, "h.%u", 0);
    y = pst_nn_rmsnorm(b, "norm1", x, 1e-5f);
    y = pst_nn_linear(b, "qkv", y, 24, 0.1f, true);
    y = pst_nn_qknorm(b, "qk", y, 2, 2, 4, 1e-5f);
    y = pst_nn_rotary(b, "rotary", y, 4, 4, 10000.0f);
    y = pst_nn_attention(b, "attention", y, 2, 2, true);
    y = pst_nn_linear(b, "out", y, 8, 0.1f, false);
    x = pst_nn_add(b, "add", x, pst_nn_dropout(b, "drop", y, 0.1));
    b->layer(b);
    x = pst_nn_layernorm(b, "norm2", x, 1e-5f);
    y = pst_nn_glu(b, "glu", pst_nn_linear(b, "up", x, 16, 0.1f, false), PST_ACT_SILU);
    y = pst_nn_act(b, "act", y, PST_ACT_GELU);
    w = pst_nn_router(b, "router", pst_nn_linear(b, "gate", y, 3, 0.1f, false), 2, 0.01f);
    y = pst_nn_experts(b, "experts", y, w, 2, 4, 0.1f);
    both[0] = rig_general(b, y);
    both[1] = pst_nn_map2(b, "spread", PST_MAP_ADD, y, rig_image(b, y));
    x = pst_nn_linear(b, "join", pst_nn_concat(b, "concat", 2, both, 0), 8, 0.1f, true);
    b->layer(b);
    b->scope(b, "");
    pst_nn_loss(b, PST_OP_CROSS_ENTROPY, pst_nn_tied(b, "head", x, table), targets);
    return PST_OK;
}

static inline const void *rig_interface(const char *id)
{
    static const struct pst_model_interface model = {.size = sizeof model, .build = rig_build};

    return strcmp(id, PST_MODEL) == 0 ? &model : NULL;
}

/* Its calls, as pst_model_ask keeps them. */
static inline pst_status rig_calls(uint32_t dtype, struct pst_model_calls *ret_calls,
                                   struct pst_error *err)
{
    static const struct pst_plugin plugin = {
        .size = sizeof plugin, .kind = "model", .id = "everything", .get_interface = rig_interface};
    struct pst_instance instance = {.plugin = &plugin};

    return pst_model_ask(&instance, NULL, dtype, ret_calls, err);
}

#endif
