/* SPDX-License-Identifier: Apache-2.0
 *
 * Text written by the model in training: byte after byte, each drawn from the logits of the whole
 * pipeline in forward direction.
 */
#ifndef PST_TRAIN_GENERATE_H
#define PST_TRAIN_GENERATE_H

#include "exec/exec.h"
#include "train/data.h"

struct pst_generate {
    struct pst_exec *exec; /* its evaluation plan is one micro-batch, logits kept */
    const struct pst_graph *graph;
    const struct pst_sample_shape *shape;
    uint32_t samples; /* of that micro-batch; the text is in the first */
    uint64_t seed;
    double temperature; /* 0: always the most likely byte */
    const char *prompt; /* "" starts with a newline */
    uint64_t length;    /* bytes to add */
};

/* ret_text: prompt and continuation; free() it. A zero byte becomes U+FFFD. Ends early when asked
   to stop. */
pst_status pst_generate_text(const struct pst_generate *generate, char **ret_text,
                             struct pst_error *err);

/* The class drawn from n logits: softmax at this temperature, `uniform` in [0, 1). Pure. */
uint32_t pst_draw_class(const float *logits, uint32_t n, double temperature, double uniform);

#endif
