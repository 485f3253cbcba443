/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers: one product a pass. Bias, activation and the gradient of the bias are left to the
 * library where it takes them with these types and shapes, else a kernel of our own stands after
 * the product. Which it is follows from these alone, so that all plans of a run have the same bits.
 */
#include "product.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

#define LARGE (1u << 20) /* weights */

struct linear {
    struct pst_cuda_product plain, fused; /* fused: may not be ready */
    void *rounded;                        /* the bias as fused takes it; NULL: that is f32 */
    const void *bias; /* that was rounded in front of the pass; NULL: none was */
};

struct linear_shape {
    uint64_t rows, in, out;
    bool bias, finished; /* finished: bias or activation stand after the product */
};

static struct linear_shape shape_of(const struct pst_op_request *r)
{
    struct linear_shape s;

    s.rows = request_rows(r, request_in(r, 0));
    s.in = request_columns(request_in(r, 0));
    s.out = request_columns(request_out(r));
    s.bias = request_has_param(r, 1);
    s.finished = s.bias || r->op->act != PST_ACT_NONE;
    return s;
}

/* F: sums before they are rounded. W: sums of columns, for the bias. Plans are made before the
   library is asked, so this is there whether it takes them or not. */
static uint64_t own_bytes(const struct pst_op_request *r, const struct linear_shape *s)
{
    if (r->pass == PST_KERNEL_F) {
        return s->finished && pst_cuda_bf16(r) ? s->rows * s->out * sizeof(float) : 0;
    }
    return r->pass == PST_KERNEL_W && s->bias
               ? pst_cuda_column_floats(s->rows, s->out) * sizeof(float)
               : 0;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct linear_shape s = shape_of(r);
    uint64_t used = 0;

    pst_cuda_carve(NULL, &used, PST_CUDA_PRODUCT_BYTES);
    pst_cuda_carve(NULL, &used, own_bytes(r, &s));
    return used;
}

static struct pst_cuda_product_shape product_of(const struct pst_op_request *r,
                                                const struct linear_shape *s)
{
    struct pst_cuda_product_shape p = {.bf16 = pst_cuda_bf16(r), .align = 256};
    const bool stored = r->op->transposed; /* p0 is [out,in] */

    switch (r->pass) {
    case PST_KERNEL_F: /* y[rows,out] = x[rows,in] p0 */
        p.m = s->rows;
        p.n = p.ldd = s->out;
        p.k = p.lda = s->in;
        p.b_transposed = stored;
        p.ldb = stored ? s->in : s->out;
        p.d_bf16 = p.bf16 && !s->finished;
        break;
    case PST_KERNEL_B: /* dx[rows,in] = dh[rows,out] p0^T */
        p.m = s->rows;
        p.n = p.ldd = s->in;
        p.k = p.lda = s->out;
        p.b_transposed = !stored;
        p.ldb = stored ? s->in : s->out;
        p.d_bf16 = p.bf16;
        break;
    default: /* dp0[in,out] = x^T dh, or dp0[out,in] = dh^T x */
        p.m = p.lda = stored ? s->out : s->in;
        p.n = p.ldb = p.ldd = stored ? s->in : s->out;
        p.k = s->rows;
        p.a_transposed = true;
        break;
    }
    return p;
}

/* The epilogue of pass W. The library's bf16 kernels with sums were made for Ampere; a Hopper
   kernel and then one for the sums is faster. With operands rounded to TF32 the sums may be of
   rounded values, too; run.dtype promises TF32 for products only. */
static uint32_t sums_of(const struct pst_op_request *r)
{
    const struct pst_device *device = r->device;

    if (device->choices.simple || (pst_cuda_bf16(r) ? !device->choices.fused_sums : device->tf32)) {
        return PST_CUDA_PLAIN;
    }
    return r->op->transposed ? PST_CUDA_SUM_A : PST_CUDA_SUM_B;
}

