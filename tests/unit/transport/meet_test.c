/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings on the `threads` transport: the order of the members and nothing else decides
 * about bits; posts return at once; groups and queues; disagreement, stalls, aborts.
 */

#include "exec/device.h"

#include "unit/transport/exchange.h"
#include "unit/transport/owners.h"

#define SECOND 1000000000u

enum { ROUNDS = 12 };

static pst_status open_with(uint32_t n, uint32_t max_meetings, uint64_t stall_ns,
                            struct pst_transport **ret)
{
    const struct pst_transport_config config = {.n_ranks = n,
                                                .max_requests = 4,
                                                .max_meetings = max_meetings,
                                                .max_rows = 1,
                                                .stall_ns = stall_ns};
    struct pst_error err = {0};

    return load_threads()->open(&config, ret, &err);
}

/* Posts the sum of a round, and checks it once it is waited for. */
static pst_request post(struct ranked *self, const uint32_t *members, uint32_t n, uint32_t round,
                        struct pst_meet_part *parts)
{
    const struct pst_meeting meeting = sum_in_place(members, n, parts, PARTS);
    pst_request request = 0;

    fill_parts(parts, self->rank, round);
    CHECK(self, self->ops->meet(self->transport, self->rank, &meeting, &request) == PST_OK);
    return request;
}

static void expect_sum(struct ranked *self, const uint32_t *members, uint32_t n, uint32_t round,
                       struct pst_meet_part *parts)
{
    CHECK(self, wrong_in_parts(parts, members, n, round) == 0);
}

/* All ranks, in an order that is not theirs; ranks wait early or late by turns. */
static void all_together(struct ranked *self)
{
    struct pst_meet_part parts[2][PARTS];
    uint32_t members[MAX_RANKS];

    for (uint32_t i = 0; i < self->n_ranks; i++) {
        members[i] = (5 * i + 3) % self->n_ranks; /* 5 is no divisor of 1 to 4, 6 to 8 */
    }
    for (uint32_t round = 0; round < ROUNDS; round += 2) {
        pst_request first = post(self, members, self->n_ranks, round, parts[0]);
        pst_request second;

        if ((round / 2 + self->rank) % 3 == 0) {
            CHECK(self, self->ops->wait(self->transport, self->rank, first, &self->err) == PST_OK);
            expect_sum(self, members, self->n_ranks, round, parts[0]);
            second = post(self, members, self->n_ranks, round + 1, parts[1]);
        } else {
            second = post(self, members, self->n_ranks, round + 1, parts[1]);
            CHECK(self, self->ops->wait(self->transport, self->rank, first, &self->err) == PST_OK);
            expect_sum(self, members, self->n_ranks, round, parts[0]);
        }
        CHECK(self, self->ops->wait(self->transport, self->rank, second, &self->err) == PST_OK);
        expect_sum(self, members, self->n_ranks, round + 1, parts[1]);
    }
}

TEST(test_order)
{
    for (uint32_t n = 1; n <= 4; n++) {
        run_ranks(n, 30ull * SECOND, all_together);
        expect_none_failed(n);
    }
    run_ranks(7, 30ull * SECOND, all_together);
    expect_none_failed(7);
}

/* Two groups that share nobody, next to transfers and sums of all. */
static void groups(struct ranked *self)
{
    static const uint32_t members[2][2] = {{2, 0}, {1, 3}};
    const uint32_t *own = members[self->rank % 2];
    struct pst_meet_part parts[PARTS];

    for (uint32_t round = 0; round < ROUNDS; round++) {
        double value = self->rank == round % 4 ? round : 0;
        pst_request request = post(self, own, 2, round, parts);

        CHECK(self, self->ops->sum(self->transport, self->rank, &value, 1, &self->err) == PST_OK);
        CHECK(self, value == round);
        CHECK(self, self->ops->wait(self->transport, self->rank, request, &self->err) == PST_OK);
        expect_sum(self, own, 2, round, parts);
    }
}

