/* SPDX-License-Identifier: Apache-2.0
 *
 * Autodiff at operator granularity: the two backward parts of every kind, in terms of what they
 * read and write. One function per kind states it as if every input needed a gradient; the end of
 * pst_op_grad_info takes out what nobody needs.
 */
#include "graph/graph.h"

#include <string.h>

static bool has_param(const struct pst_op *op, uint32_t slot)
{
    return slot < op->n_param && op->param[slot] != PST_NONE;
}

static void grad_linear(const struct pst_graph *graph, const struct pst_op *op,
                        struct pst_op_grad *info)
{
    const struct pst_tensor *y = &graph->tensors[op->out[0]];

    info->b_dx = 1;
    info->b_reads_p = 1;
    info->has_w = true;
    info->w_reads_x = 1;
    info->w_reads_dy = op->act == PST_ACT_NONE;
    if (op->act != PST_ACT_NONE) { /* z0: gradient before the activation function */
        info->b_reads_y = op->act == PST_ACT_GELU ? 2 : 1;
        info->n_z = 1;
        info->z_elems[0] = y->elems;
        info->z_batched[0] = true;
        info->z_dtype[0] = y->dtype;
    }
}

/* B finds the parameters' gradients on its way. RMS norm has neither mean nor bias; that of queries
   and keys has two gains. */
static void grad_norm(const struct pst_graph *graph, const struct pst_op *op,
                      struct pst_op_grad *info)
{
    const bool rms = op->kind == PST_OP_RMSNORM, heads = op->kind == PST_OP_QKNORM;

    info->b_dx = 1;
    info->b_adds = op->kind == PST_OP_LAYERNORM || rms;
    info->b_reads_x = 1;
    info->b_reads_p = heads ? 3 : 1;
    info->b_reads_y = 2 | (rms || heads ? 0 : 4) | (op->act == PST_ACT_RELU ? 1 : 0);
    info->has_w = true;
    info->n_z = rms ? 1 : 2;
    for (uint32_t i = 0; i < info->n_z; i++) {
        info->z_elems[i] = graph->params[op->param[0]].elems;
        info->z_dtype[i] = graph->tensors[op->out[1]].dtype;
    }
}

static void grad_attention(const struct pst_graph *graph, const struct pst_op *op,
                           struct pst_op_grad *info)
{
    info->b_dx = op->n_in == 2 ? 3 : 1;
    info->b_reads_x = info->b_dx;
    info->b_reads_y = 1 | 2;
    if (has_param(op, 0)) {
        info->b_reads_p = 1;
        info->has_w = true;
        info->n_z = 1;
        info->z_elems[0] = graph->params[op->param[0]].elems;
        info->z_dtype[0] = graph->tensors[op->out[1]].dtype;
    }
}

/* z0, z1: gradients of y1, and what p1 is multiplied with. */
static void grad_experts(const struct pst_graph *graph, const struct pst_op *op,
                         struct pst_op_grad *info)
{
    const struct pst_tensor *h = &graph->tensors[op->out[1]];

    info->b_dx = 3;
    info->b_reads_x = 2;
    info->b_reads_p = 3;
    info->b_reads_y = 2;
    info->has_w = true;
    info->w_reads_x = 3;
    info->w_reads_dy = true;
    info->n_z = 2;
    for (uint32_t i = 0; i < 2; i++) {
        info->z_elems[i] = i == 0 ? h->elems : h->elems / 2;
        info->z_batched[i] = true;
        info->z_dtype[i] = h->dtype;
    }
}

static void grad_add(const struct pst_op *op, struct pst_op_grad *info)
{
    if (op->p > 0.0f) {
        info->b_alias = 1;
        info->b_dx = 2;
    } else {
        info->b_alias = 3;
    }
}

/* Only the slopes of inputs that need a gradient read anything. */
static void grad_map(const struct pst_graph *graph, const struct pst_op *op,
                     struct pst_op_grad *info)
{
    const struct pst_map_row *row = pst_map_row(op->map);

    info->b_dx = (1ull << op->n_in) - 1;
    info->b_adds = info->b_dx;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (graph->tensors[op->in[i]].needs_grad) {
            info->b_reads_x |= row->slope_reads[i] & info->b_dx;
            info->b_reads_y |= (row->slope_reads[i] & PST_MAP_READS_Y) != 0;
        }
    }
}

/* Each factor's slope is the other one. */
static void grad_matmul(const struct pst_graph *graph, const struct pst_op *op,
                        struct pst_op_grad *info)
{
    info->b_dx = 3;
    for (uint32_t i = 0; i < 2; i++) {
        info->b_reads_x |= graph->tensors[op->in[i]].needs_grad ? 1ull << (1 - i) : 0;
    }
}

/* The file does not say which backward pass reads a kept tensor, so both do. */
static void grad_costed(const struct pst_graph *graph, const struct pst_op *op,
                        struct pst_op_grad *info)
{
    uint64_t own = op->n_out > 1 ? 2 : 0, others = 0;

