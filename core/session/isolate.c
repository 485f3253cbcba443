/* SPDX-License-Identifier: Apache-2.0 */
#include "session/isolate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/util.h"
#include "host/plugin_host.h"
#include "planner/state.h"
#include "session/degrees.h"
#include "session/groups.h"
#include "plan/gathers.h"

pst_status pst_isolate_is_wanted(const struct pst_job *job, bool *ret_wanted, struct pst_error *err)
{
    bool foreign = false;
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < 2 + job->n_memopt; i++) {
        struct pst_config_node *table;
        const char *kind = pst_job_strategy(job, i, &table);

        status = pst_job_plugin_is_foreign(job, table, kind, &foreign, err);
    }
    if (status == PST_OK) {
        *ret_wanted = job->plugins.isolate == PST_ISOLATE_ALWAYS ||
                      (job->plugins.isolate == PST_ISOLATE_AUTO && foreign);
    }
    return status;
}

/* Is the plan one for this session at all? */
static bool belongs(const struct pst_session *session, const struct pst_plan *plan)
{
    const struct pst_cluster *cluster = &session->cluster;
    bool same = plan->n_devices == (uint32_t)cluster->devices;

    return same &&
           plan->batch == pst_graph_samples(session->graph, (uint32_t)session->job->train.batch) &&
           plan->graph_digest == session->graph->digest &&
           plan->optimizer_slots == pst_job_optimizer_slots(session->job) &&
           plan->zero == (uint64_t)session->job->parallel.zero &&
           plan->prefetch ==
               pst_gathers_prefetch(session->job->parallel.zero, session->job->parallel.prefetch);
}

static void sign_plan(struct pst_session *session)
{
    struct pst_planned *planned = &session->planned;
    char *json = pst_config_to_json(session->job->config);

    planned->plan->config_json = pst_arena_strdup(&planned->plan->arena, json);
    free(json);
    planned->plan->isolated = true;
}

/* They share the process, so nobody knows which of them it was. */
static pst_status blame_plugins(const struct pst_job *job, pst_status status, struct pst_error *err)
{
    char text[512] = "";

    for (uint32_t i = 0; i < 2 + job->n_memopt; i++) {
        struct pst_config_node *table, *use;
        const char *kind = pst_job_strategy(job, i, &table);

        use = table == NULL ? NULL : pst_config_get(table, "use");
        pst_text_append(text, sizeof text, "%s%s \"%.63s\"", i == 0 ? "" : ", ", kind,
                        use == NULL || use->kind != PST_CONFIG_STRING ? "?" : use->value.string);
    }
    pst_error_prefix(err, "the process of %s returned a plan that cannot run", text);
    if (strcmp(err->kind, "plan.illegal") != 0) {
        snprintf(err->kind, sizeof err->kind, "plugin.contract");
    }
    err->exit_code = 3;
    return status;
}

/* The session's plan from what came back: proven, with its programs. */
static pst_status adopt_plan(struct pst_session *session, const char *text, struct pst_error *err)
{
    struct pst_planned *planned = &session->planned;
    pst_status status = pst_degrees_adopt(session, "", text, strlen(text), err);

    PST_TRY(status, pst_plan_parse("", text, strlen(text), session->graph, &planned->plan, err));
    if (status == PST_OK && !belongs(session, planned->plan)) {
        status = pst_fail(err, PST_ERR_BUG, "plugin.contract", "it is for another job");
    }
    PST_TRY(status, pst_session_judge(session, planned, NULL, err));
    return status;
}

/* --- the question, and its answer there and back -----------------------------------------------*/

static pst_job_planner *planner_of_child;

/* The process gets the config with all its places, and the advice. */
static void pass_job(struct pst_wire *w, void *job_)
{
    struct pst_plan_job *job = job_;

    pst_config_pass(w, &job->config);
    pst_wire_uint(w, &job->advice);
}