TEST(test_groups)
{
    run_ranks(4, 30ull * SECOND, groups);
    expect_none_failed(4);
}

/* A member that never waits while the others need the sum holds up nobody. */
static void one_is_busy(struct ranked *self)
{
    static const uint32_t members[] = {0, 1, 2};
    struct pst_meet_part parts[PARTS];
    pst_request request;
    double none = 0;

    request = post(self, members, 3, 0, parts);
    if (self->rank == 2) { /* comes back only once the others have it */
        CHECK(self, self->ops->sum(self->transport, 2, &none, 1, &self->err) == PST_OK);
    }
    CHECK(self, self->ops->wait(self->transport, self->rank, request, &self->err) == PST_OK);
    expect_sum(self, members, 3, 0, parts);
    if (self->rank != 2) {
        CHECK(self, self->ops->sum(self->transport, self->rank, &none, 1, &self->err) == PST_OK);
    }
}

TEST(test_busy)
{
    run_ranks(3, 30ull * SECOND, one_is_busy);
    expect_none_failed(3);
}

/* Sizes differ: all are told. */
static void disagree(struct ranked *self)
{
    static const uint32_t members[] = {0, 1};
    float data[4] = {0};
    const struct pst_meet_part part = {
        .dst = data, .elems = self->rank == 0 ? 3 : 4, .owner = PST_NONE};
    const struct pst_meeting meeting = sum_in_place(members, 2, &part, 1);
    pst_request request;

    CHECK(self, self->ops->meet(self->transport, self->rank, &meeting, &request) == PST_OK);
    self->status = self->ops->wait(self->transport, self->rank, request, &self->err);
}

TEST(test_disagreement)
{
    run_ranks(2, 30ull * SECOND, disagree);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ran[i].failures, 0);
        assert_int_equal(ran[i].status, PST_ERR_BUG);
        assert_string_equal(ran[i].err.kind, "transport.size");
    }
}

/* Two parts, each of two sources of rank 0 and one of rank 1, which brings it apart, too. */
static void tied_parts(struct ranked *self)
{
    static const uint32_t members[] = {0, 1}, order[][2] = {{0, 1}, {1, 0}, {0, 0}};
    const float r = (float)self->rank;
    float source[2][2][3], result[2][3];
    const void *sources[2][2];
    struct pst_meet_part parts[2];
    struct pst_meeting meeting;
    pst_request request = 0;

    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t s = 0; s < 2; s++) {
            for (uint32_t i = 0; i < 3; i++) {
                source[p][s][i] = 100 * r + 10 * (float)s + 1000 * (float)p + (float)i;
            }
            sources[p][s] = source[p][s];
        }
        parts[p] = (struct pst_meet_part){
            .src = sources[p], .dst = result[p], .elems = 3 - p, .owner = PST_NONE};
    }
    meeting = sum_in_place(members, 2, parts, 2);
    meeting.n_src = 2 - self->rank;
    meeting.order = order;
    meeting.n_order = 3;
    CHECK(self, self->ops->meet(self->transport, self->rank, &meeting, &request) == PST_OK);
    CHECK(self, self->ops->wait(self->transport, self->rank, request, &self->err) == PST_OK);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < 3 - p; i++) { /* 10 of source 1, 100 of rank 1 */
            CHECK(self, result[p][i] == 110 + 3 * (1000 * (float)p + (float)i));
        }
    }
}

TEST(test_tied_parts)
{
    run_ranks(2, 30ull * SECOND, tied_parts);
    expect_none_failed(2);
}

