/* SPDX-License-Identifier: Apache-2.0
 *
 * A multi-branch Transformer: parallel stacks over embeddings of their own, joined by one linear
 * layer. The model with which GraphPipe shows what a graph of stages gains over a chain (Jeon et
 * al.: "GraphPipe: improving performance and scalability of DNN training with graph pipeline
 * parallelism", ASPLOS 2025); its size there: 4 branches of 8 layers, width 1024, 16 heads, 256
 * tokens. Its public code has bare blocks, attention and two linear layers, over inputs of their
 * own that are features already: no embedding, norm, residual or bias.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

struct mmt_config {
    int64_t branches, layers, dim, heads, context, vocab;
    double dropout;
    uint32_t blocks; /* enum: gpt2 | bare */
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
    PST_PARAM(struct mmt_config, blocks, PST_PARAM_ENUM, "gpt2", "gpt2|bare",
              "gpt2: pre-norm, over tokens; bare: attention, two linear layers, over features."),
};

/* Attention with its projections and two linear layers, one behind the other. */
static uint32_t add_bare_block(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                               const struct mmt_config *c)
{
    uint64_t dim = (uint64_t)c->dim;
    float deviation = sqrtf(1.0f / (float)dim);
    char name[PST_NAME_SIZE];
    uint32_t h;
    struct pst_op attention = {
        .kind = PST_OP_ATTENTION, .n_in = 1, .in = &h, .heads = (uint32_t)c->heads};

    h = pst_add_linear(builder, pst_join_name(name, prefix, "attn.c_attn"), x, dim, 3 * dim,
                       deviation, false);
    attention.name = pst_join_name(name, prefix, "attn");
    h = pst_graph_add(builder, &attention);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "attn.c_proj"), h, dim, dim, deviation,
                       false);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "mlp.c_fc"), h, dim, 4 * dim,
                       sqrtf(2.0f / (float)dim), false);
    h = pst_add_act(builder, pst_join_name(name, prefix, "mlp.relu"), h, PST_ACT_RELU);
    return pst_add_linear(builder, pst_join_name(name, prefix, "mlp.c_proj"), h, 4 * dim, dim,
                          sqrtf(1.0f / (4.0f * (float)dim)), false);
}

static uint32_t add_bare_branch(struct pst_graph_builder *builder, const struct mmt_config *c,
                                uint32_t branch, uint32_t *layer)
{
    uint64_t dims[2] = {(uint64_t)c->context, (uint64_t)c->dim};
    char name[PST_NAME_SIZE];
    uint32_t x;

    snprintf(name, sizeof name, "x.%u", branch);
    x = pst_graph_input(builder, name, PST_FIELD_X, pst_graph_dtype(builder), 2, dims);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(builder, (*layer)++);
        snprintf(name, sizeof name, "branch.%u.h.%u", branch, i);
        x = add_bare_block(builder, name, x, c);
    }
    return x;
}

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

/* All branches over the same tokens, or each over features of its own; returns the next layer. */
static uint32_t add_branches(struct pst_graph_builder *builder, const struct mmt_config *c,
                             uint32_t *ret_results)
{
    uint64_t context = (uint64_t)c->context;
    uint32_t tokens = PST_NONE, layer = 0;

    if (c->blocks == 0) {
        tokens = pst_graph_input(builder, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    }
    for (uint32_t i = 0; i < (uint32_t)c->branches; i++) {
        ret_results[i] = c->blocks == 0 ? add_branch(builder, c, i, tokens, &layer)
                                        : add_bare_branch(builder, c, i, &layer);
    }
    return layer;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct mmt_config *c = config;
    uint64_t context = (uint64_t)c->context, dim = (uint64_t)c->dim;
    uint64_t joined = (uint64_t)c->branches * dim;
    const bool full = c->blocks == 0;
    uint32_t results[64], targets, x, loss;
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
    pst_graph_layer(builder, add_branches(builder, c, results));
    targets = pst_graph_input(builder, "targets", PST_FIELD_TARGET, PST_I32, 1, &context);
    x = pst_graph_add(builder, &concat);
    x = pst_add_linear(builder, "join", x, joined, dim, sqrtf(1.0f / (float)joined), full);
    x = full ? pst_add_layernorm(builder, "ln_f", x, dim) : x;
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
