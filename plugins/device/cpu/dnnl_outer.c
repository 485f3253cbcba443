/* SPDX-License-Identifier: Apache-2.0
 *
 * Products over many rows: gradients of weights. The library walks down the columns of both
 * operands, and where the distance from row to row is a multiple of 512 bytes these fall on few
 * sets of the cache (half the speed at 4 KiB). Such an operand is copied, a chunk of rows at a
 * time, to rows that are 64 bytes further apart.
 */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "dnnl_gemm.h"

#define CHUNK 128u /* rows */
#define PAD   16u  /* floats */

static bool is_awkward(uint64_t ld)
{
    return ld % 128 == 0;
}

static uint64_t copy_floats(uint64_t rows, uint64_t ld)
{
    return is_awkward(ld) ? (rows < CHUNK ? rows : CHUNK) * (ld + PAD) : 0;
}

uint64_t pst_outer_floats(const struct pst_outer_shape *shape)
{
    return copy_floats(shape->rows, shape->m) + copy_floats(shape->rows, shape->n);
}

struct copy {
    const float *from;
    float *to;
    uint64_t ld;
};

static void copy_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct copy *copy = context;

    (void)thread;
    for (uint64_t r = begin; r < end; r++) {
        memcpy(copy->to + r * (copy->ld + PAD), copy->from + r * copy->ld,
               copy->ld * sizeof *copy->to);
    }
}

/* The chunk where the product shall read it, and its distance from row to row there. */
static const float *place(const struct pst_device *device, const float *chunk, uint64_t rows,
                          uint64_t ld, float *floats, uint64_t *ret_ld)
{
    struct copy copy = {chunk, floats, ld};

    if (!is_awkward(ld)) {
        *ret_ld = ld;
        return chunk;
    }
    pst_cpu_parallel(device, rows, copy_rows, &copy);
    *ret_ld = ld + PAD;
    return floats;
}

void pst_outer_run(const struct pst_device *device, const struct pst_outer_shape *shape,
                   const float *a, const float *b, float *c, float *floats)
{
    const uint64_t rows = shape->rows, m = shape->m, n = shape->n;
    const uint64_t chunk = is_awkward(m) || is_awkward(n) ? CHUNK : rows;

    for (uint64_t r = 0; r < rows; r += chunk) {
        const uint64_t k = rows - r < chunk ? rows - r : chunk;
        uint64_t lda, ldb;
        const float *left = place(device, a + r * m, k, m, floats, &lda);
        const float *right = place(device, b + r * n, k, n, floats + copy_floats(rows, m), &ldb);
        const dnnl_status_t status = dnnl_sgemm(
            'T', 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, left, (dnnl_dim_t)lda,
            right, (dnnl_dim_t)ldb, r == 0 ? 0.0f : 1.0f, c, (dnnl_dim_t)n);

        pst_dnnl_must(status);
    }
}