/* Members must name the same order of terms. */
static void disagree_on_order(struct ranked *self)
{
    static const uint32_t members[] = {0, 1},
                          orders[2][2][2] = {{{0, 0}, {1, 0}}, {{1, 0}, {0, 0}}};
    float source[2] = {1, 2}, result[2];
    const void *const sources[] = {source};
    const struct pst_meet_part part = {
        .src = sources, .dst = result, .elems = 2, .owner = PST_NONE};

    self->status = sum_in_order(self->ops, self->transport, self->rank, members, 2,
                                orders[self->rank], 2, 1, &part, &self->err);
}

TEST(test_orders_must_agree)
{
    run_ranks(2, 30ull * SECOND, disagree_on_order);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ran[i].status, PST_ERR_BUG);
        assert_string_equal(
            ran[i].err.message,
            "sum of a tied gradient: rank 0 has 2 elements in 2 terms, rank 1 has 2 "
            "in 2, of another type, in other parts, of other owners or in another order");
    }
}

/* One does not come: the other is told after the limit, and its buffer is its own again. */
static void alone(struct ranked *self)
{
    static const uint32_t members[] = {0, 1};
    float data[2] = {1, 2};
    const struct pst_meet_part part = {.dst = data, .elems = 2, .owner = PST_NONE};
    const struct pst_meeting meeting = sum_in_place(members, 2, &part, 1);
    pst_request request;

    if (self->rank == 1) {
        return;
    }
    CHECK(self, self->ops->meet(self->transport, 0, &meeting, &request) == PST_OK);
    self->status = self->ops->wait(self->transport, 0, request, &self->err);
    CHECK(self, data[0] == 1 && data[1] == 2);
    CHECK(self, self->ops->wait(self->transport, 0, request, NULL) == PST_ERR_BUG);
}

TEST(test_stall)
{
    run_ranks(2, SECOND / 5, alone);
    assert_int_equal(ran[0].failures, 0);
    assert_int_equal(ran[0].status, PST_ERR_CANCELLED);
    assert_string_equal(ran[0].err.message, "run stalled: rank 0 has waited 0.2 s for rank 1 in a "
                                            "sum over replicas among 2 ranks");
}

static void aborted(struct ranked *self)
{
    static const uint32_t members[] = {0, 1};
    float data[2] = {1, 2};
    const struct pst_meet_part part = {.dst = data, .elems = 2, .owner = PST_NONE};
    const struct pst_meeting meeting = sum_in_place(members, 2, &part, 1);
    pst_request request;

    if (self->rank == 1) {
        pst_fail(&self->err, PST_ERR_CANCELLED, "run.stopped", "enough");
        self->ops->abort(self->transport, 1, &self->err);
        return;
    }
    self->status = self->ops->meet(self->transport, 0, &meeting, &request);
    if (self->status == PST_OK) {
        self->status = self->ops->wait(self->transport, 0, request, &self->err);
        CHECK(self, strstr(self->err.message, "enough") != NULL);
    }
}

TEST(test_abort)
{
    run_ranks(2, 30ull * SECOND, aborted);
    assert_int_equal(ran[0].failures, 0);
    assert_int_equal(ran[0].status, PST_ERR_CANCELLED);
}

/* --- owners ------------------------------------------------------------------------------------*/

static void owners(struct ranked *self)
{
    CHECK(self, owned_meet(self, OWNED_CASES, 70001, NULL) == 0);
    CHECK(self, owned_misuse(self) == 0);
}

TEST(test_owners)
{
    for (uint32_t n = 1; n <= 5; n++) {
        run_ranks(n, 30ull * SECOND, owners);
        expect_none_failed(n);
    }
}

/* --- exchanges ---------------------------------------------------------------------------------*/

static void exchange(struct ranked *self)
{
    CHECK(self, exchange_both(self, 1) == 0);
    CHECK(self, exchange_both(self, 70001) == 0);
    CHECK(self, exchange_misuse(self) == 0);
}

TEST(test_exchange)
{
    for (uint32_t n = 1; n <= EXCHANGE_RANKS; n++) {
        run_ranks(n, 30ull * SECOND, exchange);
        expect_none_failed(n);
    }
}

