/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a sum, one row from first to last whatever buffers they lie in, and the adding.
 */
#include <string.h>

#include "transport/mpi/module.h"

/* Walks the parts: elements [at, at + n) between them and `row`. */
static void copy_parts(const struct sum *sum, uint64_t at, uint64_t n, char *row, bool out)
{
    uint64_t begin = 0;

    for (uint32_t p = 0; p < sum->n_parts && n > 0; p++) {
        uint64_t elems = sum->parts[p].elems;

        if (at < begin + elems) {
            uint64_t skip = at - begin, here = elems - skip < n ? elems - skip : n;
            char *data = (char *)(sum->parts[p].data + skip);

            memcpy(out ? data : row, out ? row : data, here * sum->size);
            row += here * sum->size;
            at += here;
            n -= here;
        }
        begin += elems;
    }
}

/* The source behind the term-th of this rank's own terms. */
static const float *source_of(const struct sum *sum, uint32_t term)
{
    for (uint32_t i = 0; i < sum->n_terms; i++) {
        if (sum->order[i][0] == sum->me && term-- == 0) {
            return sum->sources[sum->order[i][1]];
        }
    }
    return NULL;
}

void mpi_sum_read(const struct sum *sum, uint32_t term, uint64_t at, uint64_t n, char *to)
{
    if (n == 0) {
        return;
    }
    if (sum->order != NULL) {
        memcpy(to, source_of(sum, term) + at, n * sizeof(float));
    } else if (sum->values != NULL) {
        memcpy(to, sum->values + at, n * sizeof(double));
    } else {
        copy_parts(sum, at, n, to, false);
    }
}

void mpi_sum_write(const struct sum *sum, uint64_t at, uint64_t n, const char *from)
{
    if (n == 0) {
        return;
    }
    if (sum->order != NULL) {
        memcpy(sum->result + at, from, n * sizeof(float));
    } else if (sum->values != NULL) {
        memcpy(sum->values + at, from, n * sizeof(double));
    } else {
        copy_parts(sum, at, n, (char *)(uintptr_t)from, true);
    }
}

void mpi_sum_add(const struct sum *sum, char *to, const char *term, uint64_t n)
{
    if (sum->size == sizeof(double)) {
        double *a = (double *)(void *)to;
        const double *b = (const double *)(const void *)term;

        for (uint64_t i = 0; i < n; i++) {
            a[i] += b[i];
        }
    } else {
        float *a = (float *)(void *)to;
        const float *b = (const float *)(const void *)term;

        for (uint64_t i = 0; i < n; i++) {
            a[i] += b[i];
        }
    }
}

uint32_t mpi_terms_of(const struct sum *sum, uint32_t member)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < sum->n_terms; i++) {
        n += mpi_term_member(sum, i) == member;
    }
    return n;
}
