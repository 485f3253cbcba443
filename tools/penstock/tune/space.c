/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are not listed are written as the user would write them, then read like the user's.
 */
#include "tune/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/util.h"
#include "host/caps.h"
#include "host/plugin_host.h"
#include "planner/state.h"
#include "tune/combinations_impl.h"

#define VALUES 8u /* of one parameter */

static void append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, pst_json_made(value)) != 0) {
        pst_out_of_memory();
    }
}

static bool has(const json_t *list, const json_t *value)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)list, i, one)
    {
        if (json_equal((json_t *)one, (json_t *)value)) {
            return true;
        }
    }
    return false;
}

static void append_new(json_t *list, json_t *value)
{
    if (has(list, value)) {
        json_decref(value);
    } else {
        append(list, value);
    }
}

/* --- parameters --------------------------------------------------------------------------------*/

/* "lo..hi", either of which may be missing. */
static void read_range(const char *range, double *ret_low, double *ret_high)
{
    const char *dots = range == NULL ? NULL : strstr(range, "..");

    *ret_low = dots == NULL || dots == range ? -1e300 : strtod(range, NULL);
    *ret_high = dots == NULL || dots[2] == '\0' ? 1e300 : strtod(dots + 2, NULL);
}

/* Half and twice the default; of a 0, which often means "as you see fit", small numbers. */
static void add_numbers(json_t *values, const struct pst_param *param)
{
    const double from = strtod(param->initial, NULL);
    const double tries[] = {from / 2, 2 * from, from == 0 ? 1 : from, from == 0 ? 2 : from};
    double low, high;

    read_range(param->range, &low, &high);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const bool whole = param->type == PST_PARAM_INT;
        const double value = whole ? (double)(int64_t)tries[i] : tries[i];

        if (value != from && value >= low && value <= high) {
            append_new(values, whole ? json_integer((json_int_t)value) : json_real(value));
        }
    }
}

static void add_words(json_t *values, const struct pst_param *param)
{
    const char *at = param->range;

    while (at != NULL && *at != '\0') {
        const size_t n = strcspn(at, "|");

        if (strlen(param->initial) != n || strncmp(at, param->initial, n) != 0) {
            append(values, json_stringn(at, n));
        }
        at += n + (at[n] == '|');
    }
}

/* Values of a parameter beside its default: of those whose sense is not known here none. */
static json_t *values_of(const struct pst_param *param)
{
    json_t *values = pst_json_made(json_array());

    if (param->type == PST_PARAM_BOOL) {
        append(values, json_boolean(strcmp(param->initial, "true") != 0));
    } else if (param->type == PST_PARAM_ENUM) {
        add_words(values, param);
    } else if (param->type == PST_PARAM_INT || param->type == PST_PARAM_FLOAT) {
        add_numbers(values, param);
    }
    return values;
}

/* --- strategies --------------------------------------------------------------------------------*/

/* `table` with each parameter that it leaves open at each of its values. */
static void add_variants(json_t *list, const json_t *table, const struct pst_plugin *plugin)
{
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *param = pst_plugin_param(plugin, i);
        json_t *values, *value;
        size_t k;

        if (param->initial == NULL || json_object_get(table, param->key) != NULL) {
            continue;
        }
        values = values_of(param);
        json_array_foreach(values, k, value)
        {
            json_t *variant = pst_json_made(json_deep_copy(table));

            if (json_object_set(variant, param->key, value) != 0) {
                pst_out_of_memory();
            }
            append(list, variant);
        }
        json_decref(values);
    }
}

/* Returns true if a search tries the plugin only if the config names it: a parameter has no
   default, or it provides `import=`, `exhaustive` (too slow) or `async` (another training). */
static bool is_to_be_named(const struct pst_plugin *plugin)
{
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        if (pst_plugin_param(plugin, i)->initial == NULL) {
            return true;
        }
    }
    for (uint32_t i = 0; plugin->provides != NULL && plugin->provides[i] != NULL; i++) {
        if (strncmp(plugin->provides[i], "import=", 7) == 0) {
            return true;
        }
    }
    return pst_caps_has(plugin->provides, "exhaustive") || pst_caps_has(plugin->provides, "async");
}

