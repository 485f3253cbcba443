/* SPDX-License-Identifier: Apache-2.0
 *
 * The nccl transport over its double: transfers and sums take their place in the order of the
 * compute streams, sums have one order, and whatever hangs or breaks ends the run with its reason.
 */
#include "unit/transport/support.h"

#include "unit/transport/nccl_rig.h"

#define STALL_NS UINT64_C(20000000000)

static const struct fake_faults none = {.polls = 3, .vanished = -1, .failing = -1};

/* --- transfers ---------------------------------------------------------------------------------
 */

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
            CHECK(self, self->ops->flush(self->transport, self->rank, &self->err) == PST_OK);
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

static void transfers(void **state)
{
    struct ranked ranks[MAX_RANKS];

    for (uint32_t n = 2; n <= 5; n++) {
        run_nccl(n, STALL_NS, none, NULL, exchange, ranks);
        expect_ok(ranks, n);
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
        CHECK(self, self->ops->flush(self->transport, self->rank, &self->err) == PST_OK);
        CHECK(self, wait_for(self, request));
    }
    check(self);
    for (uint32_t step = 0; step < STEPS && self->rank == 1; step++) {
        CHECK(self, in[step][0] == (float)(100 * step));
        CHECK(self, in[step][ELEMS - 1] == (float)(100 * step + ELEMS - 1));
    }
}

static void ahead(void **state)
{
    struct ranked ranks[MAX_RANKS];

    run_nccl(2, STALL_NS, none, NULL, run_ahead, ranks);
    expect_ok(ranks, 2);
}

/* --- sums --------------------------------------------------------------------------------------
 */

enum { PARTS = 4, MOST = 3000 };

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
    struct pst_reduce_part parts[2][PARTS];
    pst_request requests[2];

    for (uint32_t k = 0; k < 2; k++) {
        float *at = data[self->rank][k];

        for (uint32_t p = 0; p < PARTS; p++) {
            parts[k][p] = (struct pst_reduce_part){at, part_elems[p]};
            at += part_elems[p];
        }
        for (uint64_t i = 0; i < MOST; i++) {
            data[self->rank][k][i] = term_of(self->rank + k, i);
        }
        self->status = self->ops->all_reduce(self->transport, self->rank, orders[k], 3, parts[k],
                                             PARTS, &requests[k]);
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
    const float *own[2] = {src[self->rank][0], src[self->rank][1]};

    if (self->rank == 2) {
        return;
    }
    for (uint64_t i = 0; i < MOST; i++) {
        src[self->rank][0][i] = term_of(self->rank, i);
        src[self->rank][1][i] = term_of(self->rank + 7, i);
    }
    self->status =
        self->ops->reduce(self->transport, self->rank, members, 3, own, self->rank == 3 ? 2 : 1,
                          order, 4, dst[self->rank], MOST, &self->err);
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
    if (self->status == PST_OK) {
        self->status = self->ops->barrier(self->transport, self->rank, &self->err);
    }
}

static void sums(void **state)
{
    struct ranked ranks[MAX_RANKS];

    run_nccl(3, STALL_NS, none, NULL, replicas, ranks);
    expect_ok(ranks, 3);
    run_nccl(4, STALL_NS, none, NULL, tied, ranks);
    expect_ok(ranks, 4);
    run_nccl(4, STALL_NS, none, NULL, on_the_host, ranks);
    expect_ok(ranks, 4);
}

/* --- faults ------------------------------------------------------------------------------------
 */

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
        const struct timespec moment = {0, 1000000};

        nanosleep(&moment, NULL);
    }
}

static void a_stall(void **state)
{
    struct ranked ranks[MAX_RANKS];
    const struct ranked *told;

    run_nccl(3, UINT64_C(500000000), none, NULL, absent, ranks);
    told = with_kind(ranks, 3, "run.stalled");
    print_message("%s\n", told->err.message);
    assert_int_equal(pst_error_exit_code(&told->err), 1);
    assert_non_null(strstr(told->err.message, "run stalled: device 2 is in instruction 12, F of"));
    assert_non_null(strstr(told->err.message, "waiting for it: device"));
    assert_non_null(strstr(told->err.message, " has waited 0.5 s for device "));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, PST_ERR_CANCELLED);
    }
}

/* Its kernels never begin: nothing but the others' watch finds out. */
static void a_vanished_peer(void **state)
{
    const struct fake_faults faults = {.polls = 1, .vanished = 2, .failing = -1};
    struct ranked ranks[MAX_RANKS];

    run_nccl(3, UINT64_C(500000000), faults, NULL, chain, ranks);
    assert_non_null(with_kind(ranks, 3, "run.stalled"));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, PST_ERR_CANCELLED);
    }
}

