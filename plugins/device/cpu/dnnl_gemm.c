/* SPDX-License-Identifier: Apache-2.0 */
#include "dnnl_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#define TURNED 384u /* rows of a turned b at a time: what dnnl_sgemm packs at a time */
#define STRIP  16u  /* of its columns */

static dnnl_memory_desc_t matrix(uint32_t dtype, bool trans, int64_t rows, int64_t columns,
                                 int64_t ld)
{
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {trans ? 1 : ld, trans ? ld : 1};
    dnnl_memory_desc_t desc;

    dnnl_memory_desc_init_by_strides(&desc, 2, dims, dtype == PST_BF16 ? dnnl_bf16 : dnnl_f32,
                                     strides);
    return desc;
}

struct descs {
    dnnl_memory_desc_t a, b, c;
};

static struct descs descs_of(const struct pst_gemm_shape *shape)
{
    struct descs descs;

    descs.a = matrix(shape->dtype, shape->trans_a, shape->m, shape->k, shape->lda);
    descs.b = matrix(shape->dtype, shape->trans_b, shape->k, shape->n, shape->ldb);
    descs.c = matrix(PST_F32, false, shape->m, shape->n, shape->ldc);
    return descs;
}

/* The caller destroys it. */
static dnnl_status_t describe(const struct pst_device *device, const struct pst_gemm_shape *shape,
                              dnnl_primitive_desc_t *ret_desc)
{
    const struct descs descs = descs_of(shape);
    const int old = pst_cpu_threads_push(device->threads);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);

    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    }
    if (status == dnnl_success) {
        status = dnnl_matmul_desc_init(&matmul, &descs.a, &descs.b, NULL, &descs.c);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_desc_create(ret_desc, &matmul, attr, device->engine, NULL);
    }
    if (attr != NULL) {
        dnnl_primitive_attr_destroy(attr);
    }
    pst_cpu_threads_pop(old);
    return status;
}

static uint64_t scratch_of(dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);

    return (dnnl_memory_desc_get_size(scratch) + 63) / 64 * 64;
}

/* A multiple of 16, and off powers of two. */
static uint64_t turned_ld(const struct pst_gemm_shape *shape)
{
    return ((uint64_t)shape->n + 15) / 16 * 16 + 16;
}

uint64_t pst_gemm_scratch(const struct pst_device *device, const struct pst_gemm_shape *shape)
{
    dnnl_primitive_desc_t desc = NULL;
    uint64_t bytes = 0;

    if (shape->turn) {
        return (uint64_t)(shape->k < TURNED ? shape->k : TURNED) * turned_ld(shape) * sizeof(float);
    }
    if (shape->dtype == PST_BF16 && describe(device, shape, &desc) == dnnl_success) {
        bytes = scratch_of(desc);
        dnnl_primitive_desc_destroy(desc);
    }
    return bytes;
}

static dnnl_status_t make_memory(const struct pst_device *device, const dnnl_memory_desc_t *desc,
                                 void **ret_memory)
{
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = dnnl_memory_create(&memory, desc, device->engine, DNNL_MEMORY_NONE);

    *ret_memory = memory;
    return status;
}

pst_status pst_gemm_init(struct pst_gemm *gemm, const struct pst_device *device,
                         const struct pst_gemm_shape *shape, struct pst_error *err)
{
    const struct descs descs = descs_of(shape);
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_status_t status;

    gemm->shape = *shape;
    gemm->device = device;
    if (shape->dtype == PST_F32) {
        gemm->scratch_bytes = pst_gemm_scratch(device, shape);
        return PST_OK;
    }
    status = describe(device, shape, &desc);
    if (status == dnnl_success) {
        gemm->scratch_bytes = scratch_of(desc);
        status = dnnl_primitive_create(&primitive, desc);
        gemm->primitive = primitive;
    }
    if (status == dnnl_success) {
        status =
            make_memory(device, dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0),
                        &gemm->scratch);
    }
    status = status == dnnl_success ? make_memory(device, &descs.a, &gemm->a) : status;
    status = status == dnnl_success ? make_memory(device, &descs.b, &gemm->b) : status;
    status = status == dnnl_success ? make_memory(device, &descs.c, &gemm->c) : status;
    if (desc != NULL) {
        dnnl_primitive_desc_destroy(desc);
    }
    if (status != dnnl_success) {
        pst_dnnl_heed_no_memory(status);
        return pst_fail(err, PST_ERR_DEVICE, "run.device",
                        "oneDNN made no product of %lld x %lld x %lld (status %d)",
                        (long long)shape->m, (long long)shape->n, (long long)shape->k, (int)status);
    }
    return PST_OK;
}

