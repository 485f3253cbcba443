/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs and bytes moved by one pass of an operator. Rows count products exactly, 2 M N K, and other
 * work as a few operations per element, where the bytes are what matters.
 */
#include "graph/op_rules.h"

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
    double bytes = some_bytes(graph, op->in, op->n_in,
                              ~(uint64_t)pst_op_rules_of(op->kind)->f_skips_x, samples) +
                   some_bytes(graph, op->out, op->n_out, UINT64_MAX, samples);

    if (pst_op_rules_of(op->kind)->reads_rows) {
        const struct pst_parameter *table = &graph->params[op->param[0]];
        double rows = (double)samples * (double)graph->tensors[op->in[0]].elems /
                      (op->classes > 0 ? op->parts : 1); /* the others are rows of other parts */

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

/* Bytes of earlier slices that a slice moves: it reads their keys and values; backward, it also
   reads and writes the gradients of these. */
static double past_bytes(const struct pst_graph *graph, uint32_t index, uint32_t slice,
                         uint32_t pass, uint64_t samples)
{
    const struct pst_op *op = &graph->ops[index];
    const double elems = (double)pst_op_past_elems(graph, index);

    return elems == 0 || pass == 2
               ? 0
               : pst_op_slices_before(op, slice) * (double)samples *
                     (elems * (double)pst_dtype_bytes(graph->tensors[op->out[0]].dtype) +
                      (pass == 1 ? 2.0 * (double)pst_op_past_bytes(graph, index) : 0));
}

/* FLOPs per sample of one pass, as the row has them. */
static double kind_flops(const struct pst_op_case *c)
{
    const struct pst_op_rules *rules = pst_op_rules_of(c->op->kind);
    const uint32_t counted = rules->counts_x || rules->loss ? c->op->in[0] : c->op->out[0];

    return rules->products != NULL      ? rules->products(c)
           : rules->elementwise != NULL ? rules->elementwise(c)
                                        : rules->flops[c->pass] * (double)c->tensors[counted].elems;
}

double pst_op_softmax_bytes(const struct pst_graph *graph, uint32_t op_index, uint32_t slice,
                            uint32_t pass, uint64_t samples)
{
    const struct pst_op_rules *rules = pst_op_rules_of(graph->ops[op_index].kind);
    struct pst_op_case c = pst_op_case_of(graph, &graph->ops[op_index]);

    c.slice = slice;
    return rules->softmax == NULL || (pass == 0 && rules->f_skips_x != 0)
               ? 0
               : rules->softmax(&c) * (double)samples;
}

void pst_op_slice_work(const struct pst_graph *graph, uint32_t op_index, uint32_t slice,
                       uint32_t pass, uint64_t samples, double *ret_flops, double *ret_bytes)
{
    const struct pst_op *op = &graph->ops[op_index];
    struct pst_op_case c = pst_op_case_of(graph, op);
    struct pst_op_grad info;
    double flops, bytes;

    c.pass = pass;
    c.slice = slice;
    flops = kind_flops(&c);
    pst_op_grad_info(graph, op_index, &info);
    if (pst_op_rules_of(op->kind)->products != NULL && pass == 1 && info.b_dx == 0) {
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
    }
    *ret_flops = flops * (double)samples;
    *ret_bytes = bytes + past_bytes(graph, op_index, slice, pass, samples);
}

void pst_op_work(const struct pst_graph *graph, uint32_t op, uint32_t pass, uint64_t samples,
                 double *ret_flops, double *ret_bytes)
{
    pst_op_slice_work(graph, op, PST_NONE, pass, samples, ret_flops, ret_bytes);
}
