/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes on which kernels are compared: odd ones, single rows, ones that fill blocks exactly.
 */
#ifndef TESTS_CPU_CASES_H
#define TESTS_CPU_CASES_H

#include "cpu_rig.h"

#define LINEAR(kind_of_act, stored)                                                                \
    {                                                                                              \
        .kind = PST_OP_LINEAR, .act = kind_of_act, .transposed = stored                            \
    }
#define ATTEND(n, mask)                                                                            \
    {                                                                                              \
        .kind = PST_OP_ATTENTION, .heads = n, .causal = mask                                       \
    }

#define CONV(k, s, p)                                                                              \
    {                                                                                              \
        .kind = PST_OP_CONV2D, .kernel = {k, k}, .stride = {s, s}, .pad = { p, p }                 \
    }

static const struct rig_case cpu_cases[] = {
    {"embedding", {.kind = PST_OP_EMBEDDING}, 3, 1, 1, {{9}}, {{21, 13}}, 27},
    {"embedding with positions",
     {.kind = PST_OP_EMBEDDING},
     2,
     1,
     2,
     {{33}},
     {{65, 192}, {33, 192}},
     66},
    {"linear 1x1x1", LINEAR(PST_ACT_NONE, false), 1, 1, 2, {{1, 1}}, {{1, 1}, {1}}, 1},
    {"linear 1x7x13", LINEAR(PST_ACT_NONE, false), 1, 1, 2, {{1, 7}}, {{7, 13}, {13}}, 13},
    {"linear 99x13x7", LINEAR(PST_ACT_NONE, false), 3, 1, 2, {{33, 13}}, {{13, 7}, {7}}, 99},
    {"linear no bias", LINEAR(PST_ACT_NONE, false), 2, 1, 1, {{33, 192}}, {{192, 65}}, 192},
    {"linear gelu", LINEAR(PST_ACT_GELU, false), 3, 1, 2, {{128, 192}}, {{192, 300}, {300}}, 384},
    {"linear gelu, no bias", LINEAR(PST_ACT_GELU, false), 2, 1, 1, {{5, 13}}, {{13, 7}}, 13},
    {"linear relu", LINEAR(PST_ACT_RELU, false), 2, 1, 2, {{33, 13}}, {{13, 192}, {192}}, 192},
    {"linear relu, no bias", LINEAR(PST_ACT_RELU, false), 2, 1, 1, {{1, 13}}, {{13, 7}}, 13},
    {"linear of vectors", LINEAR(PST_ACT_RELU, false), 65, 1, 2, {{13}}, {{13, 7}, {7}}, 65},
    {"linear transposed", LINEAR(PST_ACT_NONE, true), 3, 1, 1, {{33, 64}}, {{257, 64}}, 257},
    {"linear transposed gelu",
     LINEAR(PST_ACT_GELU, true),
     3,
     1,
     2,
     {{7, 13}},
     {{17, 13}, {17}},
     21},
    {"layernorm 1x7", {.kind = PST_OP_LAYERNORM, .eps = 1e-5f}, 1, 1, 2, {{1, 7}}, {{7}, {7}}, 7},
    {"layernorm 99x13",
     {.kind = PST_OP_LAYERNORM, .eps = 1e-5f},
     3,
     1,
     2,
     {{33, 13}},
     {{13}, {13}},
     99},
    {"layernorm 384x192",
     {.kind = PST_OP_LAYERNORM, .eps = 1e-5f},
     3,
     1,
     2,
     {{128, 192}},
     {{192}, {192}},
     384},
    {"attention 1x7", ATTEND(1, true), 1, 1, 0, {{1, 21}}, {{0}}, 7},
    {"attention 33x2x13", ATTEND(2, true), 3, 1, 0, {{33, 78}}, {{0}}, 46},
    {"attention 33x2x13, all keys", ATTEND(2, false), 2, 1, 0, {{33, 78}}, {{0}}, 46},
    {"attention 128x6x32", ATTEND(6, true), 2, 1, 0, {{128, 576}}, {{0}}, 160},
    {"attention 129x1x16, all keys", ATTEND(1, false), 1, 1, 0, {{129, 48}}, {{0}}, 145},
    {"add", {.kind = PST_OP_ADD}, 2, 2, 0, {{33, 13}, {33, 13}}, {{0}}, 1},
    {"add, dropout",
     {.kind = PST_OP_ADD, .p = 0.3f, .salt = 7},
     3,
     2,
     0,
     {{128, 65}, {128, 65}},
     {{0}},
     1},
    {"dropout", {.kind = PST_OP_DROPOUT, .p = 0.5f, .salt = 3}, 5, 1, 0, {{33, 13}}, {{0}}, 1},
    {"relu", {.kind = PST_OP_ACT, .act = PST_ACT_RELU}, 3, 1, 0, {{33, 192}}, {{0}}, 1},
    {"gelu", {.kind = PST_OP_ACT, .act = PST_ACT_GELU}, 3, 1, 0, {{33, 193}}, {{0}}, 1},
    {"cross-entropy", {.kind = PST_OP_CROSS_ENTROPY}, 3, 2, 0, {{33, 65}, {33}}, {{0}}, 65},
    {"cross-entropy, 1 class", {.kind = PST_OP_CROSS_ENTROPY}, 2, 2, 0, {{3, 1}, {3}}, {{0}}, 3},
    {"cross-entropy, many", {.kind = PST_OP_CROSS_ENTROPY}, 2, 2, 0, {{7, 5000}, {7}}, {{0}}, 5000},
    {"batchnorm 3x5x7x13",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f},
     3,
     1,
     2,
     {{5, 7, 13}},
     {{13}, {13}},
     105},
    {"batchnorm relu",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f, .act = PST_ACT_RELU},
     2,
     1,
     2,
     {{16, 16, 64}},
     {{64}, {64}},
     512},
    {"batchnorm of vectors",
     {.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f},
     130,
     1,
     2,
     {{1, 1, 7}},
     {{7}, {7}},
     130},
    {"maxpool 3x3 s2",
     {.kind = PST_OP_MAXPOOL2D, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
     2,
     1,
     0,
     {{9, 8, 13}},
     {{0}},
     9},
    {"maxpool 2x3",
     {.kind = PST_OP_MAXPOOL2D, .kernel = {2, 3}, .stride = {2, 1}},
     3,
     1,
     0,
     {{7, 9, 64}},
     {{0}},
     9},
    {"conv 1x1", CONV(1, 1, 0), 2, 1, 2, {{5, 5, 7}}, {{1, 1, 7, 13}, {13}}, 50},
    {"conv 3x3", CONV(3, 1, 1), 3, 1, 1, {{9, 7, 16}}, {{3, 3, 16, 32}}, 288},
    {"conv 3x3 s2 of 3 channels", CONV(3, 2, 1), 2, 1, 2, {{17, 17, 3}}, {{3, 3, 3, 8}, {8}}, 162},
    {"conv 7x7 s2", CONV(7, 2, 3), 1, 1, 1, {{21, 21, 3}}, {{7, 7, 3, 64}}, 147},
    {"conv 1x1, 64 to 192", CONV(1, 1, 0), 2, 1, 2, {{8, 8, 64}}, {{1, 1, 64, 192}, {192}}, 192},
    {"avgpool", {.kind = PST_OP_AVGPOOL}, 2, 1, 0, {{5, 7, 13}}, {{0}}, 35},
    {"concat", {.kind = PST_OP_CONCAT}, 2, 2, 0, {{5, 7}, {5, 13}}, {{0}}, 1},
};

#define N_CPU_CASES (sizeof cpu_cases / sizeof cpu_cases[0])

#endif
