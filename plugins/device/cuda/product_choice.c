/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm a product has. The library's heuristics propose some, best first in their own
 * opinion, and promise nothing: the first that the library also checks is taken. With an epilogue
 * it has to run, too, on operands that are only there for that; where choices are timed the fastest
 * is taken, and kept.
 */
#include "product.h"

#include <stdio.h>

#include "kept.h"

enum { MOST = 8, RUNS = 5 }; /* proposals; of each that is timed */

struct choice {
    struct pst_cuda_product *product;
    const struct pst_cuda_product_shape *shape;
    cublasLtMatmulHeuristicResult_t proposals[MOST];
    int n;
};

/* --- proposals ---------------------------------------------------------------------------------*/

/* The alignment of an operand in all batches: it limits how much is loaded at once. */
static uint32_t alignment_of(const struct pst_cuda_product_shape *s, uint64_t step, bool bf16)
{
    const uint32_t base = s->align == 0 ? 256 : s->align;
    const uint32_t batches = s->batches > 1 ? pst_cuda_alignment(step * (bf16 ? 2 : 4)) : base;

    return batches < base ? batches : base;
}

/* Parts of a sum that is split are kept and added as f32, not in the type of the result. */
static cublasStatus_t prefer(cublasLtMatmulPreference_t pref,
                             const struct pst_cuda_product_shape *s)
{
    const uint64_t bytes = PST_CUDA_PRODUCT_BYTES - s->forgone;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t align_d = alignment_of(s, s->d_step, s->d_bf16);
    const uint32_t align[] = {alignment_of(s, s->b_step, s->bf16),
                              alignment_of(s, s->a_step, s->bf16), align_d, align_d};
    static const cublasLtMatmulPreferenceAttributes_t places[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);

    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulPreferenceSetAttribute(
            pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    }
    for (uint32_t i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++) {
        status = cublasLtMatmulPreferenceSetAttribute(pref, places[i], &align[i], sizeof align[i]);
    }
    return status;
}

static cublasStatus_t propose(struct choice *choice)
{
    const struct pst_cuda_product *p = choice->product;
    cublasLtMatmulPreference_t pref = NULL;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&pref);

    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    status = prefer(pref, choice->shape);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(p->device->blas, p->desc, p->a, p->b, p->d, p->d,
                                                pref, MOST, choice->proposals, &choice->n);
    }
    cublasLtMatmulPreferenceDestroy(pref);
    return status;
}

static cublasStatus_t check(const struct choice *choice, int which)
{
    const cublasLtMatmulHeuristicResult_t *proposal = &choice->proposals[which];
    const struct pst_cuda_product *p = choice->product;
    cublasLtMatmulHeuristicResult_t result = {0};
    cublasStatus_t status = proposal->state;

    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoCheck(p->device->blas, p->desc, p->a, p->b, p->d, p->d,
                                         &proposal->algo, &result);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = result.state;
    }
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize > p->workspace_bytes
               ? CUBLAS_STATUS_NOT_SUPPORTED
               : status;
}

/* --- trials ------------------------------------------------------------------------------------*/

/* This failure does not depend on the shape. */
static pst_status fail_cuda(const char *doing, cudaError_t error, struct pst_error *err)
{
    return error == cudaErrorMemoryAllocation
               ? pst_cuda_fail(err, doing, error)
               : pst_fail(err, PST_ERR_DEVICE, "run.device", "device cuda, %s: %s: %s", doing,
                          cudaGetErrorName(error), cudaGetErrorString(error));
}

struct trial {
    char *memory; /* NULL: there is no room */
    void *a, *b, *d, *bias, *aux, *workspace;
    cudaEvent_t begin, end;
};

static uint64_t operand_bytes(const struct pst_cuda_product_shape *s, uint64_t rows, uint64_t ld,
                              uint64_t step, bool bf16)
{
    return (rows * ld + (s->batches - 1) * step) * (bf16 ? 2 : 4);
}

