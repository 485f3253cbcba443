/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a graph step by step. A failure is kept and silences all later calls, so that builders
 * need not look at every result.
 */
#include "base/memory.h"
#include "graph/custom.h"
#include "graph/op_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_graph_builder_create(const char *name, uint32_t dtype,
                                    struct pst_graph_builder **ret_builder, struct pst_error *err)
{
    struct pst_graph_builder *builder;

    if (dtype != PST_F32 && dtype != PST_BF16 && dtype != PST_F64) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "model.dtype",
                        "a model cannot have element type %u; f32, bf16 and f64 exist", dtype);
    }
    builder = pst_alloc(1, sizeof *builder);
    builder->dtype = dtype;
    builder->name = pst_arena_strdup(&builder->arena, name);
    *ret_builder = builder;
    return PST_OK;
}

void pst_graph_builder_destroy(struct pst_graph_builder *builder)
{
    if (builder != NULL) {
        pst_customs_destroy(builder->customs);
        pst_arena_finish(&builder->arena);
        free(builder);
    }
}

void pst_graph_layer(struct pst_graph_builder *builder, uint32_t layer)
{
    builder->layer = layer;
}

uint32_t pst_graph_dtype(const struct pst_graph_builder *builder)
{
    return builder->dtype;
}

/* Room for one element more; the array may move. */
static void *grow_array(struct pst_arena *arena, void *items, size_t *capacity, uint32_t count,
                        size_t element_size)
{
    size_t more = *capacity == 0 ? 16 : *capacity * 2;
    void *copy;

    if (count < *capacity) {
        return items;
    }
    copy = pst_arena_array(arena, more, element_size);
    if (count != 0) {
        memcpy(copy, items, count * element_size);
    }
    *capacity = more;
    return copy;
}

static struct pst_tensor *add_tensor(struct pst_graph_builder *builder)
{
    builder->tensors = grow_array(&builder->arena, builder->tensors, &builder->tensors_capacity,
                                  builder->n_tensors, sizeof *builder->tensors);
    return &builder->tensors[builder->n_tensors++];
}

/* Checks name and shape of an input or parameter. */
static bool check_shape(struct pst_graph_builder *builder, const char *what, const char *name,
                        uint32_t rank, const uint64_t *dims, uint64_t *ret_elems)
{
    char text[256];

    if (builder->error.status != PST_OK) {
        return false;
    }
    if (rank > PST_MAX_RANK) {
        pst_fail(&builder->error, PST_ERR_CONFIG, "model.shape",
                 "%s %s: %u axes; at most %d are possible", what, name, rank, PST_MAX_RANK);
        return false;
    }
    if (!pst_shape_elems(rank, dims, ret_elems)) {
        pst_fail(&builder->error, PST_ERR_CONFIG, "model.shape",
                 "%s %s: shape %s has an axis of 0 or more than 2^40 elements", what, name,
                 pst_shape_text(text, sizeof text, rank, dims));
        return false;
    }
    return true;
}

uint32_t pst_graph_input(struct pst_graph_builder *builder, const char *name, uint32_t field,
                         uint32_t dtype, uint32_t rank, const uint64_t *dims)
{
    struct pst_tensor *tensor;
    uint64_t elems;

    if (!check_shape(builder, "input", name, rank, dims, &elems)) {
        return PST_NONE;
    }
    if (dtype != PST_I32 && dtype != builder->dtype) {
        pst_fail(&builder->error, PST_ERR_CONFIG, "model.dtype",
                 "input %s: element type must be i32 or the model's own", name);
        return PST_NONE;
    }
    if (builder->n_inputs >= PST_MAX_INPUTS) {
        pst_fail(&builder->error, PST_ERR_BUG, "model.build", "input %s: a model has at most %d",
                 name, PST_MAX_INPUTS);
        return PST_NONE;
    }
    builder->n_inputs++;
    tensor = add_tensor(builder);
    memset(tensor, 0, sizeof *tensor);
    tensor->name = pst_arena_strdup(&builder->arena, name);
    tensor->role = PST_ROLE_INPUT;
    tensor->field = field;
    tensor->dtype = dtype;
    tensor->rank = rank;
    if (rank != 0) {
        memcpy(tensor->dims, dims, rank * sizeof *dims);
    }
    tensor->batched = true;
    tensor->elems = elems;
    tensor->bytes = elems * pst_dtype_bytes(dtype);
    tensor->producer = PST_NONE;
    return builder->n_tensors - 1;
}

void pst_graph_planar(struct pst_graph_builder *builder, uint32_t input)
{
    if (input != PST_NONE) {
        builder->tensors[input].planar = true;
    }
}

