/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files that infer shapes share.
 */
#ifndef PST_MODELS_ONNX_INFER_H
#define PST_MODELS_ONNX_INFER_H

#include "onnx.h"

#define MAX_ELEMS (1ull << 40) /* of one value */

/* One inference: so that the rules stay short. */
struct rule {
    struct onnx_model *model;
    const struct onnx_node *node;
    const struct onnx_value *x; /* the first input, or NULL */
    struct onnx_value *y;       /* the first output */
    struct pst_error *err;
};

typedef pst_status rule_fn(const struct rule *c);

/* Refuses a node: why, with the shapes that it reads. */
pst_status infer_bad(const struct rule *c, const char *why);
/* Types and shapes of what the node makes. */
rule_fn infer_node_shape;
/* Windows over images (window.c). */
rule_fn infer_pool, infer_global_pool, infer_conv_transpose;
/* Images in another size (resize.c). */
rule_fn infer_resize;

#endif