/* Bytes of all pieces, which begin at trial->memory. */
static uint64_t lay_out(struct trial *trial, const struct pst_cuda_product_shape *s)
{
    const bool fused = s->epilogue != PST_CUDA_PLAIN, aux = s->epilogue == PST_CUDA_BIAS_GELU_AUX;
    char *at = trial->memory;
    uint64_t used = 0;

    trial->a = pst_cuda_carve(
        at, &used, operand_bytes(s, s->a_transposed ? s->k : s->m, s->lda, s->a_step, s->bf16));
    trial->b = pst_cuda_carve(
        at, &used, operand_bytes(s, s->b_transposed ? s->n : s->k, s->ldb, s->b_step, s->bf16));
    trial->d = pst_cuda_carve(at, &used, operand_bytes(s, s->m, s->ldd, s->d_step, s->d_bf16));
    trial->workspace = pst_cuda_carve(at, &used, PST_CUDA_PRODUCT_BYTES);
    if (fused) {
        trial->bias = pst_cuda_carve(at, &used, (s->m + s->n) * sizeof(float));
    }
    if (aux) {
        trial->aux = pst_cuda_carve(at, &used, s->m * s->n * sizeof(float));
    }
    return used;
}

/* Without room a choice is not tried, so that a product it refuses ends the run; what is chosen is
   the same. Without room a choice cannot be timed, and would be another one. */
