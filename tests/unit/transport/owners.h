/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums that go to owners, and gathers: what ranks bring, and what must be there afterwards. Guards
 * stand after each buffer, and buffers of bytes begin at odd addresses.
 */
#ifndef PST_TEST_TRANSPORT_OWNERS_H
#define PST_TEST_TRANSPORT_OWNERS_H

#include "unit/transport/sums.h"

enum { OWNED = 6, GUARD = 8, UNTOUCHED = 0x33 };

/* apart: sources are; common: nobody owns the last two parts, which a sum may have. */
struct owned_case {
    uint8_t kind;
    bool apart, common;
    uint32_t dtype; /* of a sum */
};

static const struct owned_case owned_cases[] = {
    {PST_MEET_GATHER, false, false, PST_F32}, {PST_MEET_SUM, false, false, PST_F32},
    {PST_MEET_SUM, true, false, PST_F32},     {PST_MEET_SUM, false, true, PST_F32},
    {PST_MEET_SUM, true, true, PST_F32},      {PST_MEET_SUM, false, true, PST_BF16},
    {PST_MEET_SUM, true, false, PST_BF16},    {PST_MEET_SUM, true, true, PST_F64},
    {PST_MEET_SUM, false, false, PST_F64},
};
/* The first few add up nothing but f32. */
enum { OWNED_F32_CASES = 5, OWNED_CASES = sizeof owned_cases / sizeof owned_cases[0] };

/* One rank's side of a meeting. */
struct owned {
    struct owned_case how;
    uint32_t rank, members[MAX_RANKS], n, round;
    struct pst_meet_part parts[OWNED];
    void *sources[OWNED];
    char *blocks[OWNED];
    struct pst_meeting meeting;
};

static inline uint8_t owned_byte(uint32_t round, uint32_t part, uint64_t i)
{
    uint64_t seed = 31 * (round * 64 + part) + 7 * i;

    return (uint8_t)(next_random(&seed) >> 32);
}

/* The element of a part that is a rank's own. */
static inline void owned_set(struct owned *owned, uint32_t p)
{
    const struct pst_meet_part *part = &owned->parts[p];
    void *row = part->src != NULL ? owned->sources[p] : part->dst;
    uint8_t *bytes = part->dst;

    for (uint64_t i = 0; i < part->elems; i++) {
        if (owned->how.kind == PST_MEET_SUM) {
            put_element(owned->how.dtype, row, i,
                        typed_number(owned->how.dtype, owned->round, owned->rank, p, i));
        } else {
            bytes[i] = owned->members[part->owner] == owned->rank
                           ? owned_byte(owned->round, p, i)
                           : (uint8_t)~owned_byte(owned->round, p, i);
        }
    }
}

/* The first member owns a part of `large` elements, the last one an empty one. */
static inline void owned_fill_of(struct owned *owned, struct owned_case how, uint32_t rank,
                                 const uint32_t *members, uint32_t n, uint32_t round,
                                 uint64_t large)
{
    const uint64_t size = how.kind == PST_MEET_SUM ? pst_dtype_bytes(how.dtype) : 1;
    const uint64_t elems[OWNED] = {large, 0, 1, 3, 2 * large / 3 + 1, 7};
    const uint32_t owners[OWNED] = {0, n - 1, n / 2, 0, n - 1, n / 2};

    *owned = (struct owned){.how = how, .rank = rank, .n = n, .round = round};
    memcpy(owned->members, members, n * sizeof *members);
    for (uint32_t p = 0; p < OWNED; p++) {
        const uint64_t bytes = elems[p] * size;
        const uint64_t begin = how.kind == PST_MEET_SUM ? 0 : 1;

        owned->blocks[p] = malloc(begin + bytes + GUARD);
        owned->sources[p] = malloc(bytes + size);
        memset(owned->blocks[p], UNTOUCHED, begin + bytes);
        memset(owned->blocks[p] + begin + bytes, 0x5A, GUARD);
        owned->parts[p] = (struct pst_meet_part){
            .src = how.apart ? (const void *const *)&owned->sources[p] : NULL,
            .dst = owned->blocks[p] + begin,
            .elems = elems[p],
            .owner = how.common && p >= OWNED - 2 ? PST_NONE : owners[p]};
        owned_set(owned, p);
    }
    owned->meeting = sum_in_place(owned->members, n, owned->parts, OWNED);
    owned->meeting.kind = how.kind;
    owned->meeting.dtype = how.dtype;
    owned->meeting.name = how.kind == PST_MEET_SUM ? "scatter" : "gather of new weights";
}

/* The members count from the last rank down. */
static inline void owned_fill(struct owned *owned, struct owned_case how, uint32_t rank, uint32_t n,
                              uint32_t round, uint64_t large)
{
    uint32_t members[MAX_RANKS];

    for (uint32_t m = 0; m < n; m++) {
        members[m] = n - 1 - m;
    }
    owned_fill_of(owned, how, rank, members, n, round, large);
}

/* A sum that goes to another member leaves a buffer apart from the sources as it was. */
static inline bool owned_is_touched(const struct pst_meet_part *part, uint64_t i, uint32_t dtype)
{
    const uint64_t size = pst_dtype_bytes(dtype);
    bool touched = false;

    for (uint64_t b = i * size; b < (i + 1) * size; b++) {
        touched = touched || ((const uint8_t *)part->dst)[b] != UNTOUCHED;
    }
    return touched && part->src != NULL;
}

