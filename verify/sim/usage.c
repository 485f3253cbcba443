/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/usage.h"

#include "base/saturate.h"

#define COMPUTE (1u << PST_LANE_COMPUTE | 1u << PST_LANE_OPTIMIZER)
#define COMMUNICATION                                                                              \
    (1u << PST_LANE_SEND | 1u << PST_LANE_RECV | 1u << PST_LANE_D2H | 1u << PST_LANE_H2D |         \
     1u << PST_LANE_REDUCE)

/* Time that the spans of these lanes cover together. Spans lie by lane, then start: one cursor a
   lane, and always the earliest of them. */
static uint64_t covered_ns(const struct pst_timeline *timeline, uint32_t rank, uint32_t lanes)
{
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    const struct pst_span *spans = &timeline->spans[row->first];
    uint32_t cursor[PST_LANES], end[PST_LANES], at = 0;
    uint64_t covered = 0, until = 0;
    for (uint32_t lane = 0; lane < PST_LANES; lane++) {
        cursor[lane] = at;
        while (at < row->n_spans && spans[at].lane == lane) {
            at++;
        }
        end[lane] = (lanes >> lane & 1) != 0 ? at : cursor[lane];
    }
    for (;;) {
        const struct pst_span *next = NULL;
        for (uint32_t lane = 0; lane < PST_LANES; lane++) {
            if (cursor[lane] < end[lane] &&
                (next == NULL || spans[cursor[lane]].start_ns < next->start_ns)) {
                next = &spans[cursor[lane]];
            }
        }
        if (next == NULL) {
            return covered;
        }
        cursor[next->lane]++;
        uint64_t from = next->start_ns > until ? next->start_ns : until;
        if (next->end_ns > from) {
            covered += next->end_ns - from;
            until = next->end_ns;
        }
    }
}

static uint64_t stalled_ns(const struct pst_timeline *timeline, uint32_t rank)
{
    const struct pst_timeline_rank *row = &timeline->ranks[rank];
    uint64_t sum = 0;
    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        sum += timeline->spans[i].stall_ns;
    }
    return sum;
}

struct pst_usage pst_timeline_usage(const struct pst_timeline *timeline, uint32_t rank)
{
    struct pst_usage usage = {0};
    if (timeline->ranks[rank].n_spans > 0) {
        usage.stall_ns = stalled_ns(timeline, rank);
        usage.busy_ns = covered_ns(timeline, rank, COMPUTE) - usage.stall_ns;
        usage.exposed_ns = covered_ns(timeline, rank, COMPUTE | COMMUNICATION) - usage.busy_ns;
    }
    usage.idle_ns = timeline->end_ns - timeline->begin_ns - usage.busy_ns;
    return usage;
}

static double idle_share(double busy_ns, double whole_ns)
{
    return busy_ns < whole_ns ? 1 - busy_ns / whole_ns : 0;
}

struct pst_idle pst_idle_of(uint64_t length_ns, uint32_t n_devices, uint64_t all_ns,
                            uint64_t most_ns)
{
    return (struct pst_idle){
        .all = idle_share((double)all_ns, (double)length_ns * n_devices),
        .busiest = idle_share((double)most_ns, (double)length_ns),
    };
}

struct pst_idle pst_timeline_idle(const struct pst_timeline *timeline)
{
    uint64_t all = 0, most = 0;
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        uint64_t busy = pst_timeline_usage(timeline, r).busy_ns;
        all = pst_sat_add_ns(all, busy);
        most = busy > most ? busy : most;
    }
    return pst_idle_of(timeline->end_ns - timeline->begin_ns, timeline->n_ranks, all, most);
}
