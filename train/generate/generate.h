/* SPDX-License-Identifier: Apache-2.0
 *
 * Text written by the model: token after token, each drawn from the logits of the whole pipeline in
 * forward direction. Tokens are bytes, or those of a tokenizer. Where the graph decodes
 * (pst_graph_decode) only tokens that are new go through, else the whole text. One that has
 * outgrown the context goes on from its newer half.
 */
#ifndef PST_GENERATE_GENERATE_H
#define PST_GENERATE_GENERATE_H

#include "data/data.h"
#include "data/tokenizer.h"
#include "exec/exec.h"

/* Tokens that go through at once where the graph decodes. Weights are read once for all of them,
   which is what takes the time. */
#define PST_GENERATE_AT_ONCE 8

struct pst_generate {
    struct pst_exec *exec; /* its evaluation plan is pst_whole_microbatches, logits kept */
    const struct pst_graph *graph;
    const struct pst_sample_shape *shape;
    const struct pst_tokenizer *tokenizer; /* NULL: tokens are bytes */
    uint32_t samples; /* of an evaluation; the text is in the first whose logits are kept */
    uint32_t kept;    /* of them, the last: pst_kept_samples */
    uint64_t seed;
    double temperature; /* 0: always the most likely token */
    uint32_t top_k;     /* only the most likely so many; 0: all */
    const char *prompt; /* "" starts with a newline */
    uint64_t length;    /* tokens to add */
};

/* config.value (exit 2) unless the model reads tokens alone, tells the next of each and never looks
   ahead. */
pst_status pst_generate_check(const struct pst_graph *graph, const struct pst_sample_shape *shape,
                              struct pst_error *err);

/* ret_text: prompt and continuation; free() it. A zero byte becomes U+FFFD. Ends early when asked
   to stop. Errors: those of the run; of the tokenizer, for the prompt; config.value for a prompt
   with tokens beyond the model's vocabulary. */
pst_status pst_generate_text(const struct pst_generate *generate, char **ret_text,
                             struct pst_error *err);

/* The class drawn from n logits, of the top_k largest (0: all; those equal to the last of them are
   among them): softmax at this temperature, `uniform` in [0, 1). Pure. */
uint32_t pst_draw_class(const float *logits, uint32_t n, double temperature, uint32_t top_k,
                        double uniform);

#endif
