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

/* Maps, of any operands and of positive ones; places along an axis. */
#define MAP(title, inputs, ...)                                                                    \
    {                                                                                              \
        .name = title, .op = {.kind = PST_OP_MAP, __VA_ARGS__}, .samples = 2, .in = inputs,        \
        .param = ""                                                                                \
    }
#define POSITIVE(title, inputs, ...)                                                               \
    {                                                                                              \
        .name = title, .op = {.kind = PST_OP_MAP, __VA_ARGS__}, .samples = 2, .in = inputs,        \
        .param = "", .positive = true                                                              \
    }
#define GATHER(title, inputs, along)                                                               \
    {                                                                                              \
        .name = title, .op = {.kind = PST_OP_GATHER, .axis = along}, .samples = 2, .in = inputs,   \
        .param = "", .integers = 2                                                                 \
    }
#define FORM(...)                                                                                  \
    (const struct pst_form[])                                                                      \
    {                                                                                              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
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
    CASE("binary cross-entropy", 3, "2x3, 2x3", "", 0, .kind = PST_OP_BCE),
    CASE("conv2d, two groups, dilated", 2, "6x7x4", "2x3x2x6, 6", 0, .kind = PST_OP_CONV2D,
         .kernel = {2, 3}, .stride = {1, 2}, .pad = {1, 2}, .dilation = {2, 2}, .groups = 2),
    CASE("conv2d, a group a channel, uneven padding", 2, "5x4x3", "3x3x1x3", 0,
         .kind = PST_OP_CONV2D, .kernel = {3, 3}, .stride = {2, 2}, .pad = {0, 1},
         .pad_more = {1, -1}, .groups = 3),
    CASE("maxpool2d, dilated", 2, "5x6x2", "", 0, .kind = PST_OP_MAXPOOL2D, .kernel = {2, 3},
         .stride = {1, 1}, .pad = {1, 0}, .dilation = {3, 2}),
    CASE("maxpool2d, more below", 2, "4x6x2", "", 0, .kind = PST_OP_MAXPOOL2D, .kernel = {3, 3},
         .stride = {2, 2}, .pad_more = {1, 1}),
    CASE("avgpool2d, padding counts", 2, "4x5x3", "", 0, .kind = PST_OP_AVGPOOL2D, .kernel = {3, 3},
         .stride = {2, 1}, .pad = {1, 1}, .pad_more = {0, 1}, .whole = true),
    CASE("concat of the first axis", 2, "1x2x3, 4x2x3, 2x2x3", "", 0, .kind = PST_OP_CONCAT,
         .axis = 2),
    CASE("concat", 3, "4x2, 4x5, 4x1", "", 0, .kind = PST_OP_CONCAT),
    CASE("parameter", 3, "", "4x5", 0, .kind = PST_OP_PARAMETER),
    CASE("parameter of one axis", 2, "", "5", 0, .kind = PST_OP_PARAMETER),
    MAP("affine", "3x5", .map = PST_MAP_AFFINE, .constants = {1.5f, -0.25f}),
    MAP("square", "3x5", .map = PST_MAP_POWER, .constants = {2}),
    MAP("cube", "3x5", .map = PST_MAP_POWER, .constants = {3}),
    POSITIVE("power", "3x5", .map = PST_MAP_POWER, .constants = {-0.75f}),
    MAP("clip", "3x5", .map = PST_MAP_CLIP, .constants = {-0.5f, 0.25f}),
    MAP("leaky relu", "3x5", .map = PST_MAP_LEAKY, .constants = {0.125f}),
    MAP("elu", "3x5", .map = PST_MAP_ELU, .constants = {1.5f}),
    MAP("hard sigmoid", "3x5", .map = PST_MAP_HARD_SIGMOID, .constants = {2, 0.5f}),
    MAP("hard swish", "3x5", .map = PST_MAP_HARD_SWISH),
    MAP("abs", "3x5", .map = PST_MAP_ABS),
    MAP("exp", "3x5", .map = PST_MAP_EXP),
    POSITIVE("log", "3x5", .map = PST_MAP_LOG),
    POSITIVE("sqrt", "3x5", .map = PST_MAP_SQRT),
    POSITIVE("reciprocal", "3x5", .map = PST_MAP_RECIPROCAL),
    MAP("erf", "3x5", .map = PST_MAP_ERF),
    MAP("tanh", "3x5", .map = PST_MAP_TANH),
    MAP("sigmoid", "3x5", .map = PST_MAP_SIGMOID),
    MAP("gelu by erf", "3x5", .map = PST_MAP_GELU),
    MAP("softplus", "3x5", .map = PST_MAP_SOFTPLUS),
    MAP("sin", "3x5", .map = PST_MAP_SIN),
    MAP("cos", "3x5", .map = PST_MAP_COS),
    MAP("map: sum of equal shapes", "3x5, 3x5", .map = PST_MAP_ADD),
    MAP("map: sum, the second spreads", "4x3x5, 5", .map = PST_MAP_ADD),
    MAP("map: sum, the first spreads", "3x1, 2x3x5", .map = PST_MAP_ADD),
    MAP("map: sum, both spread", "4x1x3, 1x5x1", .map = PST_MAP_ADD),
    MAP("difference", "3x5, 1x5", .map = PST_MAP_SUB),
    MAP("product", "3x5, 3x1", .map = PST_MAP_MUL),
    MAP("product, 300 in a row", "300, 2x1", .map = PST_MAP_MUL),
    POSITIVE("quotient", "3x5, 3x1", .map = PST_MAP_DIV),
    POSITIVE("quotient, the first spreads", "3x1, 3x5", .map = PST_MAP_DIV),
    POSITIVE("pow", "3x5, 5", .map = PST_MAP_POW),
    MAP("min", "3x5, 5", .map = PST_MAP_MIN),
    MAP("max", "3x5, 3x1", .map = PST_MAP_MAX),
    {.name = "select",
     .op = {.kind = PST_OP_MAP, .map = PST_MAP_SELECT},
     .samples = 2,
     .in = "3x5, 2x3x5, 5",
     .param = "",
     .integers = 1},
    CASE("reduce: sum of the last axis", 2, "3x4x5", "", 0, .kind = PST_OP_REDUCE, .axes = 1),
    CASE("reduce: mean of the outer axes", 2, "3x4x5", "", 0, .kind = PST_OP_REDUCE, .axes = 6,
         .reduce = PST_REDUCE_MEAN),
    CASE("reduce: mean of two apart", 2, "3x4x5", "", 0, .kind = PST_OP_REDUCE, .axes = 5,
         .reduce = PST_REDUCE_MEAN),
    CASE("reduce: max", 2, "3x4x5", "", 0, .kind = PST_OP_REDUCE, .axes = 2,
         .reduce = PST_REDUCE_MAX),
    CASE("softmax", 2, "3x7", "", 0, .kind = PST_OP_SOFTMAX),
    CASE("softmax of an inner axis", 2, "2x4x3", "", 0, .kind = PST_OP_SOFTMAX, .axis = 1),
    CASE("log-softmax", 2, "2x4x3", "", 0, .kind = PST_OP_SOFTMAX, .axis = 2, .logarithm = true),
    CASE("matmul", 2, "3x4, 4x5", "", 0, .kind = PST_OP_MATMUL),
    CASE("matmul, the first swapped", 2, "4x3, 4x5", "", 0, .kind = PST_OP_MATMUL,
         .swapped = {true, false}),
    CASE("matmul, the second swapped", 2, "2x3x4, 2x5x4", "", 0, .kind = PST_OP_MATMUL,
         .swapped = {false, true}),
    CASE("matmul, both swapped", 2, "4x3, 5x4", "", 0, .kind = PST_OP_MATMUL,
         .swapped = {true, true}),
    CASE("matmul, the second spreads", 2, "2x3x3x4, 3x4x2", "", 0, .kind = PST_OP_MATMUL),
    CASE("matmul, both spread", 2, "2x1x3x4, 3x5x4", "", 0, .kind = PST_OP_MATMUL,
         .swapped = {false, true}),
    CASE("reshape", 2, "3x4", "", 0, .kind = PST_OP_RESHAPE,
         .form = FORM(.rank = 3, .dims = {2, 2, 3})),
    CASE("strided: axes permuted", 2, "2x3x4", "", 0, .kind = PST_OP_STRIDED,
         .form = FORM(.rank = 3, .dims = {4, 2, 3}, .from = {2, 0, 1}, .step = {1, 1, 1})),
    CASE("strided: every other, backwards", 2, "3x7", "", 0, .kind = PST_OP_STRIDED,
         .form = FORM(.rank = 2, .dims = {3, 3}, .from = {0, 1}, .start = {0, 5}, .step = {1, -2})),
    CASE("strided: padded", 2, "3x4", "", 0, .kind = PST_OP_STRIDED,
         .form = FORM(.rank = 2, .dims = {5, 7}, .from = {0, 1}, .start = {-1, -2}, .step = {1, 1},
                      .fill = 0.5f)),
    CASE("strided: repeated", 2, "3x1x2", "", 0, .kind = PST_OP_STRIDED,
         .form = FORM(.rank = 3, .dims = {3, 4, 2}, .from = {0, 1, 2}, .step = {1, 0, 1})),
    GATHER("gather of the last axis", "2x5, 4", 0),
    GATHER("gather of the first axis", "5x2x3, 2x3", 2),
    {.name = NULL},
};
