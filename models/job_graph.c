/* SPDX-License-Identifier: Apache-2.0 */
#include "models/job_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "models/builder.h"
#include "models/plugin/model_plugin.h"

/* Places errors of operators about their shapes at [model], which the user wrote. */
static void blame_model(const struct pst_job *job, struct pst_error *err)
{
    char key[64];

    if (err == NULL || err->file[0] != '\0' || err->status == PST_ERR_BUG) {
        return;
    }
    if (sscanf(err->message, "\"%63[a-z_]\" in [model]", key) == 1) {
        pst_config_place(job->config, "model", key, err->status, err);
    }
    if (err->file[0] != '\0') {
        return;
    }
    snprintf(err->file, sizeof err->file, "%s", job->model->file);
    err->line = job->model->line;
    err->column = job->model->column;
    if (strncmp(err->kind, "model.", 6) == 0) {
        snprintf(err->kind, sizeof err->kind, "config.value");
        pst_error_prefix(err, "[model]");
    }
}

/* [train] loss is for models that do not bring their own. builder: NULL: a plugin's. */
static pst_status tell_loss(const struct pst_job *job, const struct pst_model_builder *builder,
                            void *config, struct pst_error *err)
{
    if (builder != NULL && builder->loss_at != 0) {
        memcpy((char *)config + builder->loss_at, &job->train.loss, sizeof job->train.loss);
    } else if (job->train.loss != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"loss\" in [train]: model %s has its own; leave the key out",
                        pst_config_get(job->model, "use")->value.string);
    }
    return PST_OK;
}

static pst_status build(const struct pst_job *job, const struct pst_model_builder *builder,
                        struct pst_graph **ret_graph, struct pst_error *err)
{
    static const char *const others[] = {"use", NULL};
    struct pst_arena arena = {0};
    void *config = pst_arena_alloc(&arena, builder->config_size == 0 ? 1 : builder->config_size, 0);
    pst_status status;

    for (uint32_t i = 0; i < builder->n_params; i++) {
        if (builder->params[i].type == PST_PARAM_PATH) {
            pst_config_resolve(job->config, job->model, builder->params[i].key);
        }
    }
    status = pst_params_fill(builder->params, builder->n_params, sizeof(struct pst_param),
                             job->model, "[model]", others, &arena, config, err);
    PST_TRY(status, pst_config_place(job->config, "train", "loss",
                                     tell_loss(job, builder, config, err), err));
    if (status == PST_OK) {
        status = pst_model_build(
            builder, config, job->run.dtype == PST_RUN_BF16 ? PST_BF16 : PST_F32, ret_graph, err);
        if (status != PST_OK) {
            blame_model(job, err);
        }
    }
    pst_arena_finish(&arena);
    return status;
}

static pst_status build_plugin(const struct pst_job *job, struct pst_graph **ret_graph,
                               struct pst_error *err)
{
    pst_status status =
        pst_config_place(job->config, "train", "loss", tell_loss(job, NULL, NULL, err), err);

    if (status == PST_OK) {
        status = pst_model_plugin_graph(job, ret_graph, err);
        if (status == PST_ERR_CONFIG) {
            blame_model(job, err);
        }
    }
    return status;
}

pst_status pst_job_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                         struct pst_error *err)
{
    struct pst_config_node *use = job->model == NULL ? NULL : pst_config_get(job->model, "use");
    const struct pst_model_builder *builder;
    pst_status status;

    if (use != NULL && use->kind != PST_CONFIG_STRING) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", use->file, use->line, use->column,
                           "\"use\" in [model] must be a string");
    }
    if (use == NULL) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.key", job->config->path,
                           job->model == NULL ? 0 : job->model->line, 0,
                           "[model]: use = \"...\" is missing: it names the model");
    }
    builder = pst_model_builder_find(use->value.string);
    status =
        builder != NULL ? build(job, builder, ret_graph, err) : build_plugin(job, ret_graph, err);
    if (status == PST_OK) {
        status = pst_config_place(job->config, "train",
                                  job->train.label_smoothing > 0 ? "label_smoothing" : "z_loss",
                                  pst_graph_set_loss(*ret_graph, (float)job->train.label_smoothing,
                                                     (float)job->train.z_loss, err),
                                  err);
    }
    if (status == PST_OK && job->train.loss_over == PST_LOSS_OVER_TOKEN) {
        status = pst_config_place(
            job->config, "train", "loss_over",
            pst_graph_mean_tokens(*ret_graph, (uint32_t)job->train.batch, err), err);
    }
    return status;
}
