/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs and bytes moved by one pass of an operator. Products count 2 M N K exactly; attention
 * counts the products that a kernel makes which keeps no score matrix: two forward, five backward
 * (Dao et al.: "FlashAttention", NeurIPS 2022). Elementwise work is a few operations per element,
 * where the bytes are what matters.
 */
#include "graph/graph.h"

/* Bytes of tensor for `samples` samples. */
static double tensor_bytes(const struct pst_graph *graph, uint32_t tensor, uint64_t samples)
{
    const struct pst_tensor *t = &graph->tensors[tensor];

    return (double)t->bytes * (t->batched ? (double)samples : 1.0);
}

static double some_bytes(const struct pst_graph *graph, const uint32_t *tensors, uint32_t n,
                         uint64_t mask, uint64_t samples)
{
    double bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        if ((mask >> i & 1) != 0) {
            bytes += tensor_bytes(graph, tensors[i], samples);
        }
    }
    return bytes;
}

static double param_bytes(const struct pst_graph *graph, const struct pst_op *op, uint64_t mask,
                          bool gradients)
{
    double bytes = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        if ((mask >> i & 1) != 0 && op->param[i] != PST_NONE) {
            const struct pst_parameter *param = &graph->params[op->param[i]];

            bytes += (double)param->elems *
                     (double)(gradients ? sizeof(float) : pst_dtype_bytes(param->dtype));
        }
    }
    return bytes;
}

static double scratch_bytes(const struct pst_op_grad *info, uint64_t samples)
{
    double bytes = 0;

    for (uint32_t i = 0; i < info->n_z; i++) {
        bytes += (double)info->z_elems[i] * (double)pst_dtype_bytes(info->z_dtype[i]) *
                 (info->z_batched[i] ? (double)samples : 1.0);
    }
    return bytes;
}

static double forward_bytes(const struct pst_graph *graph, const struct pst_op *op,
                            uint64_t samples)
{
    double bytes = some_bytes(graph, op->in, op->n_in, UINT64_MAX, samples) +
                   some_bytes(graph, op->out, op->n_out, UINT64_MAX, samples);

    if (op->kind == PST_OP_EMBEDDING) { /* touches the rows of the tokens only */
        const struct pst_parameter *table = &graph->params[op->param[0]];
        double rows = (double)samples * (double)graph->tensors[op->in[0]].elems;

        return bytes + rows * (double)(table->dims[1] * pst_dtype_bytes(table->dtype)) +
               param_bytes(graph, op, 2, false);
    }
    return bytes + param_bytes(graph, op, UINT64_MAX, false);
}

static double backward_bytes(const struct pst_graph *graph, const struct pst_op *op,
                             const struct pst_op_grad *info, uint64_t samples)
{
    double bytes = some_bytes(graph, op->in, op->n_in, info->b_reads_x, samples) +
                   some_bytes(graph, op->in, op->n_in, info->b_dx, samples) +
                   some_bytes(graph, op->out, op->n_out, info->b_reads_y, samples) +
                   param_bytes(graph, op, info->b_reads_p, false) + scratch_bytes(info, samples);

    return bytes + tensor_bytes(graph, op->out[0], samples);
}

static double weight_bytes(const struct pst_graph *graph, const struct pst_op *op,
                           const struct pst_op_grad *info, uint64_t samples)
{
    double bytes = some_bytes(graph, op->in, op->n_in, info->w_reads_x, samples) +
                   some_bytes(graph, op->out, op->n_out, info->w_reads_y, samples) +
                   param_bytes(graph, op, info->w_reads_p, false) +
                   param_bytes(graph, op, UINT64_MAX, true) + scratch_bytes(info, samples);

    return bytes + (info->w_reads_dy ? tensor_bytes(graph, op->out[0], samples) : 0);
}

/* Number of slices of a sequence before this one; PST_NONE: the mean. */
static double slices_before(const struct pst_graph *graph, uint32_t slice)
{
    return slice == PST_NONE ? ((double)graph->slices - 1) / 2 : (double)slice;
}

/* Keys that rows 0 ... n - 1 of a sequence see together: a triangle, then a band. */
static double keys_seen(const struct pst_op *op, double n)
{
    const double window = (double)op->window;

    return window == 0 || n <= window ? n * n / 2 : window * window / 2 + window * (n - window);
}

