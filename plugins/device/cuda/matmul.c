/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices of which a sample has several: at once where each matrix is in one product,
 * one after the other where some spread over several.
 */
#include "product.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/common/broadcast.h"

struct matmul_state {
    struct pst_cuda_product products[2]; /* F: one; B: the gradients of x0, x1 */
};

/* The product of a pass, or of the gradient of factor k. */
struct matmul {
    struct pst_matmul shape;
    struct pst_spread spread;
    uint64_t n_products; /* of a sample */
    bool at_once;        /* every matrix is in one product */
    bool spreads;        /* B: the factor is in several, whose gradients are summed */
};

static struct matmul matmul_of(const struct pst_op_request *r, uint32_t k)
{
    struct matmul w = {.shape = request_matmul(r), .spread = request_spread(r, 2)};
    const uint64_t sizes[] = {w.shape.m * w.shape.k, w.shape.k * w.shape.n};

    w.n_products = pst_spread_elems(&w.spread);
    w.at_once = request_in(r, 0)->elems == sizes[0] * w.n_products &&
                request_in(r, 1)->elems == sizes[1] * w.n_products;
    if (r->pass == PST_KERNEL_B) {
        w.spreads = request_in(r, k)->elems != sizes[k] * w.n_products;
        w.shape = pst_matmul_back(&w.shape, r->op, k);
    }
    return w;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct pst_cuda_product_shape product_of(const struct pst_op_request *r,
                                                const struct matmul *w)
{
    const struct pst_matmul *p = &w->shape;
    const uint32_t size = pst_dtype_bytes(r->dtype);
    struct pst_cuda_product_shape shape = {.m = p->m,
                                           .n = p->n,
                                           .k = p->k,
                                           .a_transposed = p->a_k != 1,
                                           .b_transposed = p->b_n != 1,
                                           .ldd = p->n,
                                           .bf16 = pst_cuda_bf16(r),
                                           .d_bf16 = pst_cuda_bf16(r) && !w->spreads};

    shape.lda = p->a_k != 1 ? larger(p->a_k, p->m) : larger(p->a_m, p->k);
    shape.ldb = p->b_n != 1 ? larger(p->b_n, p->k) : larger(p->b_k, p->n);
    shape.align = pst_cuda_alignment(p->m * p->k * size);
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t elems = i == 0 ? p->k * p->n : p->m * p->n;
        const uint32_t align = pst_cuda_alignment(elems * size);

        shape.align = align < shape.align ? align : shape.align;
    }
    if (w->at_once) {
        shape.batches = (uint32_t)(r->samples * w->n_products);
        shape.a_step = p->m * p->k;
        shape.b_step = p->k * p->n;
        shape.d_step = p->m * p->n;
    }
    return shape;
}

/* bf16: gradients that are summed, in f32. */
static uint64_t sum_bytes(const struct pst_op_request *r, uint32_t k)
{
    const struct matmul w = matmul_of(r, k);

    return w.spreads && pst_cuda_bf16(r) ? r->samples * request_in(r, k)->elems * sizeof(float) : 0;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    uint64_t used = 0;

    pst_cuda_carve(NULL, &used, PST_CUDA_PRODUCT_BYTES);
    pst_cuda_carve(NULL, &used, larger(sum_bytes(r, 0), sum_bytes(r, 1)));
    return used;
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op_request *r = &k->request;
    struct matmul_state *state = pst_alloc(1, sizeof *state);
    pst_status status = PST_OK;

    k->state = state;
    for (uint32_t i = 0; i < (r->pass == PST_KERNEL_B ? 2u : 1u) && status == PST_OK; i++) {
        const struct matmul w = matmul_of(r, i);
        const struct pst_cuda_product_shape shape = product_of(r, &w);

        status = pst_cuda_product_init(r->device, &shape, &state->products[i], err);
    }
    return status;
}

static void finish(struct pst_cuda_kernel *k)
{
    struct matmul_state *state = k->state;

    for (uint32_t i = 0; state != NULL && i < 2; i++) {
        pst_cuda_product_finish(&state->products[i]);
    }
    free(state);
}

/* Where the matrix of operand i is that product `which` of a sample reads; 2: y or dy. */
static const void *matrix_at(const struct pst_op_request *r, const struct pst_call *call,
                             const struct matmul *w, uint32_t i, uint64_t sample, uint64_t which)
{
    const struct pst_tensor *y = request_out(r);

    if (i == 2) {
        return pst_cuda_at(r, r->pass == PST_KERNEL_F ? call->y[0] : call->dy,
                           sample * y->elems + which * (y->elems / w->n_products));
    }
    return pst_cuda_at(r, call->x[i],
                       sample * request_in(r, i)->elems + pst_spread_at(&w->spread, i, which));
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct matmul_state *state = k->state;
    const struct matmul w = matmul_of(r, 0);
    const uint64_t all = w.at_once ? 1 : r->samples * w.n_products;

    for (uint64_t i = 0; i < all; i++) {
        const uint64_t sample = i / w.n_products, which = i % w.n_products;

        pst_cuda_product_run(&state->products[0], r->op->name,
                             (void *)(uintptr_t)matrix_at(r, call, &w, 2, sample, which),
                             matrix_at(r, call, &w, 0, sample, which),
                             matrix_at(r, call, &w, 1, sample, which), 1, 0, call->workspace);
    }
}

/* The first product of a matrix replaces what is there: the one at the beginning of the axes along
   which the factor spreads. */
static bool is_first(const struct matmul *w, uint32_t k, uint64_t which)
{
    for (uint32_t axis = w->spread.rank; axis-- > 0;) {
        if (w->spread.stride[k][axis] == 0 && which % w->spread.dims[axis] != 0) {
            return false;
        }
        which /= w->spread.dims[axis];
    }
    return true;
}

static void gradient(const struct pst_cuda_kernel *kernel, const struct pst_call *call, uint32_t k)
{
    const struct pst_op_request *r = &kernel->request;
    const struct matmul_state *state = kernel->state;
    const struct matmul w = matmul_of(r, k);
    const bool dy_left = pst_matmul_dy_left(r->op, k), wide = sum_bytes(r, k) != 0;
    const uint64_t elems = request_in(r, k)->elems, all = w.at_once ? 1 : r->samples * w.n_products;
    float *sums = NULL;
    uint64_t used = 0;

    pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);
    sums = pst_cuda_carve(call->workspace, &used, sum_bytes(r, k));
    for (uint64_t i = 0; i < all; i++) {
        const uint64_t sample = i / w.n_products, which = i % w.n_products;
        const uint64_t at = sample * elems + pst_spread_at(&w.spread, k, which);
        const void *dy = matrix_at(r, call, &w, 2, sample, which);
        const void *other = matrix_at(r, call, &w, 1 - k, sample, which);

        pst_cuda_product_run(&state->products[k], r->op->name,
                             wide ? (void *)(sums + at) : pst_cuda_at(r, call->dx[k], at),
                             dy_left ? dy : other, dy_left ? other : dy, 1,
                             is_first(&w, k, which) ? 0 : 1, call->workspace);
    }
    if (wide) {
        pst_cuda_refresh(r->device->compute, call->dx[k], sums, true, r->samples * elems);
    }
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (request_operand(call->dx, i) != NULL) {
            gradient(k, call, i);
        }
    }
}

const struct pst_cuda_family pst_cuda_matmul_family = {
    NULL, workspace, init, finish, {forward, backward, NULL}};