/* The table in `own`, that of an axis in the config, which uses the plugin; NULL: none does. */
static const json_t *own_table(const json_t *own, const char *id)
{
    const json_t *table;
    size_t i;

    json_array_foreach((json_t *)own, i, table)
    {
        const char *use = json_string_value(json_object_get(table, "use"));

        if (use != NULL && strcmp(use, id) == 0) {
            return table;
        }
    }
    return NULL;
}

static void add_plugin(json_t *list, const json_t *own, const struct pst_plugin_file *file)
{
    const json_t *table = own_table(own, file->id);
    json_t *plain;

    if (file->plugin == NULL || (table == NULL && is_to_be_named(file->plugin))) {
        return;
    }
    plain = table != NULL ? pst_json_made(json_deep_copy(table))
                          : pst_json_made(json_pack("{s:s}", "use", file->id));
    append_new(list, pst_json_made(json_deep_copy(plain)));
    add_variants(list, plain, file->plugin);
    json_decref(plain);
}

/* All plugins of a kind, the config's own first. */
static json_t *all_strategies(const json_t *base, struct pst_plugin_list *plugins,
                              enum pst_axis_kind axis)
{
    const char *kind = pst_axis_places[axis].table;
    json_t *own = json_object_get(base, kind), *list = pst_json_made(json_array());

    own = json_is_object(own)  ? pst_json_made(json_pack("[O]", own))
          : json_is_array(own) ? json_incref(own)
                               : pst_json_made(json_array());
    if (json_array_size(own) > 0) {
        append(list, json_deep_copy(axis == PST_AXIS_MEMOPT && json_array_size(own) > 1
                                        ? own
                                        : json_array_get(own, 0)));
    }
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        struct pst_plugin_file *file = &plugins->files[i];

        if (file->shadowed_by == NULL && strcmp(file->kind, kind) == 0) {
            pst_plugin_file_describe(plugins, file);
            add_plugin(list, own, file);
        }
    }
    json_decref(own);
    return list;
}

/* --- numbers -----------------------------------------------------------------------------------*/

/* `own`, then powers of two up to `most` that divide `whole`. */
static json_t *powers(json_t *own, uint32_t most, uint32_t whole)
{
    json_t *list = pst_json_made(json_array());

    if (own != NULL) {
        append(list, own);
    }
    for (uint32_t n = 1; n <= most; n *= 2) {
        if (whole % n == 0) {
            append_new(list, pst_json_made(json_integer(n)));
        }
    }
    return list;
}

static uint32_t devices_of(const json_t *base)
{
    const json_int_t n =
        json_integer_value(json_object_get(json_object_get(base, "cluster"), "devices"));

    return n >= 1 && n <= 65536 ? (uint32_t)n : 1;
}

static json_t *all_numbers(const struct pst_job *job, const json_t *base, enum pst_axis_kind axis)
{
    const uint32_t batch = (uint32_t)job->train.batch, n_devices = devices_of(base);

    switch (axis) {
    case PST_AXIS_DEVICES:
        return powers(json_integer(n_devices), n_devices, 1u << 31);
    case PST_AXIS_MICROBATCH:
        return powers(json_integer(job->train.microbatch), batch, batch);
    default:
        return powers(job->train.n_degrees > 1 ? json_string(job->train.degrees)
                                               : json_integer(job->train.degree[0]),
                      n_devices < batch ? n_devices : batch, batch);
    }
}

/* --- lists -------------------------------------------------------------------------------------*/