/* Mean number of keys that a row of attention sees. */
static double mean_keys(const struct pst_graph *graph, const struct pst_op *op, uint32_t slice)
{
    const double rows = (double)graph->tensors[op->out[0]].dims[0];
    const double first = slice == PST_NONE ? 0 : rows * slice;
    const double end = slice == PST_NONE ? rows * graph->slices : first + rows;

    return op->n_in == 2 ? (double)graph->tensors[op->in[1]].dims[0] * (op->causal ? 0.5 : 1)
           : !op->causal ? rows
                         : (keys_seen(op, end) - keys_seen(op, first)) / (end - first);
}

/* Bytes of earlier slices that a slice moves: it reads their keys and values; backward, it also
   reads and writes the gradients of these. */
static double past_bytes(const struct pst_graph *graph, uint32_t index, uint32_t slice,
                         uint32_t pass, uint64_t samples)
{
    const struct pst_op *op = &graph->ops[index];
    const double elems = (double)pst_op_past_elems(graph, index);

    return elems == 0 || pass == 2
               ? 0
               : slices_before(graph, slice) * (double)samples *
                     (elems * (double)pst_dtype_bytes(graph->tensors[op->out[0]].dtype) +
                      (pass == 1 ? 2.0 * (double)pst_op_past_bytes(graph, index) : 0));
}

/* Number of its factors that need a gradient. */
static double matmul_gradients(const struct pst_graph *graph, const struct pst_op *op)
{
    return (graph->tensors[op->in[0]].needs_grad ? 1.0 : 0.0) +
           (graph->tensors[op->in[1]].needs_grad ? 1.0 : 0.0);
}

/* FLOPs per sample of the products of one pass; 0 if the kind has no products. */
static double product_flops(const struct pst_graph *graph, const struct pst_op *op, uint32_t slice,
                            uint32_t pass)
{
    const struct pst_tensor *y = &graph->tensors[op->out[0]];
    const struct pst_tensor *x = op->n_in == 0 ? NULL : &graph->tensors[op->in[0]];
    double flops;

    switch (op->kind) {
    case PST_OP_LINEAR:
        return 2.0 * (double)y->elems * (double)x->dims[x->rank - 1];
    case PST_OP_CONV2D:
        return 2.0 * (double)y->elems * (double)op->kernel[0] * (double)op->kernel[1] *
               (double)(x->dims[2] / (op->groups == 0 ? 1 : op->groups));
    case PST_OP_EXPERTS: /* of as many pairs as there can be; in every pass three products */
        flops = (double)graph->tensors[op->out[1]].elems;
        return 3.0 * flops * (double)x->dims[1];
    case PST_OP_ATTENTION:
        flops = 2.0 * (double)y->elems * mean_keys(graph, op, slice);
        return flops * (pass == 0 ? 2.0 : 5.0);
    case PST_OP_MATMUL:
        flops = 2.0 * (double)y->elems * (double)x->dims[x->rank - (op->swapped[0] ? 2 : 1)];
        return pass == 1 ? flops * matmul_gradients(graph, op) : flops;
    default:
        return 0;
    }
}

static double act_flops(uint32_t act)
{
    return act == PST_ACT_GELU ? 12.0 : act == PST_ACT_SILU ? 4.0 : 1.0;
}

