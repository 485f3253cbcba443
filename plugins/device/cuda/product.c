/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <string.h>

uint32_t pst_cuda_alignment(uint64_t bytes)
{
    uint32_t align = 256;

    while (bytes % align != 0) {
        align /= 2;
    }
    return align;
}

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *ret_layout, bool bf16, uint64_t rows,
                                  uint64_t cols, uint64_t ld, uint32_t batches, uint64_t step)
{
    const cudaDataType_t type = bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const int32_t count = (int32_t)batches;
    const int64_t offset = (int64_t)step;
    cublasStatus_t status = cublasLtMatrixLayoutCreate(ret_layout, type, rows, cols, (int64_t)ld);

    if (status == CUBLAS_STATUS_SUCCESS && batches > 1) {
        status = cublasLtMatrixLayoutSetAttribute(*ret_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count);
    }
    if (status == CUBLAS_STATUS_SUCCESS && batches > 1) {
        status = cublasLtMatrixLayoutSetAttribute(
            *ret_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset);
    }
    return status;
}

/* Row-major d = a b is, read by columns, d' = b' a'. */
static cublasStatus_t make_layouts(struct pst_cuda_product *p,
                                   const struct pst_cuda_product_shape *s)
{
    cublasStatus_t status =
        make_layout(&p->a, s->bf16, s->b_transposed ? s->k : s->n, s->b_transposed ? s->n : s->k,
                    s->ldb, s->batches, s->b_step);

    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&p->b, s->bf16, s->a_transposed ? s->m : s->k,
                             s->a_transposed ? s->k : s->m, s->lda, s->batches, s->a_step);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&p->d, s->d_bf16, s->n, s->m, s->ldd, s->batches, s->d_step);
    }
    return status;
}

static cublasStatus_t set(struct pst_cuda_product *p, cublasLtMatmulDescAttributes_t which,
                          const void *value, size_t size)
{
    return cublasLtMatmulDescSetAttribute(p->desc, which, value, size);
}

/* Pointers come with each call; until then one that is as aligned as those will be. */
static cublasStatus_t set_epilogue(struct pst_cuda_product *p,
                                   const struct pst_cuda_product_shape *s)
{
    static const cublasLtEpilogue_t names[] = {
        [PST_CUDA_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
        [PST_CUDA_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [PST_CUDA_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
        [PST_CUDA_BIAS_GELU_AUX] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        [PST_CUDA_SUM_A] = CUBLASLT_EPILOGUE_BGRADB, /* a and b change places */
        [PST_CUDA_SUM_B] = CUBLASLT_EPILOGUE_BGRADA,
    };
    const cudaDataType_t bias = s->bias_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const int64_t ld = (int64_t)s->n;
    const void *place = p->device->square;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    if (s->epilogue == PST_CUDA_PLAIN) {
        return status;
    }
    status = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &names[s->epilogue], sizeof names[0]);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &place, sizeof place);
    }
    if (status == CUBLAS_STATUS_SUCCESS && s->epilogue == PST_CUDA_BIAS_GELU_AUX) {
        status = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    }
    if (status == CUBLAS_STATUS_SUCCESS && s->epilogue == PST_CUDA_BIAS_GELU_AUX) {
        status = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &place, sizeof place);
    }
    return status;
}

static cublasStatus_t make_desc(struct pst_cuda_product *p, const struct pst_cuda_product_shape *s)
{
    const cublasOperation_t yes = CUBLAS_OP_T;
    const int32_t sms = (int32_t)p->device->sms;
    const cublasComputeType_t compute =
        p->device->tf32 && !s->bf16 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t status = cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F);

    if (status == CUBLAS_STATUS_SUCCESS && s->b_transposed) {
        status = set(p, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes);
    }
    if (status == CUBLAS_STATUS_SUCCESS && s->a_transposed) {
        status = set(p, CUBLASLT_MATMUL_DESC_TRANSB, &yes, sizeof yes);
    }
    if (status == CUBLAS_STATUS_SUCCESS && p->device->sms > 0) {
        status = set(p, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &sms, sizeof sms);
    }
    return status == CUBLAS_STATUS_SUCCESS ? set_epilogue(p, s) : status;
}