static pst_status write_lists(const struct pst_job *job, struct pst_config_node *given,
                              json_t *lists, struct pst_error *err)
{
    const bool methods = given != NULL && pst_config_get(given, "methods") != NULL;
    struct pst_plugin_list *plugins = NULL;
    pst_status status = pst_plugin_list_create(job->plugins.path, &plugins, err);
    char *text;
    json_t *base;

    if (status != PST_OK) {
        return status;
    }
    text = pst_config_to_json(job->config);
    base = pst_json_made(json_loads(text, 0, NULL));
    free(text);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        const char *key = pst_axis_places[a].key;
        json_t *list;

        if (a >= PST_AXIS_ZERO || (given != NULL && pst_config_get(given, key) != NULL) ||
            (methods && a <= PST_AXIS_MEMOPT)) {
            continue;
        }
        list = a <= PST_AXIS_MEMOPT ? all_strategies(base, plugins, a) : all_numbers(job, base, a);
        if (json_object_set_new(lists, key, list) != 0) {
            pst_out_of_memory();
        }
    }
    json_decref(base);
    pst_plugin_list_destroy(plugins);
    return PST_OK;
}

/* The given lists and those that were written. */
static pst_status read_both(const struct pst_job *job, struct pst_config_node *given,
                            const json_t *lists, struct pst_combinations *ret_set,
                            struct pst_error *err)
{
    struct pst_config_node both = {.kind = PST_CONFIG_TABLE};
    struct pst_config *written = NULL;
    char *text = pst_json_text(lists);
    pst_status status = pst_config_from_json(text, &written, err);
    uint32_t n_given = given == NULL ? 0 : given->n_children;

    free(text);
    if (status != PST_OK) {
        return status;
    }
    both.n_children = n_given + written->root->n_children;
    both.children = pst_alloc((size_t)both.n_children + 1, sizeof(struct pst_config_node *));
    for (uint32_t i = 0; i < both.n_children; i++) {
        both.children[i] = i < n_given ? given->children[i] : written->root->children[i - n_given];
    }
    status = pst_combinations_read_lists(job, "tune", &both, PST_SPACE_MOST, ret_set, err);
    free(both.children);
    pst_config_destroy(written);
    return status;
}

/* What cannot be told before it is planned may have two copies, which share what replicas do. */
static bool has_one_copy(const struct pst_job *job, const struct pst_axis_value *scheduler)
{
    struct pst_config_node *table = job->scheduler;
    bool foreign = job->plugins.isolate == PST_ISOLATE_ALWAYS;
    const struct pst_plugin *plugin;
    struct pst_config *config = NULL;
    struct pst_error unused;
    bool one;

    if (scheduler->value != NULL) {
        char *text = pst_json_text(scheduler->value);

        table = pst_config_from_json(text, &config, &unused) == PST_OK ? config->root : NULL;
        free(text);
    }
    one = table != NULL &&
          pst_job_plugin_is_foreign(job, table, "scheduler", &foreign, &unused) == PST_OK &&
          !foreign && pst_job_plugin(job, table, "scheduler", &plugin, &unused) == PST_OK &&
          !pst_caps_has(plugin->provides, "two-way");
    pst_config_destroy(config);
    return one;
}

/* Opens zero: the config's own value, then the others, of which 2 and 3 need replicas that meet. */
static void open_zero(const struct pst_job *job, bool has_replicas, struct pst_combinations *set)
{
    static const char *const labels[] = {"0", "1", "2", "3"};
    const int most = has_replicas && pst_job_meets(job) ? 3 : 1;
    struct pst_axis *zero = &set->axes[PST_AXIS_ZERO];
    struct pst_axis_value *values =
        pst_arena_array(&set->arena, sizeof labels / sizeof *labels, sizeof *values);
    uint32_t n = 1;

    _Static_assert(PST_SPACE_MOST <= UINT32_MAX / (sizeof labels / sizeof *labels),
                   "the values of zero are opened after the limit was looked at");
    values[0] = zero->values[0];
    for (int i = 0; i <= most; i++) {
        if (i != job->parallel.zero) {
            values[n].value = pst_json_made(json_integer(i));
            values[n++].label = labels[i];
        }
    }
    *zero = (struct pst_axis){n, values};
    set->n *= n;
}