    own |= op->form->dims[PST_COSTED_KEEPS_RESULT];
    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct pst_op *maker = &graph->ops[graph->tensors[op->in[i]].producer];

        others |= maker->form->dims[PST_COSTED_KEEPS_RESULT] << i;
    }
    info->b_dx = op->n_in >= 64 ? UINT64_MAX : (1ull << op->n_in) - 1;
    info->b_reads_x = others;
    info->b_reads_y = own;
    if (has_param(op, 0)) {
        info->b_reads_p = 1;
        info->has_w = true;
        info->w_reads_x = others;
        info->w_reads_y = own;
        info->w_reads_dy = true;
    }
}

static void grad_of_kind(const struct pst_graph *graph, const struct pst_op *op,
                         struct pst_op_grad *info)
{
    switch (op->kind) {
    case PST_OP_EMBEDDING:
        info->has_w = true;
        info->w_reads_x = 1;
        info->w_reads_dy = true;
        break;
    case PST_OP_LINEAR:
    case PST_OP_CONV2D:
        grad_linear(graph, op, info);
        break;
    case PST_OP_LAYERNORM:
    case PST_OP_BATCHNORM:
    case PST_OP_RMSNORM:
    case PST_OP_QKNORM:
        grad_norm(graph, op, info);
        break;
    case PST_OP_ATTENTION:
        grad_attention(graph, op, info);
        break;
    case PST_OP_ADD:
        grad_add(op, info);
        break;
    case PST_OP_ACT:
        info->b_dx = 1;
        info->b_reads_x = op->act != PST_ACT_RELU;
        info->b_reads_y = op->act == PST_ACT_RELU;
        break;
    case PST_OP_CROSS_ENTROPY:
        info->b_dx = 1;
        info->b_reads_x = 1 | 2;
        info->b_reads_y = 2;
        break;
    case PST_OP_EXPERTS:
        grad_experts(graph, op, info);
        break;
    case PST_OP_GLU:
    case PST_OP_ROUTER:
        info->b_dx = 1;
        info->b_reads_x = 1;
        break;
    case PST_OP_MSE:
    case PST_OP_BCE:
        info->b_dx = 1;
        info->b_reads_x = 1 | 2;
        break;
    case PST_OP_MAXPOOL2D:
        info->b_dx = 1;
        info->b_reads_y = 2;
        break;
    case PST_OP_COSTED:
        grad_costed(graph, op, info);
        break;
    case PST_OP_CONCAT:
    case PST_OP_COSTED_LOSS:
        info->b_dx = op->n_in >= 64 ? UINT64_MAX : (1ull << op->n_in) - 1;
        break;
    case PST_OP_PARAMETER:
        info->has_w = true;
        info->w_reads_dy = true;
        break;
    case PST_OP_CONSTANT:
        break;
    case PST_OP_MAP:
        grad_map(graph, op, info);
        break;
    case PST_OP_MATMUL:
        grad_matmul(graph, op, info);
        break;
    case PST_OP_REDUCE:
        info->b_dx = 1;
        info->b_adds = 1;
        info->b_reads_x = op->reduce == PST_REDUCE_MAX;
        info->b_reads_y = op->reduce == PST_REDUCE_MAX;
        break;
    case PST_OP_SOFTMAX:
        info->b_dx = 1;
        info->b_adds = 1;
        info->b_reads_y = 1;
        break;
    case PST_OP_RESHAPE:
        info->b_alias = 1;
        break;
    case PST_OP_STRIDED:
        info->b_dx = 1;
        info->b_adds = 1;
        break;
    case PST_OP_GATHER:
        info->b_dx = 1;
        info->b_adds = 1;
        info->b_reads_x = 2;
        break;
    default: /* dropout, means, shift, rotation: dy is enough */
        info->b_dx = 1;
        break;
    }
}

void pst_op_grad_info(const struct pst_graph *graph, uint32_t op_index,
                      struct pst_op_grad *ret_info)
{
    const struct pst_op *op = &graph->ops[op_index];
    uint64_t wanted = 0;

    memset(ret_info, 0, sizeof *ret_info);
    if (!graph->tensors[op->out[0]].needs_grad) {
        return;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (graph->tensors[op->in[i]].needs_grad) {
            wanted |= 1ull << i;
        }
    }
    grad_of_kind(graph, op, ret_info);
    ret_info->b_dx &= wanted;
    ret_info->b_alias &= wanted;
    ret_info->b_adds &= ret_info->b_dx;
    ret_info->has_b = ret_info->b_dx != 0 || ret_info->n_z != 0;
    if (ret_info->b_dx == 0 && op->kind != PST_OP_ATTENTION && op->kind != PST_OP_EXPERTS) {
        ret_info->b_reads_p = 0; /* weights only shape the gradient of the input */
    }
    if (!ret_info->has_b) {
        ret_info->b_reads_x = ret_info->b_reads_y = 0;
    }
    if (ret_info->has_w && !has_param(op, 0)) {
        ret_info->has_w = ret_info->w_reads_dy = false;
        ret_info->w_reads_x = 0;
    }
}
