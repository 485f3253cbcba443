/* SPDX-License-Identifier: Apache-2.0
 *
 * Bias gradients: the sum over rows. Rows are added within blocks of 64, then the blocks, both in
 * order, so the result does not depend on threads, which share strips of columns.
 */
#include <string.h>

#include "tile.h"

#define ROWS  64u
#define STRIP 256u

struct sums {
    const struct pst_op_request *request;
    const void *x;
    uint64_t rows, n;
    float *sums, *floats;
};

static uint64_t thread_floats(const struct pst_op_request *request)
{
    return STRIP * (request->dtype == PST_BF16 ? 1 + ROWS : 1);
}

uint64_t pst_cpu_bias_floats(const struct pst_op_request *request)
{
    return request->device->threads * thread_floats(request);
}

/* partial = sum of `rows` rows from element `at` on, `width` columns wide. */
static void sum_rows(const struct sums *job, uint64_t at, uint64_t rows, uint64_t width,
                     float *partial)
{
    const struct pst_simd *simd = job->request->device->simd;
    float *wide = partial + STRIP;

    memset(partial, 0, width * sizeof *partial);
    if (job->request->dtype == PST_F32) {
        simd->column_sums(partial, (const float *)job->x + at, rows, job->n, width);
        return;
    }
    for (uint64_t i = 0; i < rows; i++) {
        simd->widen(wide + i * width, (const uint16_t *)job->x + at + i * job->n, width);
    }
    simd->column_sums(partial, wide, rows, width, width);
}

static void sum_strips(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct sums *job = context;
    float *partial = job->floats + thread * thread_floats(job->request);

    for (uint64_t column = begin * STRIP; column < end * STRIP && column < job->n;
         column += STRIP) {
        const uint64_t left = job->n - column, width = left < STRIP ? left : STRIP;
        float *sums = job->sums + column;

        memset(sums, 0, width * sizeof *sums);
        for (uint64_t r = 0; r < job->rows; r += ROWS) {
            const uint64_t rows = job->rows - r < ROWS ? job->rows - r : ROWS;

            sum_rows(job, r * job->n + column, rows, width, partial);
            job->request->device->simd->add(sums, sums, partial, width);
        }
    }
}

void pst_cpu_bias_gradient(const struct pst_op_request *request, const void *x, uint64_t rows,
                           uint64_t n, float *ret_sums, float *floats)
{
    struct sums job = {request, x, rows, n, ret_sums, floats};

    pst_cpu_parallel(request->device, n / STRIP + (n % STRIP != 0), sum_strips, &job);
}
