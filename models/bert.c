/* SPDX-License-Identifier: Apache-2.0
 *
 * BERT (Devlin et al.: "BERT: pre-training of deep bidirectional Transformers for language
 * understanding", NAACL 2019): post-norm blocks that see all tokens, embeddings of words, positions
 * and segments, and a head that names the hidden tokens through the table of words. The classifier
 * of sentence pairs is left out; GELU has its tanh form, or by erf that of the published weights.
 * With 24 layers of width 1024, 16 heads, 512 tokens and 30522 words it is BERT-large.
 */
#include "block.h"

#include "graph/general.h"

#define DEVIATION 0.02f
#define EPSILON   1e-12f

struct bert_config {
    int64_t layers, dim, heads, context, vocab, segments, pad_token;
    double dropout;
    uint32_t gelu; /* enum: tanh | erf */
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
              "Vocabulary size; the last token is the mask."),
    PST_PARAM(struct bert_config, segments, PST_PARAM_INT, "2", "2..65536",
              "Rows of the segment embedding table."),
    PST_PAD_TOKEN(struct bert_config),
    PST_PARAM(struct bert_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Dropout probability of embeddings and block outputs in training."),
    PST_PARAM(struct bert_config, gelu, PST_PARAM_ENUM, "tanh", "tanh|erf",
              "Formula of GELU; erf is slower, and the published weights use it."),
};

static pst_status check(const void *config, struct pst_error *err)
{
    const struct bert_config *c = config;

    pst_status status = pst_check_pad_token(c->pad_token, c->vocab, err);

    return status == PST_OK ? pst_check_heads(c->dim, c->heads, err) : status;
}

/* residual + dropout(h), then its norm. */
static uint32_t add_residual(struct pst_model *m, uint32_t x, uint32_t h,
                             const struct bert_config *c)
{
    h = pst_add_dropout(m, "drop", h, c->dropout);
    h = pst_add_sum(m, "add", x, h);
    return pst_add_layernorm(m, "norm", h, c->dim, EPSILON);
}

static uint32_t add_gelu(struct pst_model *m, const char *name, uint32_t x,
                         const struct bert_config *c)
{
    const struct pst_op exact = {.kind = PST_OP_MAP, .n_in = 1, .in = &x, .map = PST_MAP_GELU};

    return c->gelu == 0 ? pst_add_act(m, name, x, PST_ACT_GELU) : pst_add_op(m, name, &exact);
}

static uint32_t add_feed_forward(struct pst_model *m, uint32_t x, const struct bert_config *c)
{
    x = pst_add_linear(m, "intermediate", x, c->dim, 4 * c->dim, DEVIATION, true);
    x = add_gelu(m, "gelu", x, c);
    return pst_add_linear(m, "output", x, 4 * c->dim, c->dim, DEVIATION, true);
}

static uint32_t add_block(struct pst_model *m, uint32_t x, const struct bert_config *c)
{
    const struct pst_parts parts = {.qkv = "attention.qkv",
                                    .attention = "attention",
                                    .out = "attention.output",
                                    .qkv_deviation = DEVIATION,
                                    .out_deviation = DEVIATION,
                                    .bias = true,
                                    .dim = c->dim,
                                    .heads = c->heads};
    uint32_t h = pst_add_attention_part(m, x, &parts);
    size_t before = pst_enter(m, "attention");

    x = add_residual(m, x, h, c);
    pst_leave(m, before);
    return add_residual(m, x, add_feed_forward(m, x, c), c);
}

static uint32_t add_table(struct pst_model *m, const char *name, int64_t rows,
                          const struct bert_config *c)
{
    return pst_add_matrix(m, name, rows, c->dim, PST_INIT_NORMAL, DEVIATION, true);
}

/* Words and positions, plus segments, normed. */
static uint32_t add_embeddings(struct pst_model *m, const struct bert_config *c, uint32_t tokens,
                               uint32_t segments, uint32_t *ret_table)
{
    size_t before = pst_enter(m, "embeddings");
    uint32_t param[2], x, s;
    struct pst_op op = {
        .kind = PST_OP_EMBEDDING, .n_in = 1, .in = &tokens, .n_param = 2, .param = param};

    param[0] = *ret_table = add_table(m, "words.weight", c->vocab, c);
    param[1] = add_table(m, "positions.weight", c->context, c);
    op.padding = (uint32_t)(c->pad_token + 1);
    x = pst_add_op(m, "words", &op);
    op.padding = 0;
    op.in = &segments;
    op.n_param = 1;
    param[0] = add_table(m, "segments.weight", c->segments, c);
    s = pst_add_op(m, "segments", &op);
    x = pst_add_sum(m, "add", x, s);
    x = pst_add_layernorm(m, "norm", x, c->dim, EPSILON);
    x = pst_add_dropout(m, "drop", x, c->dropout);
    pst_leave(m, before);
    return x;
}

/* A layer with GELU and norm, then the table of words with a bias of its own. */
static uint32_t add_head(struct pst_model *m, const struct bert_config *c, uint32_t x,
                         uint32_t table)
{
    uint32_t bias;

    x = pst_add_linear(m, "head.transform", x, c->dim, c->dim, DEVIATION, true);
    x = add_gelu(m, "head.gelu", x, c);
    x = pst_add_layernorm(m, "head.norm", x, c->dim, EPSILON);
    bias = pst_add_vector(m, "head.decoder.bias", c->vocab, PST_INIT_ZERO, 0.0f);
    return pst_add_tied_head(m, "head.decoder", x, table, bias);
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct bert_config *c = config;
    uint32_t x = pst_add_input(m, "tokens", PST_FIELD_X, PST_I32, c->context), table;
    uint32_t segments = pst_add_input(m, "segments", PST_FIELD_SEGMENT, PST_I32, c->context);
    uint32_t targets = pst_add_input(m, "targets", PST_FIELD_MASKED, PST_I32, c->context);

    x = add_embeddings(m, c, x, segments, &table);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(m->graph, i + 1);
        pst_enter(m, "encoder.%u", i);
        x = add_block(m, x, c);
        pst_leave(m, 0);
    }
    pst_graph_layer(m->graph, (uint32_t)c->layers + 1);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, add_head(m, c, x, table), targets);
}

PST_MODEL_BUILDER(bert, "bert", "BERT: bidirectional Transformer that predicts masked tokens",
                  struct bert_config, check);
