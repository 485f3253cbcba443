/* SPDX-License-Identifier: Apache-2.0
 *
 * STAT2: what a plan says of its job is what the config in it says. Versions of plugins, whether
 * they ran apart, and predictions by measured times cannot be derived from a file.
 */
#include <string.h>

#include "planner/state.h"
#include "session/session.h"
#include "plan/gathers.h"

const char *pst_session_times_name(const struct pst_session *session)
{
    return session->calibrated ? "measured" : session->profile != NULL ? "file" : "described";
}

static void compare_number(struct pst_check_report *report, const char *field, uint64_t stated,
                           uint64_t found)
{
    if (stated != found) {
        pst_check_report_add(report, "STAT2", PST_NONE, "%s of %llu is stated, config has %llu",
                             field, (unsigned long long)stated, (unsigned long long)found);
    }
}

/* The part of "id version, id version ..." that begins with this id; past that part. */
static const char *pass_plugin(const char *stated, const char *id)
{
    size_t n = strlen(id);

    if (strncmp(stated, id, n) != 0 || stated[n] != ' ') {
        return NULL;
    }
    stated += n + 1;
    n = strcspn(stated, ", ");
    return n > 0 ? stated + n : NULL;
}

static void compare_plugins(const struct pst_session *session, struct pst_check_report *report)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_job *job = session->job;
    const char *at = NULL;

    for (uint32_t i = 0; i < 2 + job->n_memopt; i++) {
        struct pst_config_node *table;
        const char *kind = pst_job_strategy(job, i, &table);
        const char *stated = i == 0 ? plan->partitioner : i == 1 ? plan->scheduler : plan->memopt;
        const struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");
        const char *id = use == NULL || use->kind != PST_CONFIG_STRING ? "" : use->value.string;

        at = i < 3 ? stated : at + strspn(at, ", ");
        at = pass_plugin(at, id);
        if (at == NULL || (*at != '\0' && (i < 2 || i + 1 == 2 + job->n_memopt))) {
            pst_check_report_add(report, "STAT2", PST_NONE,
                                 "%s \"%.80s\" is stated, config has \"%.80s\"", kind, stated, id);
            return;
        }
    }
    if (job->n_memopt == 0 && plan->memopt[0] != '\0') {
        pst_check_report_add(report, "STAT2", PST_NONE,
                             "memopt \"%.80s\" is stated, config has none", plan->memopt);
    }
}

static void compare_device(const struct pst_session *session, uint32_t rank,
                           struct pst_check_report *report)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_cluster *cluster = &session->cluster;
    const char *kind = plan->devices[rank].kind == NULL ? "" : plan->devices[rank].kind;
    const char *found = cluster->n_kinds > 0 ? pst_cluster_kind(cluster, rank)->name : "";
    uint64_t stated = pst_plan_capacity(plan, rank);
    uint64_t capacity = pst_cluster_capacity_of(cluster, rank);

    if (stated != capacity) {
        pst_check_report_add(report, "STAT2", rank,
                             "capacity_bytes of %llu is stated, config has %llu (%llu: no limit)",
                             (unsigned long long)stated, (unsigned long long)capacity,
                             (unsigned long long)UINT64_MAX);
    }
    if (strcmp(kind, found) != 0) {
        pst_check_report_add(report, "STAT2", rank,
                             "kind \"%.80s\" is stated, config has \"%.80s\"", kind, found);
    }
}

static bool may_be_measured(const struct pst_session *session)
{
    return session->job->profile.measure == PST_MEASURE_AUTO && session->profile == NULL;
}

static pst_status compare_step(struct pst_session *session, struct pst_check_report *report,
                               struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;
    uint64_t found;
    pst_status status;

    if (may_be_measured(session) && (plan->times == NULL || strcmp(plan->times, "measured") == 0)) {
        return PST_OK;
    }
    if (plan->times != NULL && strcmp(plan->times, pst_session_times_name(session)) != 0) {
        pst_check_report_add(report, "STAT2", PST_NONE,
                             "times \"%.80s\" are stated, config has \"%s\"", plan->times,
                             pst_session_times_name(session));
        return PST_OK;
    }
    status = pst_predict_step(plan, session->graph, &session->cost, false, &found, err);
    if (status == PST_OK && plan->step_ns != found) {
        pst_check_report_add(report, "STAT2", PST_NONE,
                             "step_us of %.3f is stated, the simulation has %.3f",
                             (double)plan->step_ns / 1e3, (double)found / 1e3);
    }
    return status;
}

pst_status pst_session_compare_stated(struct pst_session *session, struct pst_check_report *report,
                                      struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_job *job = session->job;

    compare_number(report, "batch", plan->batch,
                   pst_graph_samples(session->graph, (uint32_t)job->train.batch));
    compare_number(report, "optimizer_slots", plan->optimizer_slots, pst_job_optimizer_slots(job));
    compare_number(report, "number of devices", plan->n_devices,
                   (uint64_t)session->cluster.devices);
    compare_number(report, "zero", plan->zero, (uint64_t)job->parallel.zero);
    compare_number(report, "prefetch", plan->prefetch,
                   pst_gathers_prefetch(job->parallel.zero, job->parallel.prefetch));
    compare_number(report, "barrier", plan->barrier, pst_planner_barrier(job));
    if (job->plugins.isolate != PST_ISOLATE_AUTO) {
        compare_number(report, "isolated", plan->isolated,
                       job->plugins.isolate == PST_ISOLATE_ALWAYS);
    }
    compare_plugins(session, report);
    for (uint32_t r = 0; r < plan->n_devices && r < (uint64_t)session->cluster.devices; r++) {
        compare_device(session, r, report);
    }
    return report->n_violations == 0 ? compare_step(session, report, err) : PST_OK;
}
