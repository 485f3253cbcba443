/* SPDX-License-Identifier: Apache-2.0
 *
 * T5 (Raffel et al.: "Exploring the limits of transfer learning with a unified text-to-text
 * Transformer", JMLR 2020), version 1.0: an encoder that sees all tokens and a decoder that reads
 * its result in every layer; RMS norms before each part, no biases, relu in the feed-forward parts,
 * positions as one table per stack of what distance adds to the scores. The table of tokens serves
 * encoder, decoder and head. With 24 + 24 layers, dim 1024, 16 heads, ff 4096 and 32128 tokens it
 * is T5-large.
 *
 * Two factors of the authors' lie elsewhere: scores are divided by the root of a head's width here,
 * by the initial values of the queries there; the head's dim^-1/2 is the initial gain of the norm
 * before it.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

#define EPSILON 1e-6f

struct t5_config {
    int64_t layers, decoder_layers, dim, heads, head_dim, ff, context, targets, vocab;
    int64_t buckets, max_distance;
    double dropout;
};

static const struct pst_param params[] = {
    PST_PARAM(struct t5_config, layers, PST_PARAM_INT, "2", "1..32768", "Blocks of the encoder."),
    PST_PARAM(struct t5_config, decoder_layers, PST_PARAM_INT, "2", "1..32768",
              "Blocks of the decoder."),
    PST_PARAM(struct t5_config, dim, PST_PARAM_INT, "64", "1..1048576",
              "Width of the residual streams."),
    PST_PARAM(struct t5_config, heads, PST_PARAM_INT, "4", "1..65536", "Attention heads."),
    PST_PARAM(struct t5_config, head_dim, PST_PARAM_INT, "16", "1..1048576", "Width of a head."),
    PST_PARAM(struct t5_config, ff, PST_PARAM_INT, "256", "1..16777216",
              "Width of the feed-forward parts."),
    PST_PARAM(struct t5_config, context, PST_PARAM_INT, "32", "1..1048576",
              "Tokens that the encoder reads."),
    PST_PARAM(struct t5_config, targets, PST_PARAM_INT, "32", "1..1048576",
              "Tokens that the decoder writes."),
    PST_PARAM(struct t5_config, vocab, PST_PARAM_INT, "256", "1..16777216",
              "Number of different tokens."),
    PST_PARAM(struct t5_config, buckets, PST_PARAM_INT, "32", "4..65536",
              "Distances that attention tells apart, a power of two."),
    PST_PARAM(struct t5_config, max_distance, PST_PARAM_INT, "128", "2..1048576",
              "Distance beyond which all are one."),
    PST_PARAM(struct t5_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Probability by which embeddings and the results of parts are dropped in training."),
};

/* One stack while it is being built. */
struct stack {
    struct pst_graph_builder *builder;
    const struct t5_config *config;
    const char *name;
    uint32_t bias;   /* parameter: by distance */
    uint32_t memory; /* the encoder's result; PST_NONE in the encoder itself */
};

static uint64_t inner_of(const struct t5_config *c)
{
    return (uint64_t)c->heads * (uint64_t)c->head_dim;
}

static uint32_t add_rmsnorm(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                            const struct t5_config *c, float gain)
{
    char name[PST_NAME_SIZE];
    uint64_t dim = (uint64_t)c->dim;
    uint32_t param = pst_graph_param(builder, pst_join_name(name, prefix, "weight"), 1, &dim,
                                     PST_INIT_CONSTANT, gain, false);
    struct pst_op op = {.kind = PST_OP_RMSNORM,
                        .name = prefix,
                        .n_in = 1,
                        .in = &x,
                        .n_param = 1,
                        .param = &param,
                        .eps = EPSILON};

    return pst_graph_add(builder, &op);
}

/* x + dropout(h) */
static uint32_t add_residual(const struct stack *s, const char *prefix, uint32_t x, uint32_t h)
{
    char name[PST_NAME_SIZE];

    h = pst_add_dropout(s->builder, pst_join_name(name, prefix, "drop"), h,
                        (float)s->config->dropout);
    return pst_add_sum(s->builder, pst_join_name(name, prefix, "add"), x, h);
}

/* Attention of a stack's tokens to each other, or to the encoder's result. */
static uint32_t add_attention(const struct stack *s, const char *prefix, uint32_t x, bool cross)
{
    const struct t5_config *c = s->config;
    uint64_t dim = (uint64_t)c->dim, inner = inner_of(c);
    float deviation = sqrtf(1.0f / (float)dim);
    char name[PST_NAME_SIZE];
    uint32_t in[2], h;
    struct pst_op op = {.kind = PST_OP_ATTENTION,
                        .n_in = cross ? 2 : 1,
                        .in = in,
                        .n_param = cross ? 0 : 1,
                        .param = &s->bias,
                        .heads = (uint32_t)c->heads,
                        .causal = !cross && s->memory != PST_NONE,
                        .max_distance = cross ? 0 : (uint32_t)c->max_distance};

    h = add_rmsnorm(s->builder, pst_join_name(name, prefix, "norm"), x, c, 1.0f);
    if (cross) {
        in[0] = pst_add_linear(s->builder, pst_join_name(name, prefix, "q"), h, dim, inner,
                               deviation, false);
        in[1] = pst_add_linear(s->builder, pst_join_name(name, prefix, "kv"), s->memory, dim,
                               2 * inner, deviation, false);
    } else {
        in[0] = pst_add_linear(s->builder, pst_join_name(name, prefix, "qkv"), h, dim, 3 * inner,
                               deviation, false);
    }
    op.name = prefix;
    h = pst_graph_add(s->builder, &op);
    h = pst_add_linear(s->builder, pst_join_name(name, prefix, "o"), h, inner, dim,
                       sqrtf(1.0f / (float)inner), false);
    return add_residual(s, prefix, x, h);
}

