/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution as products with the pixels under each window, unrolled one sample at a time. Where a
 * window is a single pixel the images are those rows already.
 */
#include "product.h"

#include <stdlib.h>

#include "base/memory.h"

struct conv {
    struct pst_window w;
    uint64_t samples, in, out; /* channels */
    uint64_t pixels, taps;     /* of a result; of a window, times channels */
    uint64_t pieces, rows;     /* products of a pass; rows of each */
    bool direct, bias;
};

static struct conv conv_of(const struct pst_op_request *r)
{
    struct conv c = {.w = request_window(r), .samples = r->samples};

    c.in = request_columns(request_in(r, 0));
    c.out = request_columns(request_out(r));
    c.pixels = (uint64_t)c.w.out[0] * c.w.out[1];
    c.taps = (uint64_t)c.w.kernel[0] * c.w.kernel[1] * c.in;
    c.direct = c.taps == c.in && c.w.stride[0] == 1 && c.w.stride[1] == 1 && c.w.pad[0] == 0 &&
               c.w.pad[1] == 0;
    c.bias = request_has_param(r, 1);
    c.pieces = c.direct ? 1 : c.samples;
    c.rows = c.direct ? c.samples * c.pixels : c.pixels;
    return c;
}

/* Windows side by side (B: their gradients, f32); then sums: before rounding, or of columns. */
static uint64_t col_bytes(const struct pst_op_request *r, const struct conv *c)
{
    const uint64_t size = r->pass == PST_KERNEL_B ? 4 : pst_dtype_bytes(r->dtype);

    return c->direct ? 0 : c->rows * c->taps * size;
}

static uint64_t sum_bytes(const struct pst_op_request *r, const struct conv *c)
{
    if (!c->bias || r->pass == PST_KERNEL_B) {
        return 0;
    }
    return sizeof(float) * (r->pass == PST_KERNEL_W
                                ? pst_cuda_column_floats(c->samples * c->pixels, c->out)
                            : pst_cuda_bf16(r) ? c->rows * c->out
                                               : 0);
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct conv c = conv_of(r);
    uint64_t used = 0;

    pst_cuda_carve(NULL, &used, PST_CUDA_PRODUCT_BYTES);
    pst_cuda_carve(NULL, &used, col_bytes(r, &c));
    pst_cuda_carve(NULL, &used, sum_bytes(r, &c));
    return used;
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op_request *r = &k->request;
    const struct conv c = conv_of(r);
    const uint32_t size = pst_dtype_bytes(r->dtype);
    struct pst_cuda_product_shape p = {.bf16 = pst_cuda_bf16(r)};
    struct pst_cuda_product *product = pst_alloc(1, sizeof *product);
    /* Samples begin where those before them end. */
    const uint32_t align_y = pst_cuda_alignment(c.rows * c.out * size);

    k->state = product;
    p.align = c.direct ? 256 : align_y;
    switch (r->pass) {
    case PST_KERNEL_F: /* y[rows,out] = col[rows,taps] p0 */
        p.m = c.rows;
        p.k = p.lda = c.taps;
        p.n = p.ldb = p.ldd = c.out;
        p.d_bf16 = p.bf16 && !c.bias;
        break;
    case PST_KERNEL_B: /* dcol[rows,taps] = dy[rows,out] p0^T */
        p.m = c.rows;
        p.k = p.lda = p.ldb = c.out;
        p.n = p.ldd = c.taps;
        p.b_transposed = true;
        p.d_bf16 = p.bf16 && c.direct;
        break;
    default: /* dp0[taps,out] = col^T dy */
        p.m = p.lda = c.taps;
        p.k = c.rows;
        p.n = p.ldb = p.ldd = c.out;
        p.a_transposed = true;
        break;
    }
    return pst_cuda_product_init(r->device, &p, product, err);
}

static void finish(struct pst_cuda_kernel *k)
{
    struct pst_cuda_product *product = k->state;

    if (product != NULL) {
        pst_cuda_product_finish(product);
        free(product);
    }
}

/* The rows of a piece: unrolled into col, or the images themselves. */
static const void *unroll(const struct pst_op_request *r, const struct conv *c, void *col,
                          const void *x, uint64_t piece)
{
    const uint64_t elems = (uint64_t)c->w.in[0] * c->w.in[1] * c->in;

    if (c->direct) {
        return x;
    }
    pst_cuda_im2col(r->device->compute, pst_cuda_bf16(r), &c->w, c->in, col,
                    pst_cuda_at(r, x, piece * elems));
    return col;
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv c = conv_of(r);
    uint64_t used = 0;
    void *product = pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);
    void *col = pst_cuda_carve(call->workspace, &used, col_bytes(r, &c));
    void *sums = pst_cuda_carve(call->workspace, &used, sum_bytes(r, &c));

    for (uint64_t i = 0; i < c.pieces; i++) {
        void *y = pst_cuda_at(r, call->y[0], i * c.rows * c.out);
        void *acc = c.bias && pst_cuda_bf16(r) ? sums : y;

        pst_cuda_product_run(k->state, r->op->name, acc, unroll(r, &c, col, call->x[0], i),
                             call->p[0], 1, 0, product);
        if (c.bias) {
            pst_cuda_bias_act(r->device->compute, pst_cuda_bf16(r), y, NULL, acc, call->p[1],
                              PST_ACT_NONE, c.rows, c.out);
        }
    }
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv c = conv_of(r);
    const uint64_t elems = (uint64_t)c.w.in[0] * c.w.in[1] * c.in;
    uint64_t used = 0;
    void *product = pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);
    void *col = pst_cuda_carve(call->workspace, &used, col_bytes(r, &c));
    void *dx = request_operand(call->dx, 0);

    for (uint64_t i = 0; dx != NULL && i < c.pieces; i++) {
        pst_cuda_product_run(k->state, r->op->name, c.direct ? dx : col,
                             pst_cuda_at(r, call->dy, i * c.rows * c.out), call->p[0], 1, 0,
                             product);
        if (!c.direct) {
            pst_cuda_col2im(r->device->compute, pst_cuda_bf16(r), &c.w, c.in,
                            pst_cuda_at(r, dx, i * elems), col);
        }
    }
}

static void weights(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct conv c = conv_of(r);
    float *dweight = request_dp(r, call, 0), *dbias = request_dp(r, call, 1);
    uint64_t used = 0;
    void *product = pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);
    void *col = pst_cuda_carve(call->workspace, &used, col_bytes(r, &c));
    void *sums = pst_cuda_carve(call->workspace, &used, sum_bytes(r, &c));

    for (uint64_t i = 0; dweight != NULL && i < c.pieces; i++) {
        pst_cuda_product_run(k->state, r->op->name, dweight, unroll(r, &c, col, call->x[0], i),
                             pst_cuda_at(r, call->dy, i * c.rows * c.out), 1, i == 0 ? 0 : 1,
                             product);
    }
    if (dbias != NULL) {
        pst_cuda_column_sums(r->device->compute, pst_cuda_bf16(r), dbias, call->dy,
                             c.samples * c.pixels, c.out, sums);
    }
}

const struct pst_cuda_family pst_cuda_conv2d_family = {
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, weights},
};