/* A transfer and a sum with somebody who comes to neither. */
static void waits_twice(struct ranked *self)
{
    static float in[ELEMS], sum[ELEMS];
    static const uint32_t both[] = {0, 1};
    const struct pst_reduce_part part = {sum, ELEMS};
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, in, ELEMS, &request);
        CHECK(self, self->ops->flush(self->transport, 0, &self->err) == PST_OK);
        posted(self, self->ops->all_reduce(self->transport, 0, both, 2, &part, 1, &request));
        wait_for(self, request);
        check(self);
    } else {
        absent(self);
    }
}

/* Ending one communicator waits for the kernel of the other on the same GPU. */
static void both_lanes(void **state)
{
    struct ranked ranks[MAX_RANKS];

    run_nccl(2, UINT64_C(500000000), none, NULL, waits_twice, ranks);
    assert_int_equal(ranks[0].status, PST_ERR_CANCELLED);
    assert_string_equal(ranks[0].err.kind, "run.stalled");
}

static void breaks_later(struct ranked *self)
{
    on_the_host(self);
    if (self->rank == 1) {
        nccl_fake->break_rank(1);
    }
    absent(self);
}

static void an_error(void **state)
{
    const struct fake_faults at_once = {.polls = 1, .vanished = -1, .failing = 0};
    struct ranked ranks[MAX_RANKS];
    const struct ranked *told;

    run_nccl(2, STALL_NS, at_once, NULL, chain, ranks);
    told = with_kind(ranks, 2, "run.device");
    assert_non_null(strstr(told->err.message, "meeting the other ranks: NCCL: remote process"));
    run_nccl(3, STALL_NS, none, NULL, breaks_later, ranks);
    told = with_kind(ranks, 3, "run.device");
    assert_int_equal(told->rank, 1);
    assert_int_equal(pst_error_exit_code(&told->err), 1);
    told = with_kind(ranks, 3, "run.aborted");
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
    const struct timespec moment = {0, 1000000};

    posts(self);
    if (self->rank == 0) {
        atomic_store(&nccl_fake->broken, true);
    }
    while (self->rank == 0 && self->status == PST_OK) {
        nanosleep(&moment, NULL);
        self->status = self->ops->check(self->transport, 0, &self->err);
    }
}

static void a_broken_gpu(void **state)
{
    struct ranked ranks[MAX_RANKS];

    run_nccl(2, STALL_NS, none, NULL, breaks_down, ranks);
    assert_string_equal(ranks[0].err.kind, "run.device");
    assert_non_null(strstr(ranks[0].err.message, "rank 0, in a transfer or sum: an error"));
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
static void kernels_that_spin(void **state)
{
    struct fake_faults faults = none;
    struct ranked ranks[MAX_RANKS];

    run_nccl(2, STALL_NS, faults, NULL, posts_and_fails, ranks);
    assert_true(nccl_let_go[1]);
    faults.hang = true;
    run_nccl(2, STALL_NS, faults, NULL, posts_and_fails, ranks);
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

static void an_abort(void **state)
{
    struct ranked ranks[MAX_RANKS];

    run_nccl(4, STALL_NS, none, NULL, gives_up, ranks);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, PST_ERR_CANCELLED);
        assert_string_equal(ranks[i].err.kind, "run.aborted");
        assert_non_null(strstr(ranks[i].err.message, "rank 3 stopped the run: no memory left"));
    }
}

static void without_memory(void **state)
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers),
        cmocka_unit_test(ahead),
        cmocka_unit_test(sums),
        cmocka_unit_test(a_stall),
        cmocka_unit_test(a_vanished_peer),
        cmocka_unit_test(an_error),
        cmocka_unit_test(a_broken_gpu),
        cmocka_unit_test(kernels_that_spin),
        cmocka_unit_test(both_lanes),
        cmocka_unit_test(an_abort),
        cmocka_unit_test(without_memory),
    };
    const struct CMUnitTest edges[] = {
        cmocka_unit_test(transfers),  cmocka_unit_test(ahead),           cmocka_unit_test(sums),
        cmocka_unit_test(a_stall),    cmocka_unit_test(a_vanished_peer), cmocka_unit_test(an_error),
        cmocka_unit_test(both_lanes), cmocka_unit_test(an_abort),
    };
    int failed = cmocka_run_group_tests_name("nccl over its double", tests, NULL, NULL);

    nccl_edges = true;
    return failed + cmocka_run_group_tests_name("nccl, with edges", edges, NULL, NULL);
}
