/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces that the builders share. Each adds operators under a dotted prefix, creates the parameters
 * it needs ("prefix.weight", "prefix.bias") and returns the result; after a failure of the graph
 * builder all of them return PST_NONE.
 */
#ifndef PST_MODELS_BLOCK_H
#define PST_MODELS_BLOCK_H

#include "graph/builder.h"

#define PST_NAME_SIZE 128

/* "prefix.name", or name alone where prefix is "". text holds PST_NAME_SIZE bytes; returned. */
char *pst_join_name(char *text, const char *prefix, const char *name);

/* config.value unless heads divides dim. */
pst_status pst_check_heads(int64_t dim, int64_t heads, struct pst_error *err);

/* x [..., in] -> [..., out]; weight normal with `deviation`, bias 0 where wanted. */
uint32_t pst_add_linear(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                        uint64_t in, uint64_t out, float deviation, bool bias);
uint32_t pst_add_layernorm(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                           uint64_t width);
/* The same with another eps than 1e-5. */
uint32_t pst_add_layernorm_eps(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                               uint64_t width, float eps);
/* `layers` linear layers without bias, a relu behind each: "prefix.0", "prefix.1", ... */
uint32_t pst_add_relu_stack(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                            uint64_t in, uint64_t width, uint32_t layers);
uint32_t pst_add_act(struct pst_graph_builder *builder, const char *name, uint32_t x, uint32_t act);
/* Without effect (and without operator) for p = 0. */
uint32_t pst_add_dropout(struct pst_graph_builder *builder, const char *name, uint32_t x, float p);
uint32_t pst_add_sum(struct pst_graph_builder *builder, const char *name, uint32_t a, uint32_t b);
uint32_t pst_add_cross_entropy(struct pst_graph_builder *builder, uint32_t logits,
                               uint32_t targets);
uint32_t pst_add_mse(struct pst_graph_builder *builder, uint32_t x, uint32_t targets);

/* GPT-2's token and position tables, prefix "" or "branch.0"; tokens [context]. */
uint32_t pst_add_embedding(struct pst_graph_builder *builder, const char *prefix, uint32_t tokens,
                           uint64_t vocab, uint64_t context, uint64_t dim, uint32_t *ret_table);

/* A pre-norm Transformer block as GPT-2 has it; prefix "h.0". */
struct pst_block_config {
    uint64_t dim;
    uint32_t heads,
        layers; /* layers: of the whole stack, for the residual projections' deviation */
    bool causal;
    float dropout;
};
uint32_t pst_add_block(struct pst_graph_builder *builder, const char *prefix, uint32_t x,
                       const struct pst_block_config *config);

/* --- images: image_block.c -------------------------------------------------------------------- */

struct pst_window {
    uint32_t kernel[2], stride[2], pad[2]; /* height, width */
};

/* Convolution "name" without bias, weights by He et al. (ICCV 2015) for what leaves it. */
uint32_t pst_add_conv(struct pst_graph_builder *builder, const char *name, uint32_t x, uint64_t in,
                      uint64_t out, const struct pst_window *window);
uint32_t pst_add_batchnorm(struct pst_graph_builder *builder, const char *name, uint32_t x,
                           uint64_t channels);
/* Mean over the image "avgpool", linear layer to the classes "fc", initialised as torch.nn.Linear
   is. */
uint32_t pst_add_classifier(struct pst_graph_builder *builder, uint64_t width, uint64_t classes,
                            uint32_t x);

extern const struct pst_model_builder pst_model_mlp, pst_model_gpt, pst_model_bert, pst_model_t5,
    pst_model_resnet, pst_model_amoebanet, pst_model_mmt, pst_model_dlrm, pst_model_candle;

#endif
