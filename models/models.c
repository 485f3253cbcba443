/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of models, and how one of them becomes a graph.
 */
#include "block.h"

#include <string.h>

#include "graph/costed.h"

const struct pst_model_builder *const pst_model_builders[] = {&pst_model_mlp,
                                                              &pst_model_gpt,
                                                              &pst_model_llama,
                                                              &pst_model_bert,
                                                              &pst_model_t5,
                                                              &pst_model_resnet,
                                                              &pst_model_amoebanet,
                                                              &pst_model_mmt,
                                                              &pst_model_dlrm,
                                                              &pst_model_candle,
                                                              &pst_model_onnx,
                                                              &pst_model_costed,
                                                              NULL};

const struct pst_model_builder *pst_model_builder_find(const char *id)
{
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        if (strcmp(pst_model_builders[i]->id, id) == 0) {
            return pst_model_builders[i];
        }
    }
    return NULL;
}

pst_status pst_model_build(const struct pst_model_builder *builder, const void *config,
                           uint32_t dtype, struct pst_graph **ret_graph, struct pst_error *err)
{
    struct pst_model model = {.graph = NULL};
    struct pst_model_ends ends;
    pst_status status = builder->check != NULL ? builder->check(config, err) : PST_OK;

    PST_TRY(status, pst_graph_builder_create(builder->id, dtype, &model.graph, err));
    if (status != PST_OK) {
        return status;
    }
    if (builder->build != NULL) {
        status = builder->build(&model, config, &ends, err);
    } else {
        ends = builder->add(&model, config);
    }
    PST_TRY(status, pst_graph_finish(model.graph, ends.loss, ends.logits, ret_graph, err));
    pst_graph_builder_destroy(model.graph);
    if (status == PST_OK) {
        (*ret_graph)->initial = model.initial;
        (*ret_graph)->costed = model.costed;
        return PST_OK;
    }
    if (model.initial.destroy != NULL) {
        model.initial.destroy(model.initial.context);
    }
    pst_costed_destroy(model.costed);
    return status;
}
