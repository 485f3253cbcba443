/* SPDX-License-Identifier: Apache-2.0
 *
 * The nccl transport with one lane for transfers and with one for each edge: every call that can
 * fail fails in turn and nothing is left behind; what is registered with NCCL.
 */
#include "unit/transport/nccl_rig.h"

enum { ELEMS = 33 };

/* One of each that a run does. */
static void a_run(struct ranked *self)
{
    static float out[2][ELEMS], in[2][ELEMS], sum[2][ELEMS];
    static const uint32_t both[] = {0, 1};
    const struct pst_meet_part part = {.dst = sum[self->rank], .elems = ELEMS, .owner = PST_NONE};
    const struct pst_meeting meeting = sum_in_place(both, 2, &part, 1);
    uint32_t other = 1 - self->rank;
    pst_request requests[3];

    for (uint32_t step = 0; step < 2 && self->status == PST_OK; step++) {
        nccl_fill(self->rank, out[self->rank], ELEMS, (float)(10 * self->rank + step));
        nccl_fill(self->rank, sum[self->rank], ELEMS, 1);
        send(self, other, out[self->rank], ELEMS, &requests[0]);
        recv(self, other, in[self->rank], ELEMS, &requests[1]);
        posted(self, self->ops->meet(self->transport, self->rank, &meeting, &requests[2]));
        for (uint32_t i = 0; i < 3 && self->status == PST_OK; i++) {
            wait_for(self, requests[i]);
        }
        check(self);
        CHECK(self, self->status != PST_OK || (in[self->rank][0] == (float)(10 * other + step) &&
                                               sum[self->rank][0] == 2));
    }
}

static void each_call_fails(bool edges)
{
    uint32_t n_failed = 0;

    nccl_edges = edges;
    nccl_regions = true;
    nccl_requests = 2;
    for (unsigned call = 1;; call++) {
        const struct fake_faults faults = {
            .polls = 1, .vanished = -1, .failing = -1, .fails = call};
        struct pst_error err = {0};
        pst_status status = try_nccl(2, STALL_NS, faults, a_run, &err);
        bool failed = status != PST_OK;

        for (uint32_t r = 0; r < 2 && status == PST_OK; r++) {
            failed = failed || ran[r].status != PST_OK;
            if (ran[r].failures > 0) {
                fail_msg("call %u, rank %u: %s; the other: %s", call, r, ran[r].err.message,
                         ran[1 - r].err.message);
            }
            assert_true(ran[r].status == PST_OK || ran[r].err.message[0] != '\0');
        }
        n_failed += failed;
        if (atomic_load(&nccl_fake->n_calls) < call) {
            if (failed) {
                fail_msg("no call failed, and yet: %s%s%s", err.message, ran[0].err.message,
                         ran[1].err.message);
            }
            break;
        }
    }
    print_message("%u runs ended by a call that failed\n", n_failed);
    assert_true(n_failed > 100);
}

/* All of it or nothing, on all ranks; and nothing of it is left. */
TEST_WITH(memory_that_is_known, NULL, nccl_as_usual)
{
    struct fake_faults faults = no_faults;
    load_nccl();
    nccl_regions = true;
    for (uint32_t edges = 0; edges < 2; edges++) {
        nccl_edges = edges == 1;
        faults.unknown = 0;
        run_nccl(2, STALL_NS, faults, a_run);
        expect_ok(2);
        /* of each rank: with one lane or two for transfers, and with that for sums, which has
           memory of its own besides */
        assert_int_equal(atomic_load(&nccl_fake->n_registrations), 2 * (edges + 1 + 2));
        assert_int_equal(atomic_load(&nccl_n_notes), 2);
        assert_non_null(strstr(nccl_notes[0], "bytes are registered with NCCL"));
        faults.unknown = 1 + 1;
        run_nccl(2, STALL_NS, faults, a_run);
        expect_ok(2);
        assert_int_equal(atomic_load(&nccl_fake->n_registrations), edges + 1 + 2);
        assert_int_equal(atomic_load(&nccl_n_notes), 2);
        assert_non_null(strstr(nccl_notes[0], "is not registered with NCCL: 1 ranks cannot"));
    }
    /* a run that ends before its time */
    run_nccl(2, SHORT_NS, no_faults, nccl_waits_for_ever);
    with_kind(2, "run.stalled");
    assert_int_equal(atomic_load(&nccl_fake->n_registrations), 2 * 4);
}

TEST_WITH(calls_of_one_queue, NULL, nccl_as_usual)
{
    each_call_fails(false);
}

TEST_WITH(calls_of_edges, NULL, nccl_as_usual)
{
    each_call_fails(true);
}
