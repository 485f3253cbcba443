/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on links with times in the `threads` transport; one thread plays all ranks.
 */
#include "unit/transport/wire_rig.h"

TEST(one_link_moves_one_at_a_time)
{
    pst_request sends[3], recvs[3];

    open_world(0, true, 1000000000);
    for (uint32_t i = 0; i < 3; i++) {
        sends[i] = send_at(10 * i, 0, 1, i, 1000);
        recvs[i] = recv_at(0, 1, 0, i, 1000);
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect_times(0, sends[i], 1000 * i, 1000 * i + 1100);
        expect_times(1, recvs[i], 1000 * i, 1000 * i + 1100);
    }
    world.ops->close(world.transport);
}

TEST(directions_are_apart)
{
    pst_request there[2], back[2];

    open_world(0, true, 1000000000);
    there[0] = send_at(50, 0, 1, 1, 1000);
    back[0] = send_at(60, 1, 0, 2, 500);
    there[1] = recv_at(70, 1, 0, 1, 1000);
    back[1] = recv_at(80, 0, 1, 2, 500);
    expect_times(0, there[0], 70, 1170);
    expect_times(1, there[1], 70, 1170);
    expect_times(0, back[1], 80, 680);
    expect_times(1, back[0], 80, 680);
    world.ops->close(world.transport);
}

/* It starts when the later end has come; the wait of an end that came late goes on no further. */
TEST(a_late_end)
{
    pst_request send, recv;

    open_world(0, true, 1000000000);
    recv = recv_at(0, 1, 0, 1, 0);
    send = send_at(5000, 0, 1, 1, 0);
    world.clocks[0] = 9000; /* at work meanwhile */
    expect_times(0, send, 5000, 5100);
    expect_times(1, recv, 5000, 5100);
    world.ops->close(world.transport);
}

/* Rank 0 sends to 1, then to 2: different links, so they overlap; but the second does not overtake
   the first, which waits for rank 1. */
TEST(queues_start_in_order)
{
    pst_request sends[3], recvs[3];

    open_world(0, true, 1000000000);
    sends[0] = send_at(0, 0, 1, 1, 1000);
    sends[1] = send_at(0, 0, 2, 2, 1000);
    recvs[1] = recv_at(0, 2, 0, 2, 1000);
    recvs[0] = recv_at(3000, 1, 0, 1, 1000);
    sends[2] = send_at(0, 0, 3, 3, 10);
    recvs[2] = recv_at(0, 3, 0, 3, 10);
    expect_times(0, sends[0], 3000, 4100);
    expect_times(0, sends[1], 3000, 4100);
    expect_times(2, recvs[1], 3000, 4100);
    expect_times(1, recvs[0], 3000, 4100);
    expect_times(3, recvs[2], 3000, 3110);
    expect_times(0, sends[2], 3000, 3110);
    world.ops->close(world.transport);
}

/* Two pieces are one message: one latency, and the queue goes on when the message has started. */
TEST(pieces_of_a_message)
{
    pst_request sends[3], recvs[3];

    open_world(0, true, 1000000000);
    sends[0] = send_at(0, 0, 1, 1, 1000);
    sends[1] = send_at(0, 0, 1, 101, 2000);
    sends[2] = send_at(0, 0, 2, 2, 30);
    recvs[0] = recv_at(200, 1, 0, 1, 1000);
    recvs[1] = recv_at(200, 1, 0, 101, 2000);
    recvs[2] = recv_at(0, 2, 0, 2, 30);
    expect_times(0, sends[0], 200, 1300);
    expect_times(1, recvs[0], 200, 1300);
    expect_times(0, sends[1], 1200, 3300);
    expect_times(1, recvs[1], 1200, 3300);
    expect_times(2, recvs[2], 200, 330);
    expect_times(0, sends[2], 200, 330);
    world.ops->close(world.transport);
}

/* Ranks 0, 1 | 2, 3: what leaves a node shares its way out, whoever sends it; the way back and the
   links inside are free. */
TEST(nodes_share_their_ways)
{
    pst_request a[2], b[2], c[2], d[2];

    open_world(2, true, 1000000000);
    a[0] = send_at(0, 0, 2, 1, 1000);
    a[1] = recv_at(0, 2, 0, 1, 1000);
    b[0] = send_at(10, 1, 3, 2, 1000);
    b[1] = recv_at(0, 3, 1, 2, 1000);
    c[0] = send_at(20, 3, 0, 3, 1000);
    c[1] = recv_at(0, 0, 3, 3, 1000);
    d[0] = send_at(30, 2, 3, 4, 1000);
    d[1] = recv_at(0, 3, 2, 4, 1000);
    expect_times(0, a[0], 0, 1100);
    expect_times(2, a[1], 0, 1100);
    expect_times(1, b[0], 1000, 2100);
    expect_times(3, b[1], 1000, 2100);
    expect_times(3, c[0], 20, 1120);
    expect_times(0, c[1], 20, 1120);
    expect_times(2, d[0], 1000, 2100); /* inside, but after the receive ahead of it */
    expect_times(3, d[1], 1000, 2100);
    world.ops->close(world.transport);
}