uint32_t pst_graph_param(struct pst_graph_builder *builder, const char *name, uint32_t rank,
                         const uint64_t *dims, uint32_t init, float init_scale, bool decay)
{
    struct pst_parameter *param;
    uint64_t elems;

    if (!check_shape(builder, "parameter", name, rank, dims, &elems)) {
        return PST_NONE;
    }
    builder->params = grow_array(&builder->arena, builder->params, &builder->params_capacity,
                                 builder->n_params, sizeof *builder->params);
    param = &builder->params[builder->n_params];
    memset(param, 0, sizeof *param);
    param->name = pst_arena_strdup(&builder->arena, name);
    param->rank = rank;
    if (rank != 0) {
        memcpy(param->dims, dims, rank * sizeof *dims);
    }
    param->elems = elems;
    param->dtype = builder->dtype == PST_BF16 && rank < 2 ? (uint32_t)PST_F32 : builder->dtype;
    param->init = init;
    param->init_scale = init_scale;
    param->decay = decay;
    return builder->n_params++;
}

static bool is_loss(const struct pst_graph_builder *builder, uint32_t tensor)
{
    const uint32_t producer = builder->tensors[tensor].producer;

    return producer != PST_NONE && pst_op_is_loss(builder->ops[producer].kind);
}

static pst_status check_operands(const struct pst_graph_builder *builder, const struct pst_op *op,
                                 struct pst_error *err)
{
    const struct pst_op_rules *rules = pst_op_rules_of(op->kind);
    const char *stray;

    if (builder->n_ops >= PST_MAX_OPS) {
        return pst_fail(err, PST_ERR_BUG, "model.build", "more than %u operators", PST_MAX_OPS);
    }
    if (rules == NULL || op->name == NULL) {
        return pst_fail(err, PST_ERR_BUG, "model.build", "%s: no such kind of operator (%u)",
                        op->name == NULL ? "?" : op->name, op->kind);
    }
    if (op->n_in < rules->kind.min_in || op->n_in > rules->kind.max_in ||
        op->n_param > rules->kind.n_param) {
        return pst_fail(err, PST_ERR_BUG, "model.build",
                        "%s: %u inputs and %u parameters given; %s takes %u to %u and up to %u",
                        op->name, op->n_in, op->n_param, rules->kind.name, rules->kind.min_in,
                        rules->kind.max_in, rules->kind.n_param);
    }
    stray = pst_op_stray_attribute(op);
    if (stray != NULL) {
        return pst_fail(err, PST_ERR_BUG, "model.build", "%s: %s does not read `%s`; leave it 0",
                        op->name, rules->kind.name, stray);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] >= builder->n_tensors || builder->tensors[op->in[i]].role == PST_ROLE_AUX) {
            return pst_fail(err, PST_ERR_BUG, "model.build",
                            "%s: input %u is not a tensor that can be read", op->name, i);
        }
        if (is_loss(builder, op->in[i])) {
            return pst_fail(err, PST_ERR_BUG, "model.build",
                            "%s: input %u is a loss, which nothing may read", op->name, i);
        }
    }
    for (uint32_t i = 0; i < rules->kind.n_param; i++) {
        uint32_t param = i < op->n_param ? op->param[i] : PST_NONE;

        if (param == PST_NONE ? (rules->kind.required >> i & 1) != 0 : param >= builder->n_params) {
            return pst_fail(err, PST_ERR_BUG, "model.build", "%s: parameter %u is missing",
                            op->name, i);
        }
    }
    if (op->n_param == 2 && op->param[0] != PST_NONE && op->param[0] == op->param[1]) {
        return pst_fail(err, PST_ERR_BUG, "model.build", "%s: parameter %s is there twice",
                        op->name, builder->params[op->param[0]].name);
    }
    return PST_OK;
}

/* With its data. */
static const struct pst_form *copy_form(struct pst_arena *arena, const struct pst_form *form)
{
    struct pst_form *copy = pst_arena_array(arena, 1, sizeof *copy);
    uint64_t elems = 1;

    *copy = *form;
    if (form->data != NULL) {
        for (uint32_t i = 0; i < form->rank; i++) {
            elems *= form->dims[i];
        }
        copy->data = pst_arena_copy(arena, form->data, elems, pst_dtype_bytes(form->dtype));
    }
    return copy;
}

/* Copies what the caller gave into the arena. Absent optional parameters are made explicit. */
static void copy_op(struct pst_graph_builder *builder, const struct pst_op *op,
                    const struct pst_shapes *shapes, struct pst_op *ret_op)
{
    struct pst_arena *arena = &builder->arena;
    uint32_t n_param = pst_op_rules_of(op->kind)->kind.n_param;
    uint32_t *in = pst_arena_array(arena, op->n_in, sizeof *in);
    uint32_t *out = pst_arena_array(arena, PST_MAX_OUT, sizeof *out);
    uint32_t *param = pst_arena_array(arena, PST_MAX_PARAM, sizeof *param);
    uint64_t *state = pst_arena_array(arena, 2, sizeof *state);
    char *name = pst_arena_strdup(arena, op->name);

    for (uint32_t i = 0; i < op->n_in; i++) {
        in[i] = op->in[i];
    }
    for (uint32_t i = 0; i < n_param; i++) {
        param[i] = i < op->n_param ? op->param[i] : PST_NONE;
    }
    memcpy(state, shapes->state_elems, sizeof shapes->state_elems);
    *ret_op = *op;
    ret_op->name = name;
    ret_op->layer = builder->layer;
    ret_op->in = in;
    ret_op->out = out;
    ret_op->param = param;
    ret_op->n_param = n_param;
    ret_op->state_elems = state;
    ret_op->form = op->form == NULL ? NULL : copy_form(arena, op->form);
    ret_op->n_state = shapes->n_state;
    ret_op->n_out = shapes->n_out;
    ret_op->salt = op->p > 0.0f ? builder->n_ops : 0;
}

