/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/general.h"

#include <stddef.h>

#define Y PST_MAP_READS_Y

static const struct pst_map_row rows[PST_MAPS] = {
    [PST_MAP_AFFINE] = {"affine", 1, {0}, {2, 1}},
    [PST_MAP_POWER] = {"power", 1, {1}, {12, 14}},
    [PST_MAP_CLIP] = {"clip", 1, {1}, {2, 3}},
    [PST_MAP_LEAKY] = {"leaky-relu", 1, {1}, {2, 2}},
    [PST_MAP_ELU] = {"elu", 1, {1}, {10, 10}},
    [PST_MAP_HARD_SIGMOID] = {"hard-sigmoid", 1, {1}, {4, 4}},
    [PST_MAP_HARD_SWISH] = {"hard-swish", 1, {1}, {5, 5}},
    [PST_MAP_ABS] = {"abs", 1, {1}, {1, 2}},
    [PST_MAP_EXP] = {"exp", 1, {Y}, {8, 1}},
    [PST_MAP_LOG] = {"log", 1, {1}, {8, 1}},
    [PST_MAP_SQRT] = {"sqrt", 1, {Y}, {1, 2}},
    [PST_MAP_RECIPROCAL] = {"reciprocal", 1, {Y}, {1, 2}},
    [PST_MAP_ERF] = {"erf", 1, {1}, {12, 10}},
    [PST_MAP_TANH] = {"tanh", 1, {Y}, {10, 3}},
    [PST_MAP_SIGMOID] = {"sigmoid", 1, {Y}, {10, 3}},
    [PST_MAP_GELU] = {"gelu-erf", 1, {1}, {15, 24}},
    [PST_MAP_SOFTPLUS] = {"softplus", 1, {1}, {16, 10}},
    [PST_MAP_SIN] = {"sin", 1, {1}, {10, 11}},
    [PST_MAP_COS] = {"cos", 1, {1}, {10, 11}},
    [PST_MAP_ADD] = {"sum", 2, {0, 0}, {1, 2}},
    [PST_MAP_SUB] = {"difference", 2, {0, 0}, {1, 2}},
    [PST_MAP_MUL] = {"product", 2, {2, 1}, {1, 2}},
    [PST_MAP_DIV] = {"quotient", 2, {2, 2 | Y}, {1, 4}},
    [PST_MAP_POW] = {"pow", 2, {1 | 2, 1 | Y}, {12, 26}},
    [PST_MAP_MIN] = {"min", 2, {1 | 2, 1 | 2}, {1, 4}},
    [PST_MAP_MAX] = {"max", 2, {1 | 2, 1 | 2}, {1, 4}},
    [PST_MAP_EQUAL] = {"equal", 2, {0, 0}, {1, 0}},
    [PST_MAP_LESS] = {"less", 2, {0, 0}, {1, 0}},
    [PST_MAP_LESS_EQUAL] = {"less-equal", 2, {0, 0}, {1, 0}},
    [PST_MAP_SELECT] = {"select", 3, {0, 1, 1}, {1, 2}},
};

const struct pst_map_row *pst_map_row(uint32_t map)
{
    return map < PST_MAPS ? &rows[map] : NULL;
}
