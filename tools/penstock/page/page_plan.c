/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of one plan: a comparison of one.
 */
#include <stdio.h>

#include "reports/plan_report.h"
#include "page/page.h"
#include "tune/provenance.h"

/* Config and strategies, unless these are not there any more, which a plan file does not need. */
static void add_origin(const struct pst_session *session, struct pst_provenance *provenance,
                       struct pst_combinations *set)
{
    struct pst_error err;

    if (pst_combinations_read_lists(session->job, "compare", NULL, 1, set, &err) == PST_OK) {
        pst_provenance_add(provenance, session->job, set);
    }
}

pst_status pst_page_write_plan(const struct pst_session *session, const char *command,
                               const char *title, const char *path, struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;
    char devices[16], microbatch[16], replicas[PST_GRID_TEXT], zero[16], tensor[PST_GRID_TEXT];
    struct pst_record record = {
        .config = title,
        .labels = {[PST_AXIS_PARTITIONER] = plan->partitioner,
                   [PST_AXIS_SCHEDULER] = plan->scheduler,
                   [PST_AXIS_MEMOPT] = plan->memopt[0] == '\0' ? "no optimizer" : plan->memopt,
                   [PST_AXIS_DEVICES] = devices,
                   [PST_AXIS_MICROBATCH] = microbatch,
                   [PST_AXIS_REPLICAS] = replicas,
                   [PST_AXIS_ZERO] = zero,
                   [PST_AXIS_TENSOR] = tensor,
                   [PST_AXIS_SEQUENCE] = session->graph->sequence ? "true" : "false"},
        .trial = {.state = PST_TRIAL_DONE},
    };
    struct pst_compare_result result = {.n = 1, .records = &record, .n_configs = 1};
    struct pst_combinations set = {.n = 0};
    struct pst_gallery gallery;
    const struct pst_page page = {command, title, &result, &gallery};
    pst_status status;

    pst_trial_take(session, false, &record.trial);
    snprintf(devices, sizeof devices, "%u", plan->n_devices);
    snprintf(microbatch, sizeof microbatch, "%u", record.trial.microbatch);
    snprintf(zero, sizeof zero, "%u", plan->zero);
    pst_report_grid(plan, replicas, tensor);
    pst_gallery_begin(&gallery, 1, 1);
    status = pst_gallery_add(&gallery, 0, true, session, err);
    if (status == PST_OK) {
        pst_provenance_begin(&result.provenance);
        add_origin(session, &result.provenance, &set);
        status = pst_page_write(&page, path, err);
        pst_provenance_finish(&result.provenance);
        pst_combinations_finish(&set);
    }
    pst_gallery_finish(&gallery);
    pst_trial_finish(&record.trial);
    return status;
}
