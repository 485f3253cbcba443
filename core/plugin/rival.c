/* SPDX-License-Identifier: Apache-2.0
 *
 * Rivals: strategies that know a simpler way than their default say so with the capability word
 * "rival=KEY:VALUE". Neither way is the better one for every job, and what decides, the step of the
 * lowered plan, is known to the host alone. So the host plans that way as well, unless the config
 * says otherwise for KEY, and keeps the plan of the shorter step, or the one that fits.
 */
#include <string.h>

#include "plugin/advise.h"
#include "plugin/state.h"

#define WORD "rival="

/* The table with KEY = "VALUE" added; itself where the plugin has no rival or the table has KEY.
   NULL: out of memory. */
static struct pst_config_node *with_rival(struct pst_arena *arena, struct pst_config_node *table,
                                          const struct pst_plugin *plugin)
{
    struct pst_config_node *changed, *value;
    const char *const *word = plugin->provides;
    const char *key, *colon;

    while (*word != NULL && strncmp(*word, WORD, strlen(WORD)) != 0) {
        word++;
    }
    colon = *word == NULL ? NULL : strchr(*word, ':');
    if (colon == NULL) {
        return table;
    }
    key = pst_arena_printf(arena, "%.*s", (int)(colon - *word - (int)strlen(WORD)),
                           *word + strlen(WORD));
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
    value->kind = PST_CONFIG_STRING;
    value->key = key;
    value->file = table->file;
    value->line = table->line;
    value->column = table->column;
    value->value.string = pst_arena_strdup(arena, colon + 1);
    if (changed->children == NULL || value->value.string == NULL) {
        return NULL;
    }
    memcpy(changed->children, table->children, table->n_children * sizeof *table->children);
    changed->children[changed->n_children++] = value;
    return changed;
}

static const char *string_of(struct pst_config_node *table, const char *key)
{
    struct pst_config_node *node = table == NULL ? NULL : pst_config_get(table, key);

    return node == NULL || node->kind != PST_CONFIG_STRING ? NULL : node->value.string;
}

/* Where `*table` names a plugin that has a rival, it is the rival's from then on. */
static bool replace(struct pst_arena *arena, const char *kind, struct pst_config_node **table)
{
    const char *use = string_of(*table, "use");
    const struct pst_plugin *plugin;
    struct pst_config_node *changed;

    if (use == NULL || pst_plugin_find(kind, use, string_of(*table, "path"), &plugin, NULL)) {
        return false;
    }
    changed = with_rival(arena, *table, plugin);
    if (changed == NULL || changed == *table) {
        return false;
    }
    *table = changed;
    return true;
}

static uint64_t step_of(const struct pst_search *search, const struct pst_planned *planned)
{
    struct pst_error unused;
    uint64_t ns = UINT64_MAX;

    return search->clock != NULL && search->clock(planned->plan, search->graph, search->cost, false,
                                                  &ns, &unused) == PST_OK
               ? ns
               : UINT64_MAX;
}

bool pst_planner_rival(const struct pst_search *search, bool found, struct pst_planned *planned)
{
    struct pst_arena arena = {0};
    struct pst_job job = *search->job;
    struct pst_search other = *search;
    struct pst_planned rival = {.plan = NULL};
    struct pst_error unused;
    uint64_t unused_need;
    bool differs = replace(&arena, "partitioner", &job.partitioner);

    for (uint32_t i = 0; i < job.n_memopt; i++) {
        differs |= replace(&arena, "memopt", &job.memopt[i]);
    }
    other.job = &job;
    if (differs && (!found || search->clock != NULL) &&
        pst_planner_try(&other, &rival, &unused_need, &unused) == PST_OK) {
        pst_planner_lighten(&other, &rival);
        if (!found || step_of(search, &rival) < step_of(search, planned)) {
            pst_planned_finish(planned);
            *planned = rival;
            found = true;
        } else {
            pst_planned_finish(&rival);
        }
    }
    pst_arena_finish(&arena);
    return found;
}
