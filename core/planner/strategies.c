/* SPDX-License-Identifier: Apache-2.0
 *
 * The strategies of a job: found, matched, instantiated.
 */
#include <penstock/memopt_global.h>

#include "planner/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/caps.h"
#include "host/describe.h"
#include "planner/optimizer.h"
#include "planner/topology.h"

/* --- the plugin that a table names ------------------------------------------------------------*/

/* "use" and "path" of a strategy's table. */
struct choice {
    const char *id, *path;
};

static pst_status read_choice(const struct pst_job *job, struct pst_config_node *table,
                              const char *kind, struct choice *ret_choice, struct pst_error *err)
{
    struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");
    struct pst_config_node *path = table == NULL ? NULL : pst_config_get(table, "path");

    if (use == NULL) {
        return pst_fail_at(
            err, PST_ERR_CONFIG, "config.key", table != NULL ? table->file : job->config->path,
            table != NULL ? table->line : 0, table != NULL ? table->column : 0,
            "[%s] must name one: use = \"...\"; \"penstock plugins\" lists them", kind);
    }
    if (use->kind != PST_CONFIG_STRING || (path != NULL && path->kind != PST_CONFIG_STRING)) {
        struct pst_config_node *node = use->kind != PST_CONFIG_STRING ? use : path;

        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                           node->column, "\"%s\" in [%s] must be a string", node->key, kind);
    }
    if (path != NULL && path->value.string[0] == '\0') {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", path->file, path->line,
                           path->column, "\"path\" in [%s] names no file", kind);
    }
    pst_config_resolve(job->config, table, "path");
    ret_choice->id = use->value.string;
    ret_choice->path = path != NULL ? path->value.string : NULL;
    return PST_OK;
}

pst_status pst_job_plugin(const struct pst_job *job, struct pst_config_node *table,
                          const char *kind, const struct pst_plugin **ret_plugin,
                          struct pst_error *err)
{
    struct choice choice = {NULL, NULL};
    pst_status status = read_choice(job, table, kind, &choice, err);

    if (status != PST_OK) {
        return status;
    }
    status = pst_plugin_find(kind, choice.id, choice.path, job->plugins.path, ret_plugin, err);
    if (status != PST_OK && err != NULL && err->file[0] == '\0') {
        const struct pst_config_node *at =
            pst_config_get(table, choice.path != NULL ? "path" : "use");

        snprintf(err->file, sizeof err->file, "%s", at->file != NULL ? at->file : "");
        err->line = at->line;
        err->column = at->column;
    }
    return status;
}

pst_status pst_job_plugin_is_foreign(const struct pst_job *job, struct pst_config_node *table,
                                     const char *kind, bool *ret_foreign, struct pst_error *err)
{
    struct choice choice = {.id = NULL};

    return read_choice(job, table, kind, &choice, NULL) != PST_OK
               ? PST_OK /* an error that opens nothing */
               : pst_plugin_is_foreign(kind, choice.id, choice.path, job->plugins.path,
                                       job->plugins.time_limit, ret_foreign, err);
}

/* --- slices of sequences, and words ----------------------------------------------------------*/

/* Slices by the plugin's table, or its default; 1 where that is not a valid number. */
static uint32_t read_slices(const struct pst_plugin *plugin, struct pst_config_node *table)
{
    const struct pst_config_node *node = pst_config_get(table, PST_SLICES_PARAM);
    int64_t slices = 1;

    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (strcmp(row->key, PST_SLICES_PARAM) == 0 && row->initial != NULL) {
            slices = strtoll(row->initial, NULL, 10);
        }
    }
    slices = node != NULL && node->kind == PST_CONFIG_INT ? node->value.integer : slices;
    return slices < 1 || slices > UINT32_MAX ? 1 : (uint32_t)slices;
}

/* Returns the plugin of a table as it describes itself, in `arena`; NULL: it cannot be opened. */
static const struct pst_plugin *described(const struct pst_job *job, struct pst_config_node *table,
                                          const char *kind, struct pst_arena *arena,
                                          struct pst_error *why)
{
    struct choice choice = {NULL, NULL};
    const struct pst_plugin *plugin = NULL;
    const char *path;

    if (read_choice(job, table, kind, &choice, NULL) != PST_OK) {
        return NULL;
    }
    path = choice.path != NULL ? choice.path
                               : pst_plugin_where(arena, kind, choice.id, job->plugins.path);
    return path[0] != '\0' &&
                   pst_plugin_describe(arena, path, kind, choice.id, job->plugins.time_limit,
                                       &plugin, NULL, why) == PST_OK
               ? plugin
               : NULL;
}

