/* SPDX-License-Identifier: Apache-2.0 */
#include "train/isolate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "host/child.h"
#include "host/describe.h"
#include "host/plugin_host.h"
#include "planner/solo_job.h"
#include "planner/problem_memopt.h"
#include "planner/problem_partition.h"

#define WORD "pst-plan"

uint64_t pst_isolate_default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages / 5 * 4 * (uint64_t)size : 0;
}

pst_status pst_isolate_is_foreign(const struct pst_job *job, struct pst_config_node *table,
                                  const char *kind, bool *ret_foreign, struct pst_error *err)
{
    struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");
    struct pst_config_node *path = table == NULL ? NULL : pst_config_get(table, "path");

    if (use == NULL || use->kind != PST_CONFIG_STRING ||
        (path != NULL && path->kind != PST_CONFIG_STRING)) {
        return PST_OK; /* an error that opens nothing */
    }
    pst_config_resolve(job->config, table, "path");
    return pst_plugin_is_foreign(kind, use->value.string, path == NULL ? NULL : path->value.string,
                                 ret_foreign, err);
}

/* Does the job plan in a process of its own? Resolves the paths of its plugins on the way. */
static pst_status is_wanted(const struct pst_job *job, bool *ret_wanted, struct pst_error *err)
{
    bool foreign = false;
    pst_status st = pst_isolate_is_foreign(job, job->partitioner, "partitioner", &foreign, err);

    if (st == PST_OK) {
        st = pst_isolate_is_foreign(job, job->scheduler, "scheduler", &foreign, err);
    }
    for (uint32_t i = 0; st == PST_OK && i < job->n_memopt; i++) {
        st = pst_isolate_is_foreign(job, job->memopt[i], "memopt", &foreign, err);
    }
    if (st == PST_OK) {
        *ret_wanted = job->plugins.isolate == PST_ISOLATE_ALWAYS ||
                      (job->plugins.isolate == PST_ISOLATE_AUTO && foreign);
    }
    return st;
}

/* The job as the process gets it: the config as JSON, where everything in it stands, the advice. */
struct question {
    const char *config, *places;
    uint32_t advice;
};

static void pass_question(struct pst_wire *w, struct question *question)
{
    pst_wire_text(w, &question->config);
    pst_wire_text(w, &question->places);
    pst_wire_uint(w, &question->advice);
}

/* Is the plan one for this session at all? */
static bool belongs(const struct pst_session *session, const struct pst_plan *plan)
{
    const struct pst_cluster *cluster = &session->cluster;
    uint64_t capacity = pst_cluster_capacity(cluster);

    return plan->batch == (uint32_t)session->job->train.batch &&
           plan->n_devices == (uint32_t)cluster->devices && plan->capacity_bytes == capacity &&
           plan->graph_digest == session->graph->digest &&
           plan->optimizer_slots == pst_session_optimizer_slots(session->job);
}

static void sign(struct pst_session *session)
{
    struct pst_planned *planned = &session->planned;
    char *json = pst_config_to_json(session->job->config);

    planned->plan->config_json = pst_arena_strdup(&planned->plan->arena, json);
    free(json);
    planned->plan->isolated = true;
    for (uint32_t r = 0; r < planned->plan->n_devices; r++) {
        planned->plan->devices[r].peak_bytes = planned->programs[r]->peak_bytes;
        planned->plan->devices[r].arena_bytes = planned->programs[r]->arena_bytes;
        planned->plan->devices[r].host_bytes = planned->programs[r]->host_bytes;
    }
}

static void put_answer(const struct pst_planned *planned, const struct pst_graph *graph,
                       struct pst_wire *w)
{
    struct pst_planned sent = *planned;
    char *text = pst_plan_to_json(planned->plan, graph);

    pst_wire_bytes(w, text, strlen(text) + 1);
    free(text);
    pst_remarks_pass(w, &sent.remarks, &sent.n_remarks);
}

void pst_isolate_answer(const struct pst_planned *planned, const struct pst_graph *graph,
                        char **ret_bytes, size_t *ret_length)
{
    struct pst_wire w = {.reads = false};

    put_answer(planned, graph, &w);
    pst_wire_end(&w, ret_bytes, ret_length);
}

static pst_status take_remarks(struct pst_planned *planned, const char *bytes, size_t length,
                               struct pst_error *err)
{
    struct pst_wire r = pst_wire_read(bytes, length, &planned->plan->arena);

    pst_remarks_pass(&r, &planned->remarks, &planned->n_remarks);
    return pst_wire_is_read(&r)
               ? PST_OK
               : pst_fail(err, PST_ERR_BUG, "plugin.contract", "its remarks are damaged");
}

static const char *name_of(struct pst_config_node *table)
{
    struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");

    return use == NULL || use->kind != PST_CONFIG_STRING ? "?" : use->value.string;
}

/* They share the process, so nobody knows which of them it was. */
static pst_status blame(const struct pst_job *job, pst_status st, struct pst_error *err)
{
    char text[512];
    int n = snprintf(text, sizeof text, "partitioner \"%.63s\", scheduler \"%.63s\"",
                     name_of(job->partitioner), name_of(job->scheduler));

    for (uint32_t i = 0; i < job->n_memopt && n < (int)sizeof text; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, ", memopt \"%.63s\"",
                      name_of(job->memopt[i]));
    }
    pst_error_prefix(err, "what came back from the process of %s is no plan that can run", text);
    if (strcmp(err->kind, "plan.illegal") != 0) {
        snprintf(err->kind, sizeof err->kind, "plugin.contract");
    }
    err->exit_code = 3;
    return st;
}

