/* SPDX-License-Identifier: Apache-2.0
 *
 * The family of Llama (Touvron et al.: "Llama 2: open foundation and fine-tuned chat models", 2023;
 * Grattafiori et al.: "The Llama 3 herd of models", 2024): pre-norm blocks with RMS norms, rotary
 * positions (Su et al.: "RoFormer", 2021), fewer heads of keys than of queries, and SwiGLU
 * (Shazeer: "GLU variants improve Transformer", 2020). A sliding window makes it Mistral (Jiang et
 * al., 2023), biases of queries, keys and values Qwen2 (Yang et al., 2024), norms of queries and
 * keys Qwen3 (Yang et al., 2025). Attributes and initial values are those of config.json and of
 * transformers: all matrices normal with one deviation. What the published weights have side by
 * side is one matrix here: queries, keys and values; gate and up.
 */
#include "block.h"

#define DEVIATION 0.02f

struct llama_config {
    int64_t layers, dim, heads, kv_heads, head_dim, ff, context, vocab, window, pad_token;
    int64_t rope_original_context, experts, experts_per_token;
    double eps, capacity, aux_loss, rope_theta, rope_factor, rope_low_freq_factor,
        rope_high_freq_factor;
    uint32_t rope_scaling; /* enum pst_rope_scaling */
    bool tied, qkv_bias, qk_norm, normalize;
};

static const struct pst_param params[] = {
    PST_PARAM(struct llama_config, layers, PST_PARAM_INT, "4", "1..65536",
              "Number of Transformer blocks."),
    PST_PARAM(struct llama_config, dim, PST_PARAM_INT, "128", "1..1048576",
              "Width of the residual stream."),
    PST_PARAM(struct llama_config, heads, PST_PARAM_INT, "4", "1..65536",
              "Attention heads of queries."),
    PST_PARAM(struct llama_config, kv_heads, PST_PARAM_INT, "0", "0..65536",
              "Heads of keys and values; must divide heads; 0: as many as heads."),
    PST_PARAM(struct llama_config, head_dim, PST_PARAM_INT, "0", "0..65536",
              "Width of a head, an even number; 0: dim / heads."),
    PST_PARAM(struct llama_config, ff, PST_PARAM_INT, "384", "1..16777216",
              "Width of the feed-forward parts, or of one expert."),
    PST_PARAM(struct llama_config, context, PST_PARAM_INT, "128", "1..1048576",
              "Tokens of one sample."),
    PST_PARAM(struct llama_config, vocab, PST_PARAM_INT, "256", "1..16777216",
              "Vocabulary size; 256 for bytes."),
    PST_PAD_TOKEN(struct llama_config),
    PST_PARAM(struct llama_config, tied, PST_PARAM_BOOL, "false", NULL,
              "Use the token embedding table as the weights of the head, too."),
    PST_PARAM(struct llama_config, eps, PST_PARAM_FLOAT, "1e-5", "1e-30..1",
              "Number added to the mean square in RMS norms."),
    PST_PARAM(struct llama_config, window, PST_PARAM_INT, "0", "0..1048576",
              "Tokens that a token attends to, itself included; 0: all up to itself."),
    PST_PARAM(struct llama_config, qkv_bias, PST_PARAM_BOOL, "false", NULL,
              "Queries, keys and values have biases."),
    PST_PARAM(struct llama_config, qk_norm, PST_PARAM_BOOL, "false", NULL,
              "Every head of queries and keys has an RMS norm."),
    PST_PARAM(struct llama_config, experts, PST_PARAM_INT, "0", "0..4096",
              "Experts of each feed-forward part, all on the device of their stage; 0: no router."),
    PST_PARAM(struct llama_config, experts_per_token, PST_PARAM_INT, "2", "1..4096",
              "Experts per token; at most `experts`."),
    PST_PARAM(struct llama_config, normalize, PST_PARAM_BOOL, "true", NULL,
              "The weights of a token's experts are scaled to sum 1."),
    PST_PARAM(struct llama_config, capacity, PST_PARAM_FLOAT, "0", "0..1e6",
              "Capacity of an expert, as a multiple of its even share of a sample's tokens; 0: "
              "unlimited."),
    PST_PARAM(struct llama_config, aux_loss, PST_PARAM_FLOAT, "0.01", "0..1e6",
              "Weight of the load balancing loss of each router."),
    PST_PARAM(struct llama_config, rope_theta, PST_PARAM_FLOAT, "1e4", "2..1e30",
              "Base of the frequencies of rotary positions."),
    PST_PARAM(struct llama_config, rope_scaling, PST_PARAM_ENUM, "none", "none|linear|llama3",
              "How frequencies are scaled for longer contexts."),
    PST_PARAM(struct llama_config, rope_factor, PST_PARAM_FLOAT, "8", "1..1e6",
              "linear, llama3: divisor of the frequencies."),
    PST_PARAM(struct llama_config, rope_low_freq_factor, PST_PARAM_FLOAT, "1", "1e-6..1e6",
              "llama3: frequencies with fewer rotations than this in the original context are "
              "divided by rope_factor."),
    PST_PARAM(struct llama_config, rope_high_freq_factor, PST_PARAM_FLOAT, "4", "1e-6..1e6",
              "llama3: frequencies with more rotations than this in the original context are not "
              "scaled; above rope_low_freq_factor."),
    PST_PARAM(struct llama_config, rope_original_context, PST_PARAM_INT, "8192", "1..16777216",
              "llama3: original context, in tokens."),
};

