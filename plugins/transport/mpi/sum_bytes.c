/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a sum, one row from first to last whatever buffers they are in.
 */
#include <string.h>

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

void mpi_sum_read(const struct sum *sum, uint32_t term, struct inorder_cursor cursor, char *to)
{
    const uint32_t source = source_of(sum, term);
    struct inorder_piece piece;

    while (inorder_next_piece(&cursor, &piece)) {
        const char *from = inorder_brought(piece.part, source);

        memcpy(to, from + piece.at * sum->size, piece.n * sum->size);
        to += piece.n * sum->size;
    }
}

uint64_t mpi_sum_pick(struct inorder_cursor cursor, uint32_t member, char *to)
{
    struct inorder_piece piece;
    uint64_t n = 0;

    while (inorder_next_piece(&cursor, &piece)) {
        if (piece.part->to == member) {
            memcpy(to + n, (const char *)inorder_brought(piece.part, 0) + piece.at, piece.n);
            n += piece.n;
        }
    }
    return n;
}

void mpi_sum_write(const struct sum *sum, struct inorder_cursor cursor, const char *from)
{
    struct inorder_piece piece;

    while (inorder_next_piece(&cursor, &piece)) {
        const uint32_t part = (uint32_t)(piece.part - sum->meeting.parts);

        if (inorder_gets(&sum->meeting, part, sum->me)) {
            memcpy((char *)piece.part->dst + piece.at * sum->size, from, piece.n * sum->size);
        } else if (sum->meeting.kind == PST_MEET_EXCHANGE) {
            continue; /* nobody has sent it */
        }
        from += piece.n * sum->size;
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
