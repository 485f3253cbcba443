/* SPDX-License-Identifier: Apache-2.0
 *
 * Models by name: the table behind [model] use = "...".
 */
#ifndef PST_MODELS_BUILDER_H
#define PST_MODELS_BUILDER_H

#include <penstock/params.h>

#include "graph/graph.h"

struct pst_model; /* while it is built: block.h */

/* The tensors that a model ends in; logits may be PST_NONE. */
struct pst_model_ends {
    uint32_t logits, loss;
};

struct pst_model_builder {
    const char *id, *summary;
    const struct pst_param *params; /* parameters of [model] for this builder */
    uint32_t n_params;
    size_t config_size;
    pst_status (*check)(const void *config, struct pst_error *err); /* or NULL */
    struct pst_model_ends (*add)(struct pst_model *model, const void *config);
    /* In the place of add where that may fail by itself: a file is read. */
    pst_status (*build)(struct pst_model *model, const void *config,
                        struct pst_model_ends *ret_ends, struct pst_error *err);
    size_t loss_at; /* uint32_t in its config: [train] loss goes there; 0: it has its own loss */
};

/* All of them, ended by NULL: mlp, gpt, bert, t5, resnet, amoebanet, mmt, dlrm, candle-uno, onnx,
   costed. */
extern const struct pst_model_builder *const pst_model_builders[];

/* NULL when there is none of that name. */
const struct pst_model_builder *pst_model_builder_find(const char *id);

/* dtype: PST_F32, PST_BF16 or PST_F64 (tests). */
pst_status pst_model_build(const struct pst_model_builder *builder, const void *config,
                           uint32_t dtype, struct pst_graph **ret_graph, struct pst_error *err);

#endif
