/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions of the heads at the beginning of packed rows (core/graph/rotary.h). An angle is
 * found once for a few heads: turns of the pair in double, of which the fraction is exact enough
 * for f32 at any position. Backward turns the other way.
 */
#include "device/cuda/launch.h"

#define HEADS 4u /* that a thread turns by the same angles */

/* Cosine and sine of so many turns. */
__device__ static inline void turn(double turns, float *ret_cos, float *ret_sin)
{
    const float rest = (float)(turns - rint(turns));

    sincospif(2 * rest, ret_sin, ret_cos);
}

/* W pairs of up to HEADS heads of a row, which are `first` and what follows. */
template <class S, unsigned W>
__device__ static inline void turn_pairs(const struct pst_cuda_rotation &r, S *y, const S *x,
                                         uint64_t row, uint64_t first, uint64_t pair)
{
    float c[W], s[W];

    for (unsigned k = 0; k < W; k++) {
        turn((double)(r.first + row % r.positions) * r.turns[pair + k], &c[k], &s[k]);
        s[k] = r.back ? -s[k] : s[k];
    }
    for (unsigned h = 0; h < HEADS; h++) {
        const uint64_t at = row * r.columns + (first + h) * 2 * r.half + pair;

        if (first + h < r.heads) {
            pst_some<S, W> a = pst_read<W>(x + at), b = pst_read<W>(x + at + r.half);

            for (unsigned k = 0; k < W; k++) {
                const float u = pst_load(a.v[k]), v = pst_load(b.v[k]);

                pst_store(&a.v[k], u * c[k] - v * s[k]);
                pst_store(&b.v[k], v * c[k] + u * s[k]);
            }
            pst_write_whole<W>(y + at, a);
            pst_write_whole<W>(y + at + r.half, b);
        }
    }
}

/* Parts of a row: pairs of some heads, then columns that stay. */
__host__ __device__ static inline uint64_t turning_cells(const struct pst_cuda_rotation &r,
                                                         unsigned w)
{
    return (r.heads + HEADS - 1) / HEADS * (r.half / w);
}

__host__ __device__ static inline uint64_t cells_of(const struct pst_cuda_rotation &r, unsigned w)
{
    return turning_cells(r, w) + (r.columns - 2 * r.half * r.heads) / w;
}

template <class S, unsigned W>
__global__ void rotary_kernel(S *y, const S *x, struct pst_cuda_rotation r)
{
    const uint64_t turning = turning_cells(r, W), pairs = r.half / W;

    PST_EACH_CELL(row, cell, r.rows, cells_of(r, W))
    {
        if (cell < turning) {
            turn_pairs<S, W>(r, y, x, row, cell / pairs * HEADS, cell % pairs * W);
        } else {
            const uint64_t at = row * r.columns + 2 * r.half * r.heads + (cell - turning) * W;

            pst_write<W>(y + at, pst_read<W>(x + at));
        }
    }
}

void pst_cuda_rotate(cudaStream_t stream, bool bf16, const struct pst_cuda_rotation *r, void *y,
                     const void *x)
{
    const bool wide = r->half % 8 == 0 && pst_is_wide(r->columns, y, x, NULL);

    PST_TYPED_WIDE(bf16, wide,
                   PST_LAUNCH((rotary_kernel<S, W>), pst_blocks_cells(r->rows, cells_of(*r, W)),
                              stream, (S *)y, (const S *)x, *r));
}
