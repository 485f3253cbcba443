/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 (Radford et al.: "Language models are unsupervised multitask learners", 2019): pre-norm
 * Transformer blocks, learned positions, parameter names and layout of the published weights. With
 * 12 layers of width 768, 12 heads, context 1024 and vocabulary 50257 it is the 124M model.
 */
#include "block.h"

#include <stdio.h>

struct gpt_config {
    int64_t layers, dim, heads, context, vocab;
    double dropout;
    bool tied;
};

static const struct pst_param params[] = {
    PST_PARAM(struct gpt_config, layers, PST_PARAM_INT, "4", "1..65536",
              "Number of Transformer blocks."),
    PST_PARAM(struct gpt_config, dim, PST_PARAM_INT, "128", "1..1048576",
              "Width of the residual stream."),
    PST_PARAM(struct gpt_config, heads, PST_PARAM_INT, "4", "1..65536",
              "Attention heads; must divide dim."),
    PST_PARAM(struct gpt_config, context, PST_PARAM_INT, "128", "1..1048576",
              "Tokens of one sample."),
    PST_PARAM(struct gpt_config, vocab, PST_PARAM_INT, "256", "1..16777216",
              "Number of different tokens; 256 for bytes."),
    PST_PARAM(struct gpt_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Probability by which embeddings and the results of blocks are dropped in training."),
    PST_PARAM(struct gpt_config, tied, PST_PARAM_BOOL, "true", NULL,
              "Use the token table also as weights of the head."),
};

/* Logits [context, vocab]; the head shares the token table unless told otherwise. */
static uint32_t add_head(struct pst_graph_builder *builder, const struct gpt_config *c, uint32_t x,
                         uint32_t table)
{
    struct pst_op head = {.kind = PST_OP_LINEAR,
                          .name = "lm_head",
                          .n_in = 1,
                          .in = &x,
                          .n_param = 1,
                          .param = &table,
                          .transposed = true};

    if (!c->tied) {
        return pst_add_linear(builder, "lm_head", x, (uint64_t)c->dim, (uint64_t)c->vocab, 0.02f,
                              false);
    }
    return pst_graph_add(builder, &head);
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct gpt_config *c = config;
    struct pst_block_config block = {.dim = (uint64_t)c->dim,
                                     .heads = (uint32_t)c->heads,
                                     .layers = (uint32_t)c->layers,
                                     .causal = true,
                                     .dropout = (float)c->dropout};
    uint64_t context = (uint64_t)c->context;
    uint32_t x, targets, table, loss;
    struct pst_graph_builder *builder = NULL;
    char name[PST_NAME_SIZE];
    pst_status status = pst_check_heads(c->dim, c->heads, err);

    if (status == PST_OK) {
        status = pst_graph_builder_create("gpt", dtype, &builder, err);
    }
    if (status != PST_OK) {
        return status;
    }
    x = pst_graph_input(builder, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    targets = pst_graph_input(builder, "targets", PST_FIELD_TARGET, PST_I32, 1, &context);
    x = pst_add_embedding(builder, "", x, (uint64_t)c->vocab, context, block.dim, &table);
    x = pst_add_dropout(builder, "drop", x, block.dropout);
    for (uint32_t i = 0; i < block.layers; i++) {
        pst_graph_layer(builder, i + 1);
        snprintf(name, sizeof name, "h.%u", i);
        x = pst_add_block(builder, name, x, &block);
    }
    pst_graph_layer(builder, block.layers + 1);
    x = pst_add_layernorm(builder, "ln_f", x, block.dim);
    x = add_head(builder, c, x, table);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_gpt = {
    .id = "gpt",
    .summary = "GPT-2: causal Transformer language model",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct gpt_config),
    .build = build,
};
