/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin in its place: the planner makes plans for small models with it and with each of the
 * other strategies that are installed beside the program; the plan checker proves them. Of a model
 * some of these make plans, and it trains.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "conformance/tests.h"
#include "conformance/verdict.h"
#include "data/data.h"
#include "host/plugin_host.h"
#include "host/shipped.h"
#include "loop/train.h"
#include "session/session.h"

enum { COMPANIONS = 3, SETS = 64, MOST_TRAINED = 1 << 24 /* parameters */ };

/* Overrides of an empty config, one job each. */
static const char *const jobs[][8] = {
    {"model.use=mlp", "model.layers=6", "model.hidden=32", "cluster.devices=1"},
    {"model.use=mlp", "model.layers=6", "model.hidden=32", "cluster.devices=3"},
    {"model.use=gpt", "model.layers=2", "model.dim=32", "model.heads=2", "model.context=16",
     "model.vocab=64", "cluster.devices=2"},
    {"model.use=mmt", "model.layers=1", "model.dim=32", "model.heads=2", "model.context=16",
     "model.vocab=64", "cluster.devices=4"},
    {"model.use=mlp", "model.layers=6", "model.hidden=32", "cluster.devices=2",
     "cluster.memory=64 KiB"},
};

/* A planning job: the texts of its settings, and what they make. */
struct trial {
    char texts[SETS][512];
    const char *sets[SETS];
    uint32_t n_sets;
    struct pst_config *config;
    struct pst_job job;
    bool has_job;
    struct pst_session *session;
};

static void set(struct trial *trial, const char *table, const char *text)
{
    if (trial->n_sets == SETS) {
        pst_verdict_skip("too many parameters are given");
    }
    snprintf(trial->texts[trial->n_sets], sizeof trial->texts[0], "%s%s%s", table,
             table[0] != '\0' ? "." : "", text);
    trial->sets[trial->n_sets] = trial->texts[trial->n_sets];
    trial->n_sets++;
}

static void set_strategy(struct trial *trial, const char *kind, const char *id, const char *path)
{
    char text[400];

    snprintf(text, sizeof text, "%s=\"%s\"", strcmp(kind, "data") == 0 ? "kind" : "use", id);
    set(trial, kind, text);
    snprintf(text, sizeof text, "path=\"%s\"", path);
    set(trial, kind, text);
}

static pst_status prepare(struct trial *trial, struct pst_error *err)
{
    pst_status status = pst_config_from_sets(trial->sets, trial->n_sets, &trial->config, err);

    if (status == PST_OK) {
        status = pst_job_read(trial->config, &trial->job, err);
        trial->has_job = status == PST_OK;
    }
    return status == PST_OK ? pst_session_create_for_planning(&trial->job, &trial->session, err)
                            : status;
}

static void finish(struct trial *trial)
{
    pst_session_destroy(trial->session);
    if (trial->has_job) {
        pst_job_finish(&trial->job);
    }
    pst_config_destroy(trial->config);
}

/* An error of the plugin itself; other strategies may have faults of their own. */
static bool is_blamed(const struct pst_subject *subject, const struct pst_error *err)
{
    char name[128];

    snprintf(name, sizeof name, "%s \"%s\"", subject->plugin->kind, subject->plugin->id);
    return pst_error_exit_code(err) == 3 && strstr(err->message, name) != NULL;
}

/* Plans once. True: there is a plan; else ret_err says why not. */
static bool plan(struct trial *trial, const struct pst_subject *subject, struct pst_error *ret_err)
{
    struct pst_planned planned = {0};
    char *text = NULL;
    pst_status status;

    memset(ret_err, 0, sizeof *ret_err);
    status = prepare(trial, ret_err);
    if (status == PST_OK) {
        const struct pst_session *session = trial->session;

        status = pst_planner_run(&trial->job, session->graph, &session->cluster, &session->cost,
                                 NULL, NULL, &planned, ret_err);
    }
    if (status == PST_OK) {
        text = pst_plan_to_json(planned.plan, trial->session->graph);
        pst_verdict_digest(text, strlen(text));
        free(text);
        pst_planned_finish(&planned);
    } else if (is_blamed(subject, ret_err)) {
        pst_verdict_fail("%s%s%.600s", ret_err->message, ret_err->details[0] != '\0' ? ": " : "",
                         ret_err->details);
    }
    finish(trial);
    return status == PST_OK;
}