static inline bool owned_is_wrong(const struct owned *owned, uint32_t p, uint64_t i)
{
    const struct pst_meet_part *part = &owned->parts[p];
    const uint32_t dtype = owned->how.dtype;

    if (owned->how.kind == PST_MEET_GATHER) {
        return ((const uint8_t *)part->dst)[i] != owned_byte(owned->round, p, i);
    }
    if (part->src != NULL && get_element(dtype, owned->sources[p], i) !=
                                 typed_number(dtype, owned->round, owned->rank, p, i)) {
        return true;
    }
    if (part->owner != PST_NONE && owned->members[part->owner] != owned->rank) {
        return owned_is_touched(part, i, dtype);
    }
    return get_element(dtype, part->dst, i) !=
           typed_sum(dtype, owned->round, owned->members, owned->n, p, i);
}

/* Frees what there is; how many elements are not what they must be. */
static inline uint32_t owned_wrong(struct owned *owned)
{
    uint32_t wrong = 0;

    for (uint32_t p = 0; p < OWNED; p++) {
        const struct pst_meet_part *part = &owned->parts[p];
        const char *guard = (char *)part->dst + part->elems * pst_meeting_size(&owned->meeting);

        for (uint64_t i = 0; i < part->elems; i++) {
            wrong += owned_is_wrong(owned, p, i);
        }
        for (uint32_t i = 0; i < GUARD; i++) {
            wrong += guard[i] != 0x5A;
        }
        free(owned->blocks[p]);
        free(owned->sources[p]);
    }
    return wrong;
}

/* Two meetings under way, each of the first cases once as the first and once as the second; how
   much is wrong. join: returns when what the rank has waited for is there, NULL: waiting is enough.
 */
static inline uint32_t owned_meet(const struct ranked *self, uint32_t n_cases, uint64_t large,
                                  void (*join)(uint32_t rank))
{
    static _Thread_local struct owned owned[2];
    pst_request requests[2];
    uint32_t wrong = 0;

    for (uint32_t k = 0; k < n_cases; k++) {
        for (uint32_t i = 0; i < 2; i++) {
            owned_fill(&owned[i], owned_cases[i == 0 ? k : (2 * k + 1) % n_cases], self->rank,
                       self->n_ranks, 2 * k + i, i == 0 ? large : 100);
            if (self->ops->meet(self->transport, self->rank, &owned[i].meeting, &requests[i]) !=
                PST_OK) {
                return UINT32_MAX;
            }
        }
        for (uint32_t i = 0; i < 2; i++) {
            wrong += self->ops->wait(self->transport, self->rank, requests[i], NULL) != PST_OK;
        }
        if (join != NULL) {
            join(self->rank);
        }
        wrong += owned_wrong(&owned[0]) + owned_wrong(&owned[1]);
    }
    return wrong;
}

/* How many meetings of the rank that no transport may take are taken. */
static inline uint32_t owned_misuse(const struct ranked *self)
{
    static const uint32_t order[1][2] = {{0, 0}};
    float data = 0, source = 0;
    const void *const sources[] = {&source};
    const struct {
        struct pst_meet_part part;
        uint32_t kind, n_order, dtype, lane;
    } cases[] = {
        {{.dst = &data, .elems = 1, .owner = 1}, PST_MEET_SUM, 0, PST_F32, PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = 1}, PST_MEET_GATHER, 0, PST_F32, PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = PST_NONE}, PST_MEET_GATHER, 0, PST_F32, PST_MEET_SUMS},
        {{.src = sources, .dst = &data, .elems = 1, .owner = 0},
         PST_MEET_GATHER,
         0,
         PST_F32,
         PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = 0}, PST_MEET_GATHER, 1, PST_F32, PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = 0}, PST_MEET_EXCHANGE + 1, 0, PST_F32, PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = 0}, PST_MEET_SUM, 0, PST_I32, PST_MEET_SUMS},
        {{.dst = &data, .elems = 1, .owner = 0}, PST_MEET_SUM, 0, PST_F32, PST_MEET_LANES},
    };
    uint32_t taken = 0;

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_meeting meeting = sum_in_place(&self->rank, 1, &cases[i].part, 1);
        pst_request request;

        meeting.kind = (uint8_t)cases[i].kind;
        meeting.dtype = cases[i].dtype;
        meeting.lane = (uint8_t)cases[i].lane;
        meeting.order = cases[i].n_order > 0 ? order : NULL;
        meeting.n_order = cases[i].n_order;
        taken += self->ops->meet(self->transport, self->rank, &meeting, &request) != PST_ERR_BUG;
    }
    return taken;
}

/* Meetings of ranks 0 and 1, which do not mean the same: one of other sizes, owners, kinds, types.
 */
enum { OWNED_UNLIKE = 5 };
static inline pst_status owned_unlike(const struct ranked *self, uint32_t which,
                                      struct pst_error *err)
{
    static const uint32_t members[] = {0, 1};
    const uint32_t rank = self->rank;
    float data[4] = {0};
    const struct pst_meet_part part = {.dst = data,
                                       .elems = which == 0 && rank == 1 ? 3 : 4,
                                       .owner = which == 2 && rank == 1 ? PST_NONE
                                                : which == 1            ? rank
                                                                        : 0};
    struct pst_meeting meeting = sum_in_place(members, 2, &part, 1);
    pst_request request;
    pst_status status;

    meeting.kind = which == 3 && rank == 1 ? PST_MEET_GATHER : PST_MEET_SUM;
    meeting.dtype = which == 4 && rank == 1 ? PST_BF16 : PST_F32;
    status = self->ops->meet(self->transport, rank, &meeting, &request);
    return status == PST_OK ? self->ops->wait(self->transport, rank, request, err) : status;
}

#endif
