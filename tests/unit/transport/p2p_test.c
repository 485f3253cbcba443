/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers of the `threads` transport: matching, late and early posts, load, stalls, abort, sizes.
 */
#include "unit/transport/support.h"

#include <time.h>

#define SECOND 1000000000u

static void nap(uint64_t us)
{
    struct timespec time = {0, (long)(us * 1000)};

    nanosleep(&time, NULL);
}

/* Rank 0 posts sends in one order, rank 1 receives in the other: tags decide, not positions. */
static void crossed(struct ranked *self)
{
    int values[4] = {-1, -1, -1, -1};
    pst_request requests[4];

    for (uint32_t i = 0; i < 4; i++) {
        if (self->rank == 0) {
            values[i] = 100 + (int)i;
            CHECK(self, post_send(self->ops, self->transport, 0, 1, i, &values[i], sizeof(int),
                                  &requests[i]) == PST_OK);
        } else {
            CHECK(self, post_recv(self->ops, self->transport, 1, 0, 3 - i, &values[3 - i],
                                  sizeof(int), &requests[3 - i]) == PST_OK);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(self,
              self->ops->wait(self->transport, self->rank, requests[i], &self->err) == PST_OK);
        CHECK(self, values[i] == 100 + (int)i);
    }
}

TEST(test_tags_match)
{
    run_ranks(2, SECOND, crossed);
    expect_none_failed(2);
}

static uint32_t late; /* the rank that is */

/* Equal tags keep the order of posting, whichever side is late. */
static void same_tag(struct ranked *self)
{
    int values[3] = {0, 0, 0};
    pst_request requests[3];

    if (self->rank == late) {
        nap(20000);
    }
    for (int i = 0; i < 3; i++) {
        if (self->rank == 0) {
            values[i] = 7 * (i + 1);
            post_send(self->ops, self->transport, 0, 1, 5, &values[i], sizeof(int), &requests[i]);
        } else {
            post_recv(self->ops, self->transport, 1, 0, 5, &values[i], sizeof(int), &requests[i]);
        }
    }
    for (int i = 2; i >= 0; i--) {
        CHECK(self,
              self->ops->wait(self->transport, self->rank, requests[i], &self->err) == PST_OK);
        CHECK(self, values[i] == 7 * (i + 1));
    }
}

TEST(test_late_and_early)
{
    for (late = 0; late < 2; late++) {
        run_ranks(2, SECOND, same_tag);
        expect_none_failed(2);
    }
}

/* Every ordered pair exchanges messages in rounds; each rank posts its part in a random order. */
enum { ROUNDS = 60, PER_PEER = 2, LENGTH = 96 };

static uint64_t storm_seed;

static uint32_t word_of(uint32_t from, uint32_t to, uint32_t message, uint32_t round, uint32_t i)
{
    return from * 1000003u ^ to * 7919u ^ message * 104729u ^ round * 1299709u ^ i * 31u;
}

static void storm(struct ranked *self)
{
    enum { MOST = MAX_RANKS * PER_PEER * 2 };
    static _Thread_local uint32_t buffers[MOST][LENGTH];
    uint32_t order[MOST], count = self->n_ranks * PER_PEER * 2;
    pst_request requests[MOST];
    uint64_t seed = storm_seed + self->rank;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t j = (uint32_t)(next_random(&seed) % (i + 1));

            order[i] = order[j];
            order[j] = i;
        }
        for (uint32_t k = 0; k < count; k++) {
            uint32_t i = order[k], message = i / 2 % PER_PEER, peer = i / 2 / PER_PEER;

            for (uint32_t w = 0; w < LENGTH; w++) {
                buffers[i][w] = i % 2 ? word_of(self->rank, peer, message, round, w) : 0;
            }
            CHECK(self, self->ops->post(self->transport, self->rank, peer, i % 2 == 1, message,
                                        buffers[i], sizeof buffers[i], &requests[i]) == PST_OK);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t message = i / 2 % PER_PEER, peer = i / 2 / PER_PEER;

            CHECK(self,
                  self->ops->wait(self->transport, self->rank, requests[i], &self->err) == PST_OK);
            for (uint32_t w = 0; i % 2 == 0 && w < LENGTH; w++) {
                CHECK(self, buffers[i][w] == word_of(peer, self->rank, message, round, w));
            }
        }
    }
}

