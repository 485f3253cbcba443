/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of `penstock schedule --json`.
 */
#include <string.h>

#include "base/json.h"
#include "reports/schedule_report.h"

/* One division, so that what is a whole number of units is printed as one. */
static double units(const struct pst_schedule_figures *f, uint64_t ns)
{
    return (double)((long double)ns / (long double)f->ns_per_unit);
}

static void add_time(struct pst_json *json, const char *key, const struct pst_schedule_figures *f,
                     uint64_t ns)
{
    pst_json_number(json, key, units(f, ns));
}

static void add_rate(struct pst_json *json, const char *key, const struct pst_schedule_figures *f,
                     uint64_t cost_ns)
{
    pst_json_number(json, key, cost_ns == 0 ? 0 : (double)(cost_ns - f->work_ns) / (double)cost_ns);
}

static double memory(const struct pst_schedule_figures *f, uint64_t bytes)
{
    return f->bytes_per_unit > 0 ? (double)((long double)bytes / (long double)f->bytes_per_unit)
                                 : (double)bytes;
}

static void add_peaks(struct pst_json *json, const struct pst_schedule_figures *f)
{
    pst_json_array(json, "peak_activation");
    for (uint32_t d = 0; d < f->eval.n_devices; d++) {
        pst_json_number(json, NULL, memory(f, f->eval.peak_bytes[d]));
    }
    pst_json_end(json, ']');
}

static void add_bounds(struct pst_json *json, const struct pst_schedule_figures *f)
{
    const struct pst_claimed *claim = &f->result->answer.claim;

    /* Of one step, or of all batches that run into each other. */
    pst_json_object(json, "lower_bounds");
    add_time(json, "work", f, f->bounds.work_ns);
    add_time(json, "fill", f, f->bounds.fill_ns);
    add_time(json, "chain", f, f->bounds.chain_ns);
    add_time(json, "memory", f, f->bounds.memory_ns);
    add_time(json, "vshape", f, f->bounds.vshape_ns);
    add_time(json, "makespan", f, f->bounds.makespan_ns);
    add_time(json, "span", f, f->bounds.span_ns);
    pst_json_end(json, '}');
    pst_json_object(json, "claimed");
    if (f->result->answer.claimed) {
        pst_json_string(json, "minimised",
                        claim->minimised == 1   ? "makespan"
                        : claim->minimised == 2 ? "span"
                                                : NULL);
        if (claim->makespan_ns != 0) {
            add_time(json, "makespan", f, claim->makespan_ns);
        }
        if (claim->span_ns != 0) {
            add_time(json, "span", f, claim->span_ns);
        }
        if (claim->lower_bound_ns != 0) {
            add_time(json, "lower_bound", f, claim->lower_bound_ns);
        }
    }
    pst_json_end(json, '}');
}

static void add_devices(struct pst_json *json, const struct pst_schedule_figures *f)
{
    pst_json_array(json, "busy");
    for (uint32_t d = 0; d < f->eval.n_devices; d++) {
        add_time(json, NULL, f, f->busy_ns[d]);
    }
    pst_json_end(json, ']');
    pst_json_array(json, "placement");
    for (uint32_t s = 0; s < f->stream.in.n_stages; s++) {
        pst_json_uint(json, NULL, pst_schedule_stage_at(&f->stream.in, s)->device);
    }
    pst_json_end(json, ']');
}

static void add_held(struct pst_json *json, const struct pst_schedule_figures *f, bool in_samples)
{
    pst_json_uints(json, "in_flight", f->held, f->stream.in.n_stages);
    if (!in_samples) {
        return;
    }
    pst_json_array(json, "in_flight_samples");
    for (uint32_t s = 0; s < f->stream.in.n_stages; s++) {
        pst_json_uint(json, NULL,
                      (uint64_t)f->held[s] *
                          pst_schedule_stage_at(&f->stream.in, s)->microbatch_size);
    }
    pst_json_end(json, ']');
}

/* [device, position in the list of the device] from the first pass to the last. */
static void add_critical(struct pst_json *json, const struct pst_schedule_figures *f)
{
    pst_json_array(json, "critical_path");
    for (uint32_t i = 0; i < f->eval.n_critical; i++) {
        pst_json_uints(json, NULL, f->eval.critical[i], 2);
    }
    pst_json_end(json, ']');
}

static void add_timeline(struct pst_json *json, const struct pst_schedule_figures *f)
{
    const struct pst_timeline *t = f->timeline;

    pst_json_array(json, "timeline");
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        pst_json_array(json, NULL);
        for (uint32_t i = 0; i < t->ranks[r].n_spans; i++) {
            const struct pst_span *span = &t->spans[t->ranks[r].first + i];

            if (span->lane != PST_LANE_COMPUTE) {
                continue;
            }
            pst_json_object(json, NULL);
            pst_json_string(json, "op", pst_instr_name(span->op));
            pst_json_uint(json, "stage", span->stage);
            pst_json_uint(json, "microbatch", span->microbatch);
            add_time(json, "start", f, span->start_ns);
            add_time(json, "end", f, span->end_ns);
            if (f->n_steps > 1) {
                pst_json_uint(json, "step", span->step);
            }
            pst_json_end(json, '}');
        }
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
}

void pst_schedule_report_json(const struct pst_schedule_figures *f, bool in_samples,
                              struct pst_json *json)
{
    pst_json_string(json, "scheduler", f->result->id);
    pst_json_uint(json, "devices", f->eval.n_devices);
    pst_json_uint(json, "stages", f->stream.in.n_stages);
    pst_json_uint(json, "microbatches", f->n_microbatches);
    add_time(json, "makespan", f, f->makespan_ns);
    add_time(json, "span", f, f->span_ns);
    add_time(json, "bubble_makespan", f, f->makespan_ns - f->work_ns);
    add_time(json, "bubble_span", f, f->span_ns - f->work_ns);
    if (f->has_period) {
        pst_json_number(json, "steady_period", f->steady_period_ns / f->ns_per_unit);
    } else {
        pst_json_string(json, "steady_period", NULL);
    }
    add_time(json, "lower_bound", f, f->lower_bound_ns);
    add_peaks(json, f);
    pst_json_uint(json, "steps", f->n_steps);
    pst_json_bool(json, "asynchronous", f->result->answer.asynchronous);
    add_rate(json, "bubble_rate_makespan", f, f->makespan_ns);
    add_rate(json, "bubble_rate_span", f, f->span_ns);
    add_time(json, "work", f, f->work_ns);
    add_time(json, "lower_bound_span", f, f->span_bound_ns);
    add_bounds(json, f);
    add_devices(json, f);
    pst_json_uint(json, "transfers", f->n_transfers);
    add_held(json, f, in_samples);
    add_critical(json, f);
    add_timeline(json, f);
}
