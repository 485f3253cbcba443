/* SPDX-License-Identifier: Apache-2.0
 *
 * The nccl transport with a communicator for each edge: what one queue never gets through, what is
 * no stall, how much of a GPU lanes take, what is refused.
 */
#include "unit/transport/nccl_rig.h"

enum { ELEMS = 33, STEPS = 12 };

static int with_edges(void **state)
{
    nccl_edges = true;
    return 0;
}

/* --- what takes a queue for each --- */

/* Two ranks send before they receive, each time in a group of its own. */
static void crossing(struct ranked *self)
{
    uint32_t other = 1 - self->rank;
    float out[STEPS][ELEMS], in[STEPS][ELEMS];

    for (uint32_t step = 0; step < STEPS && self->status == PST_OK; step++) {
        pst_request sent, received;

        nccl_fill(self->rank, out[step], ELEMS, (float)(1000 * self->rank + step));
        send(self, other, out[step], ELEMS, &sent);
        flush(self);
        recv(self, other, in[step], ELEMS, &received);
        flush(self);
        if (wait_for(self, received)) {
            wait_for(self, sent);
        }
    }
    check(self);
    for (uint32_t step = 0; step < STEPS && self->status == PST_OK; step++) {
        CHECK(self, in[step][0] == (float)(1000 * other + step));
        CHECK(self, in[step][ELEMS - 1] == in[step][0] + (float)(ELEMS - 1));
    }
}

TEST_WITH(crosses, with_edges, nccl_as_usual)
{
    load_nccl();
    nccl_edges = false; /* one queue never gets through */
    run_nccl(2, SHORT_NS, no_faults, crossing);
    with_kind(2, "run.stalled");
    nccl_edges = true;
    run_well(2, crossing);
}

/* Rank 0 sends to 1, which comes only once it has heard of 2, to which 0 sends next. */
static void roundabout(struct ranked *self)
{
    static float out[2][ELEMS], in[3][ELEMS];
    pst_request requests[2];

    if (self->rank == 0) {
        for (uint32_t i = 0; i < 2; i++) {
            nccl_fill(0, out[i], ELEMS, (float)(10 * i));
            send(self, 1 + i, out[i], ELEMS, &requests[i]);
            flush(self);
        }
    } else if (self->rank == 2) {
        recv(self, 0, in[0], ELEMS, &requests[0]);
        wait_for(self, requests[0]);
        send(self, 1, in[0], ELEMS, &requests[1]);
        wait_for(self, requests[1]);
        check(self);
        return;
    } else {
        recv(self, 2, in[1], ELEMS, &requests[0]);
        wait_for(self, requests[0]);
        recv(self, 0, in[2], ELEMS, &requests[1]);
        wait_for(self, requests[1]);
    }
    for (uint32_t i = 0; i < 2 && self->rank == 0; i++) {
        wait_for(self, requests[i]);
    }
    check(self);
    if (self->rank == 1 && self->status == PST_OK) {
        CHECK(self, in[1][0] == 10 && in[2][0] == 0 && in[2][ELEMS - 1] == ELEMS - 1);
    }
}

TEST_WITH(nobody_stands_behind, with_edges, nccl_as_usual)
{
    load_nccl();
    nccl_edges = false;
    run_nccl(3, SHORT_NS, no_faults, roundabout);
    with_kind(3, "run.stalled");
    nccl_edges = true;
    run_well(3, roundabout);
}

/* Far more transfers than a lane has places for, none waited for before the next two are posted. */
static void run_ahead(struct ranked *self)
{
    enum { MANY = 200 };
    static float in[MANY][ELEMS];
    static float out[MANY][ELEMS];
    pst_request requests[2];

    for (uint32_t i = 0; i < MANY; i++) {
        if (self->rank == 0) {
            nccl_fill(0, out[i], ELEMS, (float)i);
            send(self, 1, out[i], ELEMS, &requests[i % 2]);
        } else {
            recv(self, 0, in[i], ELEMS, &requests[i % 2]);
        }
        flush(self);
        if (i % 2 == 1) {
            wait_for(self, requests[1]);
            wait_for(self, requests[0]);
        }
    }
    check(self);
    for (uint32_t i = 0; i < MANY && self->rank == 1; i++) {
        CHECK(self, in[i][0] == (float)i && in[i][ELEMS - 1] == (float)(i + ELEMS - 1));
    }
}

TEST_WITH(a_small_ring, with_edges, nccl_as_usual)
{
    nccl_requests = 2;
    run_well(2, run_ahead);
}

/* --- stalls --- */

/* A receive is posted long before its send, and nothing waits for it meanwhile. */
static void early(struct ranked *self)
{
    static float in[ELEMS], out[ELEMS];
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, in, ELEMS, &request);
        flush(self);
        nccl_rest(1000);
    } else {
        nccl_rest(1000);
        nccl_fill(1, out, ELEMS, 5);
        send(self, 0, out, ELEMS, &request);
    }
    wait_for(self, request);
    check(self);
    CHECK(self, self->rank == 1 || self->status != PST_OK || in[0] == 5);
}

TEST_WITH(only_what_is_asked_for, with_edges, nccl_as_usual)
{
    run_nccl(2, SHORT_NS, no_faults, early);
    expect_ok(2);
    run_nccl(2, SHORT_NS, no_faults, nccl_waits_for_ever);
    assert_non_null(
        strstr(with_kind(2, "run.stalled")->err.message, "has waited 0.4 s for device 1"));
}

