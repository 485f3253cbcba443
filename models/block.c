/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GPT2_DEVIATION 0.02f
#define GPT2_EPSILON   1e-5f

size_t pst_enter(struct pst_model *m, const char *format, ...)
{
    size_t before = strlen(m->scope), at = before + (before > 0);
    va_list args;

    if (at + 1 < sizeof m->scope) {
        va_start(args, format);
        vsnprintf(m->scope + at, sizeof m->scope - at, format, args);
        va_end(args);
        m->scope[before] = before > 0 && m->scope[at] != '\0' ? '.' : m->scope[before];
    }
    return before;
}

void pst_leave(struct pst_model *m, size_t before)
{
    m->scope[before] = '\0';
}

uint32_t pst_add_op(struct pst_model *m, const char *name, const struct pst_op *op)
{
    size_t before = pst_enter(m, "%s", name);
    struct pst_op named = *op;
    uint32_t result;

    named.name = m->scope;
    result = pst_graph_add(m->graph, &named);
    pst_leave(m, before);
    return result;
}

uint32_t pst_add_param(struct pst_model *m, const char *name, uint32_t rank, const uint64_t *dims,
                       uint32_t init, float value, bool decay)
{
    size_t before = pst_enter(m, "%s", name);
    uint32_t param = pst_graph_param(m->graph, m->scope, rank, dims, init, value, decay);

    pst_leave(m, before);
    return param;
}

uint32_t pst_add_vector(struct pst_model *m, const char *name, int64_t n, uint32_t init,
                        float value)
{
    uint64_t width = (uint64_t)n;

    return pst_add_param(m, name, 1, &width, init, value, false);
}

uint32_t pst_add_matrix(struct pst_model *m, const char *name, int64_t rows, int64_t columns,
                        uint32_t init, float value, bool decay)
{
    uint64_t dims[2] = {(uint64_t)rows, (uint64_t)columns};

    return pst_add_param(m, name, 2, dims, init, value, decay);
}

uint32_t pst_add_input(struct pst_model *m, const char *name, uint32_t field, uint32_t dtype,
                       int64_t n)
{
    uint64_t width = (uint64_t)n;

    return pst_graph_input(m->graph, name, field, dtype, 1, &width);
}

pst_status pst_check_pad_token(int64_t pad_token, int64_t vocab, struct pst_error *err)
{
    return pad_token < vocab ? PST_OK
                             : pst_fail(err, PST_ERR_CONFIG, "config.value",
                                        "\"pad_token\" in [model] is %lld, but vocab = %lld",
                                        (long long)pad_token, (long long)vocab);
}

pst_status pst_check_heads(int64_t dim, int64_t heads, struct pst_error *err)
{
    return dim % heads == 0 ? PST_OK
                            : pst_fail(err, PST_ERR_CONFIG, "config.value",
                                       "\"heads\" in [model] is %lld, which does not divide dim = "
                                       "%lld",
                                       (long long)heads, (long long)dim);
}

/* --- layers ----------------------------------------------------------------------------------- */

uint32_t pst_add_linear(struct pst_model *m, const char *name, uint32_t x, int64_t in, int64_t out,
                        float deviation, bool bias)
{
    size_t before = pst_enter(m, "%s", name);
    uint32_t param[2], y;

    param[0] = pst_add_matrix(m, "weight", in, out, PST_INIT_NORMAL, deviation, true);
    param[1] = bias ? pst_add_vector(m, "bias", out, PST_INIT_ZERO, 0.0f) : PST_NONE;
    y = pst_add_op(
        m, "",
        &(struct pst_op){.kind = PST_OP_LINEAR, .n_in = 1, .in = &x, .n_param = 2, .param = param});
    pst_leave(m, before);
    return y;
}

uint32_t pst_add_tied_head(struct pst_model *m, const char *name, uint32_t x, uint32_t table,
                           uint32_t bias)
{
    uint32_t param[2] = {table, bias};

    return pst_add_op(m, name,
                      &(struct pst_op){.kind = PST_OP_LINEAR,
                                       .n_in = 1,
                                       .in = &x,
                                       .n_param = bias == PST_NONE ? 1 : 2,
                                       .param = param,
                                       .transposed = true});
}

/* A norm with a gain and a shift for each of `width` values. */
static uint32_t add_norm(struct pst_model *m, const char *name, uint32_t x, int64_t width,
                         struct pst_op op)
{
    size_t before = pst_enter(m, "%s", name);
    uint32_t param[2], y;

