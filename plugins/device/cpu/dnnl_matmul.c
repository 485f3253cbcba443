/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices of which a sample has several: each is one of oneDNN's on one thread, so the
 * split over threads changes no bit. bf16 matrices are widened first.
 */
#include "dnnl_gemm.h"

#include "device/common/broadcast.h"

struct matmul {
    const struct pst_op_request *request;
    const struct pst_call *call;
    struct pst_matmul shape, back; /* of F; of the gradient of factor `k` */
    struct pst_spread spread;
    uint64_t n_products, n_matrices; /* of a sample: in all, of the result of this pass */
    uint64_t room;                   /* floats of a thread's matrix */
    uint32_t k;
};

static bool serves(const struct pst_op_request *request)
{
    return request->pass != PST_KERNEL_W;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Buffers of a thread: both factors, widened; their product; another one. */
enum { MATRICES = 4 };

static uint64_t room_of(const struct pst_op_request *request)
{
    const struct pst_matmul p = request_matmul(request);

    return (larger(larger(p.m * p.k, p.k * p.n), p.m * p.n) + 15) / 16 * 16;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    return request->device->threads * MATRICES * room_of(request) * sizeof(float);
}

/* Widens a matrix of bf16 into `room`. Returns one of f32 as it is. */
static const float *widened(const struct matmul *w, const void *matrix, uint64_t at, uint64_t elems,
                            float *room)
{
    if (w->request->dtype == PST_F32) {
        return (const float *)matrix + at;
    }
    w->request->device->simd->widen(room, (const uint16_t *)matrix + at, elems);
    return room;
}

/* sums = left right. A row of one element has no stride of its own. */
static void multiply(const struct pst_matmul *p, const float *left, const float *right, float *sums)
{
    struct pst_gemm gemm = {.shape = {.dtype = PST_F32,
                                      .trans_a = p->a_k != 1,
                                      .trans_b = p->b_n != 1,
                                      .m = (int64_t)p->m,
                                      .n = (int64_t)p->n,
                                      .k = (int64_t)p->k,
                                      .ldc = (int64_t)p->n}};

    gemm.shape.lda = (int64_t)(p->a_k != 1 ? larger(p->a_k, p->m) : larger(p->a_m, p->k));
    gemm.shape.ldb = (int64_t)(p->b_n != 1 ? larger(p->b_n, p->k) : larger(p->b_k, p->n));
    pst_gemm_run(&gemm, left, right, sums, NULL);
}

/* --- forward ---------------------------------------------------------------------------------- */

static void some_products(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct matmul *w = context;
    const struct pst_op_request *request = w->request;
    const struct pst_matmul *p = &w->shape;
    float *floats = (float *)w->call->workspace + thread * MATRICES * w->room;

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t sample = i / w->n_products, which = i % w->n_products;
        const uint64_t a =
            sample * request_in(request, 0)->elems + pst_spread_at(&w->spread, 0, which);
        const uint64_t b =
            sample * request_in(request, 1)->elems + pst_spread_at(&w->spread, 1, which);
        const float *left = widened(w, w->call->x[0], a, p->m * p->k, floats);
        const float *right = widened(w, w->call->x[1], b, p->k * p->n, floats + w->room);

        if (request->dtype == PST_F32) {
            multiply(p, left, right, (float *)w->call->y[0] + i * p->m * p->n);
        } else {
            multiply(p, left, right, floats + 2 * w->room);
            request->device->simd->narrow((uint16_t *)w->call->y[0] + i * p->m * p->n,
                                          floats + 2 * w->room, p->m * p->n);
        }
    }
}

static struct matmul matmul_of(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;
    struct matmul w = {.request = request, .call = call, .shape = request_matmul(request)};

    w.spread = request_spread(request, 2);
    w.n_products = pst_spread_elems(&w.spread);
    w.room = room_of(request);
    return w;
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct matmul w = matmul_of(kernel, call);

    pst_cpu_parallel(w.request->device, w.request->samples * w.n_products, some_products, &w);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* sums = the gradient of a matrix of factor k by product `which` of a sample. */
static void gradient(const struct matmul *w, uint64_t sample, uint64_t which, float *floats,
                     float *sums)
{
    const struct pst_op_request *request = w->request;
    const uint64_t dy_elems = w->shape.m * w->shape.n;
    const uint64_t other_elems = w->k == 0 ? w->shape.k * w->shape.n : w->shape.m * w->shape.k;
    const uint64_t at =
        sample * request_in(request, 1 - w->k)->elems + pst_spread_at(&w->spread, 1 - w->k, which);
    const float *dy =
        widened(w, w->call->dy, (sample * w->n_products + which) * dy_elems, dy_elems, floats);
    const float *other = widened(w, w->call->x[1 - w->k], at, other_elems, floats + w->room);
    const bool dy_left = pst_matmul_dy_left(request->op, w->k);

    multiply(&w->back, dy_left ? dy : other, dy_left ? other : dy, sums);
}

/* Items are the matrices of factor k, which are in one product each, or spread over several. */
static void some_gradients(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct matmul *w = context;
    const struct pst_simd *simd = w->request->device->simd;
    const uint64_t elems = w->back.m * w->back.n;
    const bool alone = w->n_matrices == w->n_products, direct = w->request->dtype == PST_F32;
    float *floats = (float *)w->call->workspace + thread * MATRICES * w->room;
    float *more = floats + 3 * w->room;

    for (uint64_t i = begin; i < end; i++) {
        const uint64_t sample = i / w->n_matrices, matrix = i % w->n_matrices;
        const uint64_t first = alone ? matrix : 0, last = alone ? matrix + 1 : w->n_products;
        float *sums = direct ? (float *)w->call->dx[w->k] + i * elems : floats + 2 * w->room;
        bool any = false;

        for (uint64_t which = first; which < last; which++) {
            if (!alone && pst_spread_at(&w->spread, w->k, which) != matrix * elems) {
                continue;
            }
            gradient(w, sample, which, floats, any ? more : sums);
            if (any) {
                simd->add(sums, sums, more, elems);
            }
            any = true;
        }
        if (!direct) {
            simd->narrow((uint16_t *)w->call->dx[w->k] + i * elems, sums, elems);
        }
    }
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct matmul w = matmul_of(kernel, call);

    for (w.k = 0; w.k < 2; w.k++) {
        if (request_operand(call->dx, w.k) != NULL) {
            w.back = pst_matmul_back(&w.shape, w.request->op, w.k);
            w.n_matrices = request_in(w.request, w.k)->elems / (w.back.m * w.back.n);
            pst_cpu_parallel(w.request->device, w.request->samples * w.n_matrices, some_gradients,
                             &w);
        }
    }
}

const struct pst_cpu_family pst_cpu_matmul = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {forward, backward, NULL},
};
