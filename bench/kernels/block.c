/* SPDX-License-Identifier: Apache-2.0
 *
 * A transformer block with embedding, head and loss, and operands for its kernels.
 */
#include "block.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must(void *pointer)
{
    if (pointer == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(4);
    }
    return pointer;
}

void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(pst_error_exit_code(err));
    }
}

/* --- the model -------------------------------------------------------------------------------- */

static uint32_t param(struct pst_graph_builder *b, const char *name, uint64_t rows,
                      uint64_t columns)
{
    const uint64_t dims[2] = {rows, columns};
    char text[80];

    snprintf(text, sizeof text, "%s.%s", name, columns == 0 ? "v" : "m");
    return pst_graph_param(b, text, columns == 0 ? 1 : 2, dims, PST_INIT_NORMAL, 0.02f, true);
}

static uint32_t add(struct pst_graph_builder *b, struct pst_op op, const char *name, uint32_t x0,
                    uint32_t x1, uint32_t p0, uint32_t p1)
{
    const uint32_t in[2] = {x0, x1}, params[2] = {p0, p1};

    op.name = name;
    op.in = in;
    op.n_in = x1 == PST_NONE ? 1 : 2;
    op.param = params;
    op.n_param = p0 == PST_NONE ? 0 : p1 == PST_NONE ? 1 : 2;
    return pst_graph_add(b, &op);
}

static uint32_t norm(struct pst_graph_builder *b, const char *name, uint32_t x, uint64_t columns)
{
    char bias[64];

    snprintf(bias, sizeof bias, "%s.b", name);
    return add(b, (struct pst_op){.kind = PST_OP_LAYERNORM, .eps = 1e-5f}, name, x, PST_NONE,
               param(b, name, columns, 0), param(b, bias, columns, 0));
}

static uint32_t linear(struct pst_graph_builder *b, const char *name, uint32_t x, uint64_t in,
                       uint64_t out, uint32_t act)
{
    return add(b, (struct pst_op){.kind = PST_OP_LINEAR, .act = act}, name, x, PST_NONE,
               param(b, name, in, out), param(b, name, out, 0));
}

struct pst_graph *block_create(const struct block_sizes *s, uint32_t dtype)
{
    const uint64_t c = s->columns;
    struct pst_graph_builder *b = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t tokens, targets, table, x, h, loss;
    const struct pst_op attention = {
        .kind = PST_OP_ATTENTION, .heads = (uint32_t)s->heads, .causal = true};
    const struct pst_op residual = {.kind = PST_OP_ADD, .p = 0.1f};

    check(pst_graph_builder_create("bench", dtype, &b, &err), &err);
    tokens = pst_graph_input(b, "x", PST_FIELD_X, PST_I32, 1, &s->length);
    targets = pst_graph_input(b, "t", PST_FIELD_TARGET, PST_I32, 1, &s->length);
    table = param(b, "wte", s->vocabulary, c);
    x = add(b, (struct pst_op){.kind = PST_OP_EMBEDDING}, "embedding", tokens, PST_NONE, table,
            param(b, "wpe", s->length, c));
    h = linear(b, "qkv", norm(b, "norm1", x, c), c, 3 * c, PST_ACT_NONE);
    h = add(b, attention, "attention", h, PST_NONE, PST_NONE, PST_NONE);
    x = add(b, residual, "add1", x, linear(b, "proj", h, c, c, PST_ACT_NONE), PST_NONE, PST_NONE);
    h = linear(b, "up+gelu", norm(b, "norm2", x, c), c, 4 * c, PST_ACT_GELU);
    x = add(b, residual, "add2", x, linear(b, "down", h, 4 * c, c, PST_ACT_NONE), PST_NONE,
            PST_NONE);
    h = add(b, (struct pst_op){.kind = PST_OP_LINEAR, .transposed = true}, "head",
            norm(b, "norm3", x, c), PST_NONE, table, PST_NONE);
    loss = add(b, (struct pst_op){.kind = PST_OP_CROSS_ENTROPY}, "loss", h, targets, PST_NONE,
               PST_NONE);
    check(pst_graph_finish(b, loss, h, &graph, &err), &err);
    pst_graph_builder_destroy(b);
    return graph;
}

/* --- operands --------------------------------------------------------------------------------- */

static void *tensor_buffer(const struct block_buffers *from, uint32_t tensor)
{
    const struct pst_tensor *t = &from->graph->tensors[tensor];

    return from->make(from->context, t->elems * from->samples, t->dtype);
}

void block_operands(const struct block_buffers *from, uint32_t index, struct block_operands *o)
{
    const struct pst_op *op = &from->graph->ops[index];
    struct pst_op_grad grad;

    memset(o, 0, sizeof *o);
    pst_op_grad_info(from->graph, index, &grad);
    for (uint32_t i = 0; i < op->n_in; i++) {
        o->x[i] = tensor_buffer(from, op->in[i]);
        if ((grad.b_dx >> i & 1) != 0) {
            o->dx[i] = tensor_buffer(from, op->in[i]);
        }
        if ((grad.b_adds >> i & 1) != 0) {
            o->add[i] = o->dx[i];
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            const struct pst_parameter *p = &from->graph->params[op->param[i]];

            o->p[i] = from->make(from->context, p->elems, p->dtype);
            o->dp[i] = from->make(from->context, p->elems, PST_F32);
        }
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        o->y[i] = tensor_buffer(from, op->out[i]);
    }
    for (uint32_t i = 0; i < grad.n_z; i++) {
        o->z[i] = from->make(from->context, grad.z_elems[i] * from->samples, grad.z_dtype[i]);
    }
    o->dy = tensor_buffer(from, op->out[0]);
}

struct pst_call block_call(const struct block_operands *o)
{
    struct pst_call call = {.x = o->x, .p = o->p, .y = o->y, .dy = o->dy, .dx = o->dx};

    call.add = o->add;
    call.z = o->z;
    call.dp = (float *const *)(const void *)o->dp;
    call.scale = 1;
    call.flags = PST_CALL_TRAINING;
    return call;
}

const struct pst_device_ops *block_load(const char *path)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *entry = NULL;

    if (module != NULL) {
        *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    }
    if (entry == NULL) {
        fprintf(stderr, "%s cannot be loaded: %s\n", path, dlerror());
        exit(4);
    }
    return entry();
}