static uint32_t add_feed_forward(const struct stack *s, const char *prefix, uint32_t x)
{
    const struct t5_config *c = s->config;
    uint64_t dim = (uint64_t)c->dim, ff = (uint64_t)c->ff;
    char name[PST_NAME_SIZE];
    uint32_t h = add_rmsnorm(s->builder, pst_join_name(name, prefix, "norm"), x, c, 1.0f);

    h = pst_add_linear(s->builder, pst_join_name(name, prefix, "wi"), h, dim, ff,
                       sqrtf(1.0f / (float)dim), false);
    h = pst_add_act(s->builder, pst_join_name(name, prefix, "relu"), h, PST_ACT_RELU);
    h = pst_add_dropout(s->builder, pst_join_name(name, prefix, "wi.drop"), h, (float)c->dropout);
    h = pst_add_linear(s->builder, pst_join_name(name, prefix, "wo"), h, ff, dim,
                       sqrtf(1.0f / (float)ff), false);
    return add_residual(s, prefix, x, h);
}

/* Embeddings, blocks and norm of a stack, from layer `layer` on. */
static uint32_t add_stack(struct stack *s, uint32_t tokens, uint32_t table, uint32_t n_blocks,
                          uint32_t layer)
{
    const struct t5_config *c = s->config;
    const bool decodes = s->memory != PST_NONE;
    uint64_t dims[2] = {(uint64_t)c->buckets, (uint64_t)c->heads};
    char name[PST_NAME_SIZE], block[PST_NAME_SIZE];
    uint32_t x;
    struct pst_op embedding = {
        .kind = PST_OP_EMBEDDING, .n_in = 1, .in = &tokens, .n_param = 1, .param = &table};

    pst_graph_layer(s->builder, layer);
    s->bias = pst_graph_param(s->builder, pst_join_name(name, s->name, "distances.weight"), 2, dims,
                              PST_INIT_NORMAL, sqrtf(1.0f / (float)c->dim), false);
    embedding.name = pst_join_name(name, s->name, "embedding");
    x = pst_graph_add(s->builder, &embedding);
    x = pst_add_dropout(s->builder, pst_join_name(name, s->name, "drop"), x, (float)c->dropout);
    for (uint32_t i = 0; i < n_blocks; i++) {
        pst_graph_layer(s->builder, layer + 1 + i);
        snprintf(block, sizeof block, "%s.%u.attention", s->name, i);
        x = add_attention(s, block, x, false);
        if (decodes) {
            snprintf(block, sizeof block, "%s.%u.cross", s->name, i);
            x = add_attention(s, block, x, true);
        }
        snprintf(block, sizeof block, "%s.%u.ff", s->name, i);
        x = add_feed_forward(s, block, x);
    }
    pst_graph_layer(s->builder, layer + 1 + n_blocks);
    x = add_rmsnorm(s->builder, pst_join_name(name, s->name, "norm"), x, c,
                    decodes ? sqrtf(1.0f / (float)c->dim) : 1.0f);
    return pst_add_dropout(s->builder, pst_join_name(name, s->name, "norm.drop"), x,
                           (float)c->dropout);
}

static uint32_t add_model(struct pst_graph_builder *builder, const struct t5_config *c)
{
    uint64_t context = (uint64_t)c->context, n_targets = (uint64_t)c->targets;
    uint64_t words[2] = {(uint64_t)c->vocab, (uint64_t)c->dim};
    struct stack encoder = {.builder = builder, .config = c, .name = "encoder", .memory = PST_NONE};
    struct stack decoder = {.builder = builder, .config = c, .name = "decoder"};
    uint32_t tokens, shifted, table, x;
    struct pst_op head = {.kind = PST_OP_LINEAR,
                          .name = "head",
                          .n_in = 1,
                          .in = &x,
                          .n_param = 1,
                          .param = &table,
                          .transposed = true};

    tokens = pst_graph_input(builder, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    shifted = pst_graph_input(builder, "decoder.tokens", PST_FIELD_SHIFTED, PST_I32, 1, &n_targets);
    table = pst_graph_param(builder, "shared.weight", 2, words, PST_INIT_NORMAL, 1.0f, true);
    decoder.memory = add_stack(&encoder, tokens, table, (uint32_t)c->layers, 0);
    x = add_stack(&decoder, shifted, table, (uint32_t)c->decoder_layers, (uint32_t)c->layers + 2);
    return pst_graph_add(builder, &head);
}

static pst_status check(const struct t5_config *c, struct pst_error *err)
{
    if ((c->buckets & (c->buckets - 1)) != 0 || c->max_distance <= c->buckets / 2) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"buckets\" in [model] is %lld with max_distance = %lld: it must be a "
                        "power of two, and max_distance above half of it",
                        (long long)c->buckets, (long long)c->max_distance);
    }
    return PST_OK;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct t5_config *c = config;
    uint64_t n_targets = (uint64_t)c->targets;
    uint32_t x, targets, loss;
    struct pst_graph_builder *builder = NULL;
    pst_status status = check(c, err);

    if (status == PST_OK) {
        status = pst_graph_builder_create("t5", dtype, &builder, err);
    }
    if (status != PST_OK) {
        return status;
    }
    x = add_model(builder, c);
    targets = pst_graph_input(builder, "targets", PST_FIELD_TARGET, PST_I32, 1, &n_targets);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_t5 = {
    .id = "t5",
    .summary = "T5: encoder and decoder, whose every layer reads the encoder's result",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct t5_config),
    .build = build,
};
