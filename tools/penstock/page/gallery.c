/* SPDX-License-Identifier: Apache-2.0 */
#include "page/gallery.h"

#include <stdlib.h>

#include "base/memory.h"
#include "reports/plan_report.h"
#include "sim/sim.h"
#include "sim/usage.h"

void pst_gallery_begin(struct pst_gallery *ret_gallery, uint32_t most)
{
    *ret_gallery = (struct pst_gallery){.most = most};
}

static void finish_figures(struct pst_exhibit *exhibit)
{
    pst_timeline_destroy(exhibit->timeline);
    pst_arena_finish(&exhibit->arena);
    exhibit->timeline = NULL;
    exhibit->arena = (struct pst_arena){NULL, 0, 0};
}

void pst_gallery_finish(struct pst_gallery *gallery)
{
    for (uint32_t i = 0; i < gallery->n; i++) {
        finish_figures(&gallery->exhibits[i]);
    }
    finish_figures(&gallery->pending);
    free(gallery->exhibits);
    *gallery = (struct pst_gallery){0};
}

/* Passes R, and where a stage has none the replays within its backward passes. */
static double recompute_ns(const struct pst_session *session, const struct pst_timeline *timeline)
{
    struct pst_stage_report *reports = NULL;
    double placed = 0, within = 0;

    pst_plan_report_stages(session, &reports);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->op == PST_I_R) {
            placed += (double)(span->end_ns - span->start_ns - span->stall_ns);
            reports[span->stage].recompute_ns = 0;
        }
    }
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->op == PST_I_B || span->op == PST_I_BW) {
            within += (double)reports[span->stage].recompute_ns;
        }
    }
    free(reports);
    return placed + within;
}

static void measure_shares(const struct pst_session *session, struct pst_exhibit *exhibit)
{
    const struct pst_timeline *timeline = exhibit->timeline;
    double all = (double)(timeline->end_ns - timeline->begin_ns) * timeline->n_ranks;
    double busy = 0, exposed = 0, update = 0, recompute = recompute_ns(session, timeline);

    if (!(all > 0)) {
        return;
    }
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        struct pst_usage usage = pst_timeline_usage(timeline, r);

        busy += (double)usage.busy_ns;
        exposed += (double)usage.exposed_ns;
    }
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        update += span->lane == PST_LANE_OPTIMIZER ? (double)(span->end_ns - span->start_ns) : 0;
    }
    exhibit->share[PST_SHARE_COMPUTE] = (busy - recompute - update) / all;
    exhibit->share[PST_SHARE_RECOMPUTE] = recompute / all;
    exhibit->share[PST_SHARE_UPDATE] = update / all;
    exhibit->share[PST_SHARE_EXPOSED] = exposed / all;
    exhibit->share[PST_SHARE_IDLE] = (all - busy - exposed) / all;
}

pst_status pst_gallery_show(void *context, const struct pst_session *session, struct pst_error *err)
{
    struct pst_gallery *gallery = context;
    struct pst_exhibit *pending = &gallery->pending;
    struct pst_sim_result result;
    pst_status st;

    finish_figures(pending);
    *pending = (struct pst_exhibit){.known = true};
    st = pst_sim_timeline(session->planned.plan, session->graph, &session->cost, 1,
                          (const struct pst_program *const *)session->planned.programs,
                          &pending->timeline, &result, err);
    if (st == PST_OK) {
        measure_shares(session, pending);
        pst_stage_graph_of_plan(session, &pending->arena, &pending->stages);
    }
    return st;
}

static void drop_slowest(struct pst_gallery *gallery, const struct pst_compare_result *result)
{
    uint32_t n = 0, slowest = PST_NONE;
    double least = 0;

    for (uint32_t i = 0; i < gallery->n; i++) {
        double rate = pst_trial_samples_per_second(&result->records[i].trial);

        if (gallery->exhibits[i].timeline == NULL) {
            continue;
        }
        n++;
        if (slowest == PST_NONE || rate <= least) {
            slowest = i;
            least = rate;
        }
    }
    if (n > gallery->most) {
        finish_figures(&gallery->exhibits[slowest]);
    }
}

void pst_gallery_keep(struct pst_gallery *gallery, const struct pst_compare_result *result,
                      uint32_t record)
{
    if (gallery->n == 0) {
        gallery->n = result->n;
        gallery->exhibits = pst_alloc(result->n, sizeof *gallery->exhibits);
    }
    if (!gallery->pending.known || result->records[record].trial.state != PST_TRIAL_DONE) {
        return;
    }
    finish_figures(&gallery->exhibits[record]);
    gallery->exhibits[record] = gallery->pending;
    gallery->pending = (struct pst_exhibit){0};
    drop_slowest(gallery, result);
}
