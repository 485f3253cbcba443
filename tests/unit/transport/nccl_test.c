/* SPDX-License-Identifier: Apache-2.0
 *
 * The nccl transport over its double: transfers and sums take their place in the order of the
 * compute streams, sums have one order, and whatever hangs or breaks ends the run with its reason.
 */
#include "unit/transport/nccl_rig.h"
#include "unit/transport/exchange.h"
#include "unit/transport/owners.h"

/* --- transfers --- */

enum { STEPS = 40, ELEMS = 33 };

/* Round the ring, both ways: each send is posted in front of the receive that it needs elsewhere,
   which only a group brings to an end. */
static void exchange(struct ranked *self)
{
    uint32_t next = (self->rank + 1) % self->n_ranks;
    uint32_t before = (self->rank + self->n_ranks - 1) % self->n_ranks;
    float out[ELEMS], in[ELEMS], seen[STEPS][2];

    for (uint32_t step = 0; step < STEPS && self->status == PST_OK; step++) {
        bool back = step % 2 == 1;
        pst_request sent, received;

        nccl_fill(self->rank, out, ELEMS, (float)(1000 * self->rank + step));
        send(self, back ? before : next, out, ELEMS, &sent);
        recv(self, back ? next : before, in, ELEMS, &received);
        if (step % 3 == 0) { /* or the first wait does */
            flush(self);
        }
        if (wait_for(self, received) && wait_for(self, sent)) {
            nccl_join(self->rank);
            seen[step][0] = in[0];
            seen[step][1] = in[ELEMS - 1];
            CHECK(self, in[0] == (float)(1000 * (back ? next : before) + step));
            CHECK(self, in[ELEMS - 1] == in[0] + (float)(ELEMS - 1));
        }
    }
    CHECK(self, seen[0][0] != seen[1][0]);
    check(self);
}

TEST(transfers)
{
    for (uint32_t n = 2; n <= 5; n++) {
        run_well(n, exchange);
    }
}

/* The host never waits for a stream: a buffer is filled, sent and filled again. */
static void run_ahead(struct ranked *self)
{
    static float in[STEPS][ELEMS];
    float out[ELEMS];
    pst_request request;

    for (uint32_t step = 0; step < STEPS; step++) {
        if (self->rank == 0) {
            nccl_fill(0, out, ELEMS, (float)(100 * step));
            send(self, 1, out, ELEMS, &request);
        } else {
            recv(self, 0, in[step], ELEMS, &request);
        }
        flush(self);
        CHECK(self, wait_for(self, request));
    }
    check(self);
    for (uint32_t step = 0; step < STEPS && self->rank == 1; step++) {
        CHECK(self, in[step][0] == (float)(100 * step));
        CHECK(self, in[step][ELEMS - 1] == (float)(100 * step + ELEMS - 1));
    }
}

TEST(ahead)
{
    run_well(2, run_ahead);
}

/* --- sums --- */

enum { MOST = 3000 };

static const uint64_t part_elems[PARTS] = {1, 700, 0, 2299}; /* more than the scratch of a round */

/* Rounding shows the order: terms of all sizes. */
static float term_of(uint32_t rank, uint64_t i)
{
    static const float sizes[] = {1.0f, 3.0e7f, -3.0e7f, 0.37f, 1.0e-3f};

    return sizes[(rank + i) % 5] * (1.0f + (float)(i % 97) / 64.0f) + (float)rank * 0.1f;
}