/* Returns true if the library refuses this shape. Other errors, such as a lack of memory, must not
   lead to another algorithm, whose sums could have another order. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

pst_status pst_cuda_product_fail(const struct pst_cuda_product_shape *s, cublasStatus_t status,
                                 struct pst_error *err)
{
    const bool refused = is_refusal(status);

    pst_fail(err, refused ? PST_ERR_UNSUPPORTED : PST_ERR_DEVICE,
             refused ? "device.kernel" : "run.device",
             "cuBLASLt %s product of %llu x %llu x %llu: %s", refused ? "has no" : "failed at a",
             (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k,
             cublasLtGetStatusString(status));
    if (status == CUBLAS_STATUS_ALLOC_FAILED) {
        pst_cuda_hint_memory(err);
    }
    return refused ? PST_ERR_UNSUPPORTED : PST_ERR_DEVICE;
}

pst_status pst_cuda_product_init(struct pst_device *device,
                                 const struct pst_cuda_product_shape *shape,
                                 struct pst_cuda_product *ret_product, struct pst_error *err)
{
    struct pst_cuda_product_shape s = *shape;
    struct pst_cuda_product p = {.device = device};
    cublasStatus_t made;
    pst_status status;

    s.batches = s.batches == 0 ? 1 : s.batches;
    p.workspace_bytes = PST_CUDA_PRODUCT_BYTES - s.forgone;
    made = make_layouts(&p, &s);
    if (made == CUBLAS_STATUS_SUCCESS) {
        made = make_desc(&p, &s);
    }
    status = made == CUBLAS_STATUS_SUCCESS ? pst_cuda_product_choose(&p, &s, err)
                                           : pst_cuda_product_fail(&s, made, err);
    if (status != PST_OK) {
        pst_cuda_product_finish(&p);
        return status;
    }
    p.ready = true;
    *ret_product = p;
    return PST_OK;
}

void pst_cuda_product_finish(struct pst_cuda_product *product)
{
    if (product->desc != NULL) {
        cublasLtMatmulDescDestroy(product->desc);
    }
    if (product->a != NULL) {
        cublasLtMatrixLayoutDestroy(product->a);
    }
    if (product->b != NULL) {
        cublasLtMatrixLayoutDestroy(product->b);
    }
    if (product->d != NULL) {
        cublasLtMatrixLayoutDestroy(product->d);
    }
    memset(product, 0, sizeof *product);
}

cublasStatus_t pst_cuda_product_put(const struct pst_cuda_product *product, void *d, const void *a,
                                    const void *b, const void *bias, void *aux, float alpha,
                                    float beta, void *workspace)
{
    struct pst_cuda_product p = *product;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    if (bias != NULL) {
        status = set(&p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (status == CUBLAS_STATUS_SUCCESS && aux != NULL) {
        status = set(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    }
    if (status != CUBLAS_STATUS_SUCCESS) { /* it would write where it was told before */
        return status;
    }
    return cublasLtMatmul(p.device->blas, p.desc, &alpha, b, p.a, a, p.b, &beta, d, p.d, d, p.d,
                          &p.algo, workspace, p.workspace_bytes, p.device->compute);
}

void pst_cuda_product_run(const struct pst_cuda_product *product, const char *doing, void *d,
                          const void *a, const void *b, float alpha, float beta, void *workspace)
{
    pst_cuda_note_blas(product->device, doing,
                       pst_cuda_product_put(product, d, a, b, NULL, NULL, alpha, beta, workspace));
}

void pst_cuda_product_run_fused(const struct pst_cuda_product *product, const char *doing, void *d,
                                const void *a, const void *b, const void *bias, void *aux,
                                void *workspace)
{
    pst_cuda_note_blas(product->device, doing,
                       pst_cuda_product_put(product, d, a, b, bias, aux, 1, 0, workspace));
}

void pst_cuda_product_run_sums(const struct pst_cuda_product *product, const char *doing, void *d,
                               const void *a, const void *b, float *sums, void *workspace)
{
    pst_cuda_product_run_fused(product, doing, d, a, b, sums, NULL, workspace);
}
