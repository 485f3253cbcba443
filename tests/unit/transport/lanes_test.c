/* SPDX-License-Identifier: Apache-2.0
 *
 * The lanes of meetings on the `threads` transport: one does not wait for the other, and failures
 * tell of their own.
 */
#include "unit/transport/lanes.h"

#define SECOND 1000000000u

static uint64_t seed;

static void apart(struct ranked *self)
{
    CHECK(self, lanes_apart(self) == 0);
    CHECK(self, lanes_places(self, PST_MEET_SUMS) == 0);
    CHECK(self, lanes_places(self, PST_MEET_ROWS) == 0);
}

TEST(test_apart)
{
    for (uint32_t n = 1; n <= 5; n++) {
        run_ranks(n, 30ull * SECOND, apart);
        expect_none_failed(n);
    }
}

static void mixed(struct ranked *self)
{
    CHECK(self, lanes_mixed(self, seed) == 0);
}

TEST(test_mixed)
{
    for (uint32_t n = 2; n <= 5; n++) {
        for (seed = 1; seed <= 12; seed++) {
            print_message("%u ranks, seed %u\n", n, (unsigned)seed);
            run_ranks(n, 30ull * SECOND, mixed);
            expect_none_failed(n);
        }
    }
}

/* --- failures ----------------------------------------------------------------------------------*/

static pst_request post_in(struct ranked *self, uint32_t lane, const char *name,
                           const struct pst_meet_part *part)
{
    static const uint32_t members[] = {0, 1, 2};
    struct pst_meeting meeting = sum_in_place(members, self->n_ranks, part, 1);
    pst_request request = 0;

    meeting.lane = (uint8_t)lane;
    meeting.name = name;
    CHECK(self, self->ops->meet(self->transport, self->rank, &meeting, &request) == PST_OK);
    return request;
}

/* Rank 1 comes to the parts alone, rank 2 to the sum alone, rank 0 to both. */
static void stalls(struct ranked *self)
{
    float data[2] = {1, 2};
    const struct pst_meet_part part[2] = {{.dst = &data[0], .elems = 1, .owner = PST_NONE},
                                          {.dst = &data[1], .elems = 1, .owner = PST_NONE}};
    pst_request sum = 0, parts = 0;
    double none = 0;

    if (self->rank != 1) {
        sum = post_in(self, PST_MEET_SUMS, "sum over replicas", &part[0]);
    }
    if (self->rank != 2) {
        parts = post_in(self, PST_MEET_PARTS, "sum over parts", &part[1]);
    }
    CHECK(self, self->ops->sum(self->transport, self->rank, &none, 1, NULL) == PST_OK);
    if (self->rank != 0) { /* what is posted belongs to the transport until that is closed */
        self->ops->sum(self->transport, self->rank, &none, 1, NULL);
        return;
    }
    CHECK(self, self->ops->wait(self->transport, 0, parts, &self->err) == PST_ERR_CANCELLED);
    CHECK(self,
          strcmp(self->err.message, "run stalled: rank 0 has waited 0.2 s for rank 2 in a sum "
                                    "over parts among 3 ranks") == 0);
    CHECK(self, self->ops->wait(self->transport, 0, parts, NULL) == PST_ERR_BUG);
    CHECK(self, self->ops->wait(self->transport, 0, sum, &self->err) == PST_ERR_CANCELLED);
    CHECK(self,
          strcmp(self->err.message, "run stalled: rank 0 has waited 0.2 s for rank 1 in a sum "
                                    "over replicas among 3 ranks") == 0);
    CHECK(self, data[0] == 1 && data[1] == 2);
}

TEST(test_stalls)
{
    run_ranks(3, SECOND / 5, stalls);
    expect_none_failed(3);
}

static void aborted(struct ranked *self)
{
    float data = 1;
    const struct pst_meet_part part = {.dst = &data, .elems = 1, .owner = PST_NONE};
    pst_request request;
    double none = 0;

    if (self->rank == 1) {
        CHECK(self, self->ops->sum(self->transport, 1, &none, 1, NULL) == PST_OK);
        pst_fail(&self->err, PST_ERR_CANCELLED, "run.stopped", "enough");
        self->ops->abort(self->transport, 1, &self->err);
        return;
    }
    request = post_in(self, PST_MEET_PARTS, "sum over parts", &part);
    CHECK(self, self->ops->sum(self->transport, 0, &none, 1, NULL) == PST_OK);
    CHECK(self, self->ops->wait(self->transport, 0, request, &self->err) == PST_ERR_CANCELLED);
    CHECK(self, strcmp(self->err.message, "rank 1 stopped the run: enough") == 0);
    CHECK(self, data == 1);
}

TEST(test_abort)
{
    run_ranks(2, 30ull * SECOND, aborted);
    expect_none_failed(2);
}

/* Of parts with unlike types all are told, though sums of both ranks are under way. */
static void unlike(struct ranked *self)
{
    static const uint32_t members[] = {0, 1};
    float data[2] = {1, 2};
    const struct pst_meet_part part[2] = {{.dst = &data[0], .elems = 1, .owner = PST_NONE},
                                          {.dst = &data[1], .elems = 1, .owner = PST_NONE}};
    struct pst_meeting meeting = sum_in_place(members, 2, &part[1], 1);
    const pst_request sum = post_in(self, PST_MEET_SUMS, "sum over replicas", &part[0]);
    pst_request request = 0;

    meeting.lane = PST_MEET_PARTS;
    meeting.dtype = self->rank == 0 ? PST_F32 : PST_BF16;
    CHECK(self, self->ops->meet(self->transport, self->rank, &meeting, &request) == PST_OK);
    CHECK(self, self->ops->wait(self->transport, self->rank, request, &self->err) == PST_ERR_BUG);
    CHECK(self, strcmp(self->err.kind, "transport.size") == 0);
    CHECK(self, strstr(self->err.message, "of another type") != NULL);
    CHECK(self, self->ops->wait(self->transport, self->rank, sum, &self->err) == PST_OK);
    CHECK(self, data[0] == 2);
}

TEST(test_unlike)
{
    run_ranks(2, 30ull * SECOND, unlike);
    expect_none_failed(2);
}
