/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor on emulated devices with links that take time, against a timeline worked out by
 * hand; what the recorder keeps of it; how far up the arenas were used.
 */

#include "base/util.h"
#include "exec/record.h"
#include "loop/run_timeline.h"

#include "unit/exec/toy.h"
#include "unit/exec/real.h" /* last: cmocka has a macro called fail */

#define US 1000u

/* F 2 ms, B 3 ms, W 1 ms; an update 0.1 ms, a transfer 0.5 ms, a collective 0.25 ms. */
static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    (void)rank;
    (void)slice;
    static const uint32_t us[] = {2000, 3000, 1000};

    return samples == 2 ? us[pass] * US : 0;
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    (void)rank;
    return elems == 1 && n_slots == 0 && first ? 100 * US : 0;
}

static uint64_t transfer_ns(void *context, uint64_t bytes, uint32_t from, uint32_t to)
{
    return bytes == 8 && from != to ? 500 * US : 0;
}

static uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks)
{
    return bytes.added == 3 * sizeof(double) && n_ranks == 2 ? 250 * US : 0;
}

static uint32_t node(void *context, uint32_t rank)
{
    return 0;
}

static const struct pst_device_times times = {NULL, kernel_ns, update_ns, NULL};
static const struct pst_exec_links links = {NULL, transfer_ns, meeting_ns, node, NULL};

/*
 * Per step, in us. Rank 0: two F, then it waits for gradients, whose way is 500. Rank 1: two
 * operators forward (4000), then B of both and one W (7000); it has room for the second input when
 * it is through with the first. NORM when rank 0 is through with its second W.
 */
static const struct {
    uint32_t rank, op, microbatch, start, end;
} expected[] = {
    {0, PST_I_F, 0, 0, 2000},         {0, PST_I_F, 1, 2000, 4000},
    {0, PST_I_SEND, 0, 2000, 2500},   {1, PST_I_RECV, 0, 2000, 2500},
    {0, PST_I_SEND, 1, 6500, 7000},   {1, PST_I_RECV, 1, 6500, 7000},
    {1, PST_I_F, 0, 2500, 6500},      {1, PST_I_F, 1, 7000, 11000},
    {1, PST_I_BW, 0, 11000, 18000},   {1, PST_I_BW, 1, 18000, 25000},
    {1, PST_I_SEND, 0, 18000, 18500}, {0, PST_I_RECV, 0, 18000, 18500},
    {1, PST_I_SEND, 1, 25000, 25500}, {0, PST_I_RECV, 1, 25000, 25500},
    {0, PST_I_BW, 0, 18500, 19500},   {0, PST_I_BW, 1, 25500, 26500},
    {0, PST_I_NORM, 0, 26500, 26750}, {1, PST_I_NORM, 0, 26500, 26750},
    {0, PST_I_STEP, 0, 26750, 26850}, {1, PST_I_STEP, 0, 26750, 26850},
};

#define STEP_US 26850u

struct bench {
    struct toy toy;
    struct pst_plan_edge edge;
    struct pst_recorder *recorder;
    struct pst_exec *exec;
};

static void start(struct bench *bench, uint32_t n_recorded)
{
    struct toy *toy = &bench->toy;
    struct pst_exec_config config = toy_config(toy, load_device("emulated"), load_threads());

    memset(bench, 0, sizeof *bench);
    toy_init(toy, false);
    toy->stages[1].ranks = &toy->ranks[1];
    bench->edge = (struct pst_plan_edge){.from = 0, .to = 1};
    toy->plan.edges = &bench->edge;
    toy->plan.n_edges = 1;
    if (n_recorded > 0) {
        bench->recorder = pst_recorder_create(&toy->graph, &toy->plan, toy->programs, n_recorded);
    }
    config.device_config.times = &times;
    config.links = &links;
    config.recorder = bench->recorder;
    assert_int_equal(pst_exec_create(&config, &bench->exec, NULL), PST_OK);
}

static void stop(struct bench *bench)
{
    pst_exec_destroy(bench->exec);
    pst_recorder_destroy(bench->recorder);
}

/* All steps are handed out before the first has ended where that is possible. */
static void run_steps(struct bench *bench, uint32_t n)
{
    static const float x[4] = {1, 2, 3, 4}, t[4] = {0};
    const struct pst_batch batch = {.inputs = {x, t}};
    const struct pst_update update = {.optimizer = PST_SGD, .step = 1};
    struct pst_step_result result;

    for (uint32_t submitted = 0, collected = 0; collected < n;) {
        if (submitted < n && pst_exec_in_flight(bench->exec) < PST_EXEC_IN_FLIGHT) {
            assert_int_equal(pst_exec_submit(bench->exec, &batch, &update, NULL), PST_OK);
            submitted++;
        } else {
            assert_int_equal(pst_exec_collect(bench->exec, &result, NULL), PST_OK);
            assert_true(result.loss == 0 && result.grad_norm == 0);
            collected++;
        }
    }
}

