/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 (Radford et al.: "Language models are unsupervised multitask learners", 2019): pre-norm
 * Transformer blocks, learned positions, parameter names and layout of the published weights. With
 * 12 layers of width 768, 12 heads, context 1024 and vocabulary 50257 it is the 124M model.
 */
#include "block.h"

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
              "Vocabulary size; 256 for bytes."),
    PST_PARAM(struct gpt_config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Dropout probability of embeddings and block outputs in training."),
    PST_PARAM(struct gpt_config, tied, PST_PARAM_BOOL, "true", NULL,
              "Use the token embedding table as the weights of the head, too."),
};

static pst_status check(const void *config, struct pst_error *err)
{
    const struct gpt_config *c = config;

    return pst_check_heads(c->dim, c->heads, err);
}

/* Logits [context, vocab]; the head shares the token table unless told otherwise. */
static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct gpt_config *c = config;
    uint32_t x = pst_add_input(m, "tokens", PST_FIELD_X, PST_I32, c->context), table;
    uint32_t targets = pst_add_input(m, "targets", PST_FIELD_TARGET, PST_I32, c->context);

    x = pst_add_embedding(m, x, c->vocab, c->context, c->dim, &table);
    x = pst_add_dropout(m, "drop", x, c->dropout);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(m->graph, i + 1);
        pst_enter(m, "h.%u", i);
        x = pst_add_block(m, x, c->dim, c->heads, c->layers, true, c->dropout);
        pst_leave(m, 0);
    }
    pst_graph_layer(m->graph, (uint32_t)c->layers + 1);
    x = pst_add_layernorm(m, "ln_f", x, c->dim, 1e-5f);
    x = c->tied ? pst_add_tied_head(m, "lm_head", x, table, PST_NONE)
                : pst_add_linear(m, "lm_head", x, c->dim, c->vocab, 0.02f, false);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(gpt, "gpt", "GPT-2: causal Transformer language model", struct gpt_config, check);
