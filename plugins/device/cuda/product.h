/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products through cuBLASLt. Everything here is row-major, as in the rest of the program.
 * The algorithm is chosen once, when the kernel is made (product_choice.c): from shapes, types and
 * alignment alone, or by times that are measured once. Sums are f32; operands are not rounded to
 * TF32 unless the device was opened so.
 */
#ifndef PST_DEVICE_CUDA_PRODUCT_H
#define PST_DEVICE_CUDA_PRODUCT_H

#include "cuda.h"

/*
 * Work that the library does with a product. BIAS is added before the result is stored; GELU_AUX
 * also leaves that sum in aux. SUM: the sums over k of an operand that it reads anyway, of a [m] or
 * of b [n]; if the product is the gradient of a weight, k counts samples, so these are the gradient
 * of the bias.
 */
enum pst_cuda_epilogue {
    PST_CUDA_PLAIN = 0,
    PST_CUDA_BIAS = 1,
    PST_CUDA_BIAS_RELU = 2,
    PST_CUDA_BIAS_GELU_AUX = 3,
    PST_CUDA_SUM_A = 4,
    PST_CUDA_SUM_B = 5
};

/* d[m,n] = alpha a[m,k] b[k,n] + beta d */
struct pst_cuda_product_shape {
    uint64_t m, n, k;
    bool a_transposed, b_transposed; /* stored as [k,m], [n,k] */
    uint64_t lda, ldb, ldd;          /* elements from row to row, as stored */
    uint32_t batches;                /* 0 is 1 */
    uint64_t a_step, b_step, d_step; /* elements from batch to batch */
    bool bf16, d_bf16;               /* a and b; d. Else f32 */
    uint32_t align;                  /* bytes that all addresses are multiples of; at most 256 */
    uint64_t forgone;                /* bytes of PST_CUDA_PRODUCT_BYTES that it may not use */
    uint32_t epilogue;
    bool bias_bf16; /* else f32; so are sums */
};

struct pst_cuda_product {
    struct pst_device *device;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* of the library: column-major, so a and b change places */
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace_bytes;
    bool ready;
};

/* An all-zero product may be finished. PST_ERR_UNSUPPORTED: the library has no algorithm for it,
   which depends on nothing but the shape; other errors are none of the shape's. */
pst_status pst_cuda_product_init(struct pst_device *device,
                                 const struct pst_cuda_product_shape *shape,
                                 struct pst_cuda_product *ret_product, struct pst_error *err);
void pst_cuda_product_finish(struct pst_cuda_product *product);

/* workspace: PST_CUDA_PRODUCT_BYTES less what is forgone. doing: for messages. */
void pst_cuda_product_run(const struct pst_cuda_product *product, const char *doing, void *d,
                          const void *a, const void *b, float alpha, float beta, void *workspace);
/* pst_cuda_product_run with an epilogue; aux [m,n], dense. */
void pst_cuda_product_run_fused(const struct pst_cuda_product *product, const char *doing, void *d,
                                const void *a, const void *b, const void *bias, void *aux,
                                void *workspace);
/* pst_cuda_product_run with SUM_A or SUM_B, whose result replaces sums. */
void pst_cuda_product_run_sums(const struct pst_cuda_product *product, const char *doing, void *d,
                               const void *a, const void *b, float *sums, void *workspace);

/* --- between product.c and product_choice.c ----------------------------------------------------*/

/* bias and aux: NULL, or those of the epilogue. */
cublasStatus_t pst_cuda_product_put(const struct pst_cuda_product *product, void *d, const void *a,
                                    const void *b, const void *bias, void *aux, float alpha,
                                    float beta, void *workspace);
pst_status pst_cuda_product_fail(const struct pst_cuda_product_shape *shape, cublasStatus_t status,
                                 struct pst_error *err);
/* The algorithm of a product that is described; its shape has all batches. */
pst_status pst_cuda_product_choose(struct pst_cuda_product *product,
                                   const struct pst_cuda_product_shape *shape,
                                   struct pst_error *err);

/* The largest power of two, up to 256, that divides so many bytes. */
uint32_t pst_cuda_alignment(uint64_t bytes);

#endif
