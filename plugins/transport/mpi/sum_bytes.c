/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a sum, one row from first to last whatever buffers they are in.
 */
#include <string.h>

#include "transport/common/inorder.h"
#include "transport/mpi/module.h"

/* The source behind the term-th of this rank's own terms. */
static uint32_t source_of(const struct sum *sum, uint32_t term)
{
    uint32_t t = 0;

    while (inorder_member(&sum->meeting, t) != sum->me || term-- > 0) {
        t++;
    }
    return inorder_source(&sum->meeting, t);
}

void mpi_sum_read(const struct sum *sum, uint32_t term, uint64_t at, uint64_t n, char *to)
{
    struct inorder_cursor cursor = {sum->meeting.parts, at, n};
    struct inorder_piece piece;

    if (sum->values != NULL) {
        memcpy(to, sum->values + at, n * sizeof(double));
        return;
    }
    while (inorder_next_piece(&cursor, &piece)) {
        memcpy(to, inorder_brought(piece.part, source_of(sum, term)) + piece.at,
               piece.n * sizeof(float));
        to += piece.n * sizeof(float);
    }
}

void mpi_sum_write(const struct sum *sum, uint64_t at, uint64_t n, const char *from)
{
    struct inorder_cursor cursor = {sum->meeting.parts, at, n};
    struct inorder_piece piece;

    if (sum->values != NULL) {
        memcpy(sum->values + at, from, n * sizeof(double));
        return;
    }
    while (inorder_next_piece(&cursor, &piece)) {
        memcpy((float *)piece.part->dst + piece.at, from, piece.n * sizeof(float));
        from += piece.n * sizeof(float);
    }
}

uint32_t mpi_terms_of(const struct sum *sum, uint32_t member)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < sum->n_terms; i++) {
        n += inorder_member(&sum->meeting, i) == member;
    }
    return n;
}
