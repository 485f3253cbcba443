/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the device and cuBLASLt, as faults.c: products that cannot be described, chosen or
 * started, and counts of descriptions that are still there.
 */
#include <cublasLt.h>

#include "faults.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

cublasStatus_t __real_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                               cublasComputeType_t compute, cudaDataType_t scale);
cublasStatus_t __real_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t __real_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld);
cublasStatus_t __real_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t __real_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref);
cublasStatus_t __real_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref);
cublasStatus_t __real_cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t pref, int wanted, cublasLtMatmulHeuristicResult_t *results, int *n);
cublasStatus_t __real_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                     cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace,
                                     size_t bytes, cudaStream_t stream);

cublasStatus_t product_failure(cublasStatus_t usual)
{
    const int status = cuda_on_host()->product_fault;

    return status != 0 ? (cublasStatus_t)status : usual;
}

static cublasStatus_t count(cublasStatus_t status)
{
    atomic_fetch_add(&cuda_on_host()->descriptions, status == CUBLAS_STATUS_SUCCESS);
    return status;
}

cublasStatus_t __wrap_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    return faulty() ? product_failure(CUBLAS_STATUS_ALLOC_FAILED)
                    : count(__real_cublasLtMatmulDescCreate(desc, compute, scale));
}

cublasStatus_t __wrap_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    atomic_fetch_sub(&cuda_on_host()->descriptions, 1);
    return __real_cublasLtMatmulDescDestroy(desc);
}

cublasStatus_t __wrap_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    return faulty() ? product_failure(CUBLAS_STATUS_ALLOC_FAILED)
                    : count(__real_cublasLtMatrixLayoutCreate(layout, type, rows, cols, ld));
}

cublasStatus_t __wrap_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    atomic_fetch_sub(&cuda_on_host()->descriptions, 1);
    return __real_cublasLtMatrixLayoutDestroy(layout);
}

cublasStatus_t __wrap_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    return faulty() ? product_failure(CUBLAS_STATUS_ALLOC_FAILED)
                    : count(__real_cublasLtMatmulPreferenceCreate(pref));
}

cublasStatus_t __wrap_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    atomic_fetch_sub(&cuda_on_host()->descriptions, 1);
    return __real_cublasLtMatmulPreferenceDestroy(pref);
}

cublasStatus_t __wrap_cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t pref, int wanted, cublasLtMatmulHeuristicResult_t *results, int *n)
{
    return faulty() ? product_failure(CUBLAS_STATUS_ALLOC_FAILED)
                    : __real_cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, pref, wanted,
                                                            results, n);
}

cublasStatus_t __wrap_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                     cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace,
                                     size_t bytes, cudaStream_t stream)
{
    return faulty() ? product_failure(CUBLAS_STATUS_EXECUTION_FAILED)
                    : __real_cublasLtMatmul(handle, desc, alpha, a, a_layout, b, b_layout, beta, c,
                                            c_layout, d, d_layout, algo, workspace, bytes, stream);
}
