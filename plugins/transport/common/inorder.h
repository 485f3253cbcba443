/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of meetings. Elements are divided into shares, one for each member, in rounds if there
 * are many. A share of a sum is added up by one member, term after term, so the bits do not depend
 * on who adds or when. The first rounds are of the parts with owners, whose shares are their own:
 * nobody else needs a sum, everybody needs what is gathered. Then come those of all others, which
 * whoever has added them up tells everybody.
 *
 *     owned by 0 | round: share of 0 | next round: share of 0 | ...      (the same of 1, 2, ...)
 *                at               at + share
 *     by nobody  | round: share of 0 | share of 1 | share of 2 | next round: share of 0 | ...
 *                at               at + share
 */
#ifndef PST_TRANSPORT_COMMON_INORDER_H
#define PST_TRANSPORT_COMMON_INORDER_H

#include <stddef.h>

#include "exec/transport.h"

/* Is this a meeting of this rank among n_ranks, with terms that exist as far as the rank can know?
 *ret_me: its number among the members. */
bool inorder_takes(const struct pst_meeting *meeting, uint32_t rank, uint32_t n_ranks,
                   uint32_t *ret_me);
/* The member that brings a term, and which of its sources that is. */
static inline uint32_t inorder_member(const struct pst_meeting *meeting, uint32_t term)
{
    return meeting->order != NULL ? meeting->order[term][0] : term;
}
static inline uint32_t inorder_source(const struct pst_meeting *meeting, uint32_t term)
{
    return meeting->order != NULL ? meeting->order[term][1] : 0;
}
/* How many rows of elements are added up; of a gather, none. */
static inline uint32_t inorder_terms(const struct pst_meeting *meeting)
{
    return meeting->kind == PST_MEET_SUM ? pst_meeting_terms(meeting) : 0;
}
/* Does the meeting change the `dst` of the member? */
static inline bool inorder_gets(const struct pst_meeting *meeting, uint32_t part, uint32_t member)
{
    const uint32_t owner = meeting->parts[part].owner;

    return meeting->kind == PST_MEET_EXCHANGE ? meeting->parts[part].to == member
           : meeting->kind == PST_MEET_GATHER ? owner != member
                                              : owner == PST_NONE || owner == member;
}
/* For who adds up nothing but f32: does it do for the meeting? */
static inline bool inorder_is_f32(const struct pst_meeting *meeting)
{
    return meeting->kind != PST_MEET_SUM || meeting->dtype == PST_F32;
}
/* Returns a source of the member whose part this is. */
static inline const void *inorder_brought(const struct pst_meet_part *part, uint32_t source)
{
    return part->src != NULL ? part->src[source] : part->dst;
}
/* Do two members mean the same part? */
static inline bool inorder_same_part(const struct pst_meeting *meeting,
                                     const struct pst_meet_part *a, const struct pst_meet_part *b)
{
    return a->elems == b->elems && a->owner == b->owner &&
           (meeting->kind != PST_MEET_EXCHANGE || a->to == b->to);
}

/* An even share of the elements that are left, rounded up. */
uint64_t inorder_even_share(uint64_t elems, uint32_t n_members);
/* How many of them are a member's in the round that begins at `at`, and where they begin. */
uint64_t inorder_share(uint64_t elems, uint64_t at, uint64_t share, uint32_t member,
                       uint64_t *ret_begin);
/* Bytes of an element of a sum while it is added up: bf16 is in f32 until the last term. */
static inline uint32_t inorder_wide(uint32_t dtype)
{
    return dtype == PST_BF16 ? sizeof(float) : pst_dtype_bytes(dtype);
}
/* Adds the nth of so many terms to what precedes it; the first one is copied. `sum` has room for n
   wide elements, aligned to these; the last term leaves n elements of the type there. */
void inorder_add(void *sum, const void *term, uint32_t nth, uint32_t n_terms, uint64_t n,
                 uint32_t dtype);

#define INORDER_ANY (PST_NONE - 1) /* in place of an owner */

/* Elements of a row that consists of the parts of an owner. */
struct inorder_cursor {
    const struct pst_meet_part *part;
    uint32_t owner;
    uint64_t at, n; /* offset in the part; elements left */
};

/* n elements from `at` on that lie in one part. */
struct inorder_piece {
    const struct pst_meet_part *part;
    uint64_t at, n;
};

/* All zero before the first one. */
struct inorder_round {
    bool common;        /* of parts without an owner */
    uint64_t at, share; /* elements before it; of a member */
};

/* Goes to the next round, with shares of at most `room` elements, a multiple of `align` as all
   shares are; returns false if none is left. */
bool inorder_next_round(const struct pst_meeting *meeting, uint64_t room, uint64_t align,
                        struct inorder_round *round);
/* What is a member's in the round: it adds that up, or brings it. */
struct inorder_cursor inorder_cut(const struct pst_meeting *meeting,
                                  const struct inorder_round *round, uint32_t member);
/* Do others need what a member has of the round once it is added up? */
static inline bool inorder_tells(const struct pst_meeting *meeting,
                                 const struct inorder_round *round)
{
    return round->common || meeting->kind != PST_MEET_SUM;
}
/* All parts of an owner. */
struct inorder_cursor inorder_all(const struct pst_meeting *meeting, uint32_t owner);

/* How many of an exchange's elements go to a member. */
uint64_t inorder_received(struct inorder_cursor cursor, uint32_t member);

/* The next elements that lie in one part; returns false if none is left. */
bool inorder_next_piece(struct inorder_cursor *cursor, struct inorder_piece *ret_piece);

/* transport.size: two members post different meetings. */
pst_status inorder_fail_sizes(const char *what, uint32_t rank, uint64_t elems, uint32_t n_terms,
                              uint32_t other, uint64_t other_elems, uint32_t other_terms,
                              struct pst_error *err);

#endif
