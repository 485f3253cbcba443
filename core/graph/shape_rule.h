/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros and types for the rules of shape inference (shape.c, shape_general.c).
 */
#ifndef PST_GRAPH_SHAPE_RULE_H
#define PST_GRAPH_SHAPE_RULE_H

#include "graph/draft.h"

#include <string.h>

#define BAD(...) pst_fail(err, PST_ERR_CONFIG, "model.shape", __VA_ARGS__)

/* One inference: builder, operator and the answer, so that the rules stay short. */
struct rule {
    const struct pst_graph_builder *builder;
    const struct pst_op *op;
    struct pst_shapes *shapes;
};

static inline const struct pst_tensor *input(const struct rule *c, uint32_t i)
{
    return &c->builder->tensors[c->op->in[i]];
}

static inline uint32_t statistics_dtype(const struct rule *c)
{
    return c->builder->dtype == PST_F64 ? PST_F64 : PST_F32;
}

static inline struct pst_shape *output(const struct rule *c, uint32_t role, uint32_t dtype,
                                       uint32_t rank, const uint64_t *dims)
{
    struct pst_shape *shape = &c->shapes->out[c->shapes->n_out++];

    memset(shape, 0, sizeof *shape);
    shape->role = role;
    shape->dtype = dtype;
    shape->rank = rank;
    if (rank != 0) {
        memcpy(shape->dims, dims, rank * sizeof *dims);
    }
    shape->batched = true;
    return shape;
}

/* The result: model dtype, shape of input 0 unless changed by the caller. */
static inline struct pst_shape *result_like(const struct rule *c)
{
    const struct pst_tensor *x = input(c, 0);

    return output(c, PST_ROLE_ACTIVATION, c->builder->dtype, x->rank, x->dims);
}

static inline pst_status check_dtype(const struct rule *c, uint32_t i, uint32_t dtype,
                                     struct pst_error *err)
{
    static const char *const names[] = {"f32", "bf16", "f64", "i32"};
    uint32_t found = input(c, i)->dtype;

    if (found != dtype) {
        return BAD("%s: input %u has elements of type %s, expected %s", c->op->name, i,
                   names[found], names[dtype]);
    }
    return PST_OK;
}

static inline pst_status check_rank(const struct rule *c, uint32_t least, uint32_t most,
                                    const char *form, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    char text[256];

    if (x->rank < least || x->rank > most) {
        return BAD("%s: input has shape %s, expected %s", c->op->name,
                   pst_shape_text(text, sizeof text, x->rank, x->dims), form);
    }
    return check_dtype(c, 0, c->builder->dtype, err);
}

/* Parameter `slot`, where present, must have exactly these axes. */
static inline pst_status check_param(const struct rule *c, uint32_t slot, uint32_t rank,
                                     const uint64_t *dims, struct pst_error *err)
{
    const struct pst_parameter *param;
    char found[256], expected[256];

    if (slot >= c->op->n_param || c->op->param[slot] == PST_NONE) {
        return PST_OK;
    }
    param = &c->builder->params[c->op->param[slot]];
    if (param->rank != rank || memcmp(param->dims, dims, rank * sizeof *dims) != 0) {
        return BAD("%s: parameter %s has shape %s, expected %s", c->op->name, param->name,
                   pst_shape_text(found, sizeof found, param->rank, param->dims),
                   pst_shape_text(expected, sizeof expected, rank, dims));
    }
    return PST_OK;
}

/* Rank of parameter 0, which every kind that asks has. */
static inline const struct pst_parameter *param0(const struct rule *c)
{
    return &c->builder->params[c->op->param[0]];
}

static inline pst_status check_param_rank(const struct rule *c, uint32_t rank, const char *form,
                                          struct pst_error *err)
{
    const struct pst_parameter *param = param0(c);
    char text[256];

    if (param->rank != rank) {
        return BAD("%s: parameter %s has shape %s, expected %s", c->op->name, param->name,
                   pst_shape_text(text, sizeof text, param->rank, param->dims), form);
    }
    return PST_OK;
}

typedef pst_status shape_rule(const struct rule *c, struct pst_error *err);

shape_rule pst_infer_parameter, pst_infer_constant, pst_infer_map, pst_infer_reduce,
    pst_infer_softmax, pst_infer_matmul, pst_infer_reshape, pst_infer_strided, pst_infer_gather,
    pst_infer_costed, pst_infer_costed_loss;

#endif
