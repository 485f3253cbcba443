/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/memopt_figure.h"

#include <stdio.h>

#include "base/util.h"
#include "plan/plan.h"

/* Static bytes and what is parked for other micro-batches are in every event, so one kind is all.
 */
static void add_point(struct pst_timeline *timeline, uint64_t ns, uint64_t bytes)
{
    uint64_t kinds[PST_MEM_KINDS] = {0};

    kinds[PST_MEM_ACTIVATIONS] = bytes;
    pst_timeline_memory(timeline, 0, ns, kinds);
}

static void add_events(const struct pst_memopt_result *result, struct pst_timeline *timeline)
{
    static const uint32_t ops[] = {[PST_MEMORY_FORWARD] = PST_I_F,
                                   [PST_MEMORY_REPLAY] = PST_I_R,
                                   [PST_MEMORY_BACKWARD] = PST_I_BW};
    uint64_t now = 0, start = 0;

    for (uint32_t i = 0; i < result->n_events; i++) {
        const struct pst_memory_event *event = &result->events[i];
        bool ends = i + 1 == result->n_events || result->events[i + 1].pass != event->pass;

        add_point(timeline, now, event->bytes);
        now += event->ns;
        if (ends) {
            const struct pst_span span = {
                .start_ns = start,
                .end_ns = now,
                .instr = PST_NONE,
                .to_stage = PST_NONE,
                .peer = PST_NONE,
                .microbatch = PST_NONE,
                .op = ops[event->pass],
                .lane = PST_LANE_COMPUTE,
            };

            pst_timeline_add(timeline, &span);
            start = now;
        }
    }
}

static void describe(const struct pst_memopt_result *result, struct pst_timeline *timeline)
{
    struct pst_timeline_rank *rank = &timeline->ranks[0];
    char period[32], more[32], peak[32];

    timeline->title =
        pst_arena_printf(&timeline->arena, "memopt %s, a stage of %u operators, %u in flight",
                         result->id, result->view.n_nodes, result->view.in_flight);
    timeline->summary = pst_arena_printf(
        &timeline->arena, "period %s, %s more than with everything kept   peak memory %s",
        pst_format_ns(period, result->value.period_ns), pst_format_ns(more, result->value.extra_ns),
        pst_format_bytes(peak, result->value.peak_bytes));
    timeline->kind = "evaluation";
    timeline->n_stages = timeline->n_steps = 1;
    snprintf(rank->name, sizeof rank->name, "stage");
    rank->capacity_bytes = result->view.capacity_bytes;
}

void pst_memopt_timeline(const struct pst_memopt_result *result, struct pst_timeline **ret_timeline)
{
    struct pst_timeline *timeline = NULL;

    pst_timeline_create(1, &timeline);
    describe(result, timeline);
    add_events(result, timeline);
    pst_timeline_finish_build(timeline);
    *ret_timeline = timeline;
}
