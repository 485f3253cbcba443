/* SPDX-License-Identifier: Apache-2.0
 *
 * What the events need to know beforehand: a row for every span, so that the slices of a row are
 * disjoint; the other end of every transfer; where a rank computed nothing, and why.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "exchange/trace_impl.h"

#define ROWS 64 /* of one lane; what is more goes to the last */

/* First row of the lane that is free. */
void pst_trace_assign_rows(struct pst_trace *trace)
{
    const struct pst_timeline *timeline = trace->timeline;
    uint64_t free_at[ROWS];
    uint32_t n_rows = 0;

    trace->tid = pst_arena_array(&trace->arena, (size_t)timeline->n_spans + 1, sizeof *trace->tid);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        uint32_t row = 0;

        if (i == 0 || span[-1].rank != span->rank || span[-1].lane != span->lane) {
            n_rows = 0;
        }
        while (row < n_rows && free_at[row] > span->start_ns) {
            row++;
        }
        row = row == ROWS ? ROWS - 1 : row;
        n_rows = row == n_rows ? n_rows + 1 : n_rows;
        free_at[row] = span->end_ns;
        trace->tid[i] = span->lane + row * TRACE_OVERFLOW;
    }
}

/* A transfer, seen from either end. */
struct end {
    uint64_t key[4];
    uint32_t span;
    bool receives;
};

static int compare_ends(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    for (int i = 0; i < 4; i++) {
        if (a->key[i] != b->key[i]) {
            return a->key[i] < b->key[i] ? -1 : 1;
        }
    }
    if (a->receives != b->receives) {
        return a->receives ? 1 : -1;
    }
    return (a->span > b->span) - (a->span < b->span);
}

static struct end describe(const struct pst_timeline *timeline, uint32_t i)
{
    const struct pst_span *span = &timeline->spans[i];
    bool receives = span->op == PST_I_RECV;
    uint64_t from = receives ? span->peer : span->rank, to = receives ? span->rank : span->peer;

    return (struct end){{(uint64_t)span->step << 32 | span->payload,
                         (uint64_t)span->stage << 32 | span->to_stage,
                         (uint64_t)span->first_sample << 32 | span->n_samples, from << 32 | to},
                        i,
                        receives};
}

static bool same_key(const struct end *a, const struct end *b)
{
    return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->key[2] == b->key[2] &&
           a->key[3] == b->key[3];
}

void pst_trace_pair(struct pst_trace *trace)
{
    const struct pst_timeline *timeline = trace->timeline;
    size_t room = (size_t)timeline->n_spans + 1;
    struct end *ends = pst_alloc(room, sizeof *ends);
    uint32_t n = 0;

    trace->peer = pst_arena_array(&trace->arena, room, sizeof *trace->peer);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        trace->peer[i] = PST_NONE;
        if (timeline->spans[i].op == PST_I_SEND || timeline->spans[i].op == PST_I_RECV) {
            ends[n++] = describe(timeline, i);
        }
    }
    qsort(ends, n, sizeof *ends, compare_ends);
    for (uint32_t i = 0, next; i < n; i = next) { /* a key: its sends, then its receives */
        uint32_t sends = 0;

        for (next = i; next < n && same_key(&ends[i], &ends[next]); next++) {
            sends += !ends[next].receives;
        }
        for (uint32_t k = 0; k < sends && i + sends + k < next; k++) {
            trace->peer[ends[i + k].span] = ends[i + sends + k].span;
            trace->peer[ends[i + sends + k].span] = ends[i + k].span;
        }
    }
    free(ends);
}

/* The next pass or update of a rank in order of time: two sorted lists side by side. */
struct walk {
    const struct pst_span *spans;
    uint32_t at[2], end[2];
};

static struct walk walk_begin(const struct pst_timeline *timeline, uint32_t rank)
{
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    struct walk walk = {.spans = timeline->spans};
    static const uint8_t lanes[2] = {PST_LANE_COMPUTE, PST_LANE_OPTIMIZER};

