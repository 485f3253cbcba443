/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/common/inorder.h"

#include <string.h>

#include "base/error.h"

uint32_t inorder_position(const uint32_t *members, uint32_t n_members, uint32_t rank)
{
    uint32_t i = 0;

    while (i < n_members && members[i] != rank) {
        i++;
    }
    return i;
}

uint64_t inorder_even_share(uint64_t elems, uint32_t n_members)
{
    return elems / n_members + (elems % n_members != 0);
}

uint64_t inorder_share(uint64_t elems, uint64_t at, uint64_t share, uint32_t member,
                       uint64_t *ret_begin)
{
    uint64_t begin = at + (uint64_t)member * share;

    *ret_begin = begin < elems ? begin : elems;
    return elems - *ret_begin < share ? elems - *ret_begin : share;
}

void inorder_add(void *sum, const void *term, uint32_t nth, uint64_t n, size_t size)
{
    if (nth == 0) {
        memcpy(sum, term, n * size);
    } else if (size == sizeof(double)) {
        double *restrict a = sum;
        const double *restrict b = term;

        for (uint64_t i = 0; i < n; i++) {
            a[i] += b[i];
        }
    } else {
        float *restrict a = sum;
        const float *restrict b = term;

        for (uint64_t i = 0; i < n; i++) {
            a[i] += b[i];
        }
    }
}

bool inorder_next_piece(struct inorder_cursor *cursor, struct pst_reduce_part *ret_piece)
{
    if (cursor->n == 0) {
        return false;
    }
    while (cursor->at >= cursor->part->elems) {
        cursor->at -= cursor->part->elems;
        cursor->part++;
    }
    ret_piece->data = cursor->part->data + cursor->at;
    ret_piece->elems = cursor->part->elems - cursor->at;
    if (ret_piece->elems > cursor->n) {
        ret_piece->elems = cursor->n;
    }
    cursor->at += ret_piece->elems;
    cursor->n -= ret_piece->elems;
    return true;
}

pst_status inorder_fail_sizes(const char *what, uint32_t rank, uint64_t elems, uint32_t n_terms,
                              uint32_t other, uint64_t other_elems, uint32_t other_terms,
                              struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "transport.size",
                    "%s: rank %u has %llu elements in %u terms, rank %u has %llu in %u", what, rank,
                    (unsigned long long)elems, n_terms, other, (unsigned long long)other_elems,
                    other_terms);
}
