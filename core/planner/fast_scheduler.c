/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler that searches for long says with the capability word "haste=KEY:VALUE" what spares it
 * the search: for plans that only tell how much memory a job takes, and for trials of a
 * partitioner.
 */
#include <stdlib.h>
#include <string.h>

#include "planner/state.h"

#define HASTE "haste="

/* KEY and VALUE of the word; NULL, and *ret_value too: the plugin has none. */
static const char *find_setting(struct pst_arena *arena, const struct pst_plugin *plugin,
                                const char **ret_value)
{
    const size_t n = strlen(HASTE);
    const char *const *word = plugin->provides;
    const char *colon;

    while (*word != NULL && strncmp(*word, HASTE, n) != 0) {
        word++;
    }
    colon = *word == NULL ? NULL : strchr(*word, ':');
    *ret_value = colon == NULL ? NULL : colon + 1;
    return colon == NULL
               ? NULL
               : pst_arena_printf(arena, "%.*s", (int)(colon - *word) - (int)n, *word + n);
}

/* Numbers are numbers, all else is words. */
static void set_value(struct pst_arena *arena, const char *text, struct pst_config_node *node)
{
    if (text[strspn(text, "0123456789")] == '\0') {
        node->kind = PST_CONFIG_INT;
        node->value.integer = strtoll(text, NULL, 10);
    } else {
        node->kind = PST_CONFIG_STRING;
        node->value.string = pst_arena_strdup(arena, text);
    }
}

struct pst_config_node *pst_hastened(struct pst_arena *arena, struct pst_config_node *table,
                                     const struct pst_plugin *plugin)
{
    struct pst_config_node *changed, *value;
    const char *way, *key = find_setting(arena, plugin, &way);

    if (key == NULL || pst_config_get(table, key) != NULL) {
        return table;
    }
    changed = pst_arena_array(arena, 1, sizeof *changed);
    value = pst_arena_array(arena, 1, sizeof *value);
    *changed = *table;
    changed->children =
        pst_arena_array(arena, (size_t)table->n_children + 1, sizeof(struct pst_config_node *));
    value->key = key;
    value->file = table->file;
    value->line = table->line;
    value->column = table->column;
    set_value(arena, way, value);
    memcpy(changed->children, table->children, table->n_children * sizeof *table->children);
    changed->children[changed->n_children++] = value;
    return changed;
}

void pst_hasten(struct pst_arena *arena, struct pst_job *job)
{
    const struct pst_plugin *plugin;

    if (pst_job_plugin(job, job->scheduler, "scheduler", &plugin, NULL) == PST_OK) {
        job->scheduler = pst_hastened(arena, job->scheduler, plugin);
    }
}
