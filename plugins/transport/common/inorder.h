/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of sums in a fixed order. Elements of a sum are divided into shares, one for each
 * member, in rounds if there are many; a share is added up by one member, term after term, so the
 * bits do not depend on who adds or when.
 *
 *     elements  | round: share of 0 | share of 1 | share of 2 | next round: share of 0 | ...
 *               at               at + share
 */
#ifndef PST_TRANSPORT_COMMON_INORDER_H
#define PST_TRANSPORT_COMMON_INORDER_H

#include <stddef.h>

#include "exec/transport.h"

/* The position of a rank among members; n_members if it is not one. */
uint32_t inorder_position(const uint32_t *members, uint32_t n_members, uint32_t rank);
/* The member that brings a term. Without an order each brings one in turn. */
static inline uint32_t inorder_member(const uint32_t (*order)[2], uint32_t term)
{
    return order != NULL ? order[term][0] : term;
}

/* An even share of the elements that are left, rounded up. */
uint64_t inorder_even_share(uint64_t elems, uint32_t n_members);
/* How many elements a member adds up in the round that begins at `at`, and where they begin. */
uint64_t inorder_share(uint64_t elems, uint64_t at, uint64_t share, uint32_t member,
                       uint64_t *ret_begin);
/* Adds the nth term of a sum to what precedes it; the first one is copied. Elements are floats, or
   doubles where their size is that. */
void inorder_add(void *sum, const void *term, uint32_t nth, uint64_t n, size_t size);

/* Elements of a row that consists of parts. */
struct inorder_cursor {
    const struct pst_reduce_part *part;
    uint64_t at, n; /* offset in the part; elements left */
};

/* The next elements that lie in one part; returns false if none is left. */
bool inorder_next_piece(struct inorder_cursor *cursor, struct pst_reduce_part *ret_piece);

/* transport.size: two members post different sums. */
pst_status inorder_fail_sizes(const char *what, uint32_t rank, uint64_t elems, uint32_t n_terms,
                              uint32_t other, uint64_t other_elems, uint32_t other_terms,
                              struct pst_error *err);

#endif
