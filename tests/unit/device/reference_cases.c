/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that gradient and type tests go through: every kind, with each of its options.
 */
#include "reference_rig.h"

#define V(a)                                                                                       \
    {                                                                                              \
        1,                                                                                         \
        {                                                                                          \
            a                                                                                      \
        }                                                                                          \
    }
#define M(a, b)                                                                                    \
    {                                                                                              \
        2,                                                                                         \
        {                                                                                          \
            a, b                                                                                   \
        }                                                                                          \
    }
#define IMAGE(h, w, c)                                                                             \
    {                                                                                              \
        3,                                                                                         \
        {                                                                                          \
            h, w, c                                                                                \
        }                                                                                          \
    }
#define FILTER(h, w, ci, co)                                                                       \
    {                                                                                              \
        4,                                                                                         \
        {                                                                                          \
            h, w, ci, co                                                                           \
        }                                                                                          \
    }
#define SCALAR                                                                                     \
    {                                                                                              \
        0,                                                                                         \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Replay: running statistics stay as they are. */
#define TRAINING (PST_CALL_TRAINING | PST_CALL_REPLAY)

const struct rig_case rig_cases[] = {
    {"embedding", {.kind = PST_OP_EMBEDDING}, 3, 1, 1, {V(5)}, {M(7, 4)}, 0},
    {"embedding with positions",
     {.kind = PST_OP_EMBEDDING},
     3,
     1,
     2,
     {V(5)},
     {M(7, 4), M(5, 4)},
     0},
    {"linear", {.kind = PST_OP_LINEAR}, 3, 1, 1, {M(4, 19)}, {M(19, 5)}, 0},
    {"linear with bias", {.kind = PST_OP_LINEAR}, 3, 1, 2, {M(4, 6)}, {M(6, 5), V(5)}, 0},
    {"linear of vectors", {.kind = PST_OP_LINEAR}, 3, 1, 2, {V(6)}, {M(6, 5), V(5)}, 0},
    {"linear, relu",
     {.kind = PST_OP_LINEAR, .act = PST_ACT_RELU},
     3,
     1,
     2,
     {M(4, 6)},
     {M(6, 5), V(5)},
     0},
    {"linear, gelu",
     {.kind = PST_OP_LINEAR, .act = PST_ACT_GELU},
     3,
     1,
     2,
     {M(4, 6)},
     {M(6, 5), V(5)},
     0},
    {"linear, transposed",
     {.kind = PST_OP_LINEAR, .transposed = true},
     3,
     1,
     1,
     {M(4, 6)},
     {M(21, 6)},
     0},
    {"linear, transposed, gelu",
     {.kind = PST_OP_LINEAR, .transposed = true, .act = PST_ACT_GELU},
     3,
     1,
     2,
     {M(4, 6)},
     {M(5, 6), V(5)},
     0},
    {"linear, transposed, relu, no bias",
     {.kind = PST_OP_LINEAR, .transposed = true, .act = PST_ACT_RELU},
     3,
     1,
     1,
     {M(4, 6)},
     {M(5, 6)},
     0},
    {"layernorm", {.kind = PST_OP_LAYERNORM, .eps = 1e-5f}, 3, 1, 2, {M(4, 9)}, {V(9), V(9)}, 0},
    {"layernorm, large eps",
     {.kind = PST_OP_LAYERNORM, .eps = 0.5f},
     2,
     1,
     2,
     {M(3, 5)},
     {V(5), V(5)},
     0},
    {"attention", {.kind = PST_OP_ATTENTION, .heads = 2}, 2, 1, 0, {M(5, 18)}, {SCALAR}, 0},
    {"attention, causal",
     {.kind = PST_OP_ATTENTION, .heads = 2, .causal = true},
     2,
     1,
     0,
     {M(5, 18)},
     {SCALAR},
     0},
    {"attention, one deep head",
     {.kind = PST_OP_ATTENTION, .heads = 1, .causal = true},
     1,
     1,
     0,
     {M(3, 51)},
     {SCALAR},
     0},
    {"add", {.kind = PST_OP_ADD}, 3, 2, 0, {M(3, 5), M(3, 5)}, {SCALAR}, TRAINING},
    {"add, dropout",
     {.kind = PST_OP_ADD, .p = 0.3f},
     3,
     2,
     0,
     {M(3, 5), M(3, 5)},
     {SCALAR},
     TRAINING},
    {"add, dropout, evaluation",
     {.kind = PST_OP_ADD, .p = 0.3f},
     3,
     2,
     0,
     {M(3, 5), M(3, 5)},
     {SCALAR},
     0},
    {"dropout", {.kind = PST_OP_DROPOUT, .p = 0.4f}, 3, 1, 0, {M(3, 5)}, {SCALAR}, TRAINING},
    {"dropout, evaluation", {.kind = PST_OP_DROPOUT, .p = 0.4f}, 3, 1, 0, {M(3, 5)}, {SCALAR}, 0},
    {"relu", {.kind = PST_OP_ACT, .act = PST_ACT_RELU}, 3, 1, 0, {M(3, 5)}, {SCALAR}, 0},
    {"gelu", {.kind = PST_OP_ACT, .act = PST_ACT_GELU}, 3, 1, 0, {M(3, 5)}, {SCALAR}, 0},
    {"cross-entropy", {.kind = PST_OP_CROSS_ENTROPY}, 3, 2, 0, {M(6, 7), V(6)}, {SCALAR}, 0},
    {"cross-entropy of a class",
     {.kind = PST_OP_CROSS_ENTROPY},
     4,
     2,
     0,
     {V(7), SCALAR},
     {SCALAR},
     0},
    {"conv2d",
     {.kind = PST_OP_CONV2D, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}},
     2,
     1,
     1,
     {IMAGE(5, 4, 3)},
     {FILTER(3, 3, 3, 2)},
     0},
    {"conv2d with bias, stride and padding",
     {.kind = PST_OP_CONV2D, .kernel = {3, 2}, .stride = {2, 3}, .pad = {2, 1}},
     2,
     1,
     2,
     {IMAGE(6, 7, 3)},
     {FILTER(3, 2, 3, 4), V(4)},
     0},
    {"conv2d, stride beyond the kernel",
     {.kind = PST_OP_CONV2D, .kernel = {1, 1}, .stride = {2, 2}},
     2,
     1,
     1,
     {IMAGE(5, 5, 2)},
     {FILTER(1, 1, 2, 3)},
     0},
    {"batchnorm",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f},
     3,
     1,
     2,
     {IMAGE(3, 2, 4)},
     {V(4), V(4)},
     TRAINING},
    {"batchnorm, relu",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f, .act = PST_ACT_RELU},
     3,
     1,
     2,
     {IMAGE(3, 2, 4)},
     {V(4), V(4)},
     TRAINING},
    {"batchnorm, evaluation",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f, .act = PST_ACT_RELU},
     3,
     1,
     2,
     {IMAGE(3, 2, 4)},
     {V(4), V(4)},
     0},
    {"maxpool2d",
     {.kind = PST_OP_MAXPOOL2D, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
     2,
     1,
     0,
     {IMAGE(6, 5, 3)},
     {SCALAR},
     0},
    {"maxpool2d, uneven",
     {.kind = PST_OP_MAXPOOL2D, .kernel = {2, 3}, .stride = {1, 2}, .pad = {0, 2}},
     2,
     1,
     0,
     {IMAGE(4, 6, 2)},
     {SCALAR},
     0},
    {"avgpool", {.kind = PST_OP_AVGPOOL}, 3, 1, 0, {IMAGE(3, 4, 5)}, {SCALAR}, 0},
    {"concat", {.kind = PST_OP_CONCAT}, 3, 3, 0, {M(4, 2), M(4, 5), M(4, 1)}, {SCALAR}, 0},
    {NULL, {0}, 0, 0, 0, {SCALAR}, {SCALAR}, 0},
};
