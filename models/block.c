/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <math.h>
#include <stdio.h>

#define GPT2_DEVIATION 0.02f

char *pst_join_name(char *text, const char *prefix, const char *name)
{
    snprintf(text, PST_NAME_SIZE, "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", name);
    return text;
}

pst_status pst_check_heads(int64_t dim, int64_t heads, struct pst_error *err)
{
    return dim % heads == 0 ? PST_OK
                            : pst_fail(err, PST_ERR_CONFIG, "config.value",
                                       "\"heads\" in [model] is %lld, which does not divide dim = "
                                       "%lld",
                                       (long long)heads, (long long)dim);
}

uint32_t pst_add_linear(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                        uint64_t in, uint64_t out, float deviation, bool bias)
{
    char name[PST_NAME_SIZE];
    uint64_t dims[2] = {in, out};
    uint32_t param[2];
    struct pst_op op = {
        .kind = PST_OP_LINEAR, .name = prefix, .n_in = 1, .in = &x, .n_param = 2, .param = param};

    param[0] = pst_graph_param(builder, pst_join_name(name, prefix, "weight"), 2, dims,
                               PST_INIT_NORMAL, deviation, true);
    param[1] = PST_NONE;
    if (bias) {
        param[1] = pst_graph_param(builder, pst_join_name(name, prefix, "bias"), 1, &out,
                                   PST_INIT_ZERO, 0.0f, false);
    }
    return pst_graph_add(builder, &op);
}

uint32_t pst_add_layernorm(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                           uint64_t width)
{
    return pst_add_layernorm_eps(builder, prefix, x, width, 1e-5f);
}

uint32_t pst_add_layernorm_eps(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                               uint64_t width, float eps)
{
    char name[PST_NAME_SIZE];
    uint32_t param[2];
    struct pst_op op = {.kind = PST_OP_LAYERNORM,
                        .name = prefix,
                        .n_in = 1,
                        .in = &x,
                        .n_param = 2,
                        .param = param,
                        .eps = eps};

    param[0] = pst_graph_param(builder, pst_join_name(name, prefix, "weight"), 1, &width,
                               PST_INIT_ONE, 0.0f, false);
    param[1] = pst_graph_param(builder, pst_join_name(name, prefix, "bias"), 1, &width,
                               PST_INIT_ZERO, 0.0f, false);
    return pst_graph_add(builder, &op);
}

uint32_t pst_add_relu_stack(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                            uint64_t in, uint64_t width, uint32_t layers)
{
    char name[PST_NAME_SIZE];

    for (uint32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "%s.%u", prefix, i);
        x = pst_add_linear(builder, name, x, in, width, sqrtf(2.0f / (float)in), false);
        snprintf(name, sizeof name, "%s.%u.relu", prefix, i);
        x = pst_add_act(builder, name, x, PST_ACT_RELU);
        in = width;
    }
    return x;
}

uint32_t pst_add_act(struct pst_graph_builder *builder, const char *name, uint32_t x, uint32_t act)
{
    struct pst_op op = {.kind = PST_OP_ACT, .name = name, .n_in = 1, .in = &x, .act = act};

    return pst_graph_add(builder, &op);
}

uint32_t pst_add_dropout(struct pst_graph_builder *builder, const char *name, uint32_t x, float p)
{
    struct pst_op op = {.kind = PST_OP_DROPOUT, .name = name, .n_in = 1, .in = &x, .p = p};

    return p > 0.0f ? pst_graph_add(builder, &op) : x;
}

uint32_t pst_add_sum(struct pst_graph_builder *builder, const char *name, uint32_t a, uint32_t b)
{
    uint32_t in[2] = {a, b};
    struct pst_op op = {.kind = PST_OP_ADD, .name = name, .n_in = 2, .in = in};

    return pst_graph_add(builder, &op);
}