TEST(test_storm)
{
    storm_seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)storm_seed);
    run_ranks(MAX_RANKS, 30ull * SECOND, storm);
    expect_none_failed(MAX_RANKS);
}

static void lonely(struct ranked *self)
{
    int value = 0;
    pst_request request;

    if (self->rank == 1) {
        post_recv(self->ops, self->transport, 1, 0, 0x2a, &value, sizeof value, &request);
        self->status = self->ops->wait(self->transport, 1, request, &self->err);
        /* The request was taken back: a send that comes now finds nothing to write into. */
        post_recv(self->ops, self->transport, 1, 1, 1, &value, sizeof value, &request);
        CHECK(self, self->ops->wait(self->transport, 1, request, NULL) == PST_ERR_CANCELLED);
    }
}

TEST(test_stall_says_who)
{
    run_ranks(2, 50000000, lonely);
    assert_int_equal(ran[1].status, PST_ERR_CANCELLED);
    assert_string_equal(ran[1].err.kind, "run.stalled");
    assert_string_equal(ran[1].err.message, "run stalled: rank 1 has waited 0.05 s for rank 0 to "
                                            "send 4 bytes (tag 0x2a)");
    assert_int_equal(pst_error_exit_code(&ran[1].err), 1);
    assert_int_equal(ran[1].failures, 0);
}

static void sizes(struct ranked *self)
{
    char text[16] = "0123456789abcde";
    pst_request request;

    if (self->rank == 0) {
        post_send(self->ops, self->transport, 0, 1, 9, text, 16, &request);
    } else {
        post_recv(self->ops, self->transport, 1, 0, 9, text, 12, &request);
    }
    self->status = self->ops->wait(self->transport, self->rank, request, &self->err);
}

TEST(test_sizes_must_agree)
{
    run_ranks(2, SECOND, sizes);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ran[i].status, PST_ERR_BUG);
        assert_string_equal(ran[i].err.message,
                            "rank 0 sends 16 bytes, but rank 1 expects 12 (tag 0x9)");
    }
}

/* Ranks 1 and 2 wait for things that never come; rank 0 gives up, then 3, too late to be quoted. */
static void leaving(struct ranked *self)
{
    double none = 0;
    int value;
    pst_request request;
    struct pst_error why;

    if (self->rank == 0 || self->rank == 3) {
        nap(self->rank == 0 ? 20000 : 60000);
        pst_fail(&why, PST_ERR_IO, "output.write", "%s",
                 self->rank == 0 ? "disk is full" : "me too");
        self->ops->abort(self->transport, self->rank, &why);
        CHECK(self, post_send(self->ops, self->transport, self->rank, 1, 1, &value, sizeof value,
                              &request) == PST_ERR_CANCELLED);
        self->status = self->ops->sum(self->transport, self->rank, &none, 1, &self->err);
    } else if (self->rank == 1) {
        post_recv(self->ops, self->transport, 1, 2, 1, &value, sizeof value, &request);
        self->status = self->ops->wait(self->transport, 1, request, &self->err);
    } else {
        self->status = self->ops->sum(self->transport, self->rank, &none, 1, &self->err);
    }
}

TEST(test_abort_wakes_everybody)
{
    run_ranks(4, 60ull * SECOND, leaving);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ran[i].failures, 0);
        assert_int_equal(ran[i].status, PST_ERR_CANCELLED);
        assert_string_equal(ran[i].err.message, "rank 0 stopped the run: disk is full");
    }
}

TEST(test_table_is_bounded)
{
    const struct pst_transport_ops *ops = load_threads();
    struct pst_transport_config config = {.n_ranks = 2, .max_requests = 3, .stall_ns = SECOND};
    struct pst_transport *transport;
    pst_request request;
    char byte = 0;

    assert_int_equal(ops->open(&config, &transport, NULL), PST_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(post_send(ops, transport, 0, 1, i, &byte, 1, &request), PST_OK);
    }
    assert_int_equal(post_send(ops, transport, 0, 1, 3, &byte, 1, &request), PST_ERR_BUG);
    assert_int_equal(post_send(ops, transport, 1, 2, 3, &byte, 1, &request), PST_ERR_BUG);
    assert_int_equal(ops->wait(transport, 0, 99, NULL), PST_ERR_BUG);
    ops->close(transport);
    config.stall_ns = 0;
    assert_int_equal(ops->open(&config, &transport, NULL), PST_ERR_BUG);
    ops->close(NULL);
}
