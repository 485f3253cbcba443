/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives with times in the `threads` transport: they start with their last member, and those
 * of each lane stand in a queue of their own.
 */
#include "unit/transport/wire_rig.h"

struct member {
    uint32_t rank, failures;
};

static void *collective(void *argument)
{
    struct member *self = argument;
    const struct pst_transport_ops *ops = world.ops;
    static const uint32_t pair[2] = {1, 3}, order[2][2] = {{0, 0}, {1, 0}};
    double values[3] = {self->rank, 1, 2};
    float source[4] = {1, 2, 3, 4}, result[4] = {-1, -1, -1, -1};
    const void *sources[1] = {source};
    const struct pst_meet_part part = {
        .src = sources, .dst = result, .elems = 4, .owner = PST_NONE};
    uint64_t start, end;

    /* the last to come is rank 3 at 400 */
    CHECK(self, ops->sum(world.transport, self->rank, values, 3, NULL) == PST_OK);
    CHECK(self, values[0] == 0 + 1 + 2 + 3 && values[1] == RANKS && values[2] == 2 * RANKS);
    ops->span(world.transport, self->rank, &start, &end);
    CHECK(self, start == 400 && end == 400 + 4000 + 24);
    CHECK(self, world.clocks[self->rank] == end);
    if (self->rank % 2 == 1) {
        world.clocks[self->rank] += 10 * self->rank;
        CHECK(self, sum_in_order(ops, world.transport, self->rank, pair, 2, order, 2, 1, &part,
                                 NULL) == PST_OK);
        ops->span(world.transport, self->rank, &start, &end);
        CHECK(self, start == 4424 + 30 && end == 4454 + 2000 + 16);
        CHECK(self, result[0] == -1 && result[3] == -1); /* hollow */
    }
    CHECK(self, ops->sum(world.transport, self->rank, values, 1, NULL) == PST_OK);
    CHECK(self, world.clocks[self->rank] == 6470 + 4000 + 8);
    return NULL;
}

