/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a timeline: arrays that grow, a sort at the end of what is not in order.
 */
#include "sim/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void pst_timeline_create(uint32_t n_ranks, struct pst_timeline **ret_timeline)
{
    struct pst_timeline *timeline = pst_alloc(1, sizeof *timeline);

    timeline->ranks = pst_arena_array(&timeline->arena, n_ranks, sizeof *timeline->ranks);
    for (uint32_t r = 0; r < n_ranks; r++) {
        timeline->ranks[r].capacity_bytes = UINT64_MAX;
    }
    timeline->n_ranks = n_ranks;
    timeline->title = "";
    timeline->kind = "";
    *ret_timeline = timeline;
}

void pst_timeline_destroy(struct pst_timeline *timeline)
{
    if (timeline != NULL) {
        for (uint32_t r = 0; r < timeline->n_ranks; r++) {
            free(timeline->ranks[r].points);
        }
        free(timeline->spans);
        pst_arena_finish(&timeline->arena);
        free(timeline);
    }
}

void pst_timeline_add(struct pst_timeline *timeline, const struct pst_span *span)
{
    PST_ASSERT(span->rank < timeline->n_ranks && span->lane < PST_LANES &&
               span->start_ns <= span->end_ns && timeline->n_spans < UINT32_MAX);
    pst_grow(&timeline->spans, &timeline->room, timeline->n_spans, sizeof *timeline->spans);
    timeline->spans[timeline->n_spans++] = *span;
}

void pst_timeline_memory(struct pst_timeline *timeline, uint32_t rank, uint64_t ns,
                         const uint64_t bytes[PST_MEM_KINDS])
{
    struct pst_timeline_rank *row;
    uint32_t n;

    PST_ASSERT(rank < timeline->n_ranks);
    row = &timeline->ranks[rank];
    n = row->n_points;
    PST_ASSERT(n == 0 || row->points[n - 1].ns <= ns);
    if (n > 0 && row->points[n - 1].ns == ns) {
        memcpy(row->points[n - 1].bytes, bytes, sizeof row->points[0].bytes);
        return;
    }
    pst_grow(&row->points, &row->room, n, sizeof *row->points);
    row->points[n].ns = ns;
    memcpy(row->points[n].bytes, bytes, sizeof row->points[0].bytes);
    row->n_points++;
}

/* Spans that compare equal look equal to a reader, so the order of adding does not show. */
static int compare(const void *left, const void *right)
{
    const struct pst_span *a = left, *b = right;

    return PST_COMPARE_KEYS({a->rank, b->rank}, {a->lane, b->lane}, {a->start_ns, b->start_ns},
                            {a->end_ns, b->end_ns}, {a->step, b->step}, {a->instr, b->instr},
                            {a->stage, b->stage}, {a->op, b->op}, {a->microbatch, b->microbatch},
                            {a->peer, b->peer}, {a->bytes, b->bytes},
                            {a->first_sample, b->first_sample});
}

static bool is_sorted(const struct pst_timeline *timeline)
{
    for (uint32_t i = 1; i < timeline->n_spans; i++) {
        if (compare(&timeline->spans[i - 1], &timeline->spans[i]) > 0) {
            return false;
        }
    }
    return true;
}

static uint32_t raise_count(uint32_t count, uint32_t index)
{
    return index != PST_NONE && index >= count ? index + 1 : count;
}

/* Counts and limits that follow from one span. */
static void take_span(struct pst_timeline *timeline, const struct pst_span *span, bool first)
{
    if (first || span->start_ns < timeline->begin_ns) {
        timeline->begin_ns = span->start_ns;
    }
    if (first || span->end_ns > timeline->end_ns) {
        timeline->end_ns = span->end_ns;
    }
    timeline->n_steps = raise_count(timeline->n_steps, span->step);
    if (span->lane == PST_LANE_COMPUTE || span->lane == PST_LANE_OPTIMIZER) {
        timeline->n_stages = raise_count(timeline->n_stages, span->stage);
    }
}

static void take_points(struct pst_timeline_rank *rank)
{
    for (uint32_t i = 0; i < rank->n_points; i++) {
        uint64_t sum = 0;

        for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
            sum += rank->points[i].bytes[k];
        }
        rank->peak_bytes = i == 0 || sum > rank->peak_bytes ? sum : rank->peak_bytes;
    }
}

void pst_timeline_finish_build(struct pst_timeline *timeline)
{
    uint32_t at = 0;

    if (!is_sorted(timeline)) {
        qsort(timeline->spans, timeline->n_spans, sizeof *timeline->spans, compare);
    }
    timeline->begin_ns = timeline->end_ns = 0;
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        struct pst_timeline_rank *rank = &timeline->ranks[r];

        rank->first = at;
        while (at < timeline->n_spans && timeline->spans[at].rank == r) {
            take_span(timeline, &timeline->spans[at], at == 0);
            at++;
        }
        rank->n_spans = at - rank->first;
        take_points(rank);
    }
}

uint8_t pst_lane_of(uint8_t op)
{
    static const uint8_t lanes[PST_I_COUNT] = {
        [0] = PST_LANE_HOST,
        [PST_I_F] = PST_LANE_COMPUTE,
        [PST_I_B] = PST_LANE_COMPUTE,
        [PST_I_W] = PST_LANE_COMPUTE,
        [PST_I_BW] = PST_LANE_COMPUTE,
        [PST_I_R] = PST_LANE_COMPUTE,
        [PST_I_SEND] = PST_LANE_SEND,
        [PST_I_RECV] = PST_LANE_RECV,
        [PST_I_OFFLOAD] = PST_LANE_D2H,
        [PST_I_FETCH] = PST_LANE_H2D,
        [PST_I_REDUCE] = PST_LANE_REDUCE,
        [PST_I_TIE] = PST_LANE_REDUCE,
        [PST_I_NORM] = PST_LANE_REDUCE,
        [PST_I_GATHER] = PST_LANE_REDUCE,
        [PST_I_MERGE] = PST_LANE_REDUCE,
        [PST_I_STEP] = PST_LANE_OPTIMIZER,
    };

    return op < PST_I_COUNT ? lanes[op] : PST_LANE_HOST;
}
