/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that gradient and type tests go through: every kind, with each of its options.
 */
#include "reference_rig.h"

#define CASE(title, n, inputs, params, bits, ...)                                                  \
    {                                                                                              \
        .name = title, .op = {__VA_ARGS__}, .samples = n, .in = inputs, .param = params,           \
        .flags = bits                                                                              \
    }

/* Replay: running statistics stay as they are. */
#define TRAINING (PST_CALL_TRAINING | PST_CALL_REPLAY)

const struct rig_case rig_cases[] = {
    CASE("embedding", 3, "5", "7x4", 0, .kind = PST_OP_EMBEDDING),
    CASE("embedding with positions", 3, "5", "7x4, 5x4", 0, .kind = PST_OP_EMBEDDING),
    CASE("linear", 3, "4x19", "19x5", 0, .kind = PST_OP_LINEAR),
    CASE("linear with bias", 3, "4x6", "6x5, 5", 0, .kind = PST_OP_LINEAR),
    CASE("linear of vectors", 3, "6", "6x5, 5", 0, .kind = PST_OP_LINEAR),
    CASE("linear, relu", 3, "4x6", "6x5, 5", 0, .kind = PST_OP_LINEAR, .act = PST_ACT_RELU),
    CASE("linear, gelu", 3, "4x6", "6x5, 5", 0, .kind = PST_OP_LINEAR, .act = PST_ACT_GELU),
    CASE("linear, transposed", 3, "4x6", "21x6", 0, .kind = PST_OP_LINEAR, .transposed = true),
    CASE("linear, transposed, gelu", 3, "4x6", "5x6, 5", 0, .kind = PST_OP_LINEAR,
         .transposed = true, .act = PST_ACT_GELU),
    CASE("linear, transposed, relu, no bias", 3, "4x6", "5x6", 0, .kind = PST_OP_LINEAR,
         .transposed = true, .act = PST_ACT_RELU),
    CASE("layernorm", 3, "4x9", "9, 9", 0, .kind = PST_OP_LAYERNORM, .eps = 1e-5f),
    CASE("layernorm, large eps", 2, "3x5", "5, 5", 0, .kind = PST_OP_LAYERNORM, .eps = 0.5f),
    CASE("attention", 2, "5x18", "", 0, .kind = PST_OP_ATTENTION, .heads = 2),
    CASE("attention, causal", 2, "5x18", "", 0, .kind = PST_OP_ATTENTION, .heads = 2,
         .causal = true),
    CASE("attention, one deep head", 1, "3x51", "", 0, .kind = PST_OP_ATTENTION, .heads = 1,
         .causal = true),
    CASE("add", 3, "3x5, 3x5", "", TRAINING, .kind = PST_OP_ADD),
    CASE("add, dropout", 3, "3x5, 3x5", "", TRAINING, .kind = PST_OP_ADD, .p = 0.3f),
    CASE("add, dropout, evaluation", 3, "3x5, 3x5", "", 0, .kind = PST_OP_ADD, .p = 0.3f),
    CASE("dropout", 3, "3x5", "", TRAINING, .kind = PST_OP_DROPOUT, .p = 0.4f),
    CASE("dropout, evaluation", 3, "3x5", "", 0, .kind = PST_OP_DROPOUT, .p = 0.4f),
    CASE("relu", 3, "3x5", "", 0, .kind = PST_OP_ACT, .act = PST_ACT_RELU),
    CASE("gelu", 3, "3x5", "", 0, .kind = PST_OP_ACT, .act = PST_ACT_GELU),
    CASE("cross-entropy", 3, "6x7, 6", "", 0, .kind = PST_OP_CROSS_ENTROPY),
    CASE("cross-entropy, label smoothing", 3, "6x7, 6", "", TRAINING, .kind = PST_OP_CROSS_ENTROPY,
         .smoothing = 0.1f),
    CASE("cross-entropy, z-loss", 3, "6x7, 6", "", TRAINING, .kind = PST_OP_CROSS_ENTROPY,
         .z_loss = 0.05f),
    CASE("cross-entropy of a class", 4, "7, -", "", 0, .kind = PST_OP_CROSS_ENTROPY),
    CASE("conv2d", 2, "5x4x3", "3x3x3x2", 0, .kind = PST_OP_CONV2D, .kernel = {3, 3},
         .stride = {1, 1}, .pad = {1, 1}),
    CASE("conv2d with bias, stride and padding", 2, "6x7x3", "3x2x3x4, 4", 0, .kind = PST_OP_CONV2D,
         .kernel = {3, 2}, .stride = {2, 3}, .pad = {2, 1}),
    CASE("conv2d, stride beyond the kernel", 2, "5x5x2", "1x1x2x3", 0, .kind = PST_OP_CONV2D,
         .kernel = {1, 1}, .stride = {2, 2}),
    CASE("batchnorm", 3, "3x2x4", "4, 4", TRAINING, .kind = PST_OP_BATCHNORM, .eps = 1e-5f,
         .momentum = 0.1f),
    CASE("batchnorm, relu", 3, "3x2x4", "4, 4", TRAINING, .kind = PST_OP_BATCHNORM, .eps = 1e-5f,
         .momentum = 0.1f, .act = PST_ACT_RELU),
    CASE("batchnorm, evaluation", 3, "3x2x4", "4, 4", 0, .kind = PST_OP_BATCHNORM, .eps = 1e-5f,
         .momentum = 0.1f, .act = PST_ACT_RELU),
    CASE("maxpool2d", 2, "6x5x3", "", 0, .kind = PST_OP_MAXPOOL2D, .kernel = {3, 3},
         .stride = {2, 2}, .pad = {1, 1}),
    CASE("maxpool2d, uneven", 2, "4x6x2", "", 0, .kind = PST_OP_MAXPOOL2D, .kernel = {2, 3},
         .stride = {1, 2}, .pad = {0, 2}),
    CASE("avgpool", 3, "3x4x5", "", 0, .kind = PST_OP_AVGPOOL),
    CASE("embedding, concatenated bag", 3, "5", "7x4", 0, .kind = PST_OP_EMBEDDING,
         .bag = PST_BAG_CONCAT),
    CASE("embedding, summed bag", 3, "5", "7x4", 0, .kind = PST_OP_EMBEDDING, .bag = PST_BAG_SUM),
    CASE("attention to others", 2, "5x6, 3x12", "", 0, .kind = PST_OP_ATTENTION, .heads = 2),
    CASE("attention, scale 1", 2, "5x18", "", 0, .kind = PST_OP_ATTENTION, .heads = 2, .scale = 1),
    CASE("attention by distance", 2, "9x18", "8x2", 0, .kind = PST_OP_ATTENTION, .heads = 2,
         .max_distance = 6),
    CASE("attention by distance, causal", 2, "9x18", "4x2", 0, .kind = PST_OP_ATTENTION, .heads = 2,
         .max_distance = 6, .causal = true, .scale = 0.25f),
    CASE("attention to others by distance", 2, "4x3, 6x6", "6x1", 0, .kind = PST_OP_ATTENTION,
         .heads = 1, .max_distance = 4),
    CASE("rmsnorm", 3, "4x9", "9", 0, .kind = PST_OP_RMSNORM, .eps = 1e-6f),
    CASE("rmsnorm, large eps", 2, "3x5", "5", 0, .kind = PST_OP_RMSNORM, .eps = 0.5f),
    CASE("mse", 3, "2x3, 2x3", "", 0, .kind = PST_OP_MSE),
    CASE("mse of a number", 4, "1, 1", "", 0, .kind = PST_OP_MSE),
    CASE("avgpool2d", 2, "4x5x3", "", 0, .kind = PST_OP_AVGPOOL2D, .kernel = {3, 3},
         .stride = {1, 1}, .pad = {1, 1}),
    CASE("avgpool2d, uneven", 2, "4x6x2", "", 0, .kind = PST_OP_AVGPOOL2D, .kernel = {2, 3},
         .stride = {1, 2}, .pad = {0, 2}),
    CASE("shift2d", 2, "4x5x2", "", 0, .kind = PST_OP_SHIFT2D, .pad = {1, 2}),
    CASE("concat", 3, "4x2, 4x5, 4x1", "", 0, .kind = PST_OP_CONCAT),
    {.name = NULL},
};