TEST(the_last_member_starts_it)
{
    struct member members[RANKS];
    pthread_t threads[RANKS];

    open_world(0, true, 30000000000u);
    for (uint32_t i = 0; i < RANKS; i++) {
        world.clocks[i] = 100 * (i + 1);
        members[i] = (struct member){.rank = i};
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, collective, &members[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(members[i].failures, 0);
    }
    world.ops->close(world.transport);
}

static pst_request meet_at(uint64_t at, uint32_t rank, uint32_t lane, const uint32_t *members,
                           const struct pst_meet_part *part)
{
    struct pst_meeting meeting = sum_in_place(members, 2, part, 1);
    pst_request request;

    meeting.lane = (uint8_t)lane;
    world.clocks[rank] = at;
    assert_int_equal(world.ops->meet(world.transport, rank, &meeting, &request), PST_OK);
    return request;
}

static pst_request sum_at(uint64_t at, uint32_t rank, const uint32_t *members,
                          const struct pst_meet_part *part)
{
    return meet_at(at, rank, PST_MEET_SUMS, members, part);
}

/* A sum starts when the last member has come and the one before it has ended on all of them; posts
   put no clock forward. */
TEST(sums_are_a_queue)
{
    static const uint32_t near[] = {1, 0}, other[] = {2, 1};
    float data[2][100] = {{0}};
    const struct pst_meet_part part[2] = {{.dst = data[0], .elems = 100, .owner = PST_NONE},
                                          {.dst = data[1], .elems = 100, .owner = PST_NONE}};
    pst_request first[2], second[2], third[2];

    for (uint32_t node_size = 0; node_size <= 2; node_size += 2) {
        uint64_t more = node_size > 0 ? 50000 : 0;

        open_world(node_size, node_size > 0, 1000000000);
        for (uint32_t i = 0; i < 100; i++) {
            data[0][i] = 1;
            data[1][i] = 2;
        }
        first[0] = sum_at(10, 0, near, &part[0]);
        second[0] = sum_at(20, 0, near, &part[0]);
        first[1] = sum_at(50, 1, near, &part[1]);
        second[1] = sum_at(60, 1, near, &part[1]);
        assert_int_equal(world.clocks[1], 60);
        expect_times(0, first[0], 50, 2450);
        expect_times(1, first[1], 50, 2450);
        expect_times(0, second[0], 2450, 4850);
        /* posted early, behind a sum that rank 2 knows nothing of */
        third[0] = sum_at(3000, 2, other, &part[0]);
        third[1] = sum_at(3000, 1, other, &part[1]);
        expect_times(1, second[1], 2450, 4850);
        expect_times(2, third[0], 4850, 7250 + more);
        expect_times(1, third[1], 4850, 7250 + more);
        /* 1 + 2, 3 + 3, 6 + 6; nothing where buffers are hollow */
        assert_true(data[0][99] == (node_size > 0 ? 1 : 12));
        assert_true(data[1][99] == (node_size > 0 ? 2 : 12));
        world.ops->close(world.transport);
    }
}

/* Parts meet beside a sum under way, and beside one whose members have not all come; but after the
   parts before them. Each takes 2 * 1000 + 400 ns. */
TEST(lanes_are_queues)
{
    static const uint32_t near[] = {1, 0}, other[] = {2, 1};
    float data[2][100] = {{0}};
    const struct pst_meet_part part[2] = {{.dst = data[0], .elems = 100, .owner = PST_NONE},
                                          {.dst = data[1], .elems = 100, .owner = PST_NONE}};
    pst_request first[2], second[2], parts[2];

    open_world(0, false, 1000000000);
    first[0] = sum_at(10, 0, near, &part[0]);
    first[1] = sum_at(50, 1, near, &part[0]);
    second[1] = sum_at(60, 1, near, &part[0]);
    parts[0] = meet_at(70, 0, PST_MEET_PARTS, near, &part[1]);
    parts[1] = meet_at(80, 1, PST_MEET_PARTS, near, &part[1]);
    expect_times(0, parts[0], 80, 2480);
    expect_times(1, parts[1], 80, 2480);
    parts[0] = meet_at(90, 2, PST_MEET_PARTS, other, &part[1]);
    parts[1] = meet_at(100, 1, PST_MEET_PARTS, other, &part[1]);
    expect_times(2, parts[0], 2480, 4880);
    expect_times(1, parts[1], 2480, 4880);
    second[0] = sum_at(110, 0, near, &part[0]);
    expect_times(0, first[0], 50, 2450);
    expect_times(1, first[1], 50, 2450);
    expect_times(0, second[0], 2450, 4850);
    expect_times(1, second[1], 2450, 4850);
    world.ops->close(world.transport);
}

/* What goes to owners is not told to the others, and what is gathered not added up. */
TEST(owners_take_their_time)
{
    static const uint32_t pair[] = {0, 1};
    char data[2][100];
    const struct {
        uint8_t kind;
        uint32_t owner;
        struct pst_meet_bytes bytes;
    } cases[] = {{PST_MEET_SUM, PST_NONE, {80, 80}},
                 {PST_MEET_SUM, 1, {80, 0}},
                 {PST_MEET_GATHER, 1, {0, 20}},
                 {PST_MEET_EXCHANGE, 1, {0, 10}}}; /* one block of those that two exchange */

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pst_request requests[2];

        open_world(0, true, 1000000000);
        for (uint32_t r = 0; r < 2; r++) {
            const bool brings = cases[i].kind == PST_MEET_EXCHANGE && r == 1;
            const void *src = data[r];
            const struct pst_meet_part part = {.src = brings ? &src : NULL,
                                               .dst = brings ? NULL : data[r],
                                               .elems = 20,
                                               .owner = cases[i].owner};
            struct pst_meeting meeting = sum_in_place(pair, 2, &part, 1);

            meeting.kind = cases[i].kind;
            assert_int_equal(world.ops->meet(world.transport, r, &meeting, &requests[r]), PST_OK);
        }
        assert_int_equal(world.met.added, cases[i].bytes.added);
        assert_int_equal(world.met.copied, cases[i].bytes.copied);
        for (uint32_t r = 0; r < 2; r++) {
            expect_times(r, requests[r], 0, 2000 + cases[i].bytes.added);
        }
        world.ops->close(world.transport);
    }
}