    param[0] = pst_add_vector(m, "weight", width, PST_INIT_ONE, 0.0f);
    param[1] = pst_add_vector(m, "bias", width, PST_INIT_ZERO, 0.0f);
    op.n_in = 1;
    op.in = &x;
    op.n_param = 2;
    op.param = param;
    y = pst_add_op(m, "", &op);
    pst_leave(m, before);
    return y;
}

uint32_t pst_add_layernorm(struct pst_model *m, const char *name, uint32_t x, int64_t width,
                           float eps)
{
    return add_norm(m, name, x, width, (struct pst_op){.kind = PST_OP_LAYERNORM, .eps = eps});
}

uint32_t pst_add_rmsnorm(struct pst_model *m, const char *name, uint32_t x, int64_t width,
                         float eps, float gain)
{
    size_t before = pst_enter(m, "%s", name);
    uint32_t param = pst_add_vector(m, "weight", width, PST_INIT_CONSTANT, gain);

    x = pst_add_op(m, "",
                   &(struct pst_op){.kind = PST_OP_RMSNORM,
                                    .n_in = 1,
                                    .in = &x,
                                    .n_param = 1,
                                    .param = &param,
                                    .eps = eps});
    pst_leave(m, before);
    return x;
}

uint32_t pst_add_batchnorm(struct pst_model *m, const char *name, uint32_t x, int64_t channels)
{
    return add_norm(m, name, x, channels,
                    (struct pst_op){.kind = PST_OP_BATCHNORM, .eps = 1e-5f, .momentum = 0.1f});
}

uint32_t pst_add_relu_stack(struct pst_model *m, const char *name, uint32_t x, int64_t in,
                            int64_t width, int64_t layers)
{
    for (uint32_t i = 0; i < (uint32_t)layers; i++) {
        size_t before = pst_enter(m, "%s.%u", name, i);

        x = pst_add_linear(m, "", x, in, width, sqrtf(2.0f / (float)in), false);
        x = pst_add_act(m, "relu", x, PST_ACT_RELU);
        pst_leave(m, before);
        in = width;
    }
    return x;
}

uint32_t pst_add_act(struct pst_model *m, const char *name, uint32_t x, uint32_t act)
{
    return pst_add_op(m, name,
                      &(struct pst_op){.kind = PST_OP_ACT, .n_in = 1, .in = &x, .act = act});
}

uint32_t pst_add_dropout(struct pst_model *m, const char *name, uint32_t x, double p)
{
    struct pst_op op = {.kind = PST_OP_DROPOUT, .n_in = 1, .in = &x, .p = (float)p};

    return op.p > 0.0f ? pst_add_op(m, name, &op) : x;
}

uint32_t pst_add_sum(struct pst_model *m, const char *name, uint32_t a, uint32_t b)
{
    uint32_t in[2] = {a, b};

    return pst_add_op(m, name, &(struct pst_op){.kind = PST_OP_ADD, .n_in = 2, .in = in});
}

uint32_t pst_add_concat(struct pst_model *m, const char *name, const uint32_t *in, uint32_t n)
{
    return pst_add_op(m, name, &(struct pst_op){.kind = PST_OP_CONCAT, .n_in = n, .in = in});
}

struct pst_model_ends pst_add_loss(struct pst_model *m, uint32_t kind, uint32_t logits,
                                   uint32_t targets)
{
    uint32_t in[2] = {logits, targets};
    uint32_t loss = pst_add_op(m, "loss", &(struct pst_op){.kind = kind, .n_in = 2, .in = in});

    return (struct pst_model_ends){logits, loss};
}

/* --- Transformers ----------------------------------------------------------------------------- */

uint32_t pst_add_embedding(struct pst_model *m, uint32_t tokens, int64_t vocab, int64_t context,
                           int64_t dim, uint32_t *ret_table)
{
    uint32_t param[2];

    param[0] = *ret_table =
        pst_add_matrix(m, "wte.weight", vocab, dim, PST_INIT_NORMAL, GPT2_DEVIATION, true);
    param[1] = pst_add_matrix(m, "wpe.weight", context, dim, PST_INIT_NORMAL, GPT2_DEVIATION, true);
    return pst_add_op(
        m, "wte",
        &(struct pst_op){
            .kind = PST_OP_EMBEDDING, .n_in = 1, .in = &tokens, .n_param = 2, .param = param});
}