static int64_t kv_heads_of(const struct llama_config *c)
{
    return c->kv_heads > 0 ? c->kv_heads : c->heads;
}

static int64_t head_dim_of(const struct llama_config *c)
{
    return c->head_dim > 0 ? c->head_dim : c->dim / c->heads;
}

static pst_status check(const void *config, struct pst_error *err)
{
    const struct llama_config *c = config;

    if (c->heads % kv_heads_of(c) != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"kv_heads\" in [model] is %lld, which does not divide heads = %lld",
                        (long long)c->kv_heads, (long long)c->heads);
    }
    if (c->rope_scaling == PST_ROPE_LLAMA3 && c->rope_high_freq_factor <= c->rope_low_freq_factor) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"rope_high_freq_factor\" in [model] is %g; it must be above "
                        "rope_low_freq_factor = %g",
                        c->rope_high_freq_factor, c->rope_low_freq_factor);
    }
    if (c->experts > 0 && c->experts_per_token > c->experts) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"experts_per_token\" in [model] is %lld; there are %lld experts",
                        (long long)c->experts_per_token, (long long)c->experts);
    }
    if (pst_check_pad_token(c->pad_token, c->vocab, err) != PST_OK ||
        (c->head_dim == 0 && pst_check_heads(c->dim, c->heads, err) != PST_OK)) {
        return PST_ERR_CONFIG;
    }
    if (head_dim_of(c) % 2 != 0) {
        return pst_fail(
            err, PST_ERR_CONFIG, "config.value",
            "\"head_dim\" in [model] is %lld%s; rotary positions rotate pairs, so it must be even",
            (long long)head_dim_of(c), c->head_dim == 0 ? " (dim / heads)" : "");
    }
    return PST_OK;
}

static uint32_t add_rmsnorm(struct pst_model *m, const char *name, uint32_t x,
                            const struct llama_config *c)
{
    return pst_add_rmsnorm(m, name, x, c->dim, (float)c->eps, 1.0f);
}

/* An operator on the heads of packed rows x, with their numbers and no other attributes yet. */
static struct pst_op of_heads(uint32_t kind, const uint32_t *x, const struct llama_config *c)
{
    return (struct pst_op){.kind = kind,
                           .n_in = 1,
                           .in = x,
                           .heads = (uint32_t)c->heads,
                           .kv_heads = (uint32_t)kv_heads_of(c)};
}

static uint32_t add_qknorm(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    struct pst_op op = of_heads(PST_OP_QKNORM, &x, c);
    uint32_t param[2];

    param[0] = pst_add_vector(m, "q_norm.weight", head_dim_of(c), PST_INIT_ONE, 0.0f);
    param[1] = pst_add_vector(m, "k_norm.weight", head_dim_of(c), PST_INIT_ONE, 0.0f);
    op.n_param = 2;
    op.param = param;
    op.eps = (float)c->eps;
    return pst_add_op(m, "qk_norm", &op);
}

static uint32_t add_rotary(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    const struct pst_op op = {.kind = PST_OP_ROTARY,
                              .n_in = 1,
                              .in = &x,
                              .heads = (uint32_t)(c->heads + kv_heads_of(c)),
                              .head_dim = (uint32_t)head_dim_of(c),
                              .rope = {.scaling = c->rope_scaling,
                                       .theta = (float)c->rope_theta,
                                       .factor = (float)c->rope_factor,
                                       .low_freq_factor = (float)c->rope_low_freq_factor,
                                       .high_freq_factor = (float)c->rope_high_freq_factor,
                                       .context = (uint32_t)c->rope_original_context}};

    return pst_add_op(m, "rotary", &op);
}