/* Operations per element of the result (of the input for a loss and a mean). */
static double element_flops(const struct pst_graph *graph, const struct pst_op *op, uint32_t pass)
{
    const struct pst_tensor *y = &graph->tensors[op->out[0]];
    double per = 1.0, elems = (double)y->elems;

    switch (op->kind) {
    case PST_OP_LAYERNORM:
    case PST_OP_BATCHNORM:
        per = pass == 0 ? 8.0 : 12.0;
        break;
    case PST_OP_RMSNORM:
        per = pass == 0 ? 4.0 : 9.0;
        break;
    case PST_OP_EMBEDDING:
        elems =
            (double)graph->tensors[op->in[0]].elems * (double)graph->params[op->param[0]].dims[1];
        break;
    case PST_OP_MSE:
    case PST_OP_BCE:
        per = op->kind == PST_OP_MSE ? 3.0 : 16.0;
        elems = (double)graph->tensors[op->in[0]].elems;
        break;
    case PST_OP_ACT:
        per = act_flops(op->act);
        break;
    case PST_OP_GLU: /* backward: the function, its slope, three products */
        per = pass == 0 ? act_flops(op->act) + 1.0 : 2.0 * act_flops(op->act) + 3.0;
        break;
    case PST_OP_ROTARY: /* two products and a sum of each column that turns */
        per = 3.0;
        elems *= (double)op->heads * (double)op->head_dim / (double)y->dims[1];
        break;
    case PST_OP_ROUTER: /* softmax, a search for each of the greatest; backward: both, a slope */
        per = (pass == 0 ? 5.0 : 9.0) + op->experts_per_token;
        break;
    case PST_OP_QKNORM:
        per = pass == 0 ? 4.0 : 9.0;
        elems *= ((double)op->heads + pst_op_kv_heads(op)) *
                 (double)graph->params[op->param[0]].dims[0] / (double)y->dims[1];
        break;
    case PST_OP_CROSS_ENTROPY:
        per = pass == 0 ? 5.0 : 3.0;
        elems = (double)graph->tensors[op->in[0]].elems;
        break;
    case PST_OP_MAXPOOL2D:
    case PST_OP_AVGPOOL2D:
        per = pass == 0 ? (double)op->kernel[0] * (double)op->kernel[1] : 1.0;
        break;
    case PST_OP_AVGPOOL:
        elems = (double)graph->tensors[op->in[0]].elems;
        break;
    case PST_OP_MAP:
        per = pst_map_row(op->map)->flops[pass == 0 ? 0 : 1];
        break;
    case PST_OP_REDUCE:
        elems = (double)graph->tensors[op->in[0]].elems;
        break;
    case PST_OP_SOFTMAX:
        per = pass == 0 ? 5.0 : 3.0;
        break;
    case PST_OP_PARAMETER:
        per = pass == 2 ? 1.0 : 0.0;
        break;
    case PST_OP_CONCAT:
    case PST_OP_SHIFT2D:
    case PST_OP_CONSTANT:
    case PST_OP_RESHAPE:
    case PST_OP_STRIDED:
    case PST_OP_GATHER:
    case PST_OP_COSTED: /* nobody says */
    case PST_OP_COSTED_LOSS:
        per = 0.0;
        break;
    default:
        break;
    }
    return per * elems;
}

double pst_op_softmax_bytes(const struct pst_graph *graph, uint32_t op_index, uint32_t slice,
                            uint64_t samples)
{
    const struct pst_op *op = &graph->ops[op_index];
    double bytes = 0;

    if (op->kind == PST_OP_ATTENTION) { /* queries times keys of each head */
        const struct pst_tensor *y = &graph->tensors[op->out[0]];
        const struct pst_tensor *keys = op->n_in == 2 ? &graph->tensors[op->in[1]] : y;

        bytes = (double)op->heads * (double)y->dims[0] * (double)keys->dims[0] *
                (op->slices > 1 ? slices_before(graph, slice) + 1 : 1) *
                (double)pst_dtype_bytes(y->dtype);
    } else if (op->kind == PST_OP_CROSS_ENTROPY) {
        bytes = (double)graph->tensors[op->in[0]].elems * sizeof(float);
    }
    return bytes * (double)samples;
}

void pst_op_slice_work(const struct pst_graph *graph, uint32_t op_index, uint32_t slice,
                       uint32_t pass, uint64_t samples, double *ret_flops, double *ret_bytes)
{
    const struct pst_op *op = &graph->ops[op_index];
    struct pst_op_grad info;
    double flops = product_flops(graph, op, slice, pass);
    double bytes;

    pst_op_grad_info(graph, op_index, &info);
    if (flops <= 0.0) {
        flops = element_flops(graph, op, pass);
    } else if (pass == 1 && info.b_dx == 0) {
        flops = (double)graph->tensors[op->out[0]].elems; /* only the activation's gradient */
    }
    if ((pass == 1 && !info.has_b) || (pass == 2 && !info.has_w)) {
        flops = bytes = 0;
    } else if (pass == 0) {
        bytes = forward_bytes(graph, op, samples);
    } else if (pass == 1) {
        bytes = backward_bytes(graph, op, &info, samples);
    } else {
        bytes = weight_bytes(graph, op, &info, samples);
        if (info.n_z != 0 && !info.w_reads_dy && op->kind != PST_OP_LINEAR) {
            flops = 0; /* a copy of what B found */
        }
    }
    *ret_flops = flops * (double)samples;
    *ret_bytes = bytes + past_bytes(graph, op_index, slice, pass, samples);
}

void pst_op_work(const struct pst_graph *graph, uint32_t op, uint32_t pass, uint64_t samples,
                 double *ret_flops, double *ret_bytes)
{
    pst_op_slice_work(graph, op, PST_NONE, pass, samples, ret_flops, ret_bytes);
}
