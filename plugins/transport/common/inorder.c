/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/common/inorder.h"

#include <string.h>

#include "base/error.h"

bool inorder_takes(const struct pst_meeting *meeting, uint32_t rank, uint32_t n_ranks,
                   uint32_t *ret_me)
{
    bool takes = pst_meeting_terms(meeting) > 0;

    *ret_me = meeting->n_members;
    for (uint32_t m = 0; m < meeting->n_members; m++) {
        takes = takes && meeting->members[m] < n_ranks;
        *ret_me = meeting->members[m] == rank ? m : *ret_me;
    }
    takes = takes && *ret_me < meeting->n_members;
    for (uint32_t t = 0; meeting->order != NULL && t < meeting->n_order; t++) {
        takes = takes && meeting->order[t][0] < meeting->n_members &&
                (meeting->order[t][0] != *ret_me || meeting->order[t][1] < meeting->n_src);
    }
    for (uint32_t p = 0; meeting->order != NULL && p < meeting->n_parts; p++) {
        takes = takes && meeting->parts[p].src != NULL;
    }
    return takes;
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

bool inorder_next_piece(struct inorder_cursor *cursor, struct inorder_piece *ret_piece)
{
    uint64_t left;

    if (cursor->n == 0) {
        return false;
    }
    while (cursor->at >= cursor->part->elems) {
        cursor->at -= cursor->part->elems;
        cursor->part++;
    }
    left = cursor->part->elems - cursor->at;
    *ret_piece =
        (struct inorder_piece){cursor->part, cursor->at, left < cursor->n ? left : cursor->n};
    cursor->at += ret_piece->n;
    cursor->n -= ret_piece->n;
    return true;
}

pst_status inorder_fail_sizes(const char *what, uint32_t rank, uint64_t elems, uint32_t n_terms,
                              uint32_t other, uint64_t other_elems, uint32_t other_terms,
                              struct pst_error *err)
{
    return pst_fail(
        err, PST_ERR_BUG, "transport.size",
        "%s: rank %u has %llu elements in %u terms, rank %u has %llu in %u%s", what, rank,
        (unsigned long long)elems, n_terms, other, (unsigned long long)other_elems, other_terms,
        elems == other_elems && n_terms == other_terms ? ", in other parts or another order" : "");
}