/* The library keeps what stands before a gelu in rows of whole 16 bytes. */
static uint32_t epilogue_of(const struct pst_op_request *r, const struct linear_shape *s)
{
    if (!s->bias || r->pass == PST_KERNEL_B) {
        return PST_CUDA_PLAIN;
    }
    if (r->pass == PST_KERNEL_W) {
        return sums_of(r);
    }
    if (r->op->act == PST_ACT_GELU) {
        return s->out % 8 == 0 ? PST_CUDA_BIAS_GELU_AUX : PST_CUDA_PLAIN;
    }
    return r->op->act == PST_ACT_RELU ? PST_CUDA_BIAS_RELU : PST_CUDA_BIAS;
}

/* Not ready where the library refuses the shape, which is no error. */
static pst_status init_one(const struct pst_op_request *r, struct linear *linear,
                           const struct pst_cuda_product_shape *p, struct pst_error *err)
{
    struct pst_error why = {0};
    pst_status status = pst_cuda_product_init(r->device, p, &linear->fused, &why);

    if (status == PST_ERR_UNSUPPORTED) {
        return PST_OK;
    }
    if (status != PST_OK && err != NULL) {
        *err = why;
    }
    return status;
}

/*
 * Behind a bf16 product the library is only promised to take a bias of that type. Sums for the
 * gradient of a bias have the type of the product, which is f32 there; rounded ones are not asked
 * for, as they are to be added up.
 */
static pst_status init_fused(const struct pst_op_request *r, const struct linear_shape *s,
                             struct linear *linear, struct pst_cuda_product_shape p,
                             struct pst_error *err)
{
    pst_status status;

    p.epilogue = epilogue_of(r, s);
    p.d_bf16 = p.bf16 && r->pass == PST_KERNEL_F;
    status = init_one(r, linear, &p, err);
    if (status == PST_OK && !linear->fused.ready && p.d_bf16) {
        p.bias_bf16 = true;
        status = init_one(r, linear, &p, err);
    }
    if (status == PST_OK && linear->fused.ready && p.bias_bf16) {
        const cudaError_t error = cudaMalloc(&linear->rounded, s->out * sizeof(uint16_t));

        status = error == cudaSuccess ? PST_OK : pst_cuda_fail(err, "room for a bias", error);
    }
    return status;
}

/* Large weights whose rows have no whole number of 16 bytes: of bf16 the library has its fast
   kernels for all others. Once for each layer. */
static void note_odd(const struct pst_op_request *r, const struct linear_shape *s)
{
    const uint64_t odd = s->out % 8 != 0 ? s->out : s->in;
    char text[320];

    if (r->device->note == NULL || r->pass != PST_KERNEL_F || !pst_cuda_bf16(r) || odd % 8 == 0 ||
        s->in * s->out < LARGE) {
        return;
    }
    snprintf(text, sizeof text,
             "%.60s: bf16 weights of %llu x %llu are multiplied slowly, because rows of %llu are "
             "not a multiple of 16 bytes and tensor cores cannot use 16-byte loads; if that is the "
             "vocabulary, set model.vocab = %llu",
             r->op->name, (unsigned long long)s->in, (unsigned long long)s->out,
             (unsigned long long)odd, (unsigned long long)((odd + 63) / 64 * 64));
    r->device->note(text);
}

static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op_request *r = &k->request;
    const struct linear_shape s = shape_of(r);
    struct pst_cuda_product_shape p = product_of(r, &s);
    struct linear *linear = pst_alloc(1, sizeof *linear);
    pst_status status;

    k->state = linear;
    note_odd(r, &s);
    status = pst_cuda_product_init(r->device, &p, &linear->plain, err);
    if (status == PST_OK && epilogue_of(r, &s) != PST_CUDA_PLAIN) {
        status = init_fused(r, &s, linear, p, err);
    }
    return status;
}

static void finish(struct pst_cuda_kernel *k)
{
    struct linear *linear = k->state;

    if (linear != NULL) {
        pst_cuda_product_finish(&linear->plain);
        pst_cuda_product_finish(&linear->fused);
        cudaFree(linear->rounded);
        free(linear);
    }
}