/* A receive that nobody waits for, and that has no send. */
static void left_open(struct ranked *self)
{
    static float in[ELEMS];
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, in, ELEMS, &request);
        flush(self);
    }
}

/* In the one queue the watch ends it; the one in the lane of an edge it lets be. Whoever is told
   that nothing is under way may close the device. */
TEST_WITH(what_is_left_open, with_edges, nccl_as_usual)
{
    load_nccl();
    nccl_edges = false;
    run_nccl(2, SHORT_NS, no_faults, left_open);
    assert_true(nccl_let_go[0] && nccl_let_go[1]);
    nccl_edges = true;
    run_nccl(2, SHORT_NS, no_faults, left_open);
    assert_true(!nccl_let_go[0] && nccl_let_go[1]);
}

/* --- how much of a GPU --- */

/* Everybody with everybody, all under way at once. */
static void everybody(struct ranked *self)
{
    static float in[MAX_RANKS][MAX_RANKS][ELEMS], out[MAX_RANKS][ELEMS];
    pst_request requests[2 * MAX_RANKS];
    uint32_t n = 0;

    nccl_fill(self->rank, out[self->rank], ELEMS, (float)self->rank);
    for (uint32_t i = 1; i < self->n_ranks; i++) {
        uint32_t other = (self->rank + i) % self->n_ranks;

        send(self, other, out[self->rank], ELEMS, &requests[n++]);
        flush(self);
        recv(self, other, in[self->rank][other], ELEMS, &requests[n++]);
        flush(self);
    }
    for (uint32_t i = 0; i < n; i++) {
        wait_for(self, requests[i]);
    }
    check(self);
    for (uint32_t r = 0; r < self->n_ranks && self->status == PST_OK; r++) {
        CHECK(self, r == self->rank || in[self->rank][r][1] == (float)(r + 1));
    }
}

TEST_WITH(rooms, with_edges, nccl_as_usual)
{
    load_nccl();
    nccl_fake->processors = 32; /* a quarter for 8 edges, one block each */
    run_well(5, everybody);
    assert_in_range(nccl_fake->most_blocks, 1, 16);
    nccl_fake->processors = 31;
    run_nccl(5, STALL_NS, no_faults, everybody);
    assert_non_null(
        strstr(with_kind(5, "machine.missing")->err.message, "has 8 edges to and from others"));
    nccl_fake->processors = 132;
    run_well(5, everybody);
    assert_in_range(nccl_fake->most_blocks, 1, 66);
    nccl_fake->processors = 100; /* a quarter has no power of two, nor has its eighth */
    run_well(5, everybody);
    assert_in_range(nccl_fake->most_reserved, 1, 50);
}

/* A pipeline: each rank with those beside it. The last one has to do with nobody. */
static uint32_t beside(void *context, uint32_t rank, uint32_t other)
{
    return rank == 3 || other == 3                  ? 0
           : rank + 1 == other || other + 1 == rank ? PST_MEETS_TRANSFER
                                                    : 0;
}

/* Rank 1 hands on what it gets. */
static void pass_on(struct ranked *self)
{
    static float data[3][ELEMS];
    pst_request request;

    if (self->rank == 0) {
        nccl_fill(0, data[0], ELEMS, 3);
    } else if (self->rank < 3) {
        recv(self, self->rank - 1, data[self->rank], ELEMS, &request);
        wait_for(self, request);
    }
    if (self->rank < 2) {
        send(self, self->rank + 1, data[self->rank], ELEMS, &request);
        wait_for(self, request);
    }
    check(self);
    CHECK(self, self->rank == 3 || self->status != PST_OK || data[self->rank][1] == 4);
}

/* Ranks with two edges, with four and with none, on GPUs that differ: both ends of an edge ask
   for the same (else the double ends the process), and the smallest GPU has room. */
TEST_WITH(ends_agree, with_edges, nccl_as_usual)
{
    load_nccl();
    nccl_meet = beside;
    nccl_fake->processors = 48;
    run_well(4, pass_on);
    nccl_fake->processors_of_odd = 132;
    run_well(4, pass_on);
    assert_in_range(nccl_fake->most_reserved, 1, 24);
    nccl_fake->processors_of_odd = 15; /* of rank 1, which has four */
    run_nccl(4, STALL_NS, no_faults, pass_on);
    for (uint32_t r = 0; r < 4; r++) {
        assert_non_null(strstr(ran[r].err.message, "device 1 has 4 edges to and from others; "));
        assert_non_null(strstr(ran[r].err.message, "the smallest GPU has 15 multiprocessors"));
    }
}

/* --- what is refused --- */

static void refused(uint32_t n_ranks, const char *words)
{
    const struct pst_transport_ops *ops = load_nccl();
    const struct pst_transport_memory memory = {.timed = false};
    const struct pst_transport_config config = {.n_ranks = n_ranks,
                                                .max_requests = 1,
                                                .stall_ns = STALL_NS,
                                                .edges = true,
                                                .device = &nccl_device,
                                                .memory = &memory};
    struct pst_transport *transport = NULL;
    struct pst_error err = {0};

    assert_int_equal(ops->open(&config, &transport, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, words));
}

TEST_WITH(refusals, with_edges, nccl_as_usual)
{
    refused(14, "device 0 has 26 edges to and from others; with run.p2p = \"edge\" it can have 24");
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    refused(2, "NCCL_LAUNCH_ORDER_IMPLICIT=1");
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}
