/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution without unrolling. Filters are kept as [height, width, in, out] and turned for the
 * library, which wants [out, height, width, in]: little beside the convolution itself. Where a
 * window is a single pixel it is a plain product, which the simple kernels already have.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "dnn.h"

struct conv {
    struct pst_dnn_conv shape;
    struct pst_dnn_plan *plan;
    uint64_t taps; /* of a window, times channels */
};

/* Pieces of the workspace. */
struct pieces {
    void *library, *filter;
    float *sums; /* of the columns of dy, in parts */
};

/* Kernels for filter gradients in bf16 are compiled at run time and copy channels in pieces of 4, 8
   or 16 bytes. cuDNN 9.14 proposes some for odd numbers of channels, which NVRTC refuses; for 2 or
   4 channels on both sides sums were wrong on an H200. Pieces of 16 bytes are right. */
static bool has_odd_pieces(const struct pst_op_request *r, const struct pst_dnn_conv *c)
{
    return r->pass == PST_KERNEL_W && c->bf16 && (c->in % 8 != 0 || c->out % 8 != 0);
}

/* false: not for cuDNN. */
static bool plan_of(const struct pst_op_request *r, struct conv *ret_conv)
{
    static const uint32_t kinds[] = {PST_DNN_CONV, PST_DNN_CONV_X, PST_DNN_CONV_B};
    const struct pst_window w = request_window(r);
    struct pst_dnn_graph graph;
    struct conv c = {.shape = {.window = w, .samples = r->samples, .bf16 = pst_cuda_bf16(r)}};

    c.shape.tf32 = r->device->tf32 && !c.shape.bf16;
    c.shape.in = request_columns(request_in(r, 0));
    c.shape.out = request_columns(request_out(r));
    c.shape.bias = r->pass == PST_KERNEL_F && request_has_param(r, 1);
    c.taps = (uint64_t)w.kernel[0] * w.kernel[1] * c.shape.in;
    if (r->pass > PST_KERNEL_W || r->op->pad_more[0] != 0 || r->op->pad_more[1] != 0 ||
        !request_is_plain_window(r) || has_odd_pieces(r, &c.shape) ||
        (c.taps == c.shape.in && w.stride[0] == 1 && w.stride[1] == 1 && w.pad[0] == 0 &&
         w.pad[1] == 0)) {
        return false;
    }
    pst_dnn_conv_graph(&c.shape, kinds[r->pass], &graph);
    c.plan = pst_cuda_dnn_propose(r->device, &graph);
    *ret_conv = c;
    return c.plan != NULL;
}

static bool serves(const struct pst_op_request *r)
{
    struct conv c;

    return plan_of(r, &c);
}

static struct pieces carve(const struct pst_op_request *r, const struct conv *c, void *base,
                           uint64_t *ret_bytes)
{
    const uint64_t size = r->pass == PST_KERNEL_W ? sizeof(float) : pst_dtype_bytes(r->dtype);
    const uint64_t pixels = (uint64_t)c->shape.window.out[0] * c->shape.window.out[1];
    struct pieces p = {0};
    uint64_t used = 0;

    p.library = pst_cuda_carve(base, &used, pst_dnn_plan_bytes(c->plan));
    p.filter = pst_cuda_carve(base, &used, c->taps * c->shape.out * size);
    if (r->pass == PST_KERNEL_W && request_has_param(r, 1)) {
        p.sums = pst_cuda_carve(base, &used,
                                pst_cuda_column_floats(c->shape.samples * pixels, c->shape.out) *
                                    sizeof(float));
    }
    *ret_bytes = used;
    return p;
}

/* Room for the simple way, too: what cannot be compiled after all goes there. */
static uint64_t workspace(const struct pst_op_request *r)
{
    const uint64_t simple = pst_cuda_conv2d_family.workspace(r);
    struct conv c;
    uint64_t bytes = 0;

    if (plan_of(r, &c)) {
        carve(r, &c, NULL, &bytes);
    }
    return bytes > simple ? bytes : simple;
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    struct conv *c = pst_alloc(1, sizeof *c);

    k->state = c;
    if (!plan_of(&k->request, c)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda, %s: cuDNN does not support it any more", k->request.op->name);
    }
    return pst_cuda_dnn_compile(k->request.device, c->plan, k->request.op->name, err);
}

static void finish(struct pst_cuda_kernel *k)
{
    free(k->state);
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv *c = k->state;
    uint64_t bytes;
    const struct pieces w = carve(r, c, call->workspace, &bytes);
    void *operands[PST_DNN_ROLES] = {
        [PST_DNN_X] = call->x[0],
        [PST_DNN_FILTER] = w.filter,
        [PST_DNN_Y] = call->y[0],
        [PST_DNN_BIAS] = request_param(r, call, 1),
    };

    pst_cuda_turn(r->device->compute, pst_cuda_bf16(r), w.filter, call->p[0], c->taps,
                  c->shape.out);
    pst_cuda_dnn_run(r->device, r->op->name, c->plan, operands, w.library);
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv *c = k->state;
    uint64_t bytes;
    const struct pieces w = carve(r, c, call->workspace, &bytes);
    void *operands[PST_DNN_ROLES] = {
        [PST_DNN_X] = request_operand(call->dx, 0),
        [PST_DNN_FILTER] = w.filter,
        [PST_DNN_Y] = (void *)(uintptr_t)call->dy,
    };

    if (operands[PST_DNN_X] != NULL) {
        pst_cuda_turn(r->device->compute, pst_cuda_bf16(r), w.filter, call->p[0], c->taps,
                      c->shape.out);
        pst_cuda_dnn_run(r->device, r->op->name, c->plan, operands, w.library);
    }
}

static void weights(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv *c = k->state;
    const struct pst_window *window = &c->shape.window;
    float *dweight = request_dp(r, call, 0), *dbias = request_dp(r, call, 1);
    uint64_t bytes;
    const struct pieces w = carve(r, c, call->workspace, &bytes);
    void *operands[PST_DNN_ROLES] = {
        [PST_DNN_X] = call->x[0],
        [PST_DNN_FILTER] = w.filter,
        [PST_DNN_Y] = (void *)(uintptr_t)call->dy,
    };

    if (dweight != NULL) {
        pst_cuda_dnn_run(r->device, r->op->name, c->plan, operands, w.library);
        pst_cuda_turn(r->device->compute, false, dweight, w.filter, c->shape.out, c->taps);
    }
    if (dbias != NULL) {
        pst_cuda_column_sums(r->device->compute, pst_cuda_bf16(r), dbias, call->dy,
                             c->shape.samples * window->out[0] * window->out[1], c->shape.out,
                             w.sums);
    }
}

const struct pst_cuda_family pst_cuda_dnn_conv_family = {
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, weights},
};