/* Biases that products of a pass take rounded: one kernel for many, not one in front of each. */
void pst_cuda_round_biases(struct pst_device *device, const struct pst_kernel_call *calls,
                           uint32_t n)
{
    struct pst_cuda_rounding list[PST_CUDA_ROUNDINGS];
    uint32_t n_biases = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_cuda_kernel *k =
            (const struct pst_cuda_kernel *)(const void *)calls[i].kernel;
        const bool linear_f =
            k != NULL && k->family == &pst_cuda_linear_family && k->request.pass == PST_KERNEL_F;
        struct linear *linear = linear_f ? k->state : NULL;

        if (linear != NULL && linear->rounded != NULL) {
            linear->bias = calls[i].call.p[1];
            list[n_biases++] = (struct pst_cuda_rounding){
                linear->bias, linear->rounded, request_columns(request_out(&k->request))};
        }
        if (n_biases == PST_CUDA_ROUNDINGS || (n_biases > 0 && i + 1 == n)) {
            pst_cuda_round(device->compute, true, list, n_biases);
            pst_cuda_note_launch(device, "rounding biases");
            n_biases = 0;
        }
    }
}

static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct linear *linear = k->state;
    const struct linear_shape s = shape_of(r);
    void *h = r->op->act == PST_ACT_GELU ? call->y[1] : NULL, *acc = call->y[0];
    uint64_t used = 0;
    void *product = pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);

    if (s.finished && pst_cuda_bf16(r)) {
        acc = pst_cuda_carve(call->workspace, &used, own_bytes(r, &s));
        if (r->op->act == PST_ACT_GELU && h == NULL) { /* nobody keeps it: the same kernel runs */
            h = pst_cuda_at(r, acc, s.rows * s.out);
        }
    }
    if (linear->fused.ready && (h != NULL || r->op->act != PST_ACT_GELU)) {
        const void *bias = call->p[1];

        if (linear->rounded != NULL) {
            bias = linear->rounded;
        }
        if (linear->rounded != NULL && linear->bias != call->p[1]) { /* it was in no pass */
            pst_cuda_refresh(r->device->compute, linear->rounded, call->p[1], true, s.out);
        }
        pst_cuda_product_run_fused(&linear->fused, r->op->name, call->y[0], call->x[0], call->p[0],
                                   bias, h, product);
        return;
    }
    pst_cuda_product_run(&linear->plain, r->op->name, acc, call->x[0], call->p[0], 1, 0, product);
    if (s.finished) {
        pst_cuda_bias_act(r->device->compute, pst_cuda_bf16(r), call->y[0], h, acc,
                          request_param(r, call, 1), r->op->act, s.rows, s.out);
    }
}

static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct linear *linear = k->state;
    const struct linear_shape s = shape_of(r);
    const void *dh = call->dy;
    void *dx = request_operand(call->dx, 0);

    if (r->op->act != PST_ACT_NONE) {
        pst_cuda_act_back(r->device->compute, pst_cuda_bf16(r), call->z[0], call->dy,
                          call->y[r->op->act == PST_ACT_GELU ? 1 : 0], r->op->act, s.rows * s.out);
        dh = call->z[0];
    }
    if (dx != NULL) {
        pst_cuda_product_run(&linear->plain, r->op->name, dx, dh, call->p[0], 1, 0,
                             call->workspace);
    }
}

static void weights(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct linear *linear = k->state;
    const struct linear_shape s = shape_of(r);
    const void *dh = r->op->act == PST_ACT_NONE ? call->dy : call->z[0], *x = call->x[0];
    const void *a = r->op->transposed ? dh : x, *b = r->op->transposed ? x : dh;
    float *dweight = request_dp(r, call, 0), *dbias = request_dp(r, call, 1);
    uint64_t used = 0;
    void *product = pst_cuda_carve(call->workspace, &used, PST_CUDA_PRODUCT_BYTES);

    if (dweight != NULL && dbias != NULL && linear->fused.ready) {
        pst_cuda_product_run_sums(&linear->fused, r->op->name, dweight, a, b, dbias, product);
        return;
    }
    if (dweight != NULL) {
        pst_cuda_product_run(&linear->plain, r->op->name, dweight, a, b, 1, 0, product);
    }
    if (dbias != NULL) {
        pst_cuda_column_sums(r->device->compute, pst_cuda_bf16(r), dbias, dh, s.rows, s.out,
                             pst_cuda_carve(call->workspace, &used, own_bytes(r, &s)));
    }
}

const struct pst_cuda_family pst_cuda_linear_family = {
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, weights},
};
