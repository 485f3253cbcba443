/* SPDX-License-Identifier: Apache-2.0 */
#include "models/plugin/operators.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "host/search.h"

/* --- those of a job ----------------------------------------------------------------------------*/

/* Returns the number of the plugin of that id; PST_NONE: the job names none. */
static uint32_t find(const struct pst_operators *operators, const char *id)
{
    for (uint32_t i = 0; operators != NULL && i < operators->n; i++) {
        if (strcmp(operators->plugins[i]->id, id) == 0) {
            return i;
        }
    }
    return PST_NONE;
}

/* Refuses foreign operators that would have to be isolated, before they are loaded. */
static pst_status check_isolation(const struct pst_job *job, const char *name, bool foreign,
                                  struct pst_error *err)
{
    return foreign && job->plugins.isolate == PST_ISOLATE_ALWAYS
               ? pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "plugins.isolate = \"always\": operator \"%s\" runs in the process that "
                          "trains; set plugins.isolate = \"auto\", or use another model",
                          name)
               : PST_OK;
}

/* Half of it; 0: it cannot be read. */
static uint64_t digest_of(const char *path)
{
    struct pst_hash hash = {0};

    return pst_hash_file(AT_FDCWD, path, O_NOFOLLOW, &hash) ? hash.high : 0;
}

static pst_status add_entry(const struct pst_plugin *plugin, const char *path, bool foreign,
                            struct pst_operators *operators, struct pst_error *err)
{
    if (find(operators, plugin->id) != PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"operators\" in [model] names operator \"%s\" twice", plugin->id);
    }
    if (foreign) {
        pst_log(PST_LOG_INFO, "plugin", "operator \"%s\" runs in this process, as all operators do",
                plugin->id);
    }
    operators->builds[operators->n] = digest_of(path);
    operators->plugins[operators->n++] = plugin;
    return PST_OK;
}

/* Adds a file of the list; its name gives the id. */
static pst_status open_entry(const struct pst_job *job, struct pst_config_node *node,
                             struct pst_operators *operators, struct pst_error *err)
{
    const char *path = NULL, *id = NULL;
    const struct pst_plugin *plugin = NULL;
    bool foreign = false;
    pst_status status;

    if (node->kind != PST_CONFIG_STRING || node->value.string[0] == '\0') {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                           node->column,
                           "\"operators\" in [model] must be a list of ids or files of plugins");
    }
    if (pst_search_is_file(node->value.string)) {
        pst_config_resolve_node(job->config, node);
        path = node->value.string;
    } else {
        id = node->value.string;
    }
    status = pst_plugin_is_foreign("operator", id, path, job->plugins.path, job->plugins.time_limit,
                                   &foreign, err);
    PST_TRY(status, check_isolation(job, node->value.string, foreign, err));
    PST_TRY(status, pst_plugin_find("operator", id, path, job->plugins.path, &plugin, err));
    if (status == PST_OK) {
        path = path != NULL
                   ? path
                   : pst_plugin_where(&operators->arena, "operator", id, job->plugins.path);
        status = add_entry(plugin, path, foreign, operators, err);
    }
    if (status != PST_OK && err != NULL && err->file[0] == '\0') {
        snprintf(err->file, sizeof err->file, "%s", node->file != NULL ? node->file : "");
        err->line = node->line;
        err->column = node->column;
    }
    return status;
}

pst_status pst_operators_open(const struct pst_job *job, struct pst_operators *ret_operators,
                              struct pst_error *err)
{
    struct pst_config_node *list =
        job->model == NULL ? NULL : pst_config_get(job->model, "operators");
    const uint32_t n = list == NULL                     ? 0
                       : list->kind == PST_CONFIG_ARRAY ? (uint32_t)list->n_children
                                                        : 1;
    pst_status status = PST_OK;

    memset(ret_operators, 0, sizeof *ret_operators);
    ret_operators->plugins =
        pst_arena_array(&ret_operators->arena, n, sizeof *ret_operators->plugins);
    ret_operators->builds =
        pst_arena_array(&ret_operators->arena, n, sizeof *ret_operators->builds);
    for (uint32_t i = 0; i < n; i++) {
        PST_TRY(status, open_entry(job, list->kind == PST_CONFIG_ARRAY ? list->children[i] : list,
                                   ret_operators, err));
    }
    return status;
}

void pst_operators_finish(struct pst_operators *operators)
{
    pst_arena_finish(&operators->arena);
    memset(operators, 0, sizeof *operators);
}

/* --- one of a graph ----------------------------------------------------------------------------*/

/* Both structs are as long as the host's are, or those of a newer one. */
static pst_status describe(struct pst_custom *custom, struct pst_error *err)
{
    struct pst_instance *instance = custom->context;
    struct {
        struct pst_operator_question known;
        unsigned char later[PST_OPERATOR_WIDER];
    } question = {.known = custom->question};
    struct {
        struct pst_operator_row known;
        unsigned char later[PST_OPERATOR_WIDER];
    } row = {.known.size = (uint32_t)sizeof row.known + instance->wider};
    pst_status status;

    question.known.size += instance->wider;
    pst_instance_enter(instance, PST_CRUMB_DESCRIBE);
    status = custom->functions->describe(custom->self, &question.known, &row.known);
    pst_instance_leave(instance);
    custom->row = row.known;
    custom->row.size -= instance->wider; /* what the plugin has changed stays wrong */
    return status == PST_OK ? PST_OK : pst_instance_fail(instance, status, "describe", err);
}

static void destroy(struct pst_custom *custom)
{
    pst_arena_finish(&custom->arena);
    free(custom);
}

static void destroy_both(struct pst_custom *custom)
{
    pst_instance_destroy(custom->context);
    destroy(custom);
}

struct pst_custom *pst_custom_of(struct pst_instance *instance, const char *attributes,
                                 bool destroys)
{
    struct pst_custom *custom = pst_alloc(1, sizeof *custom);

    custom->id = instance->plugin->id;
    custom->version = instance->plugin->version;
    custom->attributes = pst_arena_strdup(&custom->arena, attributes == NULL ? "" : attributes);
    custom->functions = instance->plugin->get_interface(PST_OPERATOR);
    custom->self = instance->self;
    custom->context = instance;
    custom->describe = describe;
    custom->destroy = destroys ? destroy_both : destroy;
    return custom;
}

pst_status pst_operators_make(const struct pst_operators *operators, const char *id,
                              const char *attributes, struct pst_custom **ret_custom,
                              bool *ret_unnamed, struct pst_error *err)
{
    static const struct pst_host_context nothing;
    const uint32_t number = find(operators, id);
    struct pst_config *config = NULL;
    struct pst_instance *instance = NULL;
    pst_status status = PST_OK;

    *ret_unnamed = number == PST_NONE;
    if (number == PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "the model uses operator \"%s\" of a plugin, which the job does not name; "
                        "set model.operators = [\"%s\"], or the path of its file",
                        id, id);
    }
    if (attributes != NULL && attributes[0] != '\0') {
        status = pst_config_from_list(attributes, &config, err);
    }
    PST_TRY(status,
            pst_instance_create(operators->plugins[number], config == NULL ? NULL : config->root,
                                &nothing, &instance, err));
    if (status == PST_OK) {
        *ret_custom = pst_custom_of(instance, attributes, true);
        (*ret_custom)->build = operators->builds[number];
    }
    pst_config_destroy(config);
    return status;
}
