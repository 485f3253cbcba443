/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding of Su et al. ("RoFormer", arXiv 2104.09864) in the form of two halves:
 * columns i and i + D/2 of a head are a pair, which position t turns by t times the pair's
 * frequency. Scaling for longer contexts: linear (Chen et al., arXiv 2306.15595), and that of Llama
 * 3 (ROPE_INIT_FUNCTIONS["llama3"] of Hugging Face's transformers).
 */
#ifndef PST_GRAPH_ROTARY_H
#define PST_GRAPH_ROTARY_H

#include <math.h>

#include "graph/graph.h"

/* Radians per position of pair `pair` < head_dim / 2 of a head. */
static inline double pst_rotary_frequency(const struct pst_rope *rope, uint32_t head_dim,
                                          uint32_t pair)
{
    const double two_pi = 6.283185307179586476925286766559;
    const double plain = pow((double)rope->theta, -2.0 * pair / head_dim);
    const double factor = (double)rope->factor;
    double turns, smooth;

    if (rope->scaling == PST_ROPE_NONE) {
        return plain;
    }
    if (rope->scaling == PST_ROPE_LINEAR) {
        return plain / factor;
    }
    /* Full turns within the first context: many stay, few are stretched, others lie between. */
    turns = rope->context * plain / two_pi;
    smooth = (turns - (double)rope->low_freq_factor) /
             ((double)rope->high_freq_factor - (double)rope->low_freq_factor);
    smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
    return (1 - smooth) * plain / factor + smooth * plain;
}

#endif
