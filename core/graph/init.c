/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values: counter-based, so that any rank can make any parameter, in any order. Normal
 * numbers by Box and Muller ("A note on the generation of random normal deviates", 1958) in double
 * precision, two of them from each pair of words.
 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/philox.h"

static const double two_pi = 6.283185307179586476925286766559;

/* (0, 1]: the logarithm of it exists. */
static double open_uniform(uint32_t word)
{
    return ((double)word + 1.0) * (1.0 / 4294967296.0);
}

static void normal_block(const struct pst_philox *words, double scale, float *ret_values)
{
    for (uint32_t i = 0; i < 4; i += 2) {
        double radius = scale * sqrt(-2.0 * log(open_uniform(words->v[i])));
        double angle = two_pi * ((double)words->v[i + 1] * (1.0 / 4294967296.0));

        ret_values[i] = (float)(radius * cos(angle));
        ret_values[i + 1] = (float)(radius * sin(angle));
    }
}

static void uniform_block(const struct pst_philox *words, double scale, float *ret_values)
{
    for (uint32_t i = 0; i < 4; i++) {
        ret_values[i] = (float)(scale * (2.0 * (double)pst_uniform(words->v[i]) - 1.0));
    }
}

void pst_parameter_init(const struct pst_parameter *parameter, uint64_t seed, float *ret_values)
{
    uint64_t stream = XXH3_64bits(parameter->name, strlen(parameter->name));
    double scale = (double)parameter->init_scale;

    if (parameter->init != PST_INIT_NORMAL && parameter->init != PST_INIT_UNIFORM) {
        float value = parameter->init == PST_INIT_CONSTANT ? parameter->init_scale
                      : parameter->init == PST_INIT_ONE    ? 1.0f
                                                           : 0.0f;

        for (uint64_t i = 0; i < parameter->elems; i++) {
            ret_values[i] = value;
        }
        return;
    }
    for (uint64_t i = 0; i < parameter->elems; i += 4) {
        struct pst_philox words = pst_philox(seed, stream, i / 4);
        uint64_t n = parameter->elems - i < 4 ? parameter->elems - i : 4;
        float values[4];

        if (parameter->init == PST_INIT_NORMAL) {
            normal_block(&words, scale, values);
        } else {
            uniform_block(&words, scale, values);
        }
        memcpy(&ret_values[i], values, n * sizeof *values);
    }
}
