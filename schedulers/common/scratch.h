/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one question to a scheduler: taken piece by piece, given back at once. Whoever takes
 * several pieces asks once, at the end, whether all of them are there.
 */
#ifndef SCHEDULERS_COMMON_SCRATCH_H
#define SCHEDULERS_COMMON_SCRATCH_H

#include <stdlib.h>

#include <penstock/penstock.h>

/* Begins all zero. */
struct scratch {
    union scratch_piece *last;
    bool failed; /* some piece is not there */
};

union scratch_piece {
    union scratch_piece *before;
    max_align_t align;
};

/* n elements of this size, zeroed; NULL where there is no memory. */
static inline void *scratch_take(struct scratch *scratch, size_t n, size_t size)
{
    union scratch_piece *piece = NULL;

    if (n <= (SIZE_MAX - sizeof *piece) / size) {
        piece = calloc(1, sizeof *piece + n * size);
    }
    if (piece == NULL) {
        scratch->failed = true;
        return NULL;
    }
    piece->before = scratch->last;
    scratch->last = piece;
    return piece + 1;
}

#define SCRATCH_TAKE(scratch, pointer, n)                                                          \
    ((pointer) = scratch_take((scratch), (n), sizeof *(pointer)))

static inline pst_status scratch_status(const struct scratch *scratch)
{
    return scratch->failed ? PST_ERR_NOMEM : PST_OK;
}

static inline void scratch_free(struct scratch *scratch)
{
    while (scratch->last != NULL) {
        union scratch_piece *piece = scratch->last;

        scratch->last = piece->before;
        free(piece);
    }
}

#endif
