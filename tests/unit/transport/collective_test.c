/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of the `threads` transport: values, order of sums, groups side by side, disagreement.
 */
#include "unit/transport/sums.h"

#define SECOND 1000000000u

/* Rank r holds r + 1 in element r and 0 elsewhere, plus one element to which all contribute. */
static void sums(struct ranked *self)
{
    for (uint32_t round = 0; round < 40; round++) {
        double values[MAX_RANKS + 1] = {0};
        double common[MAX_RANKS] = {1e16, 1.0, -1e16, 1.0, 0.5, 3.0, 1e-3, 7.0}, expected = 0;

        values[self->rank] = self->rank + 1.25 + round;
        values[self->n_ranks] = common[self->rank];
        CHECK(self, self->ops->sum(self->transport, self->rank, values, self->n_ranks + 1,
                                   &self->err) == PST_OK);
        for (uint32_t i = 0; i < self->n_ranks; i++) {
            CHECK(self, values[i] == i + 1.25 + round);
            expected = i == 0 ? common[0] : expected + common[i];
        }
        /* 1e16 + 1 rounds to 1e16: another order would give another sum. */
        CHECK(self, values[self->n_ranks] == expected);
    }
}

TEST(test_sum)
{
    for (uint32_t n = 1; n <= MAX_RANKS; n += n < 3 ? 1 : 5) {
        run_ranks(n, 30ull * SECOND, sums);
        expect_none_failed(n);
    }
}

enum { ELEMS = 2 * 1024 + 37 };

/* One reduction in the group: two sources of member 0, one of each other, in a mixed order. */
static void reduce_in_group(struct ranked *self, uint32_t group, const uint32_t *members,
                            uint32_t n_members)
{
    static _Thread_local float first[ELEMS], second[ELEMS], result[ELEMS];
    const void *src[2] = {first, second};
    const struct pst_meet_part part = {
        .src = src, .dst = result, .elems = ELEMS, .owner = PST_NONE};
    uint32_t order[MAX_RANKS + 1][2] = {{0, 1}}, n_order = 1, me = 0;

    for (uint32_t m = n_members; m > 0; m--) {
        order[n_order][0] = m - 1;
        order[n_order++][1] = 0;
        me = members[m - 1] == self->rank ? m - 1 : me;
    }
    for (uint32_t i = 0; i < ELEMS; i++) {
        first[i] = number(group, me, 0, i);
        second[i] = number(group, me, 1, i);
    }
    CHECK(self, sum_in_order(self->ops, self->transport, self->rank, members, n_members,
                             (const uint32_t(*)[2])order, n_order, me == 0 ? 2 : 1, &part,
                             &self->err) == PST_OK);
    for (uint32_t i = 0; i < ELEMS; i++) {
        float sum = number(group, order[0][0], order[0][1], i);

        for (uint32_t k = 1; k < n_order; k++) {
            sum += number(group, order[k][0], order[k][1], i);
        }
        CHECK(self, memcmp(&sum, &result[i], sizeof sum) == 0);
        CHECK(self, first[i] == number(group, me, 0, i)); /* sources stay as they were */
    }
}

/* Groups that share rank 0 or overlap otherwise; each rank meets its groups in ascending number. */
static void groups(struct ranked *self)
{
    static const uint32_t members[5][4] = {{0, 1}, {0, 2, 3}, {1, 3}, {0, 1, 2, 3}, {2}};
    static const uint32_t counts[5] = {2, 3, 2, 4, 1};

    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t g = 0; g < 5; g++) {
            for (uint32_t m = 0; m < counts[g]; m++) {
                if (members[g][m] == self->rank) {
                    reduce_in_group(self, g, members[g], counts[g]);
                }
            }
        }
    }
}

TEST(test_reduce_order)
{
    run_ranks(4, 30ull * SECOND, groups);
    expect_none_failed(4);
}

/* Fewer elements than members: some shares are empty. */
static void tiny(struct ranked *self)
{
    static const uint32_t members[4] = {0, 1, 2, 3}, order[4][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
    float mine[2] = {(float)self->rank, 10.0f * (float)self->rank}, result[2] = {-1, -1};
    const void *src[1] = {mine};
    const struct pst_meet_part part = {.src = src, .dst = result, .elems = 2, .owner = PST_NONE};

    CHECK(self, sum_in_order(self->ops, self->transport, self->rank, members, 4, order, 4, 1, &part,
                             &self->err) == PST_OK);
    CHECK(self, result[0] == 6.0f && result[1] == 60.0f);
}

TEST(test_reduce_tiny)
{
    run_ranks(4, SECOND, tiny);
    expect_none_failed(4);
}

static void disagreeing(struct ranked *self)
{
    static const uint32_t members[2] = {0, 1}, order[2][2] = {{0, 0}, {1, 0}};
    float mine[4] = {0}, result[4];
    const void *src[1] = {mine};
    const struct pst_meet_part part = {
        .src = src, .dst = result, .elems = 3 + self->rank, .owner = PST_NONE};

    self->status = sum_in_order(self->ops, self->transport, self->rank, members, 2, order, 2, 1,
                                &part, &self->err);
}

TEST(test_sizes_must_agree)
{
    run_ranks(2, SECOND, disagreeing);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ran[i].status, PST_ERR_BUG);
        assert_string_equal(ran[i].err.message,
                            "sum of a tied gradient: rank 0 has 3 elements in 2 "
                            "terms, rank 1 has 4 in 2");
    }
}

static void one_stays_away(struct ranked *self)
{
    double value = 1;

    if (self->rank != 1) {
        self->status = self->ops->sum(self->transport, self->rank, &value, 1, &self->err);
    }
}

TEST(test_stall_says_who)
{
    run_ranks(3, 50000000, one_stays_away);
    assert_int_equal(ran[0].status, PST_ERR_CANCELLED);
    assert_string_equal(ran[0].err.kind, "run.stalled");
    assert_string_equal(ran[0].err.message,
                        "run stalled: rank 0 has waited 0.05 s for rank 1 in a sum of 3 ranks");
    assert_int_equal(ran[2].status, PST_ERR_CANCELLED);
}