/* Zero is open where something may have replicas. */
static void find_sharers(const struct pst_job *job, bool open, struct pst_combinations *set)
{
    struct pst_axis *schedulers = &set->axes[PST_AXIS_SCHEDULER];
    const struct pst_axis *replicas = &set->axes[PST_AXIS_REPLICAS];
    bool shares = false, has_replicas = false;

    for (uint32_t i = 0; i < schedulers->n; i++) {
        schedulers->values[i].one_copy = has_one_copy(job, &schedulers->values[i]);
        shares |= !schedulers->values[i].one_copy;
    }
    for (uint32_t i = 0; i < replicas->n; i++) {
        has_replicas |= strcmp(replicas->values[i].label, "1") != 0;
    }
    if (open && (shares || has_replicas)) {
        open_zero(job, has_replicas, set);
    }
}

pst_status pst_space_read(const struct pst_job *job, struct pst_combinations *ret_set,
                          struct pst_error *err)
{
    struct pst_config_node *given = pst_config_get(job->config->root, "tune");
    struct pst_config_node *compare = pst_config_get(job->config->root, "compare");
    const bool compared = given == NULL && compare != NULL;
    json_t *lists;
    pst_status status;

    if (compared) {
        status = pst_combinations_read(job, ret_set, err);
        if (status == PST_OK) {
            pst_combinations_all_sizes(ret_set, (uint32_t)job->train.batch);
        }
    } else {
        lists = pst_json_made(json_object());
        status = write_lists(job, given, lists, err);
        PST_TRY(status, read_both(job, given, lists, ret_set, err));
        json_decref(lists);
    }
    if (status == PST_OK) {
        find_sharers(job, !compared && (given == NULL || pst_config_get(given, "zero") == NULL),
                     ret_set);
    }
    return status;
}

pst_status pst_space_read_listed(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err)
{
    struct pst_config_node *given = pst_config_get(job->config->root, "tune");

    return given == NULL ? pst_combinations_read(job, ret_set, err)
                         : pst_combinations_read_lists(job, "tune", given, PST_COMBINATIONS_MOST,
                                                       ret_set, err);
}

/* --- the space as a search sees it -------------------------------------------------------------*/

bool pst_space_shares_nothing(const struct pst_combinations *set, uint32_t i)
{
    const struct pst_axis *zero = &set->axes[PST_AXIS_ZERO];
    const char *own = pst_combination_label(set, i, PST_AXIS_ZERO);
    bool has_none = false;

    for (uint32_t z = 0; z < zero->n; z++) {
        has_none |= strcmp(zero->values[z].label, "0") == 0;
    }
    /* Two copies share like replicas, but neither gradients nor weights. */
    return has_none && strcmp(own, "0") != 0 &&
           strcmp(pst_combination_label(set, i, PST_AXIS_REPLICAS), "1") == 0 &&
           (strcmp(own, "1") != 0 || pst_combination_value(set, i, PST_AXIS_SCHEDULER)->one_copy);
}

static uint32_t own_place(const struct pst_job *job, const struct pst_axis *axis,
                          enum pst_axis_kind kind)
{
    char own[16];

    snprintf(own, sizeof own, "%" PRId64, job->train.microbatch);
    for (uint32_t i = 0; kind == PST_AXIS_MICROBATCH && i < axis->n; i++) {
        if (strcmp(axis->values[i].label, own) == 0) {
            return i;
        }
    }
    return 0; /* what is listed first */
}

uint32_t pst_space_start(const struct pst_job *job, const struct pst_combinations *set)
{
    uint64_t at = 0;

    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        if (pst_combinations_factor(set, a) > 1) {
            at = at * set->axes[a].n + own_place(job, &set->axes[a], a);
        }
    }
    return (uint32_t)at;
}

const uint32_t *pst_space_groups(struct pst_combinations *set, enum pst_axis_kind axis)
{
    const struct pst_axis *values = &set->axes[axis];
    uint32_t *groups = pst_arena_array(&set->arena, values->n, sizeof *groups);

    for (uint32_t i = 0; i < values->n; i++) {
        const size_t n = strcspn(values->values[i].label, " ");

        groups[i] = i;
        for (uint32_t k = i; k-- > 0 && axis <= PST_AXIS_MEMOPT && set->methods == NULL;) {
            const char *label = values->values[k].label;

            if (strcspn(label, " ") == n && strncmp(label, values->values[i].label, n) == 0) {
                groups[i] = groups[k];
                break;
            }
        }
    }
    return groups;
}