static const struct pst_span *find(const struct pst_timeline *timeline, uint32_t i, uint32_t step)
{
    const struct pst_span *found = NULL;

    for (uint32_t k = 0; k < timeline->n_spans; k++) {
        const struct pst_span *span = &timeline->spans[k];
        bool transfer = span->op == PST_I_SEND || span->op == PST_I_RECV;
        uint32_t microbatch = transfer ? span->first_sample / 2 : span->microbatch;

        if (span->rank == expected[i].rank && span->op == expected[i].op && span->step == step &&
            (microbatch == PST_NONE || microbatch == expected[i].microbatch)) {
            assert_null(found);
            found = span;
        }
    }
    assert_non_null(found);
    return found;
}

/* Three of five steps are kept. Times are exact, whatever else this machine does meanwhile, but for
   where a step begins: not before it is handed out. */
TEST(as_worked_out)
{
    const uint32_t n = sizeof expected / sizeof expected[0];
    struct bench bench;
    struct pst_timeline *timeline = NULL;

    start(&bench, 3);
    run_steps(&bench, 5);
    assert_int_equal(pst_run_timeline(bench.recorder, 10, &timeline, NULL), PST_OK);
    assert_string_equal(timeline->kind, "run");
    assert_int_equal(timeline->n_steps, 3);
    assert_int_equal(timeline->begin_ns, 0);
    assert_int_equal(timeline->n_spans, 3 * (n + 2)); /* and two REDUCE, which take no time */
    for (uint32_t step = 2; step < 5; step++) {
        uint64_t begin = find(timeline, 0, step)->start_ns;

        assert_true(begin >= (step - 2) * STEP_US * US / 10);
        for (uint32_t i = 0; i < n; i++) {
            const struct pst_span *span = find(timeline, i, step);

            /* a tenth of the time; both ends were rounded down */
            assert_in_range(span->start_ns - begin + 1, expected[i].start * US / 10,
                            expected[i].start * US / 10 + 2);
            assert_in_range(span->end_ns - begin + 1, expected[i].end * US / 10,
                            expected[i].end * US / 10 + 2);
            assert_int_equal(span->bytes, span->op == PST_I_SEND || span->op == PST_I_RECV ? 8
                                          : span->op == PST_I_NORM                         ? 24
                                                                                           : 0);
        }
    }
    pst_timeline_destroy(timeline);
    stop(&bench);
}

/* A run is never faster than its devices, and its arenas are used to the end of the highest value
   that something reads or writes. */
TEST(time_and_memory)
{
    struct bench bench;
    uint64_t begin, peaks[2];

    start(&bench, 0);
    begin = pst_now_ns();
    run_steps(&bench, 4);
    assert_true(pst_now_ns() - begin >= (uint64_t)4 * STEP_US * US);
    assert_int_equal(pst_exec_measured_peaks(bench.exec, peaks, NULL), PST_OK);
    assert_int_equal(peaks[0], bench.toy.programs[0]->arena_bytes);
    assert_int_equal(peaks[1], bench.toy.programs[1]->arena_bytes);
    stop(&bench);
}

/* Of three steps the first two are left out; after these alone there is nothing to tell. */
TEST(skipped_steps)
{
    struct bench bench;
    struct pst_timeline *timeline = NULL;
    struct pst_error err = {0};

    start(&bench, 1000);
    pst_recorder_skip(bench.recorder, 2);
    run_steps(&bench, 2);
    assert_true(pst_recorder_is_empty(bench.recorder));
    run_steps(&bench, 1);
    assert_false(pst_recorder_is_empty(bench.recorder));
    assert_int_equal(pst_run_timeline(bench.recorder, 1, &timeline, &err), PST_OK);
    assert_int_equal(timeline->end_ns, STEP_US * US);
    pst_timeline_destroy(timeline);
    stop(&bench);
}

/* Fewer steps than there is room for; none at all is a mistake of the caller. */
TEST(short_runs)
{
    struct bench bench;
    struct pst_timeline *timeline = NULL;
    struct pst_error err = {0};

    start(&bench, 1000);
    assert_int_equal(pst_run_timeline(bench.recorder, 1, &timeline, &err), PST_ERR_BUG);
    run_steps(&bench, 1);
    assert_int_equal(pst_run_timeline(bench.recorder, 1, &timeline, &err), PST_OK);
    assert_int_equal(timeline->begin_ns, 0);
    assert_int_equal(timeline->end_ns, STEP_US * US);
    pst_timeline_destroy(timeline);
    stop(&bench);
}