static void replicas(struct ranked *self)
{
    static const uint32_t orders[2][3] = {{2, 0, 1}, {1, 2, 0}}; /* members need not ascend */
    static float data[MAX_RANKS][2][MOST];
    struct pst_meet_part parts[2][PARTS];
    struct pst_meeting meeting;
    pst_request requests[2];

    for (uint32_t k = 0; k < 2; k++) {
        float *at = data[self->rank][k];

        for (uint32_t p = 0; p < PARTS; p++) {
            parts[k][p] =
                (struct pst_meet_part){.dst = at, .elems = part_elems[p], .owner = PST_NONE};
            at += part_elems[p];
        }
        for (uint64_t i = 0; i < MOST; i++) {
            data[self->rank][k][i] = term_of(self->rank + k, i);
        }
        meeting = sum_in_place(orders[k], 3, parts[k], PARTS);
        self->status = self->ops->meet(self->transport, self->rank, &meeting, &requests[k]);
        CHECK(self, self->status == PST_OK);
    }
    for (uint32_t k = 2; k-- > 0 && self->status == PST_OK;) {
        wait_for(self, requests[k]);
    }
    check(self);
    for (uint32_t k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < MOST; i++) {
            const uint32_t *o = orders[k];
            float sum = term_of(o[0] + k, i);

            sum += term_of(o[1] + k, i);
            sum += term_of(o[2] + k, i);
            CHECK(self, data[self->rank][k][i] == sum);
        }
    }
}

static void tied(struct ranked *self)
{
    static const uint32_t members[] = {0, 1, 3};
    static const uint32_t order[][2] = {{2, 0}, {0, 0}, {2, 1}, {1, 0}};
    static float src[MAX_RANKS][2][MOST], dst[MAX_RANKS][MOST];
    const void *own[2] = {src[self->rank][0], src[self->rank][1]};
    const struct pst_meet_part part = {
        .src = own, .dst = dst[self->rank], .elems = MOST, .owner = PST_NONE};

    if (self->rank == 2) {
        return;
    }
    for (uint64_t i = 0; i < MOST; i++) {
        src[self->rank][0][i] = term_of(self->rank, i);
        src[self->rank][1][i] = term_of(self->rank + 7, i);
    }
    self->status = sum_in_order(self->ops, self->transport, self->rank, members, 3, order, 4,
                                self->rank == 3 ? 2 : 1, &part, &self->err);
    check(self);
    for (uint64_t i = 0; i < MOST; i++) {
        float sum = term_of(3, i);

        sum += term_of(0, i);
        sum += term_of(10, i);
        sum += term_of(1, i);
        CHECK(self, dst[self->rank][i] == sum);
        CHECK(self, src[self->rank][0][i] == term_of(self->rank, i));
    }
}

static void on_the_host(struct ranked *self)
{
    double values[2] = {self->rank == 1 ? 0.1 : 0, 2};

    self->status = self->ops->sum(self->transport, self->rank, values, 2, &self->err);
    CHECK(self, values[0] == 0.1 && values[1] == 2.0 * self->n_ranks);
}

TEST(sums)
{
    run_well(3, replicas);
    run_well(4, tied);
    run_well(4, on_the_host);
}

/* More than the scratch of a round has room for. */
static void owners(struct ranked *self)
{
    CHECK(self, owned_meet(self, OWNED_F32_CASES, 2299, nccl_join) == 0);
    CHECK(self, owned_misuse(self) == 0);
    for (uint32_t k = 0; k < OWNED_CASES; k++) { /* other types, and the other lane */
        struct owned owned;
        pst_request request;

        owned_fill(&owned, owned_cases[k], self->rank, self->n_ranks, 0, 10);
        owned.meeting.lane = k < OWNED_F32_CASES ? PST_MEET_PARTS : PST_MEET_SUMS;
        CHECK(self, self->ops->meet(self->transport, self->rank, &owned.meeting, &request) ==
                        PST_ERR_BUG);
        owned_wrong(&owned);
    }
    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        struct exchange exchange;
        pst_request request;

        exchange_fill(&exchange, self->rank, self->n_ranks, 10);
        exchange.meeting.lane = (uint8_t)lane;
        CHECK(self, self->ops->meet(self->transport, self->rank, &exchange.meeting, &request) ==
                        PST_ERR_BUG);
        exchange_wrong(&exchange);
    }
}

TEST(sums_of_owners)
{
    for (uint32_t n = 1; n <= 5; n += n < 3 ? 1 : 2) {
        run_well(n, owners);
    }
}

static struct owned_case sent_case;

