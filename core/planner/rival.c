/* SPDX-License-Identifier: Apache-2.0
 *
 * Rivals: strategies that know a simpler way than their default say so with the capability word
 * "rival=KEY:VALUE". Neither way is the better one for every job, and what decides, the step of the
 * lowered plan, is known to the host alone. So the host plans that way as well, unless the config
 * says otherwise for KEY, and keeps the plan of the shorter step, or the one that fits.
 *
 * Haste: a strategy that searches for long says with "haste=KEY:VALUE" what spares it the search,
 * for plans that only tell how much memory a job takes.
 */
#include <stdlib.h>
#include <string.h>

#include "planner/advise.h"
#include "planner/state.h"

#define RIVAL "rival="
#define HASTE "haste="

static const char *string_of(struct pst_config_node *table, const char *key)
{
    struct pst_config_node *node = table == NULL ? NULL : pst_config_get(table, key);

    return node == NULL || node->kind != PST_CONFIG_STRING ? NULL : node->value.string;
}

/* KEY and VALUE of the word that begins so; NULL, and *ret_value too: the plugin has none. Out of
   memory: KEY alone is NULL. */
static const char *way_of(struct pst_arena *arena, const struct pst_plugin *plugin,
                          const char *begin, const char **ret_value)
{
    const size_t n = strlen(begin);
    const char *const *word = plugin->provides;
    const char *colon;

    while (*word != NULL && strncmp(*word, begin, n) != 0) {
        word++;
    }
    colon = *word == NULL ? NULL : strchr(*word, ':');
    *ret_value = colon == NULL ? NULL : colon + 1;
    return colon == NULL
               ? NULL
               : pst_arena_printf(arena, "%.*s", (int)(colon - *word) - (int)n, *word + n);
}

const char *pst_rival_way(struct pst_arena *arena, const struct pst_plugin *plugin,
                          struct pst_config_node *table)
{
    const char *value, *key = way_of(arena, plugin, RIVAL, &value), *set;

    if (key == NULL) {
        return value == NULL ? "" : NULL;
    }
    set = string_of(table, key);
    return set == NULL || strcmp(set, value) != 0
               ? ""
               : pst_arena_printf(arena, " (%s = %s)", key, value);
}

/* Numbers are numbers, all else is words. False: out of memory. */
static bool set_value(struct pst_arena *arena, const char *text, struct pst_config_node *node)
{
    if (text[strspn(text, "0123456789")] == '\0') {
        node->kind = PST_CONFIG_INT;
        node->value.integer = strtoll(text, NULL, 10);
        return true;
    }
    node->kind = PST_CONFIG_STRING;
    node->value.string = pst_arena_strdup(arena, text);
    return node->value.string != NULL;
}

/* The table with KEY = VALUE added; itself where the plugin has no such word or the table has KEY.
   NULL: out of memory. */
static struct pst_config_node *with_way(struct pst_arena *arena, struct pst_config_node *table,
                                        const struct pst_plugin *plugin, const char *begin)
{
    struct pst_config_node *changed, *value;
    const char *key, *way;

    key = way_of(arena, plugin, begin, &way);
    if (way == NULL) {
        return table;
    }
    changed = pst_arena_array(arena, 1, sizeof *changed);
    value = pst_arena_array(arena, 1, sizeof *value);
    if (key == NULL || changed == NULL || value == NULL) {
        return NULL;
    }
    if (pst_config_get(table, key) != NULL) {
        return table;
    }
    *changed = *table;
    changed->children =
        pst_arena_array(arena, (size_t)table->n_children + 1, sizeof(struct pst_config_node *));
    value->key = key;
    value->file = table->file;
    value->line = table->line;
    value->column = table->column;
    if (changed->children == NULL || !set_value(arena, way, value)) {
        return NULL;
    }
    memcpy(changed->children, table->children, table->n_children * sizeof *table->children);
    changed->children[changed->n_children++] = value;
    return changed;
}

/* Where `*table` names a plugin that has such a word, it is that way's from then on. */
static bool replace(struct pst_arena *arena, const struct pst_job *job, const char *kind,
                    const char *begin, struct pst_config_node **table)
{
    const struct pst_plugin *plugin;
    struct pst_config_node *changed;

    if (pst_job_plugin(job, *table, kind, &plugin, NULL) != PST_OK) {
        return false;
    }
    changed = with_way(arena, *table, plugin, begin);
    if (changed == NULL || changed == *table) {
        return false;
    }
    *table = changed;
    return true;
}

void pst_planner_hasten(struct pst_arena *arena, struct pst_job *job)
{
    replace(arena, job, "scheduler", HASTE, &job->scheduler);
}

pst_status pst_planner_rival(const struct pst_search *search, bool *found,
                             struct pst_planned *planned, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_job job = *search->job;
    struct pst_search other = *search;
    struct pst_planned rival = {.plan = NULL};
    struct pst_error why = {.status = PST_OK};
    uint64_t unused_need;
    bool differs = replace(&arena, &job, "partitioner", RIVAL, &job.partitioner);
    pst_status st = PST_ERR_INFEASIBLE;

    for (uint32_t i = 0; i < job.n_memopt; i++) {
        differs |= replace(&arena, &job, "memopt", RIVAL, &job.memopt[i]);
    }
    other.job = &job;
    other.rival = true;
    other.bar_ns = *found && differs ? pst_planner_step(search, planned) : 0;
    if (differs && (!*found || search->clock != NULL)) {
        st = pst_planner_try(&other, &rival, &unused_need, &why);
    }
    if (st == PST_OK) {
        pst_planner_lighten(&other, &rival);
        if (!*found || pst_planner_step(search, &rival) < pst_planner_step(search, planned)) {
            pst_planned_finish(planned);
            *planned = rival;
            *found = true;
        } else {
            pst_planned_finish(&rival);
        }
    }
    pst_arena_finish(&arena);
    if (st == PST_ERR_CANCELLED && !*found) {
        *err = why;
        return st;
    }
    return PST_OK;
}
