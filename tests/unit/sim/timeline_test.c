/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines: whatever order spans are added in, they come out sorted and counted.
 */
#include "sim/timeline.h"

#include "test.h"

OWNER(timeline)

static struct pst_span span_at(uint32_t rank, uint8_t op, uint64_t start, uint64_t end)
{
    return (struct pst_span){.start_ns = start,
                             .end_ns = end,
                             .rank = rank,
                             .instr = PST_NONE,
                             .to_stage = PST_NONE,
                             .peer = PST_NONE,
                             .op = op,
                             .lane = pst_lane_of(op)};
}

static struct pst_timeline *create(uint32_t n_ranks)
{
    struct pst_timeline *timeline = NULL;

    pst_timeline_create(n_ranks, &timeline);
    return timeline;
}

TEST(lanes)
{
    static const uint8_t expected[PST_I_COUNT] = {
        [PST_I_F] = 0,     [PST_I_B] = 0,      [PST_I_W] = 0,     [PST_I_BW] = 0,
        [PST_I_R] = 0,     [PST_I_SEND] = 1,   [PST_I_RECV] = 2,  [PST_I_OFFLOAD] = 3,
        [PST_I_FETCH] = 4, [PST_I_REDUCE] = 5, [PST_I_TIE] = 5,   [PST_I_NORM] = 5,
        [PST_I_STEP] = 6,  [PST_I_GATHER] = 5, [PST_I_MERGE] = 5,
    };

    for (uint8_t op = PST_I_F; op < PST_I_COUNT; op++) {
        assert_int_equal(pst_lane_of(op), expected[op]);
    }
    assert_int_equal(pst_lane_of(0), PST_LANE_HOST);
    assert_int_equal(pst_lane_of(200), PST_LANE_HOST);
}

TEST(empty)
{
    struct pst_timeline *timeline = create(3);

    pst_timeline_finish_build(timeline);
    assert_int_equal(timeline->n_spans, 0);
    assert_int_equal(timeline->end_ns, 0);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(timeline->ranks[r].n_spans, 0);
        assert_true(timeline->ranks[r].capacity_bytes == UINT64_MAX);
        assert_null(timeline->ranks[r].points);
    }
    pst_timeline_destroy(timeline);
    pst_timeline_destroy(NULL);
}

/* The same spans in 20 orders: one result, in order of rank, row, start; every rank finds its own.
 */
TEST(sorted)
{
    enum { N = 600 };
    struct pst_timeline *reference = NULL;
    struct pst_span spans[N];
    unsigned seed = 20240607;

    for (uint32_t i = 0; i < N; i++) {
        static const uint8_t ops[] = {PST_I_F, PST_I_BW, PST_I_SEND, PST_I_RECV, PST_I_STEP};
        uint64_t start = 1000 + (i * 37u) % 500u;

        spans[i] = span_at(i % 7, ops[i % 5], start, start + i % 3);
        spans[i].microbatch = i;
        spans[i].stage = i % 11;
        spans[i].step = i % 2;
    }
    for (int round = 0; round < 20; round++) {
        struct pst_timeline *timeline = create(8);

        for (uint32_t i = N - 1; i > 0 && round > 0; i--) {
            uint32_t j = (uint32_t)rand_r(&seed) % (i + 1);
            struct pst_span other = spans[i];

            spans[i] = spans[j];
            spans[j] = other;
        }
        for (uint32_t i = 0; i < N; i++) {
            pst_timeline_add(timeline, &spans[i]);
        }
        pst_timeline_finish_build(timeline);
        assert_int_equal(timeline->n_spans, N);
        assert_int_equal(timeline->n_stages, 11);
        assert_int_equal(timeline->n_steps, 2);
        assert_int_equal(timeline->begin_ns, 1000);
        for (uint32_t r = 0, at = 0; r < 8; r++) {
            const struct pst_timeline_rank *rank = &timeline->ranks[r];

            assert_int_equal(rank->first, at);
            assert_int_equal(rank->n_spans, r == 7 ? 0 : N / 7 + (r < N % 7));
            for (uint32_t i = 0; i < rank->n_spans; i++, at++) {
                const struct pst_span *span = &timeline->spans[at];

                assert_int_equal(span->rank, r);
                if (i > 0) {
                    assert_true(
                        span[-1].lane < span->lane ||
                        (span[-1].lane == span->lane && span[-1].start_ns <= span->start_ns));
                }
            }
        }
        if (reference == NULL) {
            reference = timeline;
            continue;
        }
        assert_memory_equal(reference->spans, timeline->spans, N * sizeof timeline->spans[0]);
        pst_timeline_destroy(timeline);
    }
    pst_timeline_destroy(reference);
}

TEST(memory)
{
    OWN(timeline) *timeline = create(2);

    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t bytes[PST_MEM_KINDS] = {[PST_MEM_PARAMS] = 100, [PST_MEM_ACTIVATIONS] = i % 97};

        pst_timeline_memory(timeline, 1, i / 2, bytes);
    }
    pst_timeline_finish_build(timeline);
    assert_int_equal(timeline->ranks[0].n_points, 0);
    assert_int_equal(timeline->ranks[1].n_points, 500);
    for (uint64_t i = 0; i < 500; i++) {
        const struct pst_memory_point *point = &timeline->ranks[1].points[i];

        assert_int_equal(point->ns, i);
        assert_int_equal(point->bytes[PST_MEM_PARAMS], 100);
        assert_int_equal(point->bytes[PST_MEM_ACTIVATIONS], (2 * i + 1) % 97);
    }
    assert_int_equal(timeline->ranks[1].peak_bytes, 196); /* 100 + 96, at an odd number */
}

/* A value that was replaced is no peak. */
TEST(replaced_point_is_no_peak)
{
    const uint64_t high[PST_MEM_KINDS] = {500}, low[PST_MEM_KINDS] = {5};
    OWN(timeline) *timeline = create(1);

    pst_timeline_memory(timeline, 0, 10, high);
    pst_timeline_memory(timeline, 0, 10, low);
    pst_timeline_finish_build(timeline);
    assert_int_equal(timeline->ranks[0].peak_bytes, 5);
}