/* --- a strategy, with two others ---------------------------------------------------------------*/

/* At most COMPANIONS plugins of a kind, penstock's own. */
static uint32_t find_companions(const struct pst_plugin_list *list, const char *kind,
                                const struct pst_plugin_file **ret_files)
{
    struct pst_shipped shipped;
    uint32_t n = 0;

    for (uint32_t i = 0; i < list->n_files && n < COMPANIONS; i++) {
        if (strcmp(list->files[i].kind, kind) != 0) {
            continue;
        }
        pst_shipped_find(list->files[i].path, &shipped);
        if (shipped.is) {
            ret_files[n++] = &list->files[i];
        }
    }
    return n;
}

static void fill_trial(struct trial *trial, const struct pst_subject *subject, size_t job,
                       const struct pst_plugin_file *const *companions, uint32_t n_companions)
{
    const char *kind = subject->plugin->kind;

    memset(trial, 0, sizeof *trial);
    for (size_t i = 0; i < sizeof jobs[0] / sizeof jobs[0][0] && jobs[job][i] != NULL; i++) {
        set(trial, "", jobs[job][i]);
    }
    set(trial, "", "data.kind=synthetic");
    set(trial, "", "train.batch=16");
    set(trial, "", "train.microbatch=2");
    set_strategy(trial, kind, subject->plugin->id, subject->path);
    for (uint32_t i = 0; i < subject->n_sets; i++) {
        set(trial, kind, subject->sets[i]);
    }
    for (uint32_t i = 0; i < n_companions; i++) {
        set_strategy(trial, companions[i]->kind, companions[i]->id, companions[i]->path);
    }
}

static const char *const kinds[] = {"partitioner", "scheduler", "memopt"};

static void plan_with_strategy(const struct pst_subject *subject)
{
    const struct pst_plugin_file *files[2][COMPANIONS], *pair[2];
    struct trial *trial = pst_alloc(1, sizeof *trial);
    struct pst_plugin_list *list = NULL;
    struct pst_error err = {0}, first = {0};
    uint32_t n[2] = {0, 0}, n_kinds = 0, n_plans = 0, a, b;
    size_t job;

    if (pst_plugin_list_create(NULL, &list, &err) != PST_OK) {
        pst_verdict_skip("the checker ran out of memory");
    }
    pst_log_set_level(PST_LOG_ERROR);
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(kinds[i], subject->plugin->kind) != 0) {
            n[n_kinds] = find_companions(list, kinds[i], files[n_kinds]);
            n_kinds++;
        }
    }
    if (n[0] == 0 || n[1] == 0) {
        pst_verdict_skip("there are no other strategies to plan with");
    }
    for (job = 0; job < sizeof jobs / sizeof jobs[0]; job++) {
        for (a = 0; a < n[0]; a++) {
            for (b = 0; b < n[1]; b++) {
                pair[0] = files[0][a];
                pair[1] = files[1][b];
                fill_trial(trial, subject, job, pair, 2);
                if (plan(trial, subject, &err)) {
                    n_plans++;
                } else if (first.kind[0] == '\0') {
                    first = err;
                }
            }
        }
    }
    if (n_plans == 0) {
        pst_verdict_skip("it gives no plan; the first reason: %s", first.message);
    }
    pst_plugin_list_destroy(list);
    free(trial);
}

/* --- a model, with three strategies ------------------------------------------------------------*/

