/* SPDX-License-Identifier: Apache-2.0
 *
 * Links with times in the `threads` transport. Clocks are plain numbers here that nobody waits for,
 * so one thread plays all ranks where no collective is involved, and every time is exact: a message
 * of b bytes takes 100 + b ns.
 */
#include "base/util.h"

#include "unit/transport/support.h"

#include <stdio.h>

enum { LATENCY = 100, RANKS = 4, REQUESTS = 16 };

struct world {
    const struct pst_transport_ops *ops;
    struct pst_transport *transport;
    uint64_t clocks[RANKS];
    uint32_t node_size; /* 0: one node */
};

static uint64_t now(void *context, uint32_t rank)
{
    return ((struct world *)context)->clocks[rank];
}

static void advance(void *context, uint32_t rank, uint64_t ns)
{
    uint64_t *clock = &((struct world *)context)->clocks[rank];

    *clock = ns > *clock ? ns : *clock;
}

/* Tags from 100 on are of further pieces of a message. */
static struct pst_transfer_time transfer(void *context, uint32_t from, uint32_t to, uint64_t tag,
                                         uint64_t bytes)
{
    (void)context;
    (void)from;
    (void)to;
    return (struct pst_transfer_time){bytes + (tag < 100 ? LATENCY : 0), tag >= 100};
}

static uint64_t collective_ns(void *context, uint64_t bytes, const uint32_t *ranks,
                              uint32_t n_ranks)
{
    bool far =
        n_ranks == 2 && ranks[0] / 2 != ranks[1] / 2 && ((struct world *)context)->node_size > 0;

    return 1000 * n_ranks + bytes + (far ? 50000 : 0);
}

static uint32_t node(void *context, uint32_t rank)
{
    uint32_t size = ((struct world *)context)->node_size;

    return size > 0 ? rank / size : 0;
}

static void open_world(struct world *world, uint32_t node_size, bool hollow, uint64_t stall_ns)
{
    struct pst_transport_times times = {.context = world,
                                        .now = now,
                                        .advance = advance,
                                        .transfer = transfer,
                                        .collective_ns = collective_ns,
                                        .node = node,
                                        .hollow = hollow};
    struct pst_transport_config config = {.n_ranks = RANKS,
                                          .max_requests = REQUESTS,
                                          .max_reductions = 2,
                                          .stall_ns = stall_ns,
                                          .times = &times};

    *world = (struct world){.ops = load_threads(), .node_size = node_size};
    assert_int_equal(world->ops->open(&config, &world->transport, NULL), PST_OK);
}

static char scratch[1 << 16];

static pst_request send_at(struct world *world, uint64_t at, uint32_t from, uint32_t to,
                           uint64_t tag, uint64_t bytes)
{
    pst_request request;

    world->clocks[from] = at;
    assert_int_equal(world->ops->send(world->transport, from, to, tag, scratch, bytes, &request),
                     PST_OK);
    return request;
}

static pst_request recv_at(struct world *world, uint64_t at, uint32_t to, uint32_t from,
                           uint64_t tag, uint64_t bytes)
{
    pst_request request;

    world->clocks[to] = at;
    assert_int_equal(world->ops->recv(world->transport, to, from, tag, scratch + sizeof scratch / 2,
                                      bytes, &request),
                     PST_OK);
    return request;
}