uint32_t pst_add_cross_entropy(struct pst_graph_builder *builder, uint32_t logits, uint32_t targets)
{
    uint32_t in[2] = {logits, targets};
    struct pst_op op = {.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in};

    return pst_graph_add(builder, &op);
}

uint32_t pst_add_mse(struct pst_graph_builder *builder, uint32_t x, uint32_t targets)
{
    uint32_t in[2] = {x, targets};
    struct pst_op op = {.kind = PST_OP_MSE, .name = "loss", .n_in = 2, .in = in};

    return pst_graph_add(builder, &op);
}

uint32_t pst_add_embedding(struct pst_graph_builder *builder, const char *prefix, uint32_t tokens,
                           uint64_t vocab, uint64_t context, uint64_t dim, uint32_t *ret_table)
{
    char name[PST_NAME_SIZE];
    uint64_t table[2] = {vocab, dim}, positions[2] = {context, dim};
    uint32_t param[2];
    struct pst_op op = {
        .kind = PST_OP_EMBEDDING, .n_in = 1, .in = &tokens, .n_param = 2, .param = param};

    param[0] = pst_graph_param(builder, pst_join_name(name, prefix, "wte.weight"), 2, table,
                               PST_INIT_NORMAL, GPT2_DEVIATION, true);
    param[1] = pst_graph_param(builder, pst_join_name(name, prefix, "wpe.weight"), 2, positions,
                               PST_INIT_NORMAL, GPT2_DEVIATION, true);
    *ret_table = param[0];
    op.name = pst_join_name(name, prefix, "wte");
    return pst_graph_add(builder, &op);
}

/* ln_1, c_attn, attention, c_proj, residual. */
static uint32_t add_attention(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                              const struct pst_block_config *config, float residual)
{
    char name[PST_NAME_SIZE];
    uint32_t h = pst_add_layernorm(builder, pst_join_name(name, prefix, "ln_1"), x, config->dim);
    struct pst_op attention = {.kind = PST_OP_ATTENTION,
                               .n_in = 1,
                               .in = &h,
                               .heads = config->heads,
                               .causal = config->causal};

    h = pst_add_linear(builder, pst_join_name(name, prefix, "attn.c_attn"), h, config->dim,
                       3 * config->dim, GPT2_DEVIATION, true);
    attention.name = pst_join_name(name, prefix, "attn");
    h = pst_graph_add(builder, &attention);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "attn.c_proj"), h, config->dim,
                       config->dim, residual, true);
    h = pst_add_dropout(builder, pst_join_name(name, prefix, "attn.drop"), h, config->dropout);
    return pst_add_sum(builder, pst_join_name(name, prefix, "attn.add"), x, h);
}

/* ln_2, c_fc, gelu, c_proj, residual. */
static uint32_t add_mlp(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                        const struct pst_block_config *config, float residual)
{
    char name[PST_NAME_SIZE];
    uint32_t h = pst_add_layernorm(builder, pst_join_name(name, prefix, "ln_2"), x, config->dim);

    h = pst_add_linear(builder, pst_join_name(name, prefix, "mlp.c_fc"), h, config->dim,
                       4 * config->dim, GPT2_DEVIATION, true);
    h = pst_add_act(builder, pst_join_name(name, prefix, "mlp.gelu"), h, PST_ACT_GELU);
    h = pst_add_linear(builder, pst_join_name(name, prefix, "mlp.c_proj"), h, 4 * config->dim,
                       config->dim, residual, true);
    h = pst_add_dropout(builder, pst_join_name(name, prefix, "mlp.drop"), h, config->dropout);
    return pst_add_sum(builder, pst_join_name(name, prefix, "mlp.add"), x, h);
}

uint32_t pst_add_block(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                       const struct pst_block_config *config)
{
    /* Two residual projections per block write into one stream: keep its variance. */
    float residual = GPT2_DEVIATION / sqrtf(2.0f * (float)config->layers);

    x = add_attention(builder, prefix, x, config, residual);
    return add_mlp(builder, prefix, x, config, residual);
}
