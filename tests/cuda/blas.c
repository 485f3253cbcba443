/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLASLt as far as the device module calls it, in plain C on host memory, column by column from
 * what descriptors and layouts say. Of epilogues it has those that the module asks for, none where
 * the environment has ON_HOST_PLAIN_PRODUCTS. How many products ran with an epilogue that sums an
 * operand, and in which of several ways, is counted (control.h).
 */
#include <cublasLt.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "faults.h"
#include "streams.h"

struct desc {
    cublasOperation_t a, b;
    bool tf32;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
    cudaDataType_t bias_type;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld, step;
    int32_t batches;
};

static bool plain_only(void)
{
    return getenv("ON_HOST_PLAIN_PRODUCTS") != NULL;
}

/* A library that does what no capture takes: ON_HOST_PRODUCTS=synchronise. */
static bool synchronises(void)
{
    const char *how = getenv("ON_HOST_PRODUCTS");

    return how != NULL && strcmp(how, "synchronise") == 0;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion(void)
{
    return 0;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret_handle)
{
    *ret_handle = faulty() ? NULL : malloc(1);
    atomic_fetch_add(&cuda_on_host()->libraries, *ret_handle != NULL);
    return *ret_handle == NULL ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    atomic_fetch_sub(&cuda_on_host()->libraries, 1);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* Of products, operands and what is preferred: how many are there. */
static cublasStatus_t described(void *description)
{
    atomic_fetch_add(&cuda_on_host()->descriptions, description != NULL);
    return description == NULL ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t forget(void *description)
{
    atomic_fetch_sub(&cuda_on_host()->descriptions, 1);
    free(description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret_desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct desc *desc;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_ALLOC_FAILED);
    }
    desc = calloc(1, sizeof *desc);
    if (desc == NULL ||
        (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F) {
        free(desc);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    desc->tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    *ret_desc = (void *)desc;
    return described(desc);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return forget(desc);
}

static cublasStatus_t take(void *to, size_t room, const void *value, size_t size)
{
    if (room != size) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t size)
{
    struct desc *desc = (void *)handle;
    int32_t sms;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_NOT_INITIALIZED);
    }
    switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&desc->a, sizeof desc->a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&desc->b, sizeof desc->b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&desc->epilogue, sizeof desc->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&desc->bias, sizeof desc->bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return take(&desc->bias_type, sizeof desc->bias_type, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(&desc->aux, sizeof desc->aux, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(&desc->aux_ld, sizeof desc->aux_ld, value, size);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
        if (take(&sms, sizeof sms, value, size) != CUBLAS_STATUS_SUCCESS) {
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        atomic_store(&cuda_on_host()->product_sms, sms);
        return CUBLAS_STATUS_SUCCESS;
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret_layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    struct layout *layout;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_ALLOC_FAILED);
    }
    layout = calloc(1, sizeof *layout);
    if (layout == NULL || ld < (int64_t)rows || rows == 0 || cols == 0) {
        free(layout);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *layout = (struct layout){.type = type, .rows = rows, .cols = cols, .ld = ld, .batches = 1};
    *ret_layout = (void *)layout;
    return described(layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return forget(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t size)
{
    struct layout *layout = (void *)handle;

    switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return take(&layout->batches, sizeof layout->batches, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return take(&layout->step, sizeof layout->step, value, size);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret_pref)
{
    if (faulty()) {
        return product_failure(CUBLAS_STATUS_ALLOC_FAILED);
    }
    *ret_pref = calloc(1, 64);
    return described(*ret_pref);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    return forget(pref);
}

/* Keeps the alignments that are promised of A, B, C and D. */
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t size)
{
    if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        return size == 8 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    }
    if (which >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
        which <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) {
        ((uint32_t *)(void *)pref)[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] =
            *(const uint32_t *)value;
    }
    return size == 4 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static uint64_t rows_of(const struct layout *layout, cublasOperation_t op)
{
    return op == CUBLAS_OP_T ? layout->cols : layout->rows;
}

static uint64_t cols_of(const struct layout *layout, cublasOperation_t op)
{
    return op == CUBLAS_OP_T ? layout->rows : layout->cols;
}

/* Of an operand that is read anyway. */
static bool sums(const struct desc *desc)
{
    return desc->epilogue == CUBLASLT_EPILOGUE_BGRADA || desc->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

static bool fits(const struct desc *desc, const struct layout *a, const struct layout *b,
                 const struct layout *d)
{
    const bool gelu = desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;

    return a->type == b->type && cols_of(a, desc->a) == rows_of(b, desc->b) &&
           rows_of(a, desc->a) == d->rows && cols_of(b, desc->b) == d->cols &&
           a->batches == b->batches && b->batches == d->batches &&
           (!sums(desc) || d->batches == 1) &&
           (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc->bias != NULL) &&
           (!gelu ||
            (desc->aux != NULL && desc->aux_ld % 8 == 0 && desc->aux_ld >= (int64_t)d->rows));
}

/* Ways to make a product, all the same but for what a test says of each. */
struct way {
    uint32_t align[4], number;
};

static bool has(uint32_t set, int number)
{
    return (set & 1u << number) != 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *ret_n)
{
    const struct desc *what = (const void *)desc;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_ALLOC_FAILED);
    }
    if (wanted < 1 || !fits(what, (const void *)a, (const void *)b, (const void *)d)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (plain_only() && what->epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    /* The types of a bias that NVIDIA's table of supported products lists. */
    if (what->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        what->bias_type != ((const struct layout *)(const void *)d)->type) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *ret_n = wanted < PRODUCT_WAYS ? wanted : PRODUCT_WAYS;
    memset(results, 0, (size_t)*ret_n * sizeof *results);
    for (int i = 0; i < *ret_n; i++) {
        struct way *way = (void *)results[i].algo.data;

        memcpy(way->align, (void *)pref, sizeof way->align);
        way->number = (uint32_t)i;
        results[i].state =
            has(cuda_on_host()->stateless, i) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    const struct way *way = (const void *)algo->data;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_ALLOC_FAILED);
    }
    result->state = CUBLAS_STATUS_SUCCESS;
    result->workspaceSize = has(cuda_on_host()->greedy, (int)way->number) ? SIZE_MAX : 0;
    return has(cuda_on_host()->unchecked, (int)way->number) ? CUBLAS_STATUS_NOT_SUPPORTED
                                                            : CUBLAS_STATUS_SUCCESS;
}

static float get(const struct layout *layout, const void *data, uint64_t row, uint64_t col)
{
    const uint64_t at = col * (uint64_t)layout->ld + row;

    return layout->type == CUDA_R_16BF ? pst_bf16_load(((const uint16_t *)data)[at])
                                       : ((const float *)data)[at];
}

static void put(const struct layout *layout, void *data, uint64_t row, uint64_t col, float value)
{
    const uint64_t at = col * (uint64_t)layout->ld + row;

    if (layout->type == CUDA_R_16BF) {
        ((uint16_t *)data)[at] = pst_bf16_round(value);
    } else {
        ((float *)data)[at] = value;
    }
}

static float finished(const struct desc *desc, const struct layout *d, float value, uint64_t row,
                      uint64_t col)
{
    struct layout aux = *d;

    if (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT || sums(desc)) {
        return value;
    }
    value += desc->bias_type == CUDA_R_16BF ? pst_bf16_load(((const uint16_t *)desc->bias)[row])
                                            : ((const float *)desc->bias)[row];
    if (desc->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) {
        return value <= 0 ? 0 : value;
    }
    if (desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        aux.ld = desc->aux_ld;
        put(&aux, desc->aux, row, col, value);
        return 0.5f * value *
               (1 + tanhf(0.79788456f * (value + 0.044715f * value * value * value)));
    }
    return value;
}

static const char *batch(const struct layout *layout, const void *data, int32_t i)
{
    return (const char *)data + i * layout->step * (layout->type == CUDA_R_16BF ? 2 : 4);
}

/* To the 11 bits of TF32: Veltkamp's splitting. */
static float rounded(float value)
{
    const volatile float large = value * 8193.0f, rest = large - value;

    return large - rest;
}

/* The rows of op(a), or the columns of op(b), one behind the other. */
static float *unfold(const struct layout *layout, const char *from, bool by_rows, bool tf32,
                     uint64_t n, uint64_t k)
{
    float *values = malloc(n * k * sizeof *values);

    if (values == NULL) {
        abort();
    }
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < k; j++) {
            const float value = by_rows ? get(layout, from, i, j) : get(layout, from, j, i);

            values[i * k + j] = tf32 ? rounded(value) : value;
        }
    }
    return values;
}

/* Over k, of each row of op(a) or each column of op(b), from the last to the first: not the order
   of the device's own kernel, so that it shows which of the two was at work. */
static void sum_operand(const struct desc *desc, const struct layout *d, const float *rows,
                        const float *cols, uint64_t k)
{
    const bool of_a = desc->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    const float *values = of_a ? rows : cols;
    struct layout to = {.type = desc->bias_type, .ld = 1};

    for (uint64_t i = 0; i < (of_a ? d->rows : d->cols); i++) {
        float sum = 0;

        for (uint64_t j = k; j-- > 0;) {
            sum += values[i * k + j];
        }
        put(&to, (void *)(uintptr_t)desc->bias, 0, i, sum);
    }
}

static void multiply(const struct desc *desc, const struct layout *a, const char *from_a,
                     const struct layout *b, const char *from_b, const struct layout *d, char *to,
                     float alpha, float beta)
{
    const uint64_t k = cols_of(a, desc->a);
    float *rows = unfold(a, from_a, desc->a != CUBLAS_OP_T, desc->tf32, d->rows, k);
    float *cols = unfold(b, from_b, desc->b == CUBLAS_OP_T, desc->tf32, d->cols, k);

    for (uint64_t col = 0; col < d->cols; col++) {
        for (uint64_t row = 0; row < d->rows; row++) {
            float sum = 0;

            for (uint64_t i = 0; i < k; i++) {
                sum += rows[row * k + i] * cols[col * k + i];
            }
            sum = alpha * sum + (beta == 0 ? 0 : beta * get(d, to, row, col));
            put(d, to, row, col, finished(desc, d, sum, row, col));
        }
    }
    if (sums(desc)) {
        sum_operand(desc, d, rows, cols, k);
        atomic_fetch_add(&cuda_on_host()->summing_products, 1);
    }
    free(rows);
    free(cols);
}

struct product {
    uint32_t way;
    struct desc desc;
    struct layout a, b, d;
    const void *from_a, *from_b;
    void *to, *workspace;
    size_t bytes;
    float alpha, beta;
};

static void run_product(void *context)
{
    const struct product *p = context;

    atomic_fetch_add(&cuda_on_host()->products[p->way], 1);
    atomic_fetch_add(&cuda_on_host()->passed_ms, cuda_on_host()->product_ms[p->way]);
    memset(p->workspace, 0xFF, p->bytes); /* whatever is in there does not live */
    for (int32_t i = 0; i < p->d.batches; i++) {
        multiply(&p->desc, &p->a, batch(&p->a, p->from_a, i), &p->b, batch(&p->b, p->from_b, i),
                 &p->d, (char *)(uintptr_t)batch(&p->d, p->to, i), p->alpha, p->beta);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream)
{
    const struct layout *la = (const void *)a_layout, *lb = (const void *)b_layout;
    const struct layout *ld = (const void *)d_layout;
    const struct way *way = (const void *)algo->data;

    if (faulty()) {
        return product_failure(CUBLAS_STATUS_EXECUTION_FAILED);
    }
    if (synchronises() && cudaStreamSynchronize(stream) != cudaSuccess) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (((const struct desc *)(const void *)desc)->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        has(cuda_on_host()->unfused, (int)way->number)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (c != d || (uintptr_t)workspace % 256 != 0 ||
        (uintptr_t)((const struct desc *)(const void *)desc)->aux % 16 != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    for (int32_t i = 0; i < ld->batches; i++) {
        if ((uintptr_t)batch(la, a, i) % way->align[0] != 0 ||
            (uintptr_t)batch(lb, b, i) % way->align[1] != 0 ||
            (uintptr_t)batch(ld, d, i) % way->align[3] != 0) {
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    }
    on_host_enqueue_kernel(stream, run_product,
                           &(struct product){way->number, *(const struct desc *)(const void *)desc,
                                             *la, *lb, *ld, a, b, d, workspace, bytes,
                                             *(const float *)alpha, *(const float *)beta},
                           sizeof(struct product));
    return CUBLAS_STATUS_SUCCESS;
}