static void fill_model_trial(struct trial *trial, const struct pst_subject *subject,
                             uint32_t devices, uint32_t batch,
                             const struct pst_plugin_file *const *strategies)
{
    char text[64];

    memset(trial, 0, sizeof *trial);
    set_strategy(trial, "model", subject->plugin->id, subject->path);
    for (uint32_t i = 0; i < subject->n_sets; i++) {
        set(trial, "model", subject->sets[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        set_strategy(trial, strategies[i]->kind, strategies[i]->id, strategies[i]->path);
    }
    snprintf(text, sizeof text, "devices=%u", devices);
    set(trial, "cluster", text);
    snprintf(text, sizeof text, "batch=%u", batch);
    set(trial, "train", text);
    set(trial, "train", batch % 2 == 0 ? "microbatch=2" : "microbatch=1");
    set(trial, "train", "steps=2");
    set(trial, "data", "kind=synthetic");
    set(trial, "plugins", "isolate=never"); /* this process is one apart */
}

/* Two steps on this machine: every loss is a number. */
static pst_status train(struct trial *trial, struct pst_error *err)
{
    static const struct pst_train_listener silent;
    struct pst_session *session = NULL;
    struct pst_data *data = NULL;
    pst_status status = pst_config_from_sets(trial->sets, trial->n_sets, &trial->config, err);

    if (status == PST_OK) {
        status = pst_job_read(trial->config, &trial->job, err);
        trial->has_job = status == PST_OK;
    }
    PST_TRY(status, pst_session_create(&trial->job, NULL, &session, err));
    if (status == PST_OK && pst_graph_parameters(session->graph) <= MOST_TRAINED) {
        status = pst_session_plan(session, NULL, NULL, err);
        PST_TRY(status, pst_data_create(&trial->job, session->graph, &data, err));
        PST_TRY(status, pst_train_run(session, data, NULL, &silent, err));
        pst_data_destroy(data);
    }
    pst_session_destroy(session);
    finish(trial);
    return status;
}

/* The first strategy of each kind, and the list that has them. */
static struct pst_plugin_list *choose_strategies(const struct pst_plugin_file *ret_chosen[3])
{
    const struct pst_plugin_file *files[COMPANIONS];
    struct pst_plugin_list *list = NULL;
    struct pst_error err;

    if (pst_plugin_list_create(NULL, &list, &err) != PST_OK) {
        pst_verdict_skip("the checker ran out of memory");
    }
    pst_log_set_level(PST_LOG_ERROR);
    for (uint32_t i = 0; i < 3; i++) {
        if (find_companions(list, kinds[i], files) == 0) {
            pst_verdict_skip("there are no strategies to plan with");
        }
        ret_chosen[i] = files[0];
    }
    return list;
}

/* On 1 to 3 devices with the first strategies of each kind, and trained where that is cheap. */
static void plan_model(const struct pst_subject *subject)
{
    const struct pst_plugin_file *chosen[3];
    struct pst_plugin_list *list = choose_strategies(chosen);
    struct trial *trial = pst_alloc(1, sizeof *trial);
    struct pst_error err = {0}, first = {0};
    uint32_t n_plans = 0;

    for (uint32_t devices = 1; devices <= 3; devices++) {
        fill_model_trial(trial, subject, devices, 4, chosen);
        if (plan(trial, subject, &err)) {
            n_plans++;
        } else if (first.kind[0] == '\0') {
            first = err;
        }
    }
    if (n_plans == 0) {
        pst_verdict_fail("it gives no plan; the first reason: %s", first.message);
    }
    for (uint32_t batch = 1; batch <= 4; batch += 3) {
        fill_model_trial(trial, subject, 1, batch, chosen);
        if (train(trial, &err) != PST_OK) {
            pst_verdict_fail("two steps of training: %s", err.message);
        }
    }
    pst_plugin_list_destroy(list);
    free(trial);
}

/* --- data, with small models -------------------------------------------------------------------*/

/* Models of these jobs that the data is not for are left out. */
static void train_with_data(const struct pst_subject *subject)
{
    const struct pst_plugin_file *chosen[3];
    struct pst_plugin_list *list = choose_strategies(chosen);
    struct trial *trial = pst_alloc(1, sizeof *trial);
    struct pst_error err = {0}, first = {0};
    uint32_t n_trained = 0;

    for (size_t job = 0; job < sizeof jobs / sizeof jobs[0]; job++) {
        pst_status status;

        fill_trial(trial, subject, job, chosen, 3);
        set(trial, "", "train.steps=2");
        set(trial, "", "plugins.isolate=never"); /* this process is one apart */
        memset(&err, 0, sizeof err);
        status = train(trial, &err);
        if (status != PST_OK && is_blamed(subject, &err)) {
            pst_verdict_fail("%s", err.message);
        }
        n_trained += status == PST_OK;
        first = n_trained == 0 && first.kind[0] == '\0' ? err : first;
    }
    if (n_trained == 0) {
        pst_verdict_skip("it trains none of the small models; the first reason: %s", first.message);
    }
    pst_plugin_list_destroy(list);
    free(trial);
}

void pst_test_plan(struct pst_subject *subject)
{
    if (strcmp(subject->plugin->kind, "model") == 0) {
        plan_model(subject);
    } else if (strcmp(subject->plugin->kind, "data") == 0) {
        train_with_data(subject);
    } else {
        plan_with_strategy(subject);
    }
}