static void meet_once(struct ranked *self)
{
    static struct owned owned[MAX_RANKS];
    pst_request request;

    if (sent_case.kind > PST_MEET_GATHER) {
        return;
    }
    owned_fill(&owned[self->rank], sent_case, self->rank, 3, 0, 3000);
    posted(self,
           self->ops->meet(self->transport, self->rank, &owned[self->rank].meeting, &request));
    wait_for(self, request);
    nccl_join(self->rank);
    CHECK(self, owned_wrong(&owned[self->rank]) == 0);
}

static uint64_t bytes_sent(uint8_t kind, bool common)
{
    const uint64_t before = atomic_load(&nccl_fake->n_bytes);

    sent_case = (struct owned_case){.kind = kind, .common = common};
    run_well(3, meet_once);
    return atomic_load(&nccl_fake->n_bytes) - before;
}

/* Two members bring their terms to the owner of each element; two get what is gathered; of what
   nobody owns they get the result, too. The parts have 3000, 0, 1, 3, 2001 and 7 elements. */
TEST(what_owners_send)
{
    uint64_t connecting;

    load_nccl();
    connecting = bytes_sent(UINT8_MAX, false);
    assert_int_equal(bytes_sent(PST_MEET_SUM, false) - connecting, 2 * 5012 * sizeof(float));
    assert_int_equal(bytes_sent(PST_MEET_SUM, true) - connecting,
                     2 * (5012 + 2008) * sizeof(float));
    assert_int_equal(bytes_sent(PST_MEET_GATHER, false) - connecting, 2 * 5012);
}

/* --- faults --- */

/* One step of a chain: 0 gets from 1, 1 from 2. */
static void chain(struct ranked *self)
{
    float in[ELEMS], out[ELEMS];
    pst_request request;

    if (self->rank + 1 < self->n_ranks) {
        recv(self, self->rank + 1, in, ELEMS, &request);
        wait_for(self, request);
    }
    if (self->rank > 0 && self->status == PST_OK) {
        nccl_fill(self->rank, out, ELEMS, 1);
        send(self, self->rank - 1, out, ELEMS, &request);
        wait_for(self, request);
    }
    check(self);
}

/* A rank that meets the others and then goes its own way. */
static void absent(struct ranked *self)
{
    if (self->rank + 1 < self->n_ranks) {
        chain(self);
        return;
    }
    while (self->ops->check(self->transport, self->rank, NULL) == PST_OK) {
        nccl_rest(1);
    }
}

TEST(a_stall)
{
    const struct ranked *told;

    run_nccl(3, SHORT_NS, no_faults, absent);
    told = with_kind(3, "run.stalled");
    print_message("%s\n", told->err.message);
    assert_int_equal(pst_error_exit_code(&told->err), 1);
    assert_non_null(strstr(told->err.message, "run stalled: device 2 is in instruction 12, F of"));
    assert_non_null(strstr(told->err.message, "waiting for it: device"));
    assert_non_null(strstr(told->err.message, " has waited 0.4 s for device "));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ran[i].status, PST_ERR_CANCELLED);
    }
}

/* Its kernels never begin: nothing but the others' watch finds out. */
TEST(a_vanished_peer)
{
    const struct fake_faults faults = {.polls = 1, .vanished = 2, .failing = -1};
    run_nccl(3, SHORT_NS, faults, chain);
    with_kind(3, "run.stalled");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ran[i].status, PST_ERR_CANCELLED);
    }
}

/* A transfer and a sum with somebody who comes to neither. */
static void waits_twice(struct ranked *self)
{
    static float in[ELEMS], sum[ELEMS];
    static const uint32_t both[] = {0, 1};
    const struct pst_meet_part part = {.dst = sum, .elems = ELEMS, .owner = PST_NONE};
    const struct pst_meeting meeting = sum_in_place(both, 2, &part, 1);
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, in, ELEMS, &request);
        CHECK(self, self->ops->flush(self->transport, 0, &self->err) == PST_OK);
        posted(self, self->ops->meet(self->transport, 0, &meeting, &request));
        wait_for(self, request);
        check(self);
    } else {
        absent(self);
    }
}

