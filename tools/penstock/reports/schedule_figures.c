/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/schedule_figures.h"

#include <string.h>

#include "planner/schedule_intake.h"
#include "planner/blame.h"
#include "reports/order_timeline.h"

/* From a second answer with twice the micro-batches. */
static pst_status find_period(struct pst_schedule_figures *f, uint32_t n_batches,
                              struct pst_error *err)
{
    struct pst_batches stream = {.passes = NULL};
    struct pst_order_eval eval = {.n_devices = 0};
    pst_status status;

    if (!f->result->has_twice) {
        return PST_OK;
    }
    status = pst_batches_evaluate(&f->result->twice_answer, &f->result->twice.in, n_batches,
                                  &stream, &eval, err);
    if (status == PST_OK) {
        long double more = (long double)eval.span_ns - (long double)f->eval.span_ns;

        f->steady_period_ns = (double)(more / f->n_microbatches / n_batches);
        f->has_period = true;
    }
    pst_order_eval_finish(&eval);
    pst_batches_finish(&stream);
    return status;
}

/* The most micro-batches of each stage between F and W, on any device's way through its list. */
static void find_held(struct pst_schedule_figures *f)
{
    const struct pst_schedule_in *in = &f->stream.in;
    uint32_t *now = pst_arena_array(&f->eval.arena, in->n_stages, sizeof *now);

    f->held = pst_arena_array(&f->eval.arena, in->n_stages, sizeof *f->held);
    for (uint32_t d = 0; d < in->n_devices; d++) {
        for (uint32_t i = 0; i < f->stream.n_passes[d]; i++) {
            const struct pst_pass *pass = &f->stream.passes[d][i];
            uint32_t s = pass->stage;

            now[s] += pass->op == PST_PASS_F;
            f->held[s] = now[s] > f->held[s] ? now[s] : f->held[s];
            now[s] -= pass->op == PST_PASS_W || pass->op == PST_PASS_BW;
        }
    }
}

/* Repeats add up. */
static pst_status find_totals(struct pst_schedule_figures *f, struct pst_error *err)
{
    const struct pst_order_eval *eval = &f->eval;
    uint64_t before = (f->n_repeats - 1) * eval->makespan_ns;

    if (eval->makespan_ns > ((uint64_t)1 << 62) / f->n_repeats) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                        "%u steps are too long to be added up; use fewer --steps", f->n_repeats);
    }
    f->busy_ns = pst_arena_array(&f->eval.arena, eval->n_devices, sizeof *f->busy_ns);
    for (uint32_t d = 0; d < eval->n_devices; d++) {
        f->busy_ns[d] = eval->busy_ns[d] * f->n_repeats;
    }
    f->makespan_ns = before + eval->makespan_ns;
    f->span_ns = before + eval->span_ns;
    f->work_ns = eval->work_ns * f->n_repeats;
    f->n_transfers = eval->n_transfers * f->n_repeats;
    f->lower_bound_ns = f->bounds.makespan_ns * f->n_repeats;
    f->span_bound_ns = (f->n_repeats - 1) * f->bounds.makespan_ns + f->bounds.span_ns;
    return PST_OK;
}

static void draw(struct pst_schedule_figures *f, const char *title)
{
    const struct pst_order_drawing drawing = {
        .in = &f->stream.in,
        .passes = (const struct pst_pass *const *)f->stream.passes,
        .n_passes = f->stream.n_passes,
        .eval = &f->eval,
        .n_batches = f->n_steps / f->n_repeats,
        .n_repeats = f->n_repeats,
        .period_ns = f->eval.makespan_ns,
        .title = title,
        .ns_per_unit = f->ns_per_unit,
        .bytes_per_unit = f->bytes_per_unit,
        .copies = pst_topology_copies(&f->result->asked.topology),
    };

    pst_order_timeline(&drawing, &f->timeline);
}

pst_status pst_schedule_figures_init(const struct pst_schedule_result *result, uint32_t n_steps,
                                     const struct pst_schedule_units *units,
                                     struct pst_schedule_figures *ret_figures,
                                     struct pst_error *err)
{
    struct pst_schedule_figures f = {
        .result = result,
        .n_steps = n_steps,
        .n_repeats = result->answer.asynchronous ? 1 : n_steps,
        .ns_per_unit = units->ns,
        .bytes_per_unit = units->bytes,
        .n_microbatches = pst_order_question_microbatches(&result->asked),
    };
    uint32_t n_batches = n_steps / f.n_repeats;
    pst_status status = pst_batches_evaluate(&result->answer, &result->asked.in, n_batches,
                                             &f.stream, &f.eval, err);

    status = pst_scheduler_blame(result->id, status, err);
    if (status == PST_OK) {
        pst_order_bounds(&f.stream.in, &f.bounds);
        if (result->answer.claim.size != 0 && !result->answer.asynchronous) {
            pst_claim_check(result->id, &result->answer.claim, f.eval.makespan_ns, f.eval.span_ns,
                            units->ns);
        }
        status = find_totals(&f, err);
    }
    if (status == PST_OK) {
        find_held(&f);
        status = find_period(&f, n_batches, err);
    }
    if (status == PST_OK) {
        draw(&f, units->title);
    }
    if (status != PST_OK) {
        pst_schedule_figures_finish(&f);
        return status;
    }
    *ret_figures = f;
    return PST_OK;
}

void pst_schedule_figures_finish(struct pst_schedule_figures *figures)
{
    pst_timeline_destroy(figures->timeline);
    pst_order_eval_finish(&figures->eval);
    pst_batches_finish(&figures->stream);
    memset(figures, 0, sizeof *figures);
}
