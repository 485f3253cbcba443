/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin that a strategy's table names.
 */
#include <stdio.h>

#include "planner/state.h"

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
    pst_status st = read_choice(job, table, kind, &choice, err);

    if (st != PST_OK) {
        return st;
    }
    st = pst_plugin_find(kind, choice.id, choice.path, ret_plugin, err);
    if (st != PST_OK && err != NULL && err->file[0] == '\0') {
        const struct pst_config_node *at =
            pst_config_get(table, choice.path != NULL ? "path" : "use");

        snprintf(err->file, sizeof err->file, "%s", at->file != NULL ? at->file : "");
        err->line = at->line;
        err->column = at->column;
    }
    return st;
}