/* Ending one communicator waits for the kernel of the other on the same GPU. */
TEST(both_lanes)
{
    run_nccl(2, SHORT_NS, no_faults, waits_twice);
    assert_int_equal(ran[0].status, PST_ERR_CANCELLED);
    assert_string_equal(ran[0].err.kind, "run.stalled");
}

static void breaks_later(struct ranked *self)
{
    on_the_host(self);
    if (self->rank == 1) {
        nccl_fake->break_rank(1);
    }
    absent(self);
}

TEST(an_error)
{
    const struct fake_faults at_once = {.polls = 1, .vanished = -1, .failing = 0};
    const struct ranked *told;

    run_nccl(2, STALL_NS, at_once, chain);
    told = with_kind(2, "run.device");
    assert_non_null(strstr(told->err.message, "meeting the other ranks: NCCL: remote process"));
    run_nccl(3, STALL_NS, no_faults, breaks_later);
    told = with_kind(3, "run.device");
    assert_int_equal(told->rank, 1);
    assert_int_equal(pst_error_exit_code(&told->err), 1);
    told = with_kind(3, "run.aborted");
    assert_non_null(strstr(told->err.message, "rank 1 stopped the run: rank 1, "));
}

/* Posted, and nobody else comes. */
static void posts(struct ranked *self)
{
    static float values[MAX_RANKS][16];
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, values[0], 16, &request);
        CHECK(self, self->ops->flush(self->transport, 0, &self->err) == PST_OK);
    }
}

/* A GPU that breaks is not one that is late. */
static void breaks_down(struct ranked *self)
{
    posts(self);
    if (self->rank == 0) {
        atomic_store(&nccl_fake->broken, true);
    }
    while (self->rank == 0 && self->status == PST_OK) {
        nccl_rest(1);
        self->status = self->ops->check(self->transport, 0, &self->err);
    }
}

TEST(one_queue_a_broken_gpu)
{
    run_nccl(2, STALL_NS, no_faults, breaks_down);
    assert_string_equal(ran[0].err.kind, "run.device");
    assert_non_null(strstr(ran[0].err.message, "rank 0, in a transfer or sum: an error"));
    assert_true(nccl_let_go[0] && nccl_let_go[1]);
}

static void posts_and_fails(struct ranked *self)
{
    posts(self);
    if (self->rank == 1) {
        self->status = pst_fail(&self->err, PST_ERR_NOMEM, "machine.memory", "no memory left");
    }
}

/* Kernels that spin: devices are told whether they can be closed. */
TEST(one_queue_kernels_that_spin)
{
    struct fake_faults faults = no_faults;
    run_nccl(2, STALL_NS, faults, posts_and_fails);
    assert_true(nccl_let_go[1]);
    faults.hang = true;
    run_nccl(2, STALL_NS, faults, posts_and_fails);
    assert_false(nccl_let_go[1]);
}

/* One rank fails by itself: the others leave whatever they wait for. */
static void gives_up(struct ranked *self)
{
    if (self->rank + 1 < self->n_ranks) {
        chain(self);
        return;
    }
    self->status = pst_fail(&self->err, PST_ERR_NOMEM, "machine.memory", "no memory left");
}

TEST(an_abort)
{
    run_nccl(4, STALL_NS, no_faults, gives_up);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ran[i].status, PST_ERR_CANCELLED);
        assert_string_equal(ran[i].err.kind, "run.aborted");
        assert_non_null(strstr(ran[i].err.message, "rank 3 stopped the run: no memory left"));
    }
}

TEST(one_queue_without_memory)
{
    const struct pst_transport_ops *ops = load_nccl();
    struct pst_transport_config config = {.n_ranks = 2, .max_requests = 4, .stall_ns = STALL_NS};
    struct pst_transport *transport = NULL;
    struct pst_error err = {0};

    assert_int_equal(ops->open(&config, &transport, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "run.device = \"cuda\""));
}

int main(void)
{
    int failed = run_own_tests(NULL, NULL);

    nccl_edges = true;
    cmocka_set_skip_filter("one_queue_*");
    return failed + run_own_tests(NULL, NULL);
}
