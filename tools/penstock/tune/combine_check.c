/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong in [compare] whatever the other strategies are: a plugin that there is not, a
 * parameter that it does not take, a value twice. Said before anything is tried, and where it
 * stands.
 */
#include <string.h>

#include "planner/state.h"
#include "tune/combine_impl.h"
#include "train/isolate.h"

/* Plugins from elsewhere are not opened here: their parameters are seen to in their process. */
static pst_status check_table(const struct pst_job *job, struct pst_config_node *table,
                              const char *kind, struct pst_error *err)
{
    const struct pst_plugin *plugin;
    bool foreign = job->plugins.isolate == PST_ISOLATE_ALWAYS;
    pst_status st = pst_isolate_is_foreign(job, table, kind, &foreign, err);

    if (st != PST_OK || foreign) {
        return st;
    }
    st = pst_job_plugin(job, table, kind, &plugin, err);
    return st == PST_OK ? pst_instance_check(plugin, table, err) : st;
}

static bool is_used(struct pst_config_node *table, const char *id)
{
    const struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");

    return use != NULL && use->kind == PST_CONFIG_STRING && strcmp(use->value.string, id) == 0;
}

/* The config's own table of that name, which a bare name stands for; NULL: it has none. */
static struct pst_config_node *own_table(const struct pst_job *job, enum pst_axis_kind axis,
                                         const char *id)
{
    struct pst_config_node *own = axis == PST_AXIS_PARTITIONER ? job->partitioner : job->scheduler;

    if (axis != PST_AXIS_MEMOPT) {
        return is_used(own, id) ? own : NULL;
    }
    for (uint32_t i = 0; i < job->n_memopt; i++) {
        if (is_used(job->memopt[i], id)) {
            return job->memopt[i];
        }
    }
    return NULL;
}

/* A name, a table, or an array of them, as combine_read.c has taken them. */
static pst_status check_strategy(const struct pst_job *job, enum pst_axis_kind axis,
                                 struct pst_config_node *written, struct pst_error *err)
{
    const char *kind = pst_axis_places[axis].table;
    pst_status st = PST_OK;

    if (written->kind == PST_CONFIG_ARRAY) {
        for (uint32_t i = 0; i < written->n_children && st == PST_OK; i++) {
            st = check_strategy(job, axis, written->children[i], err);
        }
    } else if (written->kind == PST_CONFIG_TABLE) {
        st = check_table(job, written, kind, err);
    } else {
        struct pst_config_node *own = own_table(job, axis, written->value.string);
        struct pst_config_node use = *written, *children = &use, table = *written;

        use.key = "use";
        table.kind = PST_CONFIG_TABLE;
        table.n_children = 1;
        table.children = &children;
        st = check_table(job, own != NULL ? own : &table, kind, err);
    }
    return st;
}

/* What the config itself has, where [compare] does not say otherwise. */
static pst_status check_own(const struct pst_job *job, enum pst_axis_kind axis,
                            struct pst_error *err)
{
    const char *kind = pst_axis_places[axis].table;
    pst_status st = PST_OK;

    if (axis != PST_AXIS_MEMOPT) {
        return check_table(job, axis == PST_AXIS_PARTITIONER ? job->partitioner : job->scheduler,
                           kind, err);
    }
    for (uint32_t i = 0; i < job->n_memopt && st == PST_OK; i++) {
        st = check_table(job, job->memopt[i], kind, err);
    }
    return st;
}

static pst_status check_methods(const struct pst_job *job, struct pst_config_node *methods,
                                struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t i = 0; i < methods->n_children && st == PST_OK; i++) {
        for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT && st == PST_OK; a++) {
            struct pst_config_node *written =
                pst_config_get(methods->children[i], pst_axis_places[a].table);

            st = written != NULL ? check_strategy(job, a, written, err) : check_own(job, a, err);
        }
    }
    return st;
}

pst_status pst_combinations_check(const struct pst_job *job, struct pst_error *err)
{
    struct pst_config_node *compare = pst_config_get(job->config->root, "compare");
    struct pst_config_node *methods = compare == NULL ? NULL : pst_config_get(compare, "methods");
    pst_status st = PST_OK;

    if (methods != NULL) {
        return check_methods(job, methods, err);
    }
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT && st == PST_OK; a++) {
        struct pst_config_node *list =
            compare == NULL ? NULL : pst_config_get(compare, pst_axis_places[a].key);

        st = list != NULL ? check_strategy(job, a, list, err) : check_own(job, a, err);
    }
    return st;
}
