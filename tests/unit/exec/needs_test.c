/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executor tells a transport that its lists have open at once, against what they have: a
 * transport that counts stands in front of another. Of synchronous plans it is exactly that, of
 * asynchronous ones no less.
 */
#include <stdatomic.h>

#include "unit/transport/support.h"

static const struct pst_transport_ops *counting(void);
#define load_threads counting
#include "unit/exec/batches.h"
#undef load_threads

#define MODULE PENSTOCK_PLUGIN_DIR "/tests/device-apart.so"

enum { MOST_REQUESTS = 8192 };

/* A rank's, on its thread alone. */
static struct counted {
    struct pst_transport_needs told, seen;
    bool is_meeting[MOST_REQUESTS];
    uint32_t transfers, meetings; /* open */
} counted[MOST_RANKS];

static const struct pst_transport_ops *real_ops;
static struct pst_transport_ops ops;
static struct pst_transport_memory memory;

static void most(uint32_t *at, uint32_t n)
{
    *at = n > *at ? n : *at;
}

static void most_bytes(uint64_t *at, uint64_t bytes)
{
    *at = bytes > *at ? bytes : *at;
}

static pst_status open_counted(const struct pst_transport_config *config,
                               struct pst_transport **ret_transport, struct pst_error *err)
{
    memset(counted, 0, sizeof counted);
    memory = *config->memory;
    return real_ops->open(config, ret_transport, err);
}

static pst_status attach(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    counted[rank].told = memory.needs(memory.context, rank);
    return real_ops->attach(transport, rank, err);
}

static pst_status posted(struct counted *c, pst_status status, uint64_t bytes, pst_request request)
{
    if (status == PST_OK) {
        if (request >= MOST_REQUESTS) {
            abort();
        }
        c->is_meeting[request] = false;
        most(&c->seen.transfers, ++c->transfers);
        most_bytes(&c->seen.transfer_bytes, bytes);
    }
    return status;
}

static pst_status post_counted(struct pst_transport *transport, uint32_t rank, uint32_t peer,
                               bool is_send, uint64_t tag, void *data, uint64_t bytes,
                               pst_request *ret_request)
{
    pst_status status =
        real_ops->post(transport, rank, peer, is_send, tag, data, bytes, ret_request);

    return posted(&counted[rank], status, bytes, *ret_request);
}

static pst_status wait_counted(struct pst_transport *transport, uint32_t rank, pst_request request,
                               struct pst_error *err)
{
    struct counted *c = &counted[rank];

    *(c->is_meeting[request] ? &c->meetings : &c->transfers) -= 1;
    return real_ops->wait(transport, rank, request, err);
}

static pst_status meet_counted(struct pst_transport *transport, uint32_t rank,
                               const struct pst_meeting *meeting, pst_request *ret_request)
{
    pst_status status = real_ops->meet(transport, rank, meeting, ret_request);
    struct counted *c = &counted[rank];
    uint64_t elems = 0, n = 0;

    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const uint32_t buffers = meeting->order != NULL ? meeting->n_src + 1 : 1;

        n += buffers;
        elems += buffers * meeting->parts[p].elems;
    }
    if (status != PST_OK || *ret_request >= MOST_REQUESTS) {
        abort();
    }
    c->is_meeting[*ret_request] = true;
    most(&c->seen.meetings, ++c->meetings);
    most_bytes(&c->seen.meeting_bytes, elems * sizeof(float));
    most_bytes(&c->seen.meeting_buffers, n);
    return status;
}

static const struct pst_transport_ops *counting(void)
{
    real_ops = load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    ops = *real_ops;
    ops.open = open_counted;
    ops.attach = attach;
    ops.post = post_counted;
    ops.wait = wait_counted;
    ops.meet = meet_counted;
    return &ops;
}

/* --- plans -------------------------------------------------------------------------------------*/

static void compare(uint32_t n_ranks, bool exact, const char *model)
{
    bool transfers = false, sums = false;

    for (uint32_t r = 0; r < n_ranks; r++) {
        const struct pst_transport_needs *told = &counted[r].told, *seen = &counted[r].seen;
        const bool same = told->transfers == seen->transfers && told->meetings == seen->meetings;
        const bool enough = told->transfers >= seen->transfers && told->meetings >= seen->meetings;

        if (!(exact ? same : enough) || told->transfer_bytes != seen->transfer_bytes ||
            told->meeting_bytes != seen->meeting_bytes ||
            told->meeting_buffers != seen->meeting_buffers) {
            fail_msg("%s, rank %u: told %u of %" PRIu64 " bytes, %u meetings of %" PRIu64
                     " in %" PRIu64 "; seen %u of %" PRIu64 ", %u of %" PRIu64 " in %" PRIu64,
                     model, r, told->transfers, told->transfer_bytes, told->meetings,
                     told->meeting_bytes, told->meeting_buffers, seen->transfers,
                     seen->transfer_bytes, seen->meetings, seen->meeting_bytes,
                     seen->meeting_buffers);
        }
        assert_int_equal(counted[r].transfers, 0);
        assert_int_equal(counted[r].meetings, 0);
        transfers = transfers || seen->transfers > 0;
        sums = sums || seen->meetings > 0;
    }
    assert_true(transfers || sums);
}

static void check(const char *model, const char *settings, const struct layout *layout)
{
    struct pst_step_result results[STEPS];
    struct batches batches;
    FINISHED_BY(real_destroy) struct real real;

    real_create(&real, model, settings, PST_F32, layout, 8 * SIZE, 2, 0.5);
    real_data(&real, CLASSES);
    make_batches(&real, 0, &batches);
    run_batches(&real, PST_ADAMW, layout->order == ORDER_2BW ? 3 : 0, &batches, results);
    pst_exec_drain(real.exec);
    assert_true(isfinite(real_eval(&real)));
    compare(real.n_ranks, layout->order != ORDER_2BW, model);
    free_batches(&batches);
}

static const struct layout layouts[] = {
    {1, {0}, ORDER_1F1B, false, {2}},         {2, {0, 1}, ORDER_GPIPE, false, {0}},
    {4, {0, 1, 2, 3}, ORDER_1F1B, true, {0}}, {3, {0, 1, 2}, ORDER_SPLIT, false, {0}},
    {2, {0}, ORDER_1F1B, false, {2, 2}},      {3, {0}, ORDER_GPIPE, false, {4, 1, 4}},
    {3, {0, 1, 2}, ORDER_2BW, false, {0}},    {2, {0}, ORDER_2BW, false, {2, 2}},
};

static void check_all(const char *model, const char *settings)
{
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        check(model, settings, &layouts[k]);
    }
}

TEST(test_gpt)
{
    check_all("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2");
}

TEST(test_resnet)
{
    check_all("resnet", "image=8 width=4 stages=2 blocks=1 classes=7");
}

int main(void)
{
    setenv("PENSTOCK_TEST_DEVICE", MODULE, 1);
    return run_own_tests(NULL, NULL);
}
