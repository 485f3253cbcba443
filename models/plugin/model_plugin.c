/* SPDX-License-Identifier: Apache-2.0 */
#include "models/plugin/model_plugin.h"

#include <string.h>

#include "base/memory.h"
#include "base/signals.h"
#include "models/builder.h"
#include "models/plugin/model.h"
#include "planner/state.h"

static uint32_t dtype_of(const struct pst_job *job)
{
    return job->run.dtype == PST_RUN_BF16 ? PST_BF16 : PST_F32;
}

/* --- the question, and its answer there and back -----------------------------------------------*/

static void pass_job(struct pst_wire *w, void *job_)
{
    struct pst_model_job *job = job_;

    pst_config_pass(w, &job->config);
}

static pst_status open_job(void *job_, struct pst_error *err)
{
    struct pst_model_job *job = job_;
    struct pst_job *own = pst_alloc(1, sizeof *own);

    job->job = own;
    return pst_job_read(job->config, own, err);
}

static pst_status ask(const void *job_, bool (*cancelled)(void), void *ret_calls,
                      struct pst_error *err)
{
    static const struct pst_host_context nothing;
    const struct pst_job *job = ((const struct pst_model_job *)job_)->job;
    const struct pst_plugin *plugin = NULL;
    struct pst_instance *instance = NULL;
    struct pst_operators operators = {.n = 0};
    pst_status status = pst_job_plugin(job, job->model, "model", &plugin, err);

    (void)cancelled; /* what hangs is ended from outside */
    for (uint32_t i = 0; status == PST_OK && i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (row->type == PST_PARAM_PATH) {
            pst_config_resolve(job->config, job->model, row->key);
        }
    }
    PST_TRY(status, pst_operators_open(job, &operators, err));
    PST_TRY(status, pst_instance_create(plugin, job->model, &nothing, &instance, err));
    if (status == PST_OK) {
        status = pst_model_ask(instance, &operators, dtype_of(job), ret_calls, err);
        pst_instance_destroy(instance);
    }
    pst_operators_finish(&operators);
    return status;
}

static pst_status pass_calls(struct pst_wire *w, const void *job, void *calls,
                             struct pst_error *err)
{
    (void)job;
    (void)err;
    pst_model_calls_pass(w, calls);
    return PST_OK;
}

static void finish(void *calls)
{
    pst_model_calls_finish(calls);
}

const struct pst_apart_kind pst_model_kind = {
    .word = "pst-model",
    .plugin = "model",
    .job_size = sizeof(struct pst_model_job),
    .answer_size = sizeof(struct pst_model_calls),
    .pass_job = pass_job,
    .open = open_job,
    .ask = ask,
    .pass_answer = pass_calls,
    .finish = finish,
};

/* --- a job's model -----------------------------------------------------------------------------*/

/* Is there a plugin of that name? */
static pst_status find_plugin(const struct pst_job *job, const struct pst_config_node *use,
                              struct pst_error *err)
{
    const char *own[64];
    uint32_t n = 0;

    while (n < 64 && pst_model_builders[n] != NULL) {
        own[n] = pst_model_builders[n]->id;
        n++;
    }
    return pst_plugin_is_known("model", use, job->plugins.path, own, n, err);
}

pst_status pst_model_plugin_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                                  struct pst_error *err)
{
    const struct pst_config_node *use = pst_config_get(job->model, "use");
    const struct pst_model_job asked = {.config = job->config, .job = job};
    struct pst_worker_task limits;
    struct pst_model_calls calls = {.n = 0};
    struct pst_operators operators = {.n = 0};
    bool foreign = false, apart;
    pst_status status = PST_OK;

    if (pst_config_get(job->model, "path") == NULL) {
        status = find_plugin(job, use, err);
    }
    PST_TRY(status, pst_job_plugin_is_foreign(job, job->model, "model", &foreign, err));
    if (status != PST_OK) {
        return status;
    }
    apart = job->plugins.isolate == PST_ISOLATE_ALWAYS ||
            (job->plugins.isolate == PST_ISOLATE_AUTO && foreign);
    limits = pst_worker_limits(&job->plugins, pst_stop_requested);
    /* Here, too: their kernels run in this process. */
    status = pst_operators_open(job, &operators, err);
    PST_TRY(status, pst_apart_ask(&pst_model_kind, &asked, use->value.string,
                                  apart ? &limits : NULL, NULL, &calls, err));
    if (status == PST_OK) {
        status =
            pst_model_graph(&calls, &operators, use->value.string, dtype_of(job), ret_graph, err);
        pst_model_calls_finish(&calls);
    }
    pst_operators_finish(&operators);
    return status;
}