static pst_status open_session(void *job_, struct pst_error *err)
{
    struct pst_plan_job *job = job_;
    struct pst_job *own = pst_alloc(1, sizeof *own);
    pst_status status = pst_job_read(job->config, own, err);

    own->advice = job->advice;
    own->slim = true; /* the plan alone goes back */
    own->planner = planner_of_child;
    return status == PST_OK ? pst_session_create_for_planning(own, &job->session, err) : status;
}

/* It has the time limit from the job, and says itself what passed it. */
static pst_status search_plan(const void *asked, bool (*cancelled)(void), void *ret_planned,
                              struct pst_error *err)
{
    struct pst_session *session = ((const struct pst_plan_job *)asked)->session;
    bool (*stopped)(void) =
        cancelled == pst_worker_stopped_or_late ? pst_worker_stopped : cancelled;
    pst_status status = session->chooses
                            ? pst_degrees_search(session, stopped, ret_planned, err)
                            : pst_groups_search(session, session->job, stopped, ret_planned, err);

    if (status == PST_OK && ((struct pst_planned *)ret_planned)->programs == NULL) {
        status = pst_session_judge(session, ret_planned, NULL, err);
    }
    return status;
}

static pst_status pass_plan(struct pst_wire *w, const void *job, void *planned_,
                            struct pst_error *err)
{
    struct pst_session *session = ((const struct pst_plan_job *)job)->session;
    struct pst_planned *planned = planned_;
    const char *text = NULL;
    char *written = NULL;
    struct pst_error unused;
    pst_status status = PST_OK;

    err = err == NULL ? &unused : err;
    if (!w->reads) {
        planned->plan->isolated = true;
        text = written = pst_plan_to_json(planned->plan, session->graph);
    }
    pst_wire_text(w, &text);
    free(written);
    if (w->reads) {
        status = adopt_plan(session, text == NULL ? "" : text, err);
    }
    if (status == PST_OK) {
        w->arena = &planned->plan->arena;
        pst_remarks_pass(w, &planned->remarks, &planned->n_remarks);
        pst_wire_amount(w, &planned->search_seconds, PST_WIRE_SECONDS);
    }
    if (status == PST_OK && w->reads && !pst_wire_is_read(w)) {
        status = pst_fail(err, PST_ERR_BUG, "plugin.contract", "its remarks are damaged");
    }
    if (status == PST_OK && w->reads) {
        sign_plan(session);
    }
    return status == PST_OK ? PST_OK : blame_plugins(session->job, status, err);
}

static void finish_plan(void *planned)
{
    pst_planned_finish(planned);
}

const struct pst_apart_kind pst_plan_kind = {
    .word = "pst-plan",
    .plugin = "planner",
    .job_size = sizeof(struct pst_plan_job),
    .answer_size = sizeof(struct pst_planned),
    .pass_job = pass_job,
    .open = open_session,
    .ask = search_plan,
    .pass_answer = pass_plan,
    .finish = finish_plan,
};

pst_status pst_isolate_search(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_error *err)
{
    const struct pst_job *job = session->job;
    const struct pst_plan_job asked = {
        .session = session, .config = job->config, .advice = job->advice};
    const struct pst_worker_task limits = pst_worker_limits(&job->plugins, cancelled);
    bool apart = false;
    pst_status status = pst_isolate_is_wanted(job, &apart, err);

    if (status != PST_OK) {
        return status;
    }
    pst_log(PST_LOG_INFO, "plan", "strategies run in %s",
            apart ? "a process of their own" : "this process");
    status = pst_apart_ask(&pst_plan_kind, &asked, "", apart ? &limits : NULL, cancelled,
                           &session->planned, err);
    if (status == PST_OK) {
        pst_degrees_warn(job);
    }
    return status;
}

bool pst_isolate_child(int argc, char **argv, pst_job_planner *planner,
                       const struct pst_apart_kind *const *kinds, size_t n_kinds)
{
    planner_of_child = planner;
    pst_worker_offer(); /* a plan's process has the job's model built in one of its own */
    return pst_apart_serve(argc, argv, kinds, n_kinds);
}
