/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels compute in f32. A tile is a stretch of a tensor seen as f32: the tensor itself where it
 * is f32, else a buffer in the workspace, widened on reading and rounded on writing.
 */
#ifndef PST_DEVICE_CPU_TILE_H
#define PST_DEVICE_CPU_TILE_H

#include "cpu.h"

#define PST_TILE 4096u /* elements, where rows do not say otherwise */

struct pst_tile {
    const struct pst_simd *simd;
    float *buffer; /* NULL: f32 */
};

/* Floats to set aside for n_buffers per thread; each has `elems` of them. */
static inline uint64_t pst_tile_floats(const struct pst_op_request *request, uint32_t n_buffers,
                                       uint64_t elems)
{
    return request->dtype == PST_BF16 ? request->device->threads * n_buffers * elems : 0;
}

/* Buffer number i of a thread; `base` is where those floats are. */
static inline struct pst_tile pst_tile_make(const struct pst_op_request *request, float *base,
                                            uint32_t n_buffers, uint64_t elems, uint32_t thread,
                                            uint32_t i)
{
    struct pst_tile tile = {.simd = request->device->simd};

    if (request->dtype == PST_BF16) {
        tile.buffer = base + ((uint64_t)thread * n_buffers + i) * elems;
    }
    return tile;
}

static inline const float *pst_tile_read(const struct pst_tile *tile, const void *tensor,
                                         uint64_t at, uint64_t n)
{
    if (tile->buffer == NULL) {
        return (const float *)tensor + at;
    }
    tile->simd->widen(tile->buffer, (const uint16_t *)tensor + at, n);
    return tile->buffer;
}

/* Where to write n elements from `at` on, and what to call when that is done. */
static inline float *pst_tile_write(const struct pst_tile *tile, void *tensor, uint64_t at)
{
    return tile->buffer == NULL ? (float *)tensor + at : tile->buffer;
}

static inline void pst_tile_done(const struct pst_tile *tile, void *tensor, uint64_t at, uint64_t n)
{
    if (tile->buffer != NULL) {
        tile->simd->narrow((uint16_t *)tensor + at, tile->buffer, n);
    }
}

#endif