/* On a shared link the older request goes first, though it comes to be known later: rank 0 posts
   behind rank 1, but stands at an earlier time. */
TEST(shared_links_serve_in_time_order)
{
    const uint64_t length = 10000000, base = pst_now_ns() + 30000000;
    pst_request late[2], early[2];

    open_world(2, true, 10000000000u);
    late[0] = send_at(base + 5000, 1, 3, 1, length);
    late[1] = recv_at(base, 3, 1, 1, length);
    early[0] = send_at(base, 0, 2, 2, length);
    early[1] = recv_at(base + 1000, 2, 0, 2, length);
    expect_times(3, late[1], base + 1000 + length, base + 1000 + LATENCY + 2 * length);
    assert_true(pst_now_ns() >= base + 1000 + length / 2); /* nothing is served ahead of its time */
    expect_times(0, early[0], base + 1000, base + 1000 + LATENCY + length);
    expect_times(2, early[1], base + 1000, base + 1000 + LATENCY + length);
    expect_times(1, late[0], base + 1000 + length, base + 1000 + LATENCY + 2 * length);
    world.ops->close(world.transport);
}

/* At equal times the lower sender goes first. */
TEST(ties_on_shared_links)
{
    const uint64_t length = 10000000, base = pst_now_ns() + 30000000;
    pst_request high, low;

    open_world(2, true, 10000000000u);
    high = send_at(base, 1, 2, 1, length);
    recv_at(base, 2, 1, 1, length);
    low = send_at(base, 0, 3, 2, length);
    recv_at(base, 3, 0, 2, length);
    expect_times(0, low, base, base + LATENCY + length);
    expect_times(1, high, base + length, base + LATENCY + 2 * length);
    world.ops->close(world.transport);
}

/* A request for a shared link that is taken back does not hold up what comes behind it. */
TEST(requests_are_taken_back)
{
    const uint64_t far_off = pst_now_ns() + 3600u * UINT64_C(1000000000);
    struct pst_error err = {0};
    pst_request lost, send, recv;

    open_world(2, true, 20000000);
    lost = send_at(far_off, 0, 2, 1, 10);
    recv_at(far_off, 2, 0, 1, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    send = send_at(50, 0, 3, 2, 10);
    recv = recv_at(50, 3, 0, 2, 10);
    expect_times(3, recv, 50, 160);
    expect_times(0, send, 50, 160);
    world.ops->close(world.transport);
}

/* Bytes go along unless the ends are hollow. */
TEST(bytes_move)
{
    int from = 41, to = 0;
    pst_request send, recv;

    for (uint32_t hollow = 0; hollow < 2; hollow++) {
        open_world(0, hollow != 0, 1000000000);
        to = 0;
        post_recv(world.ops, world.transport, 1, 0, 1, &to, sizeof to, &recv);
        post_send(world.ops, world.transport, 0, 1, 1, &from, sizeof from, &send);
        expect_times(1, recv, 0, LATENCY + sizeof to);
        expect_times(0, send, 0, LATENCY + sizeof to);
        assert_int_equal(to, hollow ? 0 : 41);
        world.ops->close(world.transport);
    }
}

/* Ends that do not belong together are a fault of the plan, and both are told. */
TEST(misfits)
{
    struct pst_error err = {0};
    pst_request send, recv;

    open_world(0, true, 1000000000);
    send = send_at(0, 0, 1, 1, 10);
    recv = recv_at(0, 1, 0, 2, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, send, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "transport.order");
    assert_int_equal(world.ops->wait(world.transport, 1, recv, &err), PST_ERR_BUG);
    send = send_at(0, 0, 1, 1, 10);
    recv = recv_at(0, 1, 0, 1, 20);
    assert_int_equal(world.ops->wait(world.transport, 1, recv, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "transport.size");
    assert_non_null(strstr(err.message, "10 bytes"));
    assert_int_equal(world.ops->wait(world.transport, 0, send, &err), PST_ERR_BUG);
    world.ops->close(world.transport);
}

/* What nobody answers is taken back, and does not meet a later post. */
TEST(stalls_and_aborts)
{
    struct pst_error err = {0};
    pst_request lost, send, recv;

    open_world(0, true, 20000000);
    lost = send_at(0, 0, 1, 1, 10);
    assert_int_equal(world.ops->wait(world.transport, 0, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    send = send_at(0, 0, 1, 2, 10);
    recv = recv_at(0, 1, 0, 2, 10);
    expect_times(1, recv, 0, 110);
    expect_times(0, send, 0, 110);
    lost = recv_at(0, 2, 3, 1, 10);
    pst_fail(&err, PST_ERR_CANCELLED, "run.stopped", "tired");
    world.ops->abort(world.transport, 3, &err);
    assert_int_equal(world.ops->wait(world.transport, 2, lost, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.aborted");
    assert_int_equal(post_send(world.ops, world.transport, 0, 1, 1, scratch, 1, &send),
                     PST_ERR_CANCELLED);
    world.ops->close(world.transport);
}
