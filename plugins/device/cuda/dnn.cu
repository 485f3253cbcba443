/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix on its side: filters of convolutions between this program's order and cuDNN's.
 */
#include "device/cuda/launch.h"

template <class S> __global__ void turn_kernel(S *y, const S *x, uint64_t rows, uint64_t columns)
{
    PST_EACH(i, rows * columns)
    {
        y[i] = x[i % rows * columns + i / rows];
    }
}

void pst_cuda_turn(cudaStream_t stream, bool bf16, void *y, const void *x, uint64_t rows,
                   uint64_t columns)
{
    PST_TYPED(bf16, PST_LAUNCH(turn_kernel<S>, pst_blocks(rows * columns), stream, (S *)y,
                               (const S *)x, rows, columns));
}