/* --- types; members that do not agree ----------------------------------------------------------*/

static void by_hand(struct ranked *self)
{
    CHECK(self, wrong_by_hand(self) == 0);
}

TEST(test_types)
{
    run_ranks(3, 30ull * SECOND, by_hand);
    expect_none_failed(3);
}

static void unlike(struct ranked *self)
{
    for (uint32_t which = 0; which < OWNED_UNLIKE; which++) {
        self->status = owned_unlike(self, which, &self->err);
        CHECK(self, self->status == PST_ERR_BUG);
        CHECK(self, strcmp(self->err.kind, "transport.size") == 0);
    }
    self->err = (struct pst_error){0};
    CHECK(self, exchange_unlike(self, &self->err) == PST_ERR_BUG);
    CHECK(self, strcmp(self->err.kind, "transport.size") == 0);
}

TEST(test_unlike)
{
    run_ranks(2, 30ull * SECOND, unlike);
    expect_none_failed(2);
}

static void gathers_alone(struct ranked *self)
{
    struct owned owned;
    pst_request request = 0;

    if (self->rank == 1) {
        return;
    }
    owned_fill(&owned, owned_cases[0], self->rank, 2, 0, 10);
    CHECK(self, self->ops->meet(self->transport, self->rank, &owned.meeting, &request) == PST_OK);
    self->status = self->ops->wait(self->transport, self->rank, request, &self->err);
    CHECK(self, owned_wrong(&owned) > 0);
}

TEST(test_gather_stalls)
{
    run_ranks(2, SECOND / 5, gathers_alone);
    assert_int_equal(ran[0].failures, 0);
    assert_int_equal(ran[0].status, PST_ERR_CANCELLED);
    assert_string_equal(ran[0].err.message, "run stalled: rank 0 has waited 0.2 s for rank 1 in a "
                                            "gather of new weights among 2 ranks");
}

/* A device that does at once what it is asked for: whoever comes last asks all of them. */
static pst_status make_no_mark(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                               struct pst_error *err)
{
    *ret_mark = NULL;
    return PST_OK;
}

static void pass_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
}

static void move_now(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                     uint64_t bytes)
{
    memmove(dst, src, bytes);
}

static void add_now(struct pst_device *device, uint32_t queue, float *dst, const float *src,
                    uint64_t elems)
{
    for (uint64_t i = 0; i < elems; i++) {
        dst[i] += src[i];
    }
}

/* What such a device cannot add up, no rank may post. */
static void refuse(const struct pst_transport_ops *ops, struct pst_transport *transport,
                   struct owned_case how)
{
    static struct owned owned;
    pst_request request;

    owned_fill(&owned, how, 0, 1, 0, 10);
    assert_int_equal(ops->meet(transport, 0, &owned.meeting, &request), PST_ERR_BUG);
    owned_wrong(&owned);
}

static void exchange_on_devices(const struct pst_transport_ops *ops,
                                struct pst_transport *transport, uint32_t n)
{
    static struct exchange exchanges[EXCHANGE_RANKS];
    pst_request requests[EXCHANGE_RANKS];
    struct pst_error err = {0};

    for (uint32_t r = 0; r < n; r++) {
        exchange_fill(&exchanges[r], r, n, 3000);
        assert_int_equal(ops->meet(transport, r, &exchanges[r].meeting, &requests[r]), PST_OK);
    }
    for (uint32_t r = 0; r < n; r++) {
        assert_ok(ops->wait(transport, r, requests[r], &err), &err);
        assert_int_equal(exchange_wrong(&exchanges[r]), 0);
    }
}

