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
              "Vocabulary size; 256 for bytes."),
    PST_PARAM(struct mmt_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Dropout probability of embeddings and block outputs in training."),
    PST_PARAM(struct mmt_config, blocks, PST_PARAM_ENUM, "gpt2", "gpt2|bare",
              "gpt2: pre-norm, over tokens; bare: attention, two linear layers, over features."),
};

/* Attention with its projections and two linear layers, one after the other. */
static uint32_t add_bare_block(struct pst_model *m, uint32_t x, const struct mmt_config *c)
{
    float deviation = sqrtf(1.0f / (float)c->dim);
    const struct pst_parts parts = {.qkv = "attn.c_attn",
                                    .attention = "attn",
                                    .out = "attn.c_proj",
                                    .wide = "mlp.c_fc",
                                    .act = "mlp.relu",
                                    .narrow = "mlp.c_proj",
                                    .qkv_deviation = deviation,
                                    .out_deviation = deviation,
                                    .wide_deviation = sqrtf(2.0f / (float)c->dim),
                                    .narrow_deviation = sqrtf(1.0f / (4.0f * (float)c->dim)),
                                    .act_kind = PST_ACT_RELU,
                                    .dim = c->dim,
                                    .heads = c->heads};

    return pst_add_linear_part(m, pst_add_attention_part(m, x, &parts), &parts);
}

/* One branch, over the tokens that all have, or over features of its own; *layer is the number of
   its first layer and becomes that of the next branch. */
static uint32_t add_branch(struct pst_model *m, const struct mmt_config *c, uint32_t branch,
                           uint32_t tokens, uint32_t *layer)
{
    uint64_t dims[2] = {(uint64_t)c->context, (uint64_t)c->dim};
    const bool full = c->blocks == 0;
    char name[32];
    uint32_t table, x;

    if (full) {
        pst_graph_layer(m->graph, (*layer)++);
        pst_enter(m, "branch.%u", branch);
        x = pst_add_embedding(m, tokens, c->vocab, c->context, c->dim, &table);
        x = pst_add_dropout(m, "drop", x, c->dropout);
    } else {
        snprintf(name, sizeof name, "x.%u", branch);
        x = pst_graph_input(m->graph, name, PST_FIELD_X, pst_graph_dtype(m->graph), 2, dims);
        pst_enter(m, "branch.%u", branch);
    }
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        size_t before = pst_enter(m, "h.%u", i);

        pst_graph_layer(m->graph, (*layer)++);
        x = full ? pst_add_block(m, x, c->dim, c->heads, c->layers, false, c->dropout)
                 : add_bare_block(m, x, c);
        pst_leave(m, before);
    }
    pst_leave(m, 0);
    return x;
}

static pst_status check(const void *config, struct pst_error *err)
{
    const struct mmt_config *c = config;

    return pst_check_heads(c->dim, c->heads, err);
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct mmt_config *c = config;
    int64_t joined = c->branches * c->dim;
    const bool full = c->blocks == 0;
    uint32_t results[64], tokens = PST_NONE, targets, x, layer = 0;

    if (full) {
        tokens = pst_add_input(m, "tokens", PST_FIELD_X, PST_I32, c->context);
    }
    for (uint32_t i = 0; i < (uint32_t)c->branches; i++) {
        results[i] = add_branch(m, c, i, tokens, &layer);
    }
    pst_graph_layer(m->graph, layer);
    targets = pst_add_input(m, "targets", PST_FIELD_TARGET, PST_I32, c->context);
    x = pst_add_concat(m, "concat", results, (uint32_t)c->branches);
    x = pst_add_linear(m, "join", x, joined, c->dim, sqrtf(1.0f / (float)joined), full);
    x = full ? pst_add_layernorm(m, "ln_f", x, c->dim, 1e-5f) : x;
    x = pst_add_linear(m, "head", x, c->dim, c->vocab, 0.02f, false);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(mmt, "mmt",
                  "multi-branch Transformer: parallel stacks that are joined at the end",
                  struct mmt_config, check);
