/* SPDX-License-Identifier: Apache-2.0
 *
 * A multi-branch Transformer: parallel stacks over embeddings of their own, joined by one linear
 * layer. The model with which GraphPipe shows what a graph of stages gains over a chain (Jeon et
 * al.: "GraphPipe: improving performance and scalability of DNN training with graph pipeline
 * parallelism", ASPLOS 2025); its size there: 4 branches of 8 layers, width 1024, 16 heads, 256
 * tokens.
 */
#include "model/block.h"

#include <math.h>
#include <stdio.h>

struct mmt_config {
    int64_t branches, layers, dim, heads, context, vocab;
    double dropout;
};

static const struct pst_param params[] = {
    PST_PARAM(struct mmt_config, branches, PST_PARAM_INT, "2", "1..64",
              "Number of parallel branches."),
    PST_PARAM(struct mmt_config, layers, PST_PARAM_INT, "2", "1..65536",
              "Transformer blocks of each branch."),
    PST_PARAM(struct mmt_config, dim, PST_PARAM_INT, "128", "1..1048576", "Width of a branch."),
    PST_PARAM(struct mmt_config, heads, PST_PARAM_INT, "4", "1..65536",
              "Attention heads; must divide dim."),
    PST_PARAM(struct mmt_config, context, PST_PARAM_INT, "64", "1..1048576",
              "Tokens of one sample."),
    PST_PARAM(struct mmt_config, vocab, PST_PARAM_INT, "256", "1..16777216",
              "Number of different tokens; 256 for bytes."),
    PST_PARAM(struct mmt_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Probability by which embeddings and the results of blocks are dropped in training."),
};

/* One branch; *layer is the number of its first layer and becomes that of the next branch. */
static uint32_t add_branch(struct pst_graph_builder *builder, const struct mmt_config *c,
                           uint32_t branch, uint32_t tokens, uint32_t *layer)
{
    struct pst_block_config block = {.dim = (uint64_t)c->dim,
                                     .heads = (uint32_t)c->heads,
                                     .layers = (uint32_t)c->layers,
                                     .causal = false,
                                     .dropout = (float)c->dropout};
    char prefix[32], name[PST_NAME_SIZE];
    uint32_t table, x;

    snprintf(prefix, sizeof prefix, "branch.%u", branch);
    pst_graph_layer(builder, (*layer)++);
    x = pst_add_embedding(builder, prefix, tokens, (uint64_t)c->vocab, (uint64_t)c->context,
                          block.dim, &table);
    x = pst_add_dropout(builder, pst_join_name(name, prefix, "drop"), x, block.dropout);
    for (uint32_t i = 0; i < block.layers; i++) {
        pst_graph_layer(builder, (*layer)++);
        snprintf(name, sizeof name, "%s.h.%u", prefix, i);
        x = pst_add_block(builder, name, x, &block);
    }
    return x;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct mmt_config *c = config;
    uint64_t context = (uint64_t)c->context, dim = (uint64_t)c->dim;
    uint64_t joined = (uint64_t)c->branches * dim;
    uint32_t results[64], tokens, targets, x, loss, layer = 0;
    struct pst_op concat = {
        .kind = PST_OP_CONCAT, .name = "concat", .n_in = (uint32_t)c->branches, .in = results};
    struct pst_graph_builder *builder = NULL;
    pst_status status = pst_check_heads(c->dim, c->heads, err);

    if (status == PST_OK) {
        status = pst_graph_builder_create("mmt", dtype, &builder, err);
    }
    if (status != PST_OK) {
        return status;
    }
    tokens = pst_graph_input(builder, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    targets = pst_graph_input(builder, "targets", PST_FIELD_TARGET, PST_I32, 1, &context);
    for (uint32_t i = 0; i < concat.n_in; i++) {
        results[i] = add_branch(builder, c, i, tokens, &layer);
    }
    pst_graph_layer(builder, layer);
    x = pst_graph_add(builder, &concat);
    x = pst_add_linear(builder, "join", x, joined, dim, sqrtf(1.0f / (float)joined), true);
    x = pst_add_layernorm(builder, "ln_f", x, dim);
    x = pst_add_linear(builder, "head", x, dim, (uint64_t)c->vocab, 0.02f, false);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_mmt = {
    .id = "mmt",
    .summary = "multi-branch Transformer: parallel stacks that are joined at the end",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct mmt_config),
    .build = build,
};
