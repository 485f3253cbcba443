/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges: blocks of several samples from every rank to every rank, of unequal sizes, some empty.
 * Every byte of a block follows from who has it, who gets it and where it is.
 */
#ifndef PST_TEST_TRANSPORT_EXCHANGE_H
#define PST_TEST_TRANSPORT_EXCHANGE_H

#include "unit/transport/sums.h"

enum { EXCHANGE_RANKS = 5, EXCHANGE_SAMPLES = 3, EXCHANGE_GUARD = 8 };

/* One rank's side. Ranks are members from the last one down. */
struct exchange {
    uint32_t me, n, members[EXCHANGE_RANKS];
    struct pst_meet_part parts[EXCHANGE_SAMPLES * EXCHANGE_RANKS * EXCHANGE_RANKS];
    const void *src[EXCHANGE_SAMPLES * EXCHANGE_RANKS * EXCHANGE_RANKS];
    struct pst_meeting meeting;
};

static inline uint64_t exchange_bytes(uint32_t sample, uint32_t from, uint32_t to, uint64_t base)
{
    const uint32_t uneven = (sample + 2 * from + 3 * to) % 5;

    return uneven == 4 ? 0 : base + uneven;
}

static inline uint8_t exchange_byte(uint32_t sample, uint32_t from, uint32_t to, uint64_t i)
{
    return (uint8_t)(101 * sample + 29 * from + 7 * to + i + (i >> 8));
}

static inline void exchange_fill(struct exchange *e, uint32_t rank, uint32_t n, uint64_t base)
{
    *e = (struct exchange){.me = n - 1 - rank, .n = n};
    for (uint32_t m = 0; m < n; m++) {
        e->members[m] = n - 1 - m;
    }
    for (uint32_t p = 0; p < EXCHANGE_SAMPLES * n * n; p++) {
        const uint32_t sample = p / (n * n), from = p / n % n, to = p % n;
        const uint64_t bytes = exchange_bytes(sample, from, to, base);
        struct pst_meet_part *part = &e->parts[p];

        *part = (struct pst_meet_part){.elems = bytes, .owner = from, .to = to};
        if (from == e->me) {
            uint8_t *block = malloc(bytes + 1);

            for (uint64_t i = 0; i < bytes; i++) {
                block[i] = exchange_byte(sample, from, to, i);
            }
            e->src[p] = block;
            part->src = &e->src[p];
        }
        if (to == e->me) {
            part->dst = malloc(bytes + EXCHANGE_GUARD);
            memset(part->dst, 0x5A, bytes + EXCHANGE_GUARD);
        }
    }
    e->meeting = sum_in_place(e->members, n, e->parts, EXCHANGE_SAMPLES * n * n);
    e->meeting.kind = PST_MEET_EXCHANGE;
    e->meeting.name = "exchange over parts";
}

/* Frees the blocks; how many bytes are not what they must be, or were not to be touched. */
static inline uint32_t exchange_wrong(struct exchange *e)
{
    uint32_t wrong = 0;

    for (uint32_t p = 0; p < e->meeting.n_parts; p++) {
        const uint32_t sample = p / (e->n * e->n), from = p / e->n % e->n, to = p % e->n;
        const uint8_t *dst = e->parts[p].dst, *src = e->src[p];
        const uint64_t bytes = e->parts[p].elems;

        for (uint64_t i = 0; i < bytes; i++) {
            wrong += src != NULL && src[i] != exchange_byte(sample, from, to, i);
            wrong += dst != NULL && dst[i] != exchange_byte(sample, from, to, i);
        }
        for (uint64_t i = bytes; dst != NULL && i < bytes + EXCHANGE_GUARD; i++) {
            wrong += dst[i] != 0x5A;
        }
        free(e->parts[p].dst);
        free((void *)(uintptr_t)src);
    }
    return wrong;
}

/* One in each lane, both under way; how much is wrong. */
static inline uint32_t exchange_both(const struct ranked *self, uint64_t base)
{
    static _Thread_local struct exchange both[PST_MEET_LANES];
    pst_request requests[PST_MEET_LANES];
    uint32_t wrong = 0;

    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        exchange_fill(&both[lane], self->rank, self->n_ranks, base + 2 * lane);
        both[lane].meeting.lane = (uint8_t)lane;
        if (self->ops->meet(self->transport, self->rank, &both[lane].meeting, &requests[lane]) !=
            PST_OK) {
            return UINT32_MAX;
        }
    }
    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        wrong += self->ops->wait(self->transport, self->rank, requests[lane], NULL) != PST_OK;
        wrong += exchange_wrong(&both[lane]);
    }
    return wrong;
}

/* How many exchanges of the rank with itself that no transport may take are taken: without a
   receiver, without what the owner brings, in an order. */
static inline uint32_t exchange_misuse(const struct ranked *self)
{
    static const uint32_t order[1][2] = {{0, 0}};
    char source = 1, result = 2;
    const void *src = &source;
    const struct {
        struct pst_meet_part part;
        uint32_t n_order;
    } cases[] = {
        {{.src = &src, .dst = &result, .elems = 1, .owner = 0, .to = 1}, 0},
        {{.src = &src, .dst = &result, .elems = 1, .owner = 0, .to = PST_NONE}, 0},
        {{.src = &src, .dst = &result, .elems = 1, .owner = PST_NONE, .to = 0}, 0},
        {{.dst = &result, .elems = 1, .owner = 0, .to = 0}, 0},
        {{.src = &src, .dst = &result, .elems = 1, .owner = 0, .to = 0}, 1},
    };
    uint32_t taken = 0;

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_meeting meeting = sum_in_place(&self->rank, 1, &cases[i].part, 1);
        pst_request request;

        meeting.kind = PST_MEET_EXCHANGE;
        meeting.order = cases[i].n_order > 0 ? order : NULL;
        meeting.n_order = cases[i].n_order;
        taken += self->ops->meet(self->transport, self->rank, &meeting, &request) != PST_ERR_BUG;
    }
    return taken;
}

/* Ranks 0 and 1 do not mean the same receiver. */
static inline pst_status exchange_unlike(const struct ranked *self, struct pst_error *err)
{
    static const uint32_t members[] = {0, 1};
    char source = 1, result;
    const void *src = &source;
    const struct pst_meet_part part = {.src = self->rank == 0 ? &src : NULL,
                                       .dst = &result,
                                       .elems = 1,
                                       .owner = 0,
                                       .to = self->rank};
    struct pst_meeting meeting = sum_in_place(members, 2, &part, 1);
    pst_request request;
    pst_status status;

    meeting.kind = PST_MEET_EXCHANGE;
    status = self->ops->meet(self->transport, self->rank, &meeting, &request);
    return status == PST_OK ? self->ops->wait(self->transport, self->rank, request, err) : status;
}

#endif
