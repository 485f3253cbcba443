/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/run_timeline.h"

#include <string.h>

struct sweep {
    struct pst_recording recording;
    struct pst_timeline *timeline;
    double scale;
};

static uint64_t scaled_ns(const struct sweep *sweep, uint64_t ns)
{
    return (uint64_t)((double)ns / sweep->scale);
}

static void add_span(void *sweep_, const struct pst_recorded *recorded)
{
    const struct sweep *sweep = sweep_;
    struct pst_span span = {.rank = recorded->rank, .instr = recorded->at};

    span.start_ns = scaled_ns(sweep, recorded->start_ns - sweep->recording.begin_ns);
    span.end_ns = scaled_ns(sweep, recorded->end_ns - sweep->recording.begin_ns);
    span.stall_ns = scaled_ns(sweep, recorded->stall_ns);
    span.bytes = recorded->bytes;
    pst_span_describe(sweep->recording.plan, recorded->instr, (uint32_t)recorded->step, &span);
    pst_timeline_add(sweep->timeline, &span);
}

pst_status pst_run_timeline(const struct pst_recorder *recorder, double scale,
                            struct pst_timeline **ret_timeline, struct pst_error *err)
{
    struct sweep sweep = {.recording = pst_recorder_recording(recorder), .scale = scale};
    const struct pst_plan *plan = sweep.recording.plan;

    if (sweep.recording.begin_ns == UINT64_MAX) {
        return pst_fail(err, PST_ERR_BUG, "internal", "no step was recorded");
    }
    pst_timeline_create(plan->n_devices, &sweep.timeline);
    sweep.timeline->slices = plan->slices;
    if (sweep.recording.clocks != NULL) {
        const size_t bytes = plan->n_devices * sizeof *sweep.recording.clocks;
        struct pst_clock *clocks =
            pst_arena_array(&sweep.timeline->arena, plan->n_devices, sizeof *clocks);

        memcpy(clocks, sweep.recording.clocks, bytes);
        sweep.timeline->clocks = clocks;
    }
    pst_recorder_each(recorder, add_span, &sweep);
    pst_timeline_finish_build(sweep.timeline);
    pst_timeline_describe(sweep.timeline, plan, "run", sweep.recording.n_steps);
    *ret_timeline = sweep.timeline;
    return PST_OK;
}
