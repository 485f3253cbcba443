/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenation: copies of rows.
 */
#include "cuda.h"

static void concat(const struct pst_cuda_kernel *k, const struct pst_call *call, bool back)
{
    const struct pst_op_request *r = &k->request;
    const size_t size = pst_dtype_bytes(r->dtype);
    const size_t pitch = request_together(r, request_out(r)) * size;
    const uint64_t rows = r->samples * request_out(r)->bytes / pitch;
    size_t offset = 0;

    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const size_t width = request_together(r, request_in(r, i)) * size;
        void *dx = back ? request_operand(call->dx, i) : NULL;
        cudaError_t error = cudaSuccess;

        if (!back) {
            error = cudaMemcpy2DAsync((char *)call->y[0] + offset, pitch, call->x[i], width, width,
                                      rows, cudaMemcpyDeviceToDevice, r->device->compute);
        } else if (dx != NULL) {
            error = cudaMemcpy2DAsync(dx, width, (const char *)call->dy + offset, pitch, width,
                                      rows, cudaMemcpyDeviceToDevice, r->device->compute);
        }
        pst_cuda_note(r->device, r->op->name, error);
        offset += width;
    }
}

PST_CUDA_RUN(concat_f)
{
    concat(k, call, false);
}

PST_CUDA_RUN(concat_b)
{
    concat(k, call, true);
}

const struct pst_cuda_family pst_cuda_concat_family = {.run = {concat_f, concat_b, NULL}};