void pst_gemm_finish(struct pst_gemm *gemm)
{
    void *const memories[] = {gemm->a, gemm->b, gemm->c, gemm->scratch};

    for (uint32_t i = 0; i < 4; i++) {
        if (memories[i] != NULL) {
            dnnl_memory_destroy(memories[i]);
        }
    }
    if (gemm->primitive != NULL) {
        dnnl_primitive_destroy(gemm->primitive);
    }
}

static void multiply(const struct pst_gemm_shape *s, bool trans_b, int64_t k, const float *a,
                     const float *b, int64_t ldb, float beta, float *c)
{
    const dnnl_status_t status = dnnl_sgemm(s->trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', s->m, s->n,
                                            k, 1.0f, a, s->lda, b, ldb, beta, c, s->ldc);

    pst_dnnl_must(status);
}

/* Some rows of what b is when it is turned. */
struct turn {
    const struct pst_gemm *gemm;
    const float *b;
    float *turned;
    uint64_t rows;
};

static void turn_strips(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct turn *turn = context;
    const struct pst_gemm_shape *s = &turn->gemm->shape;
    const uint64_t n = (uint64_t)s->n, ldb = (uint64_t)s->ldb, first = begin * STRIP;

    (void)thread;
    turn->gemm->device->simd->turn(turn->turned + first, turned_ld(s), turn->b + first * ldb, ldb,
                                   (end * STRIP < n ? end * STRIP : n) - first, turn->rows);
}

static void run_turned(const struct pst_gemm *gemm, const float *a, const float *b, float *c,
                       float *turned)
{
    const struct pst_gemm_shape *s = &gemm->shape;
    const uint64_t k = (uint64_t)s->k;

    for (uint64_t at = 0; at < k; at += TURNED) {
        struct turn turn = {gemm, b + at, turned, k - at < TURNED ? k - at : TURNED};

        pst_cpu_parallel(gemm->device, ((uint64_t)s->n + STRIP - 1) / STRIP, turn_strips, &turn);
        multiply(s, false, (int64_t)turn.rows, a + at * (s->trans_a ? (uint64_t)s->lda : 1), turned,
                 (int64_t)turned_ld(s), at == 0 ? 0.0f : 1.0f, c);
    }
}

void pst_gemm_run(const struct pst_gemm *gemm, const void *a, const void *b, float *c,
                  void *scratch)
{
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, gemm->a},
        {DNNL_ARG_WEIGHTS, gemm->b},
        {DNNL_ARG_DST, gemm->c},
        {DNNL_ARG_SCRATCHPAD, gemm->scratch},
    };
    const struct pst_gemm_shape *s = &gemm->shape;
    dnnl_status_t status;

    if (s->turn) {
        run_turned(gemm, a, b, c, scratch);
        return;
    }
    if (s->dtype == PST_F32) {
        multiply(s, s->trans_b, s->k, a, b, s->ldb, 0.0f, c);
        return;
    }
    dnnl_memory_set_data_handle(gemm->a, (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(gemm->b, (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(gemm->c, c);
    dnnl_memory_set_data_handle(gemm->scratch, scratch);
    status = dnnl_primitive_execute(gemm->primitive, gemm->device->stream, 4, args);
    if (status == dnnl_success) {
        status = dnnl_stream_wait(gemm->device->stream);
    }
    pst_dnnl_must(status);
}
