/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings in all lanes of each rank, which know nothing of each other.
 */
#ifndef PST_TEST_TRANSPORT_LANES_H
#define PST_TEST_TRANSPORT_LANES_H

#include "unit/transport/owners.h"

enum { LANES_STEPS = 60, LANES_OPEN = 8 };

static inline bool lanes_post(const struct ranked *self, struct owned *owned, uint32_t lane,
                              pst_request *ret_request)
{
    owned->meeting.lane = (uint8_t)lane;
    return self->ops->meet(self->transport, self->rank, &owned->meeting, ret_request) == PST_OK;
}

/* Waits for a meeting; how much is wrong. */
static inline uint32_t lanes_end(const struct ranked *self, struct owned *owned,
                                 pst_request request)
{
    const bool failed = self->ops->wait(self->transport, self->rank, request, NULL) != PST_OK;

    return failed + owned_wrong(owned);
}

/* Parts meet while a sum of the same ranks cannot: the others post that only afterwards. */
static inline uint32_t lanes_apart(const struct ranked *self)
{
    static _Thread_local struct owned sums, parts;
    pst_request sum = 0, part = 0;
    uint32_t wrong = 0;

    for (uint32_t k = 0; k < OWNED_CASES; k++) {
        const bool first = self->rank == k % self->n_ranks;

        owned_fill(&sums, owned_cases[k], self->rank, self->n_ranks, 2 * k, 5000);
        owned_fill(&parts, owned_cases[OWNED_CASES - 1 - k], self->rank, self->n_ranks, 2 * k + 1,
                   5000);
        wrong += first && !lanes_post(self, &sums, PST_MEET_SUMS, &sum);
        wrong += !lanes_post(self, &parts, PST_MEET_PARTS, &part);
        wrong += lanes_end(self, &parts, part);
        wrong += !first && !lanes_post(self, &sums, PST_MEET_SUMS, &sum);
        wrong += lanes_end(self, &sums, sum);
    }
    return wrong;
}

/* A rank has one place in the lane of parts, whatever it has in that of sums, or of rows. */
static inline uint32_t lanes_places(const struct ranked *self, enum pst_meet_lane lane)
{
    float data = 5;
    const struct pst_meet_part part = {.dst = &data, .elems = 1, .owner = PST_NONE};
    struct pst_meeting meeting = sum_in_place(&self->rank, 1, &part, 1);
    pst_request sums[LANES_OPEN], parts = 0, none;
    uint32_t wrong = 0;

    meeting.lane = (uint8_t)lane;
    for (uint32_t i = 0; i < LANES_OPEN; i++) {
        wrong += self->ops->meet(self->transport, self->rank, &meeting, &sums[i]) != PST_OK;
    }
    wrong += self->ops->meet(self->transport, self->rank, &meeting, &none) != PST_ERR_BUG;
    meeting.lane = PST_MEET_PARTS;
    for (uint32_t i = 0; i < 3; i++) {
        wrong += self->ops->meet(self->transport, self->rank, &meeting, &parts) != PST_OK;
        wrong += self->ops->meet(self->transport, self->rank, &meeting, &none) != PST_ERR_BUG;
        wrong += self->ops->wait(self->transport, self->rank, parts, NULL) != PST_OK;
        wrong += self->ops->wait(self->transport, self->rank, parts, NULL) != PST_ERR_BUG;
    }
    for (uint32_t i = 0; i < LANES_OPEN; i++) {
        wrong += sums[i] == parts;
        wrong += self->ops->wait(self->transport, self->rank, sums[i], NULL) != PST_OK;
    }
    return wrong + (data != 5);
}

/* One of a list of meetings that all ranks know. */
struct lanes_step {
    struct owned_case how;
    uint32_t lane, members[MAX_RANKS], n;
    bool mine;
};

static inline struct lanes_step lanes_step(const struct ranked *self, uint64_t seed, uint32_t step)
{
    uint64_t state = seed * LANES_STEPS + step;
    struct lanes_step is = {.how = owned_cases[next_random(&state) % OWNED_CASES],
                            .lane = (uint32_t)(next_random(&state) % PST_MEET_LANES),
                            .n = (uint32_t)(1 + next_random(&state) % self->n_ranks)};

    for (uint32_t r = 0; r < self->n_ranks; r++) {
        const uint32_t at = (uint32_t)(next_random(&state) % (r + 1));

        is.members[r] = is.members[at];
        is.members[at] = r;
    }
    for (uint32_t m = 0; m < is.n; m++) {
        is.mine = is.mine || is.members[m] == self->rank;
    }
    return is;
}

struct lanes_open {
    struct owned owned[LANES_OPEN], parts;
    pst_request requests[LANES_OPEN];
};

/* Posts what is no meeting of parts, or waits for it, from one step to another; how much is wrong.
 */
static inline uint32_t lanes_sums(const struct ranked *self, struct lanes_open *open, uint64_t seed,
                                  uint32_t from, uint32_t to, bool posts)
{
    uint32_t wrong = 0;

    for (uint32_t s = from; s < to; s++) {
        const struct lanes_step is = lanes_step(self, seed, s);
        struct owned *owned = &open->owned[s % LANES_OPEN];
        pst_request *request = &open->requests[s % LANES_OPEN];

        if (!is.mine || is.lane == PST_MEET_PARTS) {
            continue;
        }
        if (posts) {
            owned_fill_of(owned, is.how, self->rank, is.members, is.n, s, 300 * (s % 7));
            wrong += !lanes_post(self, owned, is.lane, request);
        } else {
            wrong += lanes_end(self, owned, *request);
        }
    }
    return wrong;
}

/*
 * Each rank goes through the list. Of a sum or a row it comes to the post up to three steps early
 * and to the wait up to three steps late, as it likes. So no two ranks have the same order of
 * posts, and none waits for ever: of all that ranks wait for, the members of the first in the list
 * have all posted it, for what a member waits for before it posts that is of an earlier step.
 */
static inline uint32_t lanes_mixed(const struct ranked *self, uint64_t seed)
{
    static _Thread_local struct lanes_open open;
    uint64_t own = seed * MAX_RANKS + self->rank;
    uint32_t posted = 0, ended = 0, wrong = 0;

    for (uint32_t s = 0; s < LANES_STEPS; s++) {
        const struct lanes_step is = lanes_step(self, seed, s);
        const uint32_t early = s + 1 + (uint32_t)(next_random(&own) % 4);
        const uint32_t late = (uint32_t)(next_random(&own) % 4);
        const uint32_t posts = early < LANES_STEPS ? early : LANES_STEPS;
        const uint32_t ends = s + 1 == LANES_STEPS ? LANES_STEPS : s + 1 > late ? s + 1 - late : 0;
        const bool at_once = next_random(&own) % 2 == 0;
        const bool meets = is.mine && is.lane == PST_MEET_PARTS;
        pst_request request = 0;

        if (meets) {
            owned_fill_of(&open.parts, is.how, self->rank, is.members, is.n, s, 300 * (s % 7));
            wrong += at_once && !lanes_post(self, &open.parts, PST_MEET_PARTS, &request);
        }
        wrong += lanes_sums(self, &open, seed, posted, posts, true);
        posted = posts > posted ? posts : posted;
        if (meets) {
            wrong += !at_once && !lanes_post(self, &open.parts, PST_MEET_PARTS, &request);
            wrong += lanes_end(self, &open.parts, request);
        }
        wrong += lanes_sums(self, &open, seed, ended, ends, false);
        ended = ends > ended ? ends : ended;
    }
    return wrong;
}

#endif