uint32_t pst_add_attention_part(struct pst_model *m, uint32_t x, const struct pst_parts *p)
{
    x = pst_add_linear(m, p->qkv, x, p->dim, 3 * p->dim, p->qkv_deviation, p->bias);
    x = pst_add_op(m, p->attention,
                   &(struct pst_op){.kind = PST_OP_ATTENTION,
                                    .n_in = 1,
                                    .in = &x,
                                    .heads = (uint32_t)p->heads,
                                    .causal = p->causal});
    return pst_add_linear(m, p->out, x, p->dim, p->dim, p->out_deviation, p->bias);
}

uint32_t pst_add_linear_part(struct pst_model *m, uint32_t x, const struct pst_parts *p)
{
    x = pst_add_linear(m, p->wide, x, p->dim, 4 * p->dim, p->wide_deviation, p->bias);
    x = pst_add_act(m, p->act, x, p->act_kind);
    return pst_add_linear(m, p->narrow, x, 4 * p->dim, p->dim, p->narrow_deviation, p->bias);
}

uint32_t pst_add_block(struct pst_model *m, uint32_t x, int64_t dim, int64_t heads, int64_t layers,
                       bool causal, double dropout)
{
    /* Two residual projections per block write into one stream: keep its variance. */
    float residual = GPT2_DEVIATION / sqrtf(2.0f * (float)layers);
    const struct pst_parts parts = {"attn.c_attn",  "attn",       "attn.c_proj",  "mlp.c_fc",
                                    "mlp.gelu",     "mlp.c_proj", GPT2_DEVIATION, residual,
                                    GPT2_DEVIATION, residual,     PST_ACT_GELU,   true,
                                    causal,         dim,          heads};
    uint32_t h = pst_add_layernorm(m, "ln_1", x, dim, GPT2_EPSILON);

    h = pst_add_attention_part(m, h, &parts);
    h = pst_add_dropout(m, "attn.drop", h, dropout);
    x = pst_add_sum(m, "attn.add", x, h);
    h = pst_add_layernorm(m, "ln_2", x, dim, GPT2_EPSILON);
    h = pst_add_linear_part(m, h, &parts);
    h = pst_add_dropout(m, "mlp.drop", h, dropout);
    return pst_add_sum(m, "mlp.add", x, h);
}

/* --- images ----------------------------------------------------------------------------------- */

uint32_t pst_add_conv(struct pst_model *m, const char *name, uint32_t x, int64_t in, int64_t out,
                      const struct pst_window *window)
{
    const uint32_t *kernel = window->kernel;
    uint64_t dims[4] = {kernel[0], kernel[1], (uint64_t)in, (uint64_t)out};
    float taps = (float)kernel[0] * (float)kernel[1];
    size_t before = pst_enter(m, "%s", name);
    uint32_t param = pst_add_param(m, "weight", 4, dims, PST_INIT_NORMAL,
                                   sqrtf(2.0f / (taps * (float)out)), true);
    struct pst_op op = {.kind = PST_OP_CONV2D, .n_in = 1, .in = &x, .n_param = 1, .param = &param};

    memcpy(op.kernel, window->kernel, sizeof op.kernel);
    memcpy(op.stride, window->stride, sizeof op.stride);
    memcpy(op.pad, window->pad, sizeof op.pad);
    x = pst_add_op(m, "", &op);
    pst_leave(m, before);
    return x;
}

uint32_t pst_add_pool(struct pst_model *m, const char *name, uint32_t kind, uint32_t x,
                      uint32_t kernel, uint32_t stride)
{
    uint32_t pad = kernel == 3 ? 1 : 0;

    return pst_add_op(m, name,
                      &(struct pst_op){.kind = kind,
                                       .n_in = 1,
                                       .in = &x,
                                       .kernel = {kernel, kernel},
                                       .stride = {stride, stride},
                                       .pad = {pad, pad}});
}

struct pst_model_ends pst_add_classifier(struct pst_model *m, int64_t width, int64_t classes,
                                         uint32_t x, uint32_t targets)
{
    float bound = sqrtf(1.0f / (float)width);
    uint32_t param[2];

    x = pst_add_op(m, "avgpool", &(struct pst_op){.kind = PST_OP_AVGPOOL, .n_in = 1, .in = &x});
    param[0] = pst_add_matrix(m, "fc.weight", width, classes, PST_INIT_UNIFORM, bound, true);
    param[1] = pst_add_vector(m, "fc.bias", classes, PST_INIT_UNIFORM, bound);
    x = pst_add_op(
        m, "fc",
        &(struct pst_op){.kind = PST_OP_LINEAR, .n_in = 1, .in = &x, .n_param = 2, .param = param});
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}
