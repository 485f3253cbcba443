/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files that write the graph share. A value's tensor has the value's elements
 * in their order, and may have more or fewer axes of length 1; or it is an image, [height, width,
 * channels] of [1, channels, height, width].
 */
#ifndef PST_MODELS_ONNX_EMIT_H
#define PST_MODELS_ONNX_EMIT_H

#include "block.h"
#include "onnx.h"

struct shape {
    uint32_t rank;
    uint64_t dims[ONNX_RANK];
};

struct made {
    uint32_t tensor; /* PST_NONE: not yet */
    struct shape shape;
    bool image;
};

struct known_param {
    struct onnx_param param;
    uint32_t index; /* in the graph */
};

struct onnx_emitter {
    struct onnx_model *model;
    struct pst_model *m;
    uint8_t *axis;      /* of the batch, by value; ONNX_RANK: none */
    struct made *made;  /* by value */
    const bool *needed; /* by value: somebody reads it */
    struct known_param *params;
    uint32_t n_params;
    struct pst_names names; /* of operators */
    const char *layer;      /* what the names of its parameters begin with, or NULL */
    size_t layer_length;
    uint32_t n_layers;
    const struct onnx_node *node; /* that is written */
    const char *op_name;          /* of the operator that came last */
    struct onnx_origins *origins;
    pst_status status; /* the first failure, with its error */
    struct pst_error error;
};

/* The value of input i of a match, not its tensor. */
static inline const struct onnx_value *emit_in(const struct onnx_emitter *e,
                                               const struct onnx_match *match, uint32_t i)
{
    return &e->model->values[match->in[i]];
}

/* Keeps the first failure: the node cannot be written, and why. */
void emit_fail(struct onnx_emitter *e, const char *why);
/* An operator of the node that is written; inputs and parameters as given. Its result. */
uint32_t emit_op(struct onnx_emitter *e, const char *suffix, struct pst_op op, const uint32_t *in,
                 uint32_t n_in, const uint32_t *param, uint32_t n_param);
/* The parameter in the graph. */
uint32_t emit_param(struct onnx_emitter *e, const struct onnx_param *param, bool decay);

/* Without the first `n` axes. */
struct shape emit_behind(const struct onnx_value *value, uint32_t n);
/* Without leading axes of length 1, at most `most` of them. */
struct shape emit_stripped(const struct onnx_value *value, uint32_t most);
/* [..., C]: the last axis is there. */
struct shape emit_rows(const struct onnx_value *value);

/* A constant with the type of a value and those numbers; NULL: they are not known, which is
   refused. */
uint32_t emit_constant(struct onnx_emitter *e, const struct onnx_value *value,
                       const struct onnx_data *data, struct shape shape);
/* The tensor of a value in that shape, made where it is a parameter or a constant. */
uint32_t emit_get(struct onnx_emitter *e, const struct onnx_value *value, struct shape shape);
uint32_t emit_image(struct onnx_emitter *e, const struct onnx_value *value);
/* Returns true if the tensor of a value of four axes is an image. */
bool emit_is_image(const struct onnx_emitter *e, const struct onnx_value *value);
struct shape emit_image_shape(const struct onnx_value *value);
uint32_t emit_reshape(struct onnx_emitter *e, uint32_t tensor, struct shape from, struct shape to);
/* The axes of x in that order. */
uint32_t emit_permute(struct onnx_emitter *e, uint32_t x, struct shape from, const uint32_t *order);

/* Output i of the node is that tensor. */
void emit_put(struct onnx_emitter *e, uint32_t i, uint32_t tensor, struct shape shape);
void emit_put_image(struct onnx_emitter *e, uint32_t i, uint32_t tensor);
/* Refuses what works along the axis of the samples. */
bool emit_apart(struct onnx_emitter *e, const struct onnx_value *value, uint32_t axis);

#endif
