/* SPDX-License-Identifier: Apache-2.0 */
#include "page/gallery.h"

#include <stdlib.h>

#include "base/memory.h"
#include "reports/plan_report.h"
#include "sim/sim.h"
#include "sim/usage.h"

void pst_gallery_begin(struct pst_gallery *ret_gallery, uint32_t n_records, uint32_t most)
{
    *ret_gallery = (struct pst_gallery){
        .n = n_records, .most = most, .exhibits = pst_alloc(n_records, sizeof(struct pst_exhibit))};
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

/* Measures shares of one step in the steady state, like the table of plans. */
static void measure_shares(const struct pst_session *session, struct pst_exhibit *exhibit)
{
    const struct pst_timeline *timeline = exhibit->timeline;
    double all = (double)timeline->step.ns * timeline->n_ranks;
    double busy = 0, exposed = 0, update = 0, recompute = recompute_ns(session, timeline);

    if (!(all > 0)) {
        return;
    }
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        busy += (double)timeline->step.usage[r].busy_ns;
        exposed += (double)timeline->step.usage[r].exposed_ns;
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

pst_status pst_gallery_add(struct pst_gallery *gallery, uint32_t record, bool must,
                           const struct pst_session *session, struct pst_error *err)
{
    struct pst_exhibit *exhibit = &gallery->exhibits[record];
    struct pst_sim_result result;
    pst_status status;

    status = pst_sim_timeline(session->planned.plan, session->graph, session->shown, 1,
                              session->simulated.period_ns,
                              (const struct pst_program *const *)session->planned.programs,
                              &exhibit->timeline, &result, err);
    if (status != PST_OK) {
        return status;
    }
    exhibit->known = true;
    measure_shares(session, exhibit);
    if (gallery->n_kept >= gallery->most && !must) {
        finish_figures(exhibit);
        return PST_OK;
    }
    gallery->n_kept++;
    pst_stage_graph_of_plan(session, &exhibit->arena, &exhibit->stages);
    return PST_OK;
}
