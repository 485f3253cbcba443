/* SPDX-License-Identifier: Apache-2.0
 *
 * BERT (Devlin et al.: "BERT: pre-training of deep bidirectional Transformers for language
 * understanding", NAACL 2019): post-norm blocks that see all tokens, embeddings of words, positions
 * and segments, and a head that names the hidden tokens through the table of words. The classifier
 * of sentence pairs is left out; GELU has its tanh form. With 24 layers of width 1024, 16 heads,
 * 512 tokens and 30522 words it is BERT-large.
 */
#include "block.h"

#include <stdio.h>

#define DEVIATION 0.02f
#define EPSILON   1e-12f

struct bert_config {
    int64_t layers, dim, heads, context, vocab, segments;
    double dropout;
};

static const struct pst_param params[] = {
    PST_PARAM(struct bert_config, layers, PST_PARAM_INT, "4", "1..65536",
              "Number of Transformer blocks."),
    PST_PARAM(struct bert_config, dim, PST_PARAM_INT, "128", "1..1048576",
              "Width of the residual stream."),
    PST_PARAM(struct bert_config, heads, PST_PARAM_INT, "4", "1..65536",
              "Attention heads; must divide dim."),
    PST_PARAM(struct bert_config, context, PST_PARAM_INT, "128", "1..1048576",
              "Tokens of one sample."),
    PST_PARAM(struct bert_config, vocab, PST_PARAM_INT, "256", "1..16777216",
              "Number of different tokens; the last one stands for hidden ones."),
    PST_PARAM(struct bert_config, segments, PST_PARAM_INT, "2", "2..65536",
              "Rows of the table of segments."),
    PST_PARAM(struct bert_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Probability by which embeddings and the results of blocks are dropped in training."),
};

/* residual + dropout(h), then its norm: "prefix.drop", "prefix.add", "prefix.norm". */
static uint32_t add_residual(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                             uint32_t h, const struct bert_config *c)
{
    char name[PST_NAME_SIZE];

    h = pst_add_dropout(builder, pst_join_name(name, prefix, "drop"), h, (float)c->dropout);
    h = pst_add_sum(builder, pst_join_name(name, prefix, "add"), x, h);
    return pst_add_layernorm_eps(builder, pst_join_name(name, prefix, "norm"), h, (uint64_t)c->dim,
                                 EPSILON);
}

static uint32_t add_block(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                          const struct bert_config *c)
{
    char name[PST_NAME_SIZE], part[PST_NAME_SIZE];
    uint64_t dim = (uint64_t)c->dim;
    uint32_t h;
    struct pst_op attention = {
        .kind = PST_OP_ATTENTION, .n_in = 1, .in = &h, .heads = (uint32_t)c->heads};

    h = pst_add_linear(builder, pst_join_name(name, prefix, "attention.qkv"), x, dim, 3 * dim,
                       DEVIATION, true);
    attention.name = pst_join_name(name, prefix, "attention");
    h = pst_graph_add(builder, &attention);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "attention.output"), h, dim, dim,
                       DEVIATION, true);
    x = add_residual(builder, pst_join_name(part, prefix, "attention"), x, h, c);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "intermediate"), x, dim, 4 * dim,
                       DEVIATION, true);
    h = pst_add_act(builder, pst_join_name(name, prefix, "gelu"), h, PST_ACT_GELU);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "output"), h, 4 * dim, dim, DEVIATION,
                       true);
    return add_residual(builder, prefix, x, h, c);
}

/* Words and positions, plus segments, normed. */
static uint32_t add_embeddings(struct pst_graph_builder *builder, const struct bert_config *c,
                               uint32_t tokens, uint32_t segments, uint32_t *ret_table)
{
    uint64_t words[2] = {(uint64_t)c->vocab, (uint64_t)c->dim};
    uint64_t positions[2] = {(uint64_t)c->context, (uint64_t)c->dim};
    uint64_t parts[2] = {(uint64_t)c->segments, (uint64_t)c->dim};
    uint32_t param[2], x, s;
    struct pst_op op = {.kind = PST_OP_EMBEDDING,
                        .name = "embeddings.words",
                        .n_in = 1,
                        .in = &tokens,
                        .n_param = 2,
                        .param = param};

    param[0] = pst_graph_param(builder, "embeddings.words.weight", 2, words, PST_INIT_NORMAL,
                               DEVIATION, true);
    param[1] = pst_graph_param(builder, "embeddings.positions.weight", 2, positions,
                               PST_INIT_NORMAL, DEVIATION, true);
    *ret_table = param[0];
    x = pst_graph_add(builder, &op);
    op.name = "embeddings.segments";
    op.in = &segments;
    op.n_param = 1;
    param[0] = pst_graph_param(builder, "embeddings.segments.weight", 2, parts, PST_INIT_NORMAL,
                               DEVIATION, true);
    s = pst_graph_add(builder, &op);
    x = pst_add_sum(builder, "embeddings.add", x, s);
    x = pst_add_layernorm_eps(builder, "embeddings.norm", x, (uint64_t)c->dim, EPSILON);
    return pst_add_dropout(builder, "embeddings.drop", x, (float)c->dropout);
}

/* A layer with GELU and norm, then the table of words with a bias of its own. */
static uint32_t add_head(struct pst_graph_builder *builder, const struct bert_config *c, uint32_t x,
                         uint32_t table)
{
    uint64_t dim = (uint64_t)c->dim, vocab = (uint64_t)c->vocab;
    uint32_t param[2] = {table, PST_NONE};
    struct pst_op decoder = {.kind = PST_OP_LINEAR,
                             .name = "head.decoder",
                             .n_in = 1,
                             .in = &x,
                             .n_param = 2,
                             .param = param,
                             .transposed = true};

    x = pst_add_linear(builder, "head.transform", x, dim, dim, DEVIATION, true);
    x = pst_add_act(builder, "head.gelu", x, PST_ACT_GELU);
    x = pst_add_layernorm_eps(builder, "head.norm", x, dim, EPSILON);
    param[1] = pst_graph_param(builder, "head.decoder.bias", 1, &vocab, PST_INIT_ZERO, 0.0f, false);
    return pst_graph_add(builder, &decoder);
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct bert_config *c = config;
    uint64_t context = (uint64_t)c->context;
    uint32_t x, segments, targets, table, loss;
    struct pst_graph_builder *builder = NULL;
    char name[PST_NAME_SIZE];
    pst_status status = pst_check_heads(c->dim, c->heads, err);

    if (status == PST_OK) {
        status = pst_graph_builder_create("bert", dtype, &builder, err);
    }
    if (status != PST_OK) {
        return status;
    }
    x = pst_graph_input(builder, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    segments = pst_graph_input(builder, "segments", PST_FIELD_SEGMENT, PST_I32, 1, &context);
    targets = pst_graph_input(builder, "targets", PST_FIELD_MASKED, PST_I32, 1, &context);
    x = add_embeddings(builder, c, x, segments, &table);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(builder, i + 1);
        snprintf(name, sizeof name, "encoder.%u", i);
        x = add_block(builder, name, x, c);
    }
    pst_graph_layer(builder, (uint32_t)c->layers + 1);
    x = add_head(builder, c, x, table);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_bert = {
    .id = "bert",
    .summary = "BERT: bidirectional Transformer that finds hidden tokens",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct bert_config),
    .build = build,
};
