/* SPDX-License-Identifier: Apache-2.0
 *
 * T5 (Raffel et al.: "Exploring the limits of transfer learning with a unified text-to-text
 * Transformer", JMLR 2020), version 1.0: an encoder that sees all tokens and a decoder that reads
 * its result in every layer; RMS norms before each part, no biases, relu in the feed-forward parts,
 * positions as one table per stack of what distance adds to the scores. The table of tokens serves
 * encoder, decoder and head. With 24 + 24 layers, dim 1024, 16 heads, ff 4096 and 32128 tokens it
 * is T5-large. Version 1.1 (Shazeer: "GLU variants improve Transformer", 2020) gates the
 * feed-forward parts with GELU and has a head of its own.
 *
 * Two factors of the authors' lie elsewhere: scores are divided by the root of a head's width here,
 * by the initial values of the queries there; the head's dim^-1/2, where it shares the table, is
 * the initial gain of the norm before it.
 */
#include "block.h"

#include <math.h>

#define EPSILON 1e-6f

struct t5_config {
    int64_t layers, decoder_layers, dim, heads, head_dim, ff, context, targets, vocab;
    int64_t buckets, max_distance;
    double dropout;
    bool gated, tied;
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
    PST_PARAM(struct t5_config, vocab, PST_PARAM_INT, "256", "1..16777216", "Vocabulary size."),
    PST_PARAM(struct t5_config, buckets, PST_PARAM_INT, "32", "4..65536",
              "Buckets of relative positions, a power of two."),
    PST_PARAM(struct t5_config, max_distance, PST_PARAM_INT, "128", "2..1048576",
              "Distance from which on all positions share a bucket."),
    PST_PARAM(struct t5_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Dropout probability of embeddings and of the outputs of parts in training."),
    PST_PARAM(struct t5_config, gated, PST_PARAM_BOOL, "false", NULL,
              "Feed-forward parts are gated by GELU, as in version 1.1; else they use ReLU."),
    PST_PARAM(
        struct t5_config, tied, PST_PARAM_BOOL, "true", NULL,
        "Use the token embedding table as the weights of the head, too; false in version 1.1."),
};

static uint32_t add_rmsnorm(struct pst_model *m, uint32_t x, const struct t5_config *c, float gain)
{
    return pst_add_rmsnorm(m, "norm", x, c->dim, EPSILON, gain);
}

/* x + dropout(h) */
static uint32_t add_residual(struct pst_model *m, const struct t5_config *c, uint32_t x, uint32_t h)
{
    return pst_add_sum(m, "add", x, pst_add_dropout(m, "drop", h, c->dropout));
}

/* Inputs that all attention layers of a stack share. */
struct stack {
    uint32_t bias;   /* parameter: by distance */
    uint32_t memory; /* the encoder's result; PST_NONE in the encoder itself */
};

/* Attention of a stack's tokens to each other, or to the encoder's result. */
static uint32_t add_attention(struct pst_model *m, const struct t5_config *c,
                              const struct stack *stack, uint32_t x, bool cross)
{
    int64_t inner = c->heads * c->head_dim;
    float deviation = sqrtf(1.0f / (float)c->dim);
    uint32_t in[2], h = add_rmsnorm(m, x, c, 1.0f);
    struct pst_op op = {.kind = PST_OP_ATTENTION,
                        .n_in = cross ? 2 : 1,
                        .in = in,
                        .n_param = cross ? 0 : 1,
                        .param = &stack->bias,
                        .heads = (uint32_t)c->heads,
                        .causal = !cross && stack->memory != PST_NONE,
                        .max_distance = cross ? 0 : (uint32_t)c->max_distance};

    if (cross) {
        in[0] = pst_add_linear(m, "q", h, c->dim, inner, deviation, false);
        in[1] = pst_add_linear(m, "kv", stack->memory, c->dim, 2 * inner, deviation, false);
    } else {
        in[0] = pst_add_linear(m, "qkv", h, c->dim, 3 * inner, deviation, false);
    }
    h = pst_add_op(m, "", &op);
    h = pst_add_linear(m, "o", h, inner, c->dim, sqrtf(1.0f / (float)inner), false);
    return add_residual(m, c, x, h);
}

static uint32_t add_feed_forward(struct pst_model *m, const struct t5_config *c, uint32_t x)
{
    uint32_t h = add_rmsnorm(m, x, c, 1.0f);

    h = pst_add_linear(m, c->gated ? "gate_up" : "wi", h, c->dim, c->gated ? 2 * c->ff : c->ff,
                       sqrtf(1.0f / (float)c->dim), false);
    h = c->gated ? pst_add_op(m, "geglu",
                              &(struct pst_op){
                                  .kind = PST_OP_GLU, .n_in = 1, .in = &h, .act = PST_ACT_GELU})
                 : pst_add_act(m, "relu", h, PST_ACT_RELU);
    h = pst_add_dropout(m, "wi.drop", h, c->dropout);
    h = pst_add_linear(m, "wo", h, c->ff, c->dim, sqrtf(1.0f / (float)c->ff), false);
    return add_residual(m, c, x, h);
}

static uint32_t add_block(struct pst_model *m, const struct t5_config *c, const struct stack *stack,
                          uint32_t x)
{
    size_t before = pst_enter(m, "attention");

    x = add_attention(m, c, stack, x, false);
    pst_leave(m, before);
    if (stack->memory != PST_NONE) {
        pst_enter(m, "cross");
        x = add_attention(m, c, stack, x, true);
        pst_leave(m, before);
    }
    pst_enter(m, "ff");
    x = add_feed_forward(m, c, x);
    pst_leave(m, before);
    return x;
}

/* Embeddings, blocks and norm of a stack, from layer `layer` on. */
static uint32_t add_stack(struct pst_model *m, const struct t5_config *c, const char *name,
                          uint32_t tokens, uint32_t table, uint32_t memory, uint32_t n_blocks,
                          uint32_t layer)
{
    float small = sqrtf(1.0f / (float)c->dim);
    size_t before = pst_enter(m, "%s", name);
    struct stack stack = {.memory = memory};
    uint32_t x;

    pst_graph_layer(m->graph, layer);
    stack.bias =
        pst_add_matrix(m, "distances.weight", c->buckets, c->heads, PST_INIT_NORMAL, small, false);
    x = pst_add_op(
        m, "embedding",
        &(struct pst_op){
            .kind = PST_OP_EMBEDDING, .n_in = 1, .in = &tokens, .n_param = 1, .param = &table});
    x = pst_add_dropout(m, "drop", x, c->dropout);
    for (uint32_t i = 0; i < n_blocks; i++) {
        size_t block = pst_enter(m, "%u", i);

        pst_graph_layer(m->graph, layer + 1 + i);
        x = add_block(m, c, &stack, x);
        pst_leave(m, block);
    }
    pst_graph_layer(m->graph, layer + 1 + n_blocks);
    x = add_rmsnorm(m, x, c, memory != PST_NONE && c->tied ? small : 1.0f);
    x = pst_add_dropout(m, "norm.drop", x, c->dropout);
    pst_leave(m, before);
    return x;
}

static pst_status check(const void *config, struct pst_error *err)
{
    const struct t5_config *c = config;

    if ((c->buckets & (c->buckets - 1)) != 0 || c->max_distance <= c->buckets / 2) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"buckets\" in [model] is %lld with max_distance = %lld: it must be a "
                        "power of two, and max_distance above half of it",
                        (long long)c->buckets, (long long)c->max_distance);
    }
    return PST_OK;
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct t5_config *c = config;
    uint32_t n = (uint32_t)c->layers;
    uint32_t tokens = pst_add_input(m, "tokens", PST_FIELD_X, PST_I32, c->context);
    uint32_t shifted = pst_add_input(m, "decoder.tokens", PST_FIELD_SHIFTED, PST_I32, c->targets);
    uint32_t table =
        pst_add_matrix(m, "shared.weight", c->vocab, c->dim, PST_INIT_NORMAL, 1.0f, true);
    uint32_t memory = add_stack(m, c, "encoder", tokens, table, PST_NONE, n, 0), x, targets;

    x = add_stack(m, c, "decoder", shifted, table, memory, (uint32_t)c->decoder_layers, n + 2);
    x = c->tied ? pst_add_tied_head(m, "head", x, table, PST_NONE)
                : pst_add_linear(m, "lm_head", x, c->dim, c->vocab, 1.0f, false);
    targets = pst_add_input(m, "targets", PST_FIELD_TARGET, PST_I32, c->targets);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(t5, "t5",
                  "T5: encoder and decoder; every decoder block reads the encoder's result",
                  struct t5_config, check);