static uint32_t add_attention(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    const int64_t q = c->heads * head_dim_of(c), kv = kv_heads_of(c) * head_dim_of(c);
    size_t before = pst_enter(m, "self_attn");
    struct pst_op op;

    x = pst_add_linear(m, "qkv", x, c->dim, q + 2 * kv, DEVIATION, c->qkv_bias);
    x = c->qk_norm ? add_qknorm(m, x, c) : x;
    x = add_rotary(m, x, c);
    op = of_heads(PST_OP_ATTENTION, &x, c);
    op.causal = true;
    op.window = (uint32_t)c->window;
    x = pst_add_op(m, "", &op);
    x = pst_add_linear(m, "o_proj", x, q, c->dim, DEVIATION, false);
    pst_leave(m, before);
    return x;
}

/* The router's weights [context, experts] of tokens x. */
static uint32_t add_router(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    x = pst_add_linear(m, "gate", x, c->dim, c->experts, DEVIATION, false);
    return pst_add_op(m, "router",
                      &(struct pst_op){.kind = PST_OP_ROUTER,
                                       .n_in = 1,
                                       .in = &x,
                                       .experts_per_token = (uint32_t)c->experts_per_token,
                                       .normalize = c->normalize,
                                       .capacity = (float)c->capacity,
                                       .aux_loss = (float)c->aux_loss});
}

static uint32_t add_experts(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    const uint64_t n = (uint64_t)c->experts, dim = (uint64_t)c->dim, ff = (uint64_t)c->ff;
    const uint64_t up[3] = {n, dim, 2 * ff}, down[3] = {n, ff, dim};
    const uint32_t in[2] = {x, add_router(m, x, c)};
    uint32_t param[2];

    param[0] = pst_add_param(m, "experts.gate_up.weight", 3, up, PST_INIT_NORMAL, DEVIATION, true);
    param[1] =
        pst_add_param(m, "experts.down_proj.weight", 3, down, PST_INIT_NORMAL, DEVIATION, true);
    return pst_add_op(m, "experts",
                      &(struct pst_op){.kind = PST_OP_EXPERTS,
                                       .n_in = 2,
                                       .in = in,
                                       .n_param = 2,
                                       .param = param,
                                       .act = PST_ACT_SILU,
                                       .experts_per_token = (uint32_t)c->experts_per_token});
}

static uint32_t add_feed_forward(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    const size_t before = pst_enter(m, "mlp");

    if (c->experts > 0) {
        x = add_experts(m, x, c);
    } else {
        x = pst_add_linear(m, "gate_up", x, c->dim, 2 * c->ff, DEVIATION, false);
        x = pst_add_op(
            m, "swiglu",
            &(struct pst_op){.kind = PST_OP_GLU, .n_in = 1, .in = &x, .act = PST_ACT_SILU});
        x = pst_add_linear(m, "down_proj", x, c->ff, c->dim, DEVIATION, false);
    }
    pst_leave(m, before);
    return x;
}

static uint32_t add_block(struct pst_model *m, uint32_t x, const struct llama_config *c)
{
    uint32_t h = add_rmsnorm(m, "input_layernorm", x, c);

    x = pst_add_sum(m, "self_attn.add", x, add_attention(m, h, c));
    h = add_rmsnorm(m, "post_attention_layernorm", x, c);
    return pst_add_sum(m, "mlp.add", x, add_feed_forward(m, h, c));
}

/* Logits [context, vocab]. */
static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct llama_config *c = config;
    uint32_t x = pst_add_input(m, "tokens", PST_FIELD_X, PST_I32, c->context), table;
    uint32_t targets = pst_add_input(m, "targets", PST_FIELD_TARGET, PST_I32, c->context);

    table = pst_add_matrix(m, "embed_tokens.weight", c->vocab, c->dim, PST_INIT_NORMAL, DEVIATION,
                           true);
    x = pst_add_op(m, "embed_tokens",
                   &(struct pst_op){.kind = PST_OP_EMBEDDING,
                                    .n_in = 1,
                                    .in = &x,
                                    .n_param = 1,
                                    .param = &table,
                                    .padding = (uint32_t)(c->pad_token + 1)});
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_graph_layer(m->graph, i + 1);
        pst_enter(m, "layers.%u", i);
        x = add_block(m, x, c);
        pst_leave(m, 0);
    }
    pst_graph_layer(m->graph, (uint32_t)c->layers + 1);
    x = add_rmsnorm(m, "norm", x, c);
    x = c->tied ? pst_add_tied_head(m, "lm_head", x, table, PST_NONE)
                : pst_add_linear(m, "lm_head", x, c->dim, c->vocab, DEVIATION, false);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(llama, "llama",
                  "Llama, Mistral, Qwen, SmolLM: causal Transformer language models",
                  struct llama_config, check);