pst_status pst_isolate_adopt(struct pst_session *session, const char *answer, size_t length,
                             struct pst_error *err)
{
    size_t n = strnlen(answer, length); /* of the text */
    struct pst_error unused;
    pst_status st;

    err = err == NULL ? &unused : err;
    st = pst_plan_parse("", answer, n, session->graph, &session->planned.plan, err);
    if (st == PST_OK && !belongs(session, session->planned.plan)) {
        st = pst_fail(err, PST_ERR_BUG, "plugin.contract", "it is for another job");
    }
    if (st == PST_OK) {
        st = pst_session_judge(session, NULL, err);
    }
    if (st == PST_OK) {
        st = take_remarks(&session->planned, answer + n + 1, n < length ? length - n - 1 : 0, err);
    }
    if (st != PST_OK) {
        return blame(session->job, st, err);
    }
    sign(session);
    return PST_OK;
}

static pst_status search(const struct pst_session *session, bool (*cancelled)(void),
                         struct pst_planned *ret_planned, struct pst_error *err)
{
    pst_job_planner *planner =
        session->job->planner == NULL ? pst_planner_run : session->job->planner;

    return planner(session->job, session->graph, &session->cluster, &session->cost,
                   pst_predict_step, cancelled, ret_planned, err);
}

static pst_status search_apart(struct pst_session *session, bool (*cancelled)(void),
                               struct pst_error *err)
{
    const struct pst_job_plugins *plugins = &session->job->plugins;
    struct pst_worker_task task = {
        .time_limit_ns = plugins->time_limit,
        .memory_limit_bytes =
            plugins->memory_limit != 0 ? plugins->memory_limit : pst_isolate_default_memory(),
        .cancelled = cancelled,
    };
    uint64_t begin_ns = pst_now_ns();
    char *config = pst_config_to_json(session->job->config);
    char *places = pst_config_places_to_json(session->job->config), *answer = NULL;
    struct question question = {config, places, session->job->advice};
    struct pst_wire w = {.reads = false};
    size_t length = 0;
    pst_status st;

    pst_wire_word(&w, WORD);
    pass_question(&w, &question);
    free(config);
    free(places);
    st = pst_worker_ask(&task, &w, &answer, &length, err);
    if (st == PST_OK) {
        st = pst_isolate_adopt(session, answer, length, err);
    }
    session->planned.search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    free(answer);
    return st;
}

pst_status pst_isolate_search(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_error *err)
{
    bool apart = false;
    pst_status st = is_wanted(session->job, &apart, err);

    if (st != PST_OK) {
        return st;
    }
    pst_log(PST_LOG_INFO, "plan", "strategies run in %s",
            apart ? "a process of their own" : "this process");
    return apart ? search_apart(session, cancelled, err)
                 : search(session, cancelled, &session->planned, err);
}

/* --- the process itself ------------------------------------------------------------------------*/

static pst_job_planner *planner_of_child;

static pst_status plan_here(const struct pst_session *session, struct pst_wire *answer,
                            struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    pst_status st = search(session, pst_worker_stopped, &planned, err);

    if (st == PST_OK) {
        planned.plan->isolated = true;
        put_answer(&planned, session->graph, answer);
        pst_planned_finish(&planned);
    }
    return st;
}

static pst_status plan_asked(struct pst_wire *asked, struct pst_wire *answer, struct pst_error *err)
{
    struct question question = {NULL, NULL, 0};
    struct pst_session *session = NULL;
    struct pst_config *config = NULL;
    struct pst_job job;
    pst_status st;

    pass_question(asked, &question);
    st = pst_wire_is_read(asked) ? pst_config_from_json(question.config, &config, err)
                                 : pst_fail(err, PST_ERR_BUG, "internal", "half a job");
    if (st == PST_OK) {
        st = pst_config_places_from_json(config, question.places, err);
    }
    if (st != PST_OK) {
        pst_config_destroy(config);
        return st;
    }
    st = pst_job_read(config, &job, err);
    if (st == PST_OK) {
        job.advice = question.advice;
        job.planner = planner_of_child;
        st = pst_session_create_for_planning(&job, &session, err);
        if (st == PST_OK) {
            pst_worker_started();
            st = plan_here(session, answer, err);
        }
        pst_session_destroy(session);
        pst_job_finish(&job);
    }
    pst_config_destroy(config);
    return st;
}

static void serve_plan(const char *job, size_t length)
{
    struct pst_arena arena = {0};
    struct pst_wire asked = pst_wire_read(job, length, &arena), answer = {.reads = false};
    struct pst_error err = {0};
    pst_status st;

    pst_wire_word(&asked, WORD);
    if (!asked.failed) {
        st = plan_asked(&asked, &answer, &err);
        pst_worker_answer(st == PST_OK ? &answer : NULL, &err);
    }
}

bool pst_isolate_child(int argc, char **argv, pst_job_planner *planner)
{
    static const struct pst_apart_kind *const kinds[] = {&pst_describe_kind, &pst_solo_kind,
                                                         &pst_partition_kind, &pst_memopt_kind};
    struct pst_error err = {0};
    size_t length;
    char *job;

    if (!pst_worker_begin(argc, argv, &job, &length)) {
        return false;
    }
    planner_of_child = planner;
    serve_plan(job, length);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pst_apart_serve(kinds[i], job, length);
    }
    pst_fail(&err, PST_ERR_BUG, "internal", "half a job");
    pst_worker_answer(NULL, &err);
}