/* The transfer had the link in this time, and whoever waited for it is there or later. */
static void expect_times(struct world *world, uint32_t rank, pst_request request, uint64_t start,
                         uint64_t end)
{
    struct pst_error err = {0};
    uint64_t began, ended, before = world->clocks[rank];

    if (world->ops->wait(world->transport, rank, request, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    world->ops->span(world->transport, rank, &began, &ended);
    if (began != start || ended != end) {
        fail_msg("rank %u: from %llu to %llu, not from %llu to %llu", rank,
                 (unsigned long long)began, (unsigned long long)ended, (unsigned long long)start,
                 (unsigned long long)end);
    }
    assert_int_equal(world->clocks[rank], end > before ? end : before);
}

static void one_link_moves_one_at_a_time(void **state)
{
    struct world world;
    pst_request sends[3], recvs[3];

    (void)state;
    open_world(&world, 0, true, 1000000000);
    for (uint32_t i = 0; i < 3; i++) {
        sends[i] = send_at(&world, 10 * i, 0, 1, i, 1000);
        recvs[i] = recv_at(&world, 0, 1, 0, i, 1000);
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect_times(&world, 0, sends[i], 1100 * i, 1100 * (i + 1));
        expect_times(&world, 1, recvs[i], 1100 * i, 1100 * (i + 1));
    }
    world.ops->close(world.transport);
}

static void directions_are_apart(void **state)
{
    struct world world;
    pst_request there[2], back[2];

    (void)state;
    open_world(&world, 0, true, 1000000000);
    there[0] = send_at(&world, 50, 0, 1, 1, 1000);
    back[0] = send_at(&world, 60, 1, 0, 2, 500);
    there[1] = recv_at(&world, 70, 1, 0, 1, 1000);
    back[1] = recv_at(&world, 80, 0, 1, 2, 500);
    expect_times(&world, 0, there[0], 70, 1170);
    expect_times(&world, 1, there[1], 70, 1170);
    expect_times(&world, 0, back[1], 80, 680);
    expect_times(&world, 1, back[0], 80, 680);
    world.ops->close(world.transport);
}

/* It starts when the later end has come; the wait of an end that came late goes on no further. */
static void a_late_end(void **state)
{
    struct world world;
    pst_request send, recv;

    (void)state;
    open_world(&world, 0, true, 1000000000);
    recv = recv_at(&world, 0, 1, 0, 1, 0);
    send = send_at(&world, 5000, 0, 1, 1, 0);
    world.clocks[0] = 9000; /* at work meanwhile */
    expect_times(&world, 0, send, 5000, 5100);
    expect_times(&world, 1, recv, 5000, 5100);
    world.ops->close(world.transport);
}

/* Rank 0 sends to 1, then to 2: different links, so they overlap; but the second does not overtake
   the first, which waits for rank 1. */
static void queues_start_in_order(void **state)
{
    struct world world;
    pst_request sends[3], recvs[3];

    (void)state;
    open_world(&world, 0, true, 1000000000);
    sends[0] = send_at(&world, 0, 0, 1, 1, 1000);
    sends[1] = send_at(&world, 0, 0, 2, 2, 1000);
    recvs[1] = recv_at(&world, 0, 2, 0, 2, 1000);
    recvs[0] = recv_at(&world, 3000, 1, 0, 1, 1000);
    sends[2] = send_at(&world, 0, 0, 3, 3, 10);
    recvs[2] = recv_at(&world, 0, 3, 0, 3, 10);
    expect_times(&world, 0, sends[0], 3000, 4100);
    expect_times(&world, 0, sends[1], 3000, 4100);
    expect_times(&world, 2, recvs[1], 3000, 4100);
    expect_times(&world, 1, recvs[0], 3000, 4100);
    expect_times(&world, 3, recvs[2], 3000, 3110);
    expect_times(&world, 0, sends[2], 3000, 3110);
    world.ops->close(world.transport);
}

/* Two pieces are one message: one latency, and the queue goes on when the message has started. */
static void pieces_of_a_message(void **state)
{
    struct world world;
    pst_request sends[3], recvs[3];

    (void)state;
    open_world(&world, 0, true, 1000000000);
    sends[0] = send_at(&world, 0, 0, 1, 1, 1000);
    sends[1] = send_at(&world, 0, 0, 1, 101, 2000);
    sends[2] = send_at(&world, 0, 0, 2, 2, 30);
    recvs[0] = recv_at(&world, 200, 1, 0, 1, 1000);
    recvs[1] = recv_at(&world, 200, 1, 0, 101, 2000);
    recvs[2] = recv_at(&world, 0, 2, 0, 2, 30);
    expect_times(&world, 0, sends[0], 200, 1300);
    expect_times(&world, 1, recvs[0], 200, 1300);
    expect_times(&world, 0, sends[1], 1300, 3300);
    expect_times(&world, 1, recvs[1], 1300, 3300);
    expect_times(&world, 2, recvs[2], 200, 330);
    expect_times(&world, 0, sends[2], 200, 330);
    world.ops->close(world.transport);
}

/* Ranks 0, 1 | 2, 3: what leaves a node shares its way out, whoever sends it; the way back and the
   links inside are free. */
static void nodes_share_their_ways(void **state)
{
    struct world world;
    pst_request a[2], b[2], c[2], d[2];

    (void)state;
    open_world(&world, 2, true, 1000000000);
    a[0] = send_at(&world, 0, 0, 2, 1, 1000);
    a[1] = recv_at(&world, 0, 2, 0, 1, 1000);
    b[0] = send_at(&world, 10, 1, 3, 2, 1000);
    b[1] = recv_at(&world, 0, 3, 1, 2, 1000);
    c[0] = send_at(&world, 20, 3, 0, 3, 1000);
    c[1] = recv_at(&world, 0, 0, 3, 3, 1000);
    d[0] = send_at(&world, 30, 2, 3, 4, 1000);
    d[1] = recv_at(&world, 0, 3, 2, 4, 1000);
    expect_times(&world, 0, a[0], 0, 1100);
    expect_times(&world, 2, a[1], 0, 1100);
    expect_times(&world, 1, b[0], 1100, 2200);
    expect_times(&world, 3, b[1], 1100, 2200);
    expect_times(&world, 3, c[0], 20, 1120);
    expect_times(&world, 0, c[1], 20, 1120);
    expect_times(&world, 2, d[0], 1100, 2200); /* inside, but behind the receive ahead of it */
    expect_times(&world, 3, d[1], 1100, 2200);
    world.ops->close(world.transport);
}

/* On a shared link the older request goes first, though it comes to be known later: rank 0 posts
   behind rank 1, but stands at an earlier time. */
static void shared_links_serve_in_time_order(void **state)
{
    const uint64_t length = 10000000, base = pst_now_ns() + 30000000;
    struct world world;
    pst_request late[2], early[2];

    (void)state;
    open_world(&world, 2, true, 10000000000u);
    late[0] = send_at(&world, base + 5000, 1, 3, 1, length);
    late[1] = recv_at(&world, base, 3, 1, 1, length);
    early[0] = send_at(&world, base, 0, 2, 2, length);
    early[1] = recv_at(&world, base + 1000, 2, 0, 2, length);
    expect_times(&world, 3, late[1], base + 1000 + LATENCY + length,
                 base + 1000 + 2 * (LATENCY + length));
    assert_true(pst_now_ns() >= base + 1000 + length / 2); /* nothing is served ahead of its time */
    expect_times(&world, 0, early[0], base + 1000, base + 1000 + LATENCY + length);
    expect_times(&world, 2, early[1], base + 1000, base + 1000 + LATENCY + length);
    expect_times(&world, 1, late[0], base + 1000 + LATENCY + length,
                 base + 1000 + 2 * (LATENCY + length));
    world.ops->close(world.transport);
}

/* At equal times the lower sender goes first. */
static void ties_on_shared_links(void **state)
{
    const uint64_t length = 10000000, base = pst_now_ns() + 30000000;
    struct world world;
    pst_request high, low;

    (void)state;
    open_world(&world, 2, true, 10000000000u);
    high = send_at(&world, base, 1, 2, 1, length);
    recv_at(&world, base, 2, 1, 1, length);
    low = send_at(&world, base, 0, 3, 2, length);
    recv_at(&world, base, 3, 0, 2, length);
    expect_times(&world, 0, low, base, base + LATENCY + length);
    expect_times(&world, 1, high, base + LATENCY + length, base + 2 * (LATENCY + length));
    world.ops->close(world.transport);
}

/* A request for a shared link that is taken back does not hold up what comes behind it. */
static void requests_are_taken_back(void **state)
{
    const uint64_t far_off = pst_now_ns() + 3600u * UINT64_C(1000000000);
    struct world world;
    struct pst_error err = {0};
    pst_request lost, send, recv;

    (void)state;
    open_world(&world, 2, true, 20000000);
    lost = send_at(&world, far_off, 0, 2, 1, 10);
    recv_at(&world, far_off, 2, 0, 1, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    send = send_at(&world, 50, 0, 3, 2, 10);
    recv = recv_at(&world, 50, 3, 0, 2, 10);
    expect_times(&world, 3, recv, 50, 160);
    expect_times(&world, 0, send, 50, 160);
    world.ops->close(world.transport);
}

/* Bytes go along unless the ends are hollow. */
static void bytes_move(void **state)
{
    struct world world;
    int from = 41, to = 0;
    pst_request send, recv;

    (void)state;
    for (uint32_t hollow = 0; hollow < 2; hollow++) {
        open_world(&world, 0, hollow != 0, 1000000000);
        to = 0;
        world.ops->recv(world.transport, 1, 0, 1, &to, sizeof to, &recv);
        world.ops->send(world.transport, 0, 1, 1, &from, sizeof from, &send);
        expect_times(&world, 1, recv, 0, LATENCY + sizeof to);
        expect_times(&world, 0, send, 0, LATENCY + sizeof to);
        assert_int_equal(to, hollow ? 0 : 41);
        world.ops->close(world.transport);
    }
}

/* Ends that do not belong together are a fault of the plan, and both are told. */
static void misfits(void **state)
{
    struct world world;
    struct pst_error err = {0};
    pst_request send, recv;

    (void)state;
    open_world(&world, 0, true, 1000000000);
    send = send_at(&world, 0, 0, 1, 1, 10);
    recv = recv_at(&world, 0, 1, 0, 2, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, send, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "transport.order");
    assert_int_equal(world.ops->wait(world.transport, 1, recv, &err), PST_ERR_BUG);
    send = send_at(&world, 0, 0, 1, 1, 10);
    recv = recv_at(&world, 0, 1, 0, 1, 20);
    assert_int_equal(world.ops->wait(world.transport, 1, recv, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "transport.size");
    assert_non_null(strstr(err.message, "10 bytes"));
    assert_int_equal(world.ops->wait(world.transport, 0, send, &err), PST_ERR_BUG);
    world.ops->close(world.transport);
}

/* What nobody answers is taken back, and does not meet a later post. */
static void stalls_and_aborts(void **state)
{
    struct world world;
    struct pst_error err = {0};
    pst_request lost, send, recv;

    (void)state;
    open_world(&world, 0, true, 20000000);
    lost = send_at(&world, 0, 0, 1, 1, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    send = send_at(&world, 0, 0, 1, 2, 10);
    recv = recv_at(&world, 0, 1, 0, 2, 10);
    expect_times(&world, 1, recv, 0, 110);
    expect_times(&world, 0, send, 0, 110);
    lost = recv_at(&world, 0, 2, 3, 1, 10);
    world.ops->abort(world.transport, 3, "tired");
    assert_int_equal(world.ops->wait(world.transport, 2, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.aborted");
    assert_int_equal(world.ops->send(world.transport, 0, 1, 1, scratch, 1, &send),
                     PST_ERR_CANCELLED);
    world.ops->close(world.transport);
}

/* --- collectives ------------------------------------------------------------------------------ */

struct member {
    struct world *world;
    uint32_t rank, failures;
};

static void *collective(void *argument)
{
    struct member *self = argument;
    struct world *world = self->world;
    const struct pst_transport_ops *ops = world->ops;
    static const uint32_t pair[2] = {1, 3}, order[2][2] = {{0, 0}, {1, 0}};
    double values[3] = {self->rank, 1, 2};
    float source[4] = {1, 2, 3, 4}, result[4] = {-1, -1, -1, -1};
    const float *sources[1] = {source};
    uint64_t start, end;

    /* the last to come is rank 3 at 400 */
    CHECK(self, ops->sum(world->transport, self->rank, values, 3, NULL) == PST_OK);
    CHECK(self, values[0] == 0 + 1 + 2 + 3 && values[1] == RANKS && values[2] == 2 * RANKS);
    ops->span(world->transport, self->rank, &start, &end);
    CHECK(self, start == 400 && end == 400 + 4000 + 24);
    CHECK(self, world->clocks[self->rank] == end);
    if (self->rank % 2 == 1) {
        world->clocks[self->rank] += 10 * self->rank;
        CHECK(self, ops->reduce(world->transport, self->rank, pair, 2, sources, 1, order, 2, result,
                                4, NULL) == PST_OK);
        ops->span(world->transport, self->rank, &start, &end);
        CHECK(self, start == 4424 + 30 && end == 4454 + 2000 + 16);
        CHECK(self, result[0] == -1 && result[3] == -1); /* hollow */
    }
    CHECK(self, ops->barrier(world->transport, self->rank, NULL) == PST_OK);
    CHECK(self, world->clocks[self->rank] == 6470 + 4000);
    return NULL;
}

static void the_last_member_starts_it(void **state)
{
    struct member members[RANKS];
    pthread_t threads[RANKS];
    struct world world;

    (void)state;
    open_world(&world, 0, true, 30000000000u);
    for (uint32_t i = 0; i < RANKS; i++) {
        world.clocks[i] = 100 * (i + 1);
        members[i] = (struct member){.world = &world, .rank = i};
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

static pst_request sum_at(struct world *world, uint64_t at, uint32_t rank, const uint32_t *members,
                          const struct pst_reduce_part *part)
{
    pst_request request;

    world->clocks[rank] = at;
    assert_int_equal(world->ops->all_reduce(world->transport, rank, members, 2, part, 1, &request),
                     PST_OK);
    return request;
}

/* A sum starts when the last member has come and the one before it has ended on all of them; posts
   put no clock forward. */
static void sums_are_a_queue(void **state)
{
    static const uint32_t near[] = {1, 0}, other[] = {2, 1};
    float data[2][100] = {{0}};
    const struct pst_reduce_part part[2] = {{data[0], 100}, {data[1], 100}};
    struct world world;
    pst_request first[2], second[2], third[2];

    (void)state;
    for (uint32_t node_size = 0; node_size <= 2; node_size += 2) {
        uint64_t more = node_size > 0 ? 50000 : 0;

        open_world(&world, node_size, node_size > 0, 1000000000);
        for (uint32_t i = 0; i < 100; i++) {
            data[0][i] = 1;
            data[1][i] = 2;
        }
        first[0] = sum_at(&world, 10, 0, near, &part[0]);
        second[0] = sum_at(&world, 20, 0, near, &part[0]);
        first[1] = sum_at(&world, 50, 1, near, &part[1]);
        second[1] = sum_at(&world, 60, 1, near, &part[1]);
        assert_int_equal(world.clocks[1], 60);
        expect_times(&world, 0, first[0], 50, 2450);
        expect_times(&world, 1, first[1], 50, 2450);
        expect_times(&world, 0, second[0], 2450, 4850);
        /* posted early, behind a sum that rank 2 knows nothing of */
        third[0] = sum_at(&world, 3000, 2, other, &part[0]);
        third[1] = sum_at(&world, 3000, 1, other, &part[1]);
        expect_times(&world, 1, second[1], 2450, 4850);
        expect_times(&world, 2, third[0], 4850, 7250 + more);
        expect_times(&world, 1, third[1], 4850, 7250 + more);
        /* 1 + 2, 3 + 3, 6 + 6; nothing where buffers are hollow */
        assert_true(data[0][99] == (node_size > 0 ? 1 : 12));
        assert_true(data[1][99] == (node_size > 0 ? 2 : 12));
        world.ops->close(world.transport);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_link_moves_one_at_a_time),
        cmocka_unit_test(directions_are_apart),
        cmocka_unit_test(a_late_end),
        cmocka_unit_test(queues_start_in_order),
        cmocka_unit_test(pieces_of_a_message),
        cmocka_unit_test(nodes_share_their_ways),
        cmocka_unit_test(shared_links_serve_in_time_order),
        cmocka_unit_test(ties_on_shared_links),
        cmocka_unit_test(requests_are_taken_back),
        cmocka_unit_test(bytes_move),
        cmocka_unit_test(misfits),
        cmocka_unit_test(stalls_and_aborts),
        cmocka_unit_test(the_last_member_starts_it),
        cmocka_unit_test(sums_are_a_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