bool pst_job_provides(const struct pst_job *job, struct pst_config_node *table, const char *kind,
                      const char *word)
{
    struct pst_arena arena = {0};
    struct pst_error unused = {.status = PST_OK};
    const struct pst_plugin *plugin = described(job, table, kind, &arena, &unused);
    const bool provides = plugin != NULL && pst_caps_has(plugin->provides, word);

    pst_arena_finish(&arena);
    return provides;
}

pst_status pst_job_read_slices(const struct pst_job *job, uint32_t *ret_slices,
                               struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_error why = {.status = PST_OK};
    const struct pst_plugin *plugin = described(job, job->scheduler, "scheduler", &arena, &why);

    *ret_slices = plugin != NULL && pst_caps_has(plugin->provides, PST_SLICES_WORD)
                      ? read_slices(plugin, job->scheduler)
                      : 1;
    pst_arena_finish(&arena);
    if (strcmp(why.kind, "plugin.timeout") != 0) {
        return PST_OK;
    }
    *err = why;
    return why.status;
}

uint32_t pst_job_slices(const struct pst_job *job)
{
    struct pst_error unused;
    uint32_t slices = 1;

    return pst_job_read_slices(job, &slices, &unused) == PST_OK ? slices : 1;
}

/* --- matched and instantiated -----------------------------------------------------------------*/

static pst_status instantiate(struct pst_planner *planner, const struct pst_plugin *plugin,
                              struct pst_config_node *table, struct pst_instance **ret_instance,
                              struct pst_error *err)
{
    struct pst_host_context context;

    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (row->type == PST_PARAM_PATH) {
            pst_config_resolve(planner->in.job->config, table, row->key);
        }
    }
    pst_questions_context(planner, &context);
    return pst_instance_create(plugin, table, &context, ret_instance, err);
}

/*
 * Replays within replays settle a stage: nobody decides about it afterwards. So there is one
 * optimizer that lists them, and it is asked last, even after those that follow it in the config
 * and decide about all devices at once: their turn is when all stages are settled anyway.
 */
static pst_status find_turns(const struct pst_plugin *const *memopts, uint32_t n, uint32_t *turn_of,
                             struct pst_error *err)
{
    uint32_t nested = n, used = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool lists = pst_caps_has(memopts[i]->provides, "nested");

        if (nested < n && lists) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "memopt \"%s\" and memopt \"%s\" both list replays; only one memopt "
                            "may list replays",
                            memopts[nested]->id, memopts[i]->id);
        }
        if (nested < n && memopts[i]->get_interface(PST_MEMOPT_GLOBAL) == NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "memopt \"%s\" lists replays, which decides a stage: its [[memopt]] "
                            "must come after that of \"%s\"; only those that decide about all "
                            "devices at once may follow it",
                            memopts[nested]->id, memopts[i]->id);
        }
        if (lists) {
            nested = i;
        } else {
            turn_of[i] = used++;
        }
    }
    if (nested < n) {
        turn_of[nested] = used;
    }
    return PST_OK;
}

static pst_status add_hasty(struct pst_planner *planner, const struct pst_plugin *plugin,
                            struct pst_error *err)
{
    struct pst_config_node *table = planner->in.job->scheduler;
    struct pst_config_node *hasty = pst_hastened(&planner->arena, table, plugin);

    return hasty == table ? PST_OK
                          : instantiate(planner, plugin, hasty, &planner->strategies.hasty, err);
}

pst_status pst_planner_load(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_job *job = planner->in.job;
    struct pst_strategies *strategies = &planner->strategies;
    const struct pst_plugin *plugins[2 + PST_MAX_MEMOPT] = {NULL};
    uint32_t i, n = strategies->n_memopt = job->n_memopt;
    pst_status status = PST_OK;

    for (i = 0; status == PST_OK && i < 2 + n; i++) {
        struct pst_config_node *table;
        const char *kind = pst_job_strategy(job, i, &table);

        status = pst_job_plugin(job, table, kind, &plugins[i], err);
    }
    PST_TRY(status, pst_caps_match(plugins, 2 + n, err));
    PST_TRY(status, find_turns(&plugins[2], n, strategies->turn_of, err));
    if (status == PST_OK) {
        status = instantiate(planner, plugins[0], job->partitioner, &strategies->partitioner, err);
        if (status == PST_OK && planner->in.cluster->n_kinds > 0 &&
            !pst_caps_has(plugins[0]->provides, "mixed-devices")) {
            pst_remark_functions.text(&strategies->partitioner->host, "mixed_devices",
                                      "planned as if all devices were like the slowest");
        }
    }
    PST_TRY(status, instantiate(planner, plugins[1], job->scheduler, &strategies->scheduler, err));
    PST_TRY(status, add_hasty(planner, plugins[1], err));
    for (i = 0; status == PST_OK && i < n; i++) {
        status = instantiate(planner, plugins[2 + i], job->memopt[i],
                             &strategies->memopt[strategies->turn_of[i]], err);
    }
    return status;
}
