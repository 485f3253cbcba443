/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of operators share: the operands of a case, checks of them, and functions of one
 * family that another uses.
 */
#ifndef PST_GRAPH_OPS_OPERANDS_H
#define PST_GRAPH_OPS_OPERANDS_H

#include <string.h>

#include "graph/op_rules.h"

/* The error of a check, which is false then: `holds || BAD(...)`. */
#define BAD(...) (pst_fail(err, PST_ERR_CONFIG, "model.shape", __VA_ARGS__) == PST_OK)

static inline const struct pst_tensor *input(const struct pst_op_case *c, uint32_t i)
{
    return &c->tensors[c->op->in[i]];
}

/* Its shape is known after inference. */
static inline const struct pst_tensor *result_of(const struct pst_op_case *c)
{
    return &c->tensors[c->op->out[0]];
}

/* y1, where inference made one. */
static inline const struct pst_tensor *aux_of(const struct pst_op_case *c)
{
    return &c->tensors[c->op->out[1]];
}

/* One more buffer z that B writes for W. */
static inline void leave_scratch(struct pst_op_grad *info, uint64_t elems, uint32_t dtype,
                                 bool batched)
{
    info->z_elems[info->n_z] = elems;
    info->z_dtype[info->n_z] = dtype;
    info->z_batched[info->n_z++] = batched;
}

static inline const char *text_of(char text[256], const struct pst_tensor *tensor)
{
    return pst_shape_text(text, 256, tensor->rank, tensor->dims);
}

static inline bool same_dims(const struct pst_tensor *a, const struct pst_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static inline uint32_t statistics_dtype(const struct pst_op_case *c)
{
    return c->dtype == PST_F64 ? PST_F64 : PST_F32;
}

static inline struct pst_shape *output(const struct pst_op_case *c, uint32_t role, uint32_t dtype,
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
static inline struct pst_shape *result_like(const struct pst_op_case *c)
{
    const struct pst_tensor *x = input(c, 0);

    return output(c, PST_ROLE_ACTIVATION, c->dtype, x->rank, x->dims);
}

static inline bool check_dtype(const struct pst_op_case *c, uint32_t i, uint32_t dtype,
                               struct pst_error *err)
{
    static const char *const names[] = {"f32", "bf16", "f64", "i32"};
    const uint32_t found = input(c, i)->dtype;

    return found == dtype || BAD("%s: input %u has elements of type %s, expected %s", c->op->name,
                                 i, names[found], names[dtype]);
}

static inline bool check_rank(const struct pst_op_case *c, uint32_t least, uint32_t most,
                              const char *form, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);
    char text[256];

    if (x->rank < least || x->rank > most) {
        return BAD("%s: input has shape %s, expected %s", c->op->name, text_of(text, x), form);
    }
    return check_dtype(c, 0, c->dtype, err);
}

/* Parameter `slot`, where present, must have exactly these axes. */
static inline bool check_param(const struct pst_op_case *c, uint32_t slot, uint32_t rank,
                               const uint64_t *dims, struct pst_error *err)
{
    const struct pst_parameter *param;
    char found[256], expected[256];

    if (!pst_op_has_param(c->op, slot)) {
        return true;
    }
    param = &c->params[c->op->param[slot]];
    if (param->rank != rank || memcmp(param->dims, dims, rank * sizeof *dims) != 0) {
        return BAD("%s: parameter %s has shape %s, expected %s", c->op->name, param->name,
                   pst_shape_text(found, sizeof found, param->rank, param->dims),
                   pst_shape_text(expected, sizeof expected, rank, dims));
    }
    return true;
}

/* Parameter 0, which every kind that asks has. */
static inline const struct pst_parameter *param0(const struct pst_op_case *c)
{
    return &c->params[c->op->param[0]];
}

static inline bool check_param_rank(const struct pst_op_case *c, uint32_t rank, const char *form,
                                    struct pst_error *err)
{
    const struct pst_parameter *param = param0(c);
    char text[256];

    return param->rank == rank ||
           BAD("%s: parameter %s has shape %s, expected %s", c->op->name, param->name,
               pst_shape_text(text, sizeof text, param->rank, param->dims), form);
}

/* Checks that x0 has at least this many heads of `depth` columns. */
static inline bool check_leading(const struct pst_op_case *c, uint64_t heads, uint64_t depth,
                                 struct pst_error *err)
{
    const uint64_t columns = input(c, 0)->dims[1];

    return (heads > 0 && depth > 0 && depth <= columns / heads) ||
           BAD("%s: input has last axis %llu, which does not begin with %llu heads of %llu",
               c->op->name, (unsigned long long)columns, (unsigned long long)heads,
               (unsigned long long)depth);
}

/* elementwise.c: operations of an activation function (enum pst_act). */
double pst_act_flops(uint32_t act);
/* Widens y, by numpy's rules, to hold the first axes of x beside its own; false: their shapes
   differ. The last `skip` axes of both stay out of it. */
bool pst_spread_shape(struct pst_shape *y, const struct pst_tensor *x, uint32_t skip);

#endif