static pst_status allocate(struct trial *trial, const struct choice *choice, struct pst_error *err)
{
    const struct pst_cuda_product_shape *s = choice->shape;
    const struct pst_device *device = choice->product->device;
    const uint64_t bytes = lay_out(trial, s);
    cudaError_t error = cudaMalloc((void **)&trial->memory, bytes);
    char text[192];

    if (error == cudaErrorMemoryAllocation && !device->choices.timed) {
        cudaGetLastError(); /* this one does not stick */
        trial->memory = NULL;
        snprintf(text, sizeof text,
                 "a product of %llu x %llu x %llu is not tried: GPU %d has no %llu bytes left",
                 (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k,
                 device->ordinal, (unsigned long long)bytes);
        if (device->note != NULL) {
            device->note(text);
        }
        return PST_OK;
    }
    if (error == cudaSuccess) {
        lay_out(trial, s);
        error = cudaMemsetAsync(trial->memory, 0, bytes, device->compute);
    }
    if (error == cudaSuccess && device->choices.timed) {
        error = cudaEventCreateWithFlags(&trial->begin, cudaEventDefault);
    }
    if (error == cudaSuccess && device->choices.timed) {
        error = cudaEventCreateWithFlags(&trial->end, cudaEventDefault);
    }
    return error == cudaSuccess ? PST_OK : fail_cuda("room to try products", error, err);
}

static void finish(struct trial *trial)
{
    if (trial->begin != NULL) {
        cudaEventDestroy(trial->begin);
    }
    if (trial->end != NULL) {
        cudaEventDestroy(trial->end);
    }
    cudaFree(trial->memory);
}

static cublasStatus_t run(const struct choice *choice, const struct trial *trial)
{
    return pst_cuda_product_put(choice->product, trial->d, trial->a, trial->b, trial->bias,
                                trial->aux, 1, 0, trial->workspace);
}

/* The least of some runs. */
static pst_status measure(const struct choice *choice, const struct trial *trial, float *ret_ms,
                          struct pst_error *err)
{
    const struct pst_device *device = choice->product->device;

    for (int i = 0; i < RUNS; i++) {
        cudaError_t error = cudaEventRecord(trial->begin, device->compute);
        cublasStatus_t status = error == cudaSuccess ? run(choice, trial) : CUBLAS_STATUS_SUCCESS;
        float ms = 0;

        if (status != CUBLAS_STATUS_SUCCESS) {
            return pst_cuda_product_fail(choice->shape, status, err);
        }
        error = error == cudaSuccess ? cudaEventRecord(trial->end, device->compute) : error;
        error = error == cudaSuccess ? cudaEventSynchronize(trial->end) : error;
        error = error == cudaSuccess ? cudaEventElapsedTime(&ms, trial->begin, trial->end) : error;
        if (error != cudaSuccess) {
            return fail_cuda("timing a product", error, err);
        }
        *ret_ms = i == 0 || ms < *ret_ms ? ms : *ret_ms;
    }
    return PST_OK;
}

/* Runs what is in the product; PST_ERR_UNSUPPORTED: the library refuses it after all. */
static pst_status try(const struct choice *choice, const struct trial *trial, float *ret_ms,
                      struct pst_error *err)
{
    const struct pst_device *device = choice->product->device;
    const cublasStatus_t status = run(choice, trial);
    cudaError_t error;

    *ret_ms = 0;
    if (status != CUBLAS_STATUS_SUCCESS) {
        return pst_cuda_product_fail(choice->shape, status, err);
    }
    error = cudaStreamSynchronize(device->compute);
    if (error != cudaSuccess) {
        return fail_cuda("trying a product", error, err);
    }
    return device->choices.timed ? measure(choice, trial, ret_ms, err) : PST_OK;
}

/* --- choosing ----------------------------------------------------------------------------------*/

/* The first that serves, or the fastest of all that do. */
static pst_status select_one(struct choice *choice, const struct trial *trial,
                             struct pst_error *err)
{
    struct pst_cuda_product *p = choice->product;
    cublasLtMatmulAlgo_t best = {{0}};
    float best_ms = -1; /* none */
    struct pst_error why = {0};
    pst_status status = pst_cuda_product_fail(choice->shape, CUBLAS_STATUS_NOT_SUPPORTED, &why);

    for (int i = 0; i < choice->n && (best_ms < 0 || p->device->choices.timed); i++) {
        const cublasStatus_t checked = check(choice, i);
        float ms = 0;

        p->algo = choice->proposals[i].algo;
        if (checked != CUBLAS_STATUS_SUCCESS) {
            status = pst_cuda_product_fail(choice->shape, checked, &why);
        } else {
            status = trial->memory != NULL ? try(choice, trial, &ms, &why) : PST_OK;
        }
        if (status != PST_OK && status != PST_ERR_UNSUPPORTED) {
            break;
        }
        if (status == PST_OK && (best_ms < 0 || ms < best_ms)) {
            best = p->algo;
            best_ms = ms;
        }
    }
    if (best_ms >= 0 && (status == PST_OK || status == PST_ERR_UNSUPPORTED)) {
        p->algo = best;
        return PST_OK;
    }
    if (err != NULL) {
        *err = why;
    }
    return status;
}

static pst_status choose(void *context, cublasLtMatmulAlgo_t *ret_algo, struct pst_error *err)
{
    struct choice *choice = context;
    const struct pst_cuda_choices *choices = &choice->product->device->choices;
    const cublasStatus_t proposed = propose(choice);
    struct trial trial = {0};
    pst_status status = PST_OK;

    if (proposed != CUBLAS_STATUS_SUCCESS) {
        return pst_cuda_product_fail(choice->shape, proposed, err);
    }
    if (choices->timed || choice->shape->epilogue != PST_CUDA_PLAIN) {
        status = allocate(&trial, choice, err);
    }
    if (status == PST_OK) {
        status = select_one(choice, &trial, err);
    }
    finish(&trial);
    *ret_algo = choice->product->algo;
    return status;
}

/* Writes the key: all that the choice depends on except GPU and library. */
static void name(const struct pst_cuda_product *p, const struct pst_cuda_product_shape *s,
                 char text[PST_CUDA_KEY])
{
    snprintf(text, PST_CUDA_KEY,
             "%llux%llux%llu %d%d ld %llu,%llu,%llu batches %u,%llu,%llu,%llu types %d%d%d%d "
             "align %u less %llu epilogue %u sms %u",
             (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k,
             s->a_transposed, s->b_transposed, (unsigned long long)s->lda,
             (unsigned long long)s->ldb, (unsigned long long)s->ldd, s->batches,
             (unsigned long long)s->a_step, (unsigned long long)s->b_step,
             (unsigned long long)s->d_step, s->bf16, s->d_bf16, s->bias_bf16,
             p->device->tf32 && !s->bf16, s->align, (unsigned long long)s->forgone, s->epilogue,
             p->device->sms);
}

pst_status pst_cuda_product_choose(struct pst_cuda_product *p,
                                   const struct pst_cuda_product_shape *s, struct pst_error *err)
{
    struct choice choice = {.product = p, .shape = s};
    char key[PST_CUDA_KEY];

    if (s->epilogue == PST_CUDA_PLAIN && !p->device->choices.timed) {
        return choose(&choice, &p->algo, err);
    }
    name(p, s, key);
    return pst_cuda_keep(p->device->kept, key, choose, &choice, &p->algo, err);
}