static bool add_outputs(struct pst_graph_builder *builder, struct pst_op *op,
                        const struct pst_shapes *shapes)
{
    uint32_t *out = (uint32_t *)op->out;

    for (uint32_t i = 0; i < shapes->n_out; i++) {
        const struct pst_shape *shape = &shapes->out[i];
        struct pst_tensor *tensor = add_tensor(builder);

        memset(tensor, 0, sizeof *tensor);
        tensor->role = shape->role;
        tensor->dtype = shape->dtype;
        tensor->rank = shape->rank;
        memcpy(tensor->dims, shape->dims, sizeof tensor->dims);
        tensor->batched = shape->batched;
        tensor->producer = builder->n_ops;
        tensor->output = i;
        if (!pst_shape_elems(shape->rank, shape->dims, &tensor->elems)) {
            char text[256];

            pst_fail(&builder->error, PST_ERR_CONFIG, "model.shape",
                     "%s: output %s has more than 2^40 elements", op->name,
                     pst_shape_text(text, sizeof text, shape->rank, shape->dims));
            return false;
        }
        tensor->bytes = tensor->elems * pst_dtype_bytes(shape->dtype);
        out[i] = builder->n_tensors - 1;
    }
    return true;
}

uint32_t pst_graph_add(struct pst_graph_builder *builder, const struct pst_op *op)
{
    struct pst_shapes shapes = {0};
    const struct pst_op_case c = {.op = op,
                                  .tensors = builder->tensors,
                                  .params = builder->params,
                                  .dtype = builder->dtype,
                                  .shapes = &shapes};
    struct pst_op copy;

    if (op->custom != NULL) {
        op->custom->next = builder->customs;
        builder->customs = op->custom;
    }
    if (builder->error.status != PST_OK || check_operands(builder, op, &builder->error) != PST_OK ||
        !pst_op_rules_of(op->kind)->infer(&c, &builder->error)) {
        return PST_NONE;
    }
    builder->ops = grow_array(&builder->arena, builder->ops, &builder->ops_capacity, builder->n_ops,
                              sizeof *builder->ops);
    copy_op(builder, op, &shapes, &copy);
    if (!add_outputs(builder, &copy, &shapes)) {
        return PST_NONE;
    }
    builder->ops[builder->n_ops++] = copy;
    return copy.out[0];
}

pst_status pst_graph_failure(const struct pst_graph_builder *builder, struct pst_error *err)
{
    return pst_error_pass(err, &builder->error);
}

bool pst_graph_shape(const struct pst_graph_builder *builder, uint32_t tensor, uint32_t *ret_rank,
                     uint64_t *ret_dims)
{
    if (tensor >= builder->n_tensors || builder->tensors[tensor].role == PST_ROLE_AUX) {
        return false;
    }
    *ret_rank = builder->tensors[tensor].rank;
    memcpy(ret_dims, builder->tensors[tensor].dims, sizeof builder->tensors[tensor].dims);
    return true;
}

void pst_graph_operands(const struct pst_graph_builder *builder, const struct pst_op *op,
                        char *text, size_t size)
{
    char shape[256];

    text[0] = '\0';
    for (uint32_t i = 0; i < op->n_in && i < PST_MAX_IN; i++) {
        const struct pst_tensor *x =
            op->in[i] < builder->n_tensors ? &builder->tensors[op->in[i]] : NULL;

        if (x != NULL) {
            pst_text_append(text, size, "%sx%u %s %s", text[0] == '\0' ? "" : ", ", i,
                            x->producer == PST_NONE ? x->name : builder->ops[x->producer].name,
                            pst_shape_text(shape, sizeof shape, x->rank, x->dims));
        }
    }
    for (uint32_t i = 0; i < op->n_param && i < PST_MAX_PARAM; i++) {
        const struct pst_parameter *p =
            op->param[i] < builder->n_params ? &builder->params[op->param[i]] : NULL;

        if (p != NULL) {
            pst_text_append(text, size, "%sp%u %s %s", text[0] == '\0' ? "" : ", ", i, p->name,
                            pst_shape_text(shape, sizeof shape, p->rank, p->dims));
        }
    }
}