/* One thread plays all ranks. */
static void devices_of(uint32_t n)
{
    static const struct pst_device_ops device = {.mark_create = make_no_mark,
                                                 .mark = pass_mark,
                                                 .follow = pass_mark,
                                                 .move = move_now,
                                                 .add = add_now};
    static struct pst_device *devices[MAX_RANKS];
    static struct owned owned[MAX_RANKS];
    const struct pst_transport_memory memory = {0};
    const struct pst_transport_config config = {.n_ranks = n,
                                                .max_meetings = 1,
                                                .stall_ns = SECOND,
                                                .device = &device,
                                                .devices = devices,
                                                .memory = &memory};
    const struct pst_transport_ops *ops = load_threads();
    struct pst_transport *transport = NULL;
    pst_request requests[MAX_RANKS];
    struct pst_error err = {0};

    assert_ok(ops->open(&config, &transport, &err), &err);
    for (uint32_t k = 0; k < 2 * OWNED_F32_CASES; k++) {
        for (uint32_t r = 0; r < n; r++) {
            owned_fill(&owned[r], owned_cases[k / 2], r, n, k, 5001);
            owned[r].meeting.lane = k % 2;
            assert_int_equal(ops->meet(transport, r, &owned[r].meeting, &requests[r]), PST_OK);
        }
        for (uint32_t r = 0; r < n; r++) {
            assert_ok(ops->wait(transport, r, requests[r], &err), &err);
        }
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(owned_wrong(&owned[r]), 0);
        }
    }
    for (uint32_t k = OWNED_F32_CASES; k < OWNED_CASES; k++) {
        refuse(ops, transport, owned_cases[k]);
    }
    exchange_on_devices(ops, transport, n);
    ops->close(transport);
}

TEST(test_owners_on_devices)
{
    for (uint32_t n = 1; n <= 5; n += n < 3 ? 1 : 2) {
        devices_of(n);
    }
}

TEST(test_misuse)
{
    static const uint32_t others[] = {0, 1}, nobody[] = {0, 9}, self[] = {2};
    static const uint32_t no_member[][2] = {{1, 0}}, no_source[][2] = {{0, 1}},
                          good[][2] = {{0, 0}};
    const struct pst_transport_ops *ops = load_threads();
    struct pst_transport *transport = NULL;
    struct pst_error err = {0};
    float data = 3, source = 4;
    const void *const sources[] = {&source};
    const struct pst_meet_part part = {.dst = &data, .elems = 1, .owner = PST_NONE};
    const struct pst_meet_part apart = {
        .src = sources, .dst = &data, .elems = 1, .owner = PST_NONE};
    const struct pst_meeting of_others = sum_in_place(others, 2, &part, 1);
    const struct pst_meeting of_nobody = sum_in_place(nobody, 2, &part, 1);
    const struct pst_meeting alone = sum_in_place(self, 1, &part, 1);
    pst_request request, second;

    assert_int_equal(open_with(3, 1, SECOND, &transport), PST_OK);
    assert_int_equal(ops->meet(transport, 2, &of_others, &request), PST_ERR_BUG);
    assert_int_equal(ops->meet(transport, 0, &of_nobody, &request), PST_ERR_BUG);
    assert_int_equal(sum_in_order(ops, transport, 2, self, 1, no_member, 1, 1, &apart, &err),
                     PST_ERR_BUG);
    assert_int_equal(sum_in_order(ops, transport, 2, self, 1, no_source, 1, 1, &apart, &err),
                     PST_ERR_BUG);
    assert_int_equal(sum_in_order(ops, transport, 2, self, 1, good, 1, 1, &part, &err),
                     PST_ERR_BUG); /* its result would be its source */
    assert_int_equal(ops->meet(transport, 2, &alone, &request), PST_OK);
    assert_int_equal(ops->meet(transport, 2, &alone, &second), PST_ERR_BUG);
    assert_ok(ops->wait(transport, 2, request, &err), &err);
    assert_true(data == 3);
    assert_ok(sum_in_order(ops, transport, 2, self, 1, good, 1, 1, &apart, &err), &err);
    assert_true(data == 4);
    ops->close(transport);
}