    for (int k = 0; k < 2; k++) {
        uint32_t i = row->first, end = row->first + row->n_spans;

        while (i < end && timeline->spans[i].lane < lanes[k]) {
            i++;
        }
        walk.at[k] = i;
        while (i < end && timeline->spans[i].lane == lanes[k]) {
            i++;
        }
        walk.end[k] = i;
    }
    return walk;
}

static uint32_t walk_next(struct walk *walk)
{
    int k = walk->at[0] == walk->end[0];

    if (k == 1 && walk->at[1] == walk->end[1]) {
        return PST_NONE;
    }
    if (k == 0 && walk->at[1] < walk->end[1] &&
        walk->spans[walk->at[1]].start_ns < walk->spans[walk->at[0]].start_ns) {
        k = 1;
    }
    return walk->at[k]++;
}

static void add_gap(struct pst_trace *trace, uint64_t from_ns, uint64_t to_ns, uint32_t before)
{
    if (to_ns > from_ns) {
        trace->gaps[trace->n_gaps++] = (struct pst_trace_gap){from_ns, to_ns, before, PST_NONE};
    }
}

/* The first gap that ends at `ns` or later; n_gaps: none. */
static uint32_t first_gap(const struct pst_trace *trace, uint64_t ns)
{
    uint32_t low = 0, high = trace->n_gaps;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (trace->gaps[middle].to_ns < ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What ended last in a gap is what the rank had waited for. */
static void find_causes(struct pst_trace *trace, uint32_t rank)
{
    const struct pst_timeline *timeline = trace->timeline;
    const struct pst_timeline_rank *row = &timeline->ranks[rank];

    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        uint32_t g;

        if (span->lane == PST_LANE_COMPUTE || span->lane == PST_LANE_OPTIMIZER) {
            continue;
        }
        g = first_gap(trace, span->end_ns);
        if (g < trace->n_gaps && trace->gaps[g].from_ns < span->end_ns &&
            (trace->gaps[g].cause == PST_NONE ||
             timeline->spans[trace->gaps[g].cause].end_ns <= span->end_ns)) {
            trace->gaps[g].cause = i;
        }
    }
}

void pst_trace_find_gaps(struct pst_trace *trace, uint32_t rank)
{
    const struct pst_timeline *timeline = trace->timeline;
    struct walk walk = walk_begin(timeline, rank);
    uint64_t now = timeline->begin_ns;
    uint32_t i;

    if (trace->gaps == NULL) {
        uint32_t most = 0;

        for (uint32_t r = 0; r < timeline->n_ranks; r++) {
            most = timeline->ranks[r].n_spans > most ? timeline->ranks[r].n_spans : most;
        }
        trace->gaps = pst_arena_array(&trace->arena, (size_t)most + 1, sizeof *trace->gaps);
    }
    trace->n_gaps = 0;
    while ((i = walk_next(&walk)) != PST_NONE) {
        add_gap(trace, now, timeline->spans[i].start_ns, i);
        now = timeline->spans[i].end_ns > now ? timeline->spans[i].end_ns : now;
    }
    add_gap(trace, now, timeline->end_ns, PST_NONE);
    find_causes(trace, rank);
}

uint64_t pst_trace_exposed(const struct pst_trace *trace, const struct pst_span *span)
{
    uint64_t sum = 0;

    for (uint32_t g = first_gap(trace, span->start_ns + 1);
         g < trace->n_gaps && trace->gaps[g].from_ns < span->end_ns; g++) {
        const struct pst_trace_gap *gap = &trace->gaps[g];
        uint64_t from = gap->from_ns > span->start_ns ? gap->from_ns : span->start_ns;
        uint64_t to = gap->to_ns < span->end_ns ? gap->to_ns : span->end_ns;

        sum += to - from;
    }
    return sum;
}
