/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files that recognise groups of nodes share.
 */
#ifndef PST_MODELS_ONNX_MATCH_H
#define PST_MODELS_ONNX_MATCH_H

#include "onnx.h"

/* The node of this operator that made a value, before nodes that change nothing; NULL: another. */
const struct onnx_node *match_maker(struct onnx_model *model, struct onnx_value *value,
                                    uint32_t op);
/* A parameter of n numbers in a row. */
bool match_vector(const struct onnx_model *model, const struct onnx_value *value, uint64_t n,
                  struct onnx_param *ret_param);
/* One more tensor that the match reads. */
void match_reads(const struct onnx_model *model, struct onnx_match *match,
                 const struct onnx_value *value);
/* gelu, of either form. */
void match_become_gelu(struct onnx_match *match, bool by_tanh);

typedef bool match_fn(struct onnx_model *model, struct onnx_match *match);

/* Norms, by their operator or their parts, and gelu by its parts (norms.c). */
match_fn match_norm_op, match_rmsnorm, match_layernorm_parts, match_gelu;
/* Attention between the linear layers that make q, k and v and the one that reads its result. */
match_fn match_attention;
/* A softmax with a guard around it that nothing in a graph needs (attention.c). */
match_fn match_guard;

#endif
