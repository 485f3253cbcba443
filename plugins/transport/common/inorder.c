/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/common/inorder.h"

#include <string.h>

#include "base/bf16.h"
#include "base/error.h"

/* Has an exchange's part a receiver, and does its owner bring it apart? */
static bool is_exchanged(const struct pst_meeting *meeting, const struct pst_meet_part *part,
                         uint32_t me)
{
    return part->to < meeting->n_members && meeting->n_src == 1 &&
           (part->elems == 0 || (part->src != NULL) == (part->owner == me));
}

/* Is it known who has each part: of a sum at its end, else before it? */
static bool owners_fit(const struct pst_meeting *meeting, uint32_t me)
{
    const bool sums = meeting->kind == PST_MEET_SUM;
    bool fit = sums || (meeting->kind <= PST_MEET_EXCHANGE && meeting->order == NULL);

    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const struct pst_meet_part *part = &meeting->parts[p];

        fit = fit && (part->owner < meeting->n_members || (part->owner == PST_NONE && sums)) &&
              !(meeting->kind == PST_MEET_GATHER && part->src != NULL) &&
              (meeting->kind != PST_MEET_EXCHANGE || is_exchanged(meeting, part, me));
    }
    return fit;
}

static bool can_be_added(uint32_t dtype)
{
    return dtype == PST_F32 || dtype == PST_BF16 || dtype == PST_F64;
}

bool inorder_takes(const struct pst_meeting *meeting, uint32_t rank, uint32_t n_ranks,
                   uint32_t *ret_me)
{
    bool takes = pst_meeting_terms(meeting) > 0 && meeting->lane < PST_MEET_LANES &&
                 (meeting->kind != PST_MEET_SUM || can_be_added(meeting->dtype));

    *ret_me = meeting->n_members;
    for (uint32_t m = 0; m < meeting->n_members; m++) {
        takes = takes && meeting->members[m] < n_ranks;
        *ret_me = meeting->members[m] == rank ? m : *ret_me;
    }
    takes = takes && *ret_me < meeting->n_members && owners_fit(meeting, *ret_me);
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

static void add_bf16(float *restrict sum, const uint16_t *restrict term, uint32_t nth, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const float value = pst_bf16_load(term[i]);

        sum[i] = nth == 0 ? value : sum[i] + value;
    }
}

/* An element is read before anything is written to its place. */
static void round_in_place(void *sum, uint64_t n)
{
    const float *from = sum;
    uint16_t *to = sum;

    for (uint64_t i = 0; i < n; i++) {
        to[i] = pst_bf16_round(from[i]);
    }
}

void inorder_add(void *sum, const void *term, uint32_t nth, uint32_t n_terms, uint64_t n,
                 uint32_t dtype)
{
    if (dtype == PST_BF16) {
        add_bf16(sum, term, nth, n);
        if (nth + 1 == n_terms) {
            round_in_place(sum, n);
        }
    } else if (nth == 0) {
        memcpy(sum, term, n * pst_dtype_bytes(dtype));
    } else if (dtype == PST_F64) {
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

/* How many elements the parts of an owner have. */
static uint64_t owned(const struct pst_meeting *meeting, uint32_t owner)
{
    uint64_t elems = 0;

    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        elems += meeting->parts[p].owner == owner ? meeting->parts[p].elems : 0;
    }
    return elems;
}

bool inorder_next_round(const struct pst_meeting *meeting, uint64_t room, uint64_t align,
                        struct inorder_round *round)
{
    const uint32_t n = meeting->n_members;
    uint64_t most = 0, elems;

    round->at += round->common ? n * round->share : round->share;
    for (uint32_t m = 0; m < n && !round->common; m++) {
        elems = owned(meeting, m);
        most = elems > round->at && elems - round->at > most ? elems - round->at : most;
    }
    if (most == 0) {
        round->at = round->common ? round->at : 0;
        round->common = true;
        elems = owned(meeting, PST_NONE);
        most = elems > round->at ? inorder_even_share(elems - round->at, n) : 0;
    }
    most = (most + align - 1) / align * align;
    round->share = most < room ? most : room;
    return most > 0;
}

struct inorder_cursor inorder_cut(const struct pst_meeting *meeting,
                                  const struct inorder_round *round, uint32_t member)
{
    struct inorder_cursor cursor = {meeting->parts, round->common ? PST_NONE : member, 0, 0};

    cursor.n = inorder_share(owned(meeting, cursor.owner), round->at, round->share,
                             round->common ? member : 0, &cursor.at);
    return cursor;
}

struct inorder_cursor inorder_all(const struct pst_meeting *meeting, uint32_t owner)
{
    return (struct inorder_cursor){meeting->parts, owner, 0,
                                   owner == INORDER_ANY ? pst_meeting_elems(meeting)
                                                        : owned(meeting, owner)};
}

bool inorder_next_piece(struct inorder_cursor *cursor, struct inorder_piece *ret_piece)
{
    uint64_t left;

    if (cursor->n == 0) {
        return false;
    }
    for (;; cursor->part++) {
        if (cursor->owner == INORDER_ANY || cursor->part->owner == cursor->owner) {
            if (cursor->at < cursor->part->elems) {
                break;
            }
            cursor->at -= cursor->part->elems;
        }
    }
    left = cursor->part->elems - cursor->at;
    *ret_piece =
        (struct inorder_piece){cursor->part, cursor->at, left < cursor->n ? left : cursor->n};
    cursor->at += ret_piece->n;
    cursor->n -= ret_piece->n;
    return true;
}

uint64_t inorder_received(struct inorder_cursor cursor, uint32_t member)
{
    struct inorder_piece piece;
    uint64_t n = 0;

    while (inorder_next_piece(&cursor, &piece)) {
        n += piece.part->to == member ? piece.n : 0;
    }
    return n;
}

pst_status inorder_fail_sizes(const char *what, uint32_t rank, uint64_t elems, uint32_t n_terms,
                              uint32_t other, uint64_t other_elems, uint32_t other_terms,
                              struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "transport.size",
                    "%s: rank %u has %llu elements in %u terms, rank %u has %llu in %u%s", what,
                    rank, (unsigned long long)elems, n_terms, other,
                    (unsigned long long)other_elems, other_terms,
                    elems == other_elems && n_terms == other_terms
                        ? ", of another type, in other parts, of other owners or in another order"
                        : "");
}
