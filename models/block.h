/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces that the models share. Each adds operators and the parameters that they need
 * ("name.weight", "name.bias") and returns the result; after a failure of the graph builder all of
 * them return PST_NONE. Widths come from configs, whose integers are signed.
 */
#ifndef PST_MODELS_BLOCK_H
#define PST_MODELS_BLOCK_H

#include "models/builder.h"

#define PST_NAME_SIZE 128

/* A model while it is built. */
struct pst_model {
    struct pst_graph_builder *graph;
    char scope[PST_NAME_SIZE];  /* stands with a dot before every name of an operator or parameter;
                                   a name "" is the scope itself */
    struct pst_initial initial; /* where values begin that no seed gives; the graph gets it */
    struct pst_costed *costed;  /* of nodes that have no operators; the graph gets it */
};

/* Names that follow are in this scope within the one that there is; returns what pst_leave takes to
   end it. */
size_t pst_enter(struct pst_model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pst_leave(struct pst_model *m, size_t before);

/* An operator of that name, else as `op` says. */
uint32_t pst_add_op(struct pst_model *m, const char *name, const struct pst_op *op);
uint32_t pst_add_param(struct pst_model *m, const char *name, uint32_t rank, const uint64_t *dims,
                       uint32_t init, float value, bool decay);
uint32_t pst_add_vector(struct pst_model *m, const char *name, int64_t n, uint32_t init,
                        float value);
uint32_t pst_add_matrix(struct pst_model *m, const char *name, int64_t rows, int64_t columns,
                        uint32_t init, float value, bool decay);
/* An input, or the targets, that is a vector; its name has no scope. */
uint32_t pst_add_input(struct pst_model *m, const char *name, uint32_t field, uint32_t dtype,
                       int64_t n);

/* config.value unless heads divides dim. */
pst_status pst_check_heads(int64_t dim, int64_t heads, struct pst_error *err);

/* The row of "pad_token" in the table of parameters; -1: there is no such token. It is torch's
   padding_idx: lookups of this token give its row no gradient. */
#define PST_PAD_TOKEN(config)                                                                      \
    PST_PARAM(config, pad_token, PST_PARAM_INT, "-1", "-1..16777215",                              \
              "Token whose embedding gets no gradient from lookups, the padding; -1: none.")
/* config.value unless the vocabulary has that token. */
pst_status pst_check_pad_token(int64_t pad_token, int64_t vocab, struct pst_error *err);

/* x [..., in] -> [..., out]; weight normal with `deviation`, bias 0 where wanted. */
uint32_t pst_add_linear(struct pst_model *m, const char *name, uint32_t x, int64_t in, int64_t out,
                        float deviation, bool bias);
/* To the words of a table that embeds them, too; bias: PST_NONE for none. */
uint32_t pst_add_tied_head(struct pst_model *m, const char *name, uint32_t x, uint32_t table,
                           uint32_t bias);
uint32_t pst_add_layernorm(struct pst_model *m, const char *name, uint32_t x, int64_t width,
                           float eps);
/* Over the last axis; every element of the gain begins with that value. */
uint32_t pst_add_rmsnorm(struct pst_model *m, const char *name, uint32_t x, int64_t width,
                         float eps, float gain);
/* `layers` linear layers without bias, a relu after each: "name.0", "name.1", ... */
uint32_t pst_add_relu_stack(struct pst_model *m, const char *name, uint32_t x, int64_t in,
                            int64_t width, int64_t layers);
uint32_t pst_add_act(struct pst_model *m, const char *name, uint32_t x, uint32_t act);
/* Without effect (and without operator) for p = 0. */
uint32_t pst_add_dropout(struct pst_model *m, const char *name, uint32_t x, double p);
uint32_t pst_add_sum(struct pst_model *m, const char *name, uint32_t a, uint32_t b);
uint32_t pst_add_concat(struct pst_model *m, const char *name, const uint32_t *in, uint32_t n);
/* The loss, of that kind. */
struct pst_model_ends pst_add_loss(struct pst_model *m, uint32_t kind, uint32_t logits,
                                   uint32_t targets);

/* GPT-2's token and position tables; tokens [context]. */
uint32_t pst_add_embedding(struct pst_model *m, uint32_t tokens, int64_t vocab, int64_t context,
                           int64_t dim, uint32_t *ret_table);

/* The two parts of a Transformer block, without norms, dropout and residuals: attention between its
   projections, and two linear layers around an activation, four times as wide between. */
struct pst_parts {
    const char *qkv, *attention, *out, *wide, *act, *narrow; /* names */
    float qkv_deviation, out_deviation, wide_deviation, narrow_deviation;
    uint32_t act_kind;
    bool bias, causal;
    int64_t dim, heads;
};
uint32_t pst_add_attention_part(struct pst_model *m, uint32_t x, const struct pst_parts *parts);
uint32_t pst_add_linear_part(struct pst_model *m, uint32_t x, const struct pst_parts *parts);

/* A pre-norm Transformer block as GPT-2 has it; layers: of the whole stack, for the residual
   projections' deviation. */
uint32_t pst_add_block(struct pst_model *m, uint32_t x, int64_t dim, int64_t heads, int64_t layers,
                       bool causal, double dropout);

/* --- images ----------------------------------------------------------------------------------- */

struct pst_window {
    uint32_t kernel[2], stride[2], pad[2]; /* height, width */
};

/* Convolution without bias, weights by He et al. (ICCV 2015) for what leaves it. */
uint32_t pst_add_conv(struct pst_model *m, const char *name, uint32_t x, int64_t in, int64_t out,
                      const struct pst_window *window);
uint32_t pst_add_batchnorm(struct pst_model *m, const char *name, uint32_t x, int64_t channels);
/* Square; a window of 3 has a border of 1. */
uint32_t pst_add_pool(struct pst_model *m, const char *name, uint32_t kind, uint32_t x,
                      uint32_t kernel, uint32_t stride);
/* Mean over the image "avgpool", linear layer to the classes "fc", initialised as torch.nn.Linear
   is; cross entropy. */
struct pst_model_ends pst_add_classifier(struct pst_model *m, int64_t width, int64_t classes,
                                         uint32_t x, uint32_t targets);

/* The model of a file: of its params, which fill that config, and of its function add. */
#define PST_MODEL_BUILDER(name, word, text, config, check_config)                                  \
    const struct pst_model_builder pst_model_##name = {.id = word,                                 \
                                                       .summary = text,                            \
                                                       .params = params,                           \
                                                       .n_params = sizeof params / sizeof *params, \
                                                       .config_size = sizeof(config),              \
                                                       .check = check_config,                      \
                                                       .add = add}

extern const struct pst_model_builder pst_model_mlp, pst_model_gpt, pst_model_llama, pst_model_bert,
    pst_model_t5, pst_model_resnet, pst_model_amoebanet, pst_model_mmt, pst_model_dlrm,
    pst_model_candle, pst_model_onnx, pst_model_costed;

#endif
