/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a sum, one row from first to last whatever buffers they are in.
 */
#include <string.h>

#include "transport/common/inorder.h"
#include "transport/mpi/module.h"

/* Copies elements [at, at + n) of the parts to `row`, or with `out` from it. */
static void copy_parts(const struct sum *sum, uint64_t at, uint64_t n, char *row, bool out)
{
    struct inorder_cursor cursor = {sum->parts, at, n};
    struct pst_reduce_part piece;

    while (inorder_next_piece(&cursor, &piece)) {
        memcpy(out ? (char *)piece.data : row, out ? row : (char *)piece.data,
               piece.elems * sum->size);
        row += piece.elems * sum->size;
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

uint32_t mpi_terms_of(const struct sum *sum, uint32_t member)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < sum->n_terms; i++) {
        n += inorder_member(sum->order, i) == member;
    }
    return n;
}
