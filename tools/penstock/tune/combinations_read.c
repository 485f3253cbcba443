/* SPDX-License-Identifier: Apache-2.0
 *
 * [compare] or [tune] as it is written. What is wrong there whatever
 * the other strategies are (a plugin that there is not, a parameter that it does not take, a value
 * twice) is said before anything is tried, and where it stands.
 */
#include "tune/combinations_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "planner/state.h"

/* The state of reading the lists of a section, or the lists in its place. */
struct reading {
    const struct pst_job *job;
    const char *section; /* "compare" */
    uint32_t most;       /* combinations */
};

static pst_status fail(const struct reading *reading, struct pst_error *err, const char *kind,
                       const char *key, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static pst_status fail(const struct reading *reading, struct pst_error *err, const char *kind,
                       const char *key, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pst_config_place(reading->job->config, reading->section, key,
                            pst_fail(err, PST_ERR_CONFIG, kind, "%s", text), err);
}

/* --- labels ------------------------------------------------------------------------------------*/

/* "pipedream", "pipedream objective=paper": the id, then the other keys. */
static const char *label_of_table(struct pst_arena *arena, const json_t *table)
{
    const char *label = json_string_value(json_object_get(table, "use")), *key;
    json_t *value;

    json_object_foreach((json_t *)table, key, value)
    {
        if (strcmp(key, "use") != 0) {
            char *text = pst_json_text(value);

            label = pst_arena_printf(arena, "%s %s=%s", label, key,
                                     json_is_string(value) ? json_string_value(value) : text);
            free(text);
        }
    }
    return label;
}

static const char *label_of(struct pst_arena *arena, const json_t *value)
{
    const char *label = NULL;
    const json_t *element;
    size_t i;

    if (json_is_string(value)) {
        return pst_arena_strdup(arena, json_string_value(value));
    }
    if (json_is_integer(value)) {
        return pst_arena_printf(arena, "%lld", (long long)json_integer_value(value));
    }
    if (json_is_boolean(value)) {
        return json_is_true(value) ? "true" : "false";
    }
    if (json_is_object(value)) {
        return label_of_table(arena, value);
    }
    json_array_foreach((json_t *)value, i, element)
    {
        const char *one = label_of_table(arena, element);

        label = i == 0 ? one : pst_arena_printf(arena, "%s + %s", label, one);
    }
    return label != NULL ? label : "-";
}

/* --- values ------------------------------------------------------------------------------------*/

/* Plugins from elsewhere are not opened here: their parameters are seen to in their process. */
static pst_status check_table(const struct pst_job *job, struct pst_config_node *table,
                              const char *kind, struct pst_error *err)
{
    const struct pst_plugin *plugin;
    bool foreign = job->plugins.isolate == PST_ISOLATE_ALWAYS;
    pst_status status = pst_job_plugin_is_foreign(job, table, kind, &foreign, err);

    if (status != PST_OK || foreign) {
        return status;
    }
    status = pst_job_plugin(job, table, kind, &plugin, err);
    return status == PST_OK ? pst_instance_check(plugin, table, err) : status;
}

/* The config's own tables of a strategy, as the children of an array. */
static struct pst_config_node own_tables(const struct pst_job *job, enum pst_axis_kind axis)
{
    struct pst_config_node *const *one =
        axis == PST_AXIS_PARTITIONER ? &job->partitioner : &job->scheduler;
    bool several = axis == PST_AXIS_MEMOPT;

    return (struct pst_config_node){.kind = PST_CONFIG_ARRAY,
                                    .n_children = several ? job->n_memopt : *one != NULL,
                                    .children =
                                        (struct pst_config_node **)(several ? job->memopt : one)};
}

/* The id in a table; NULL: it names none. */
static const char *id_in(struct pst_config_node *table)
{
    const struct pst_config_node *use =
        table->kind == PST_CONFIG_TABLE ? pst_config_get(table, "use") : NULL;

    return use != NULL && use->kind == PST_CONFIG_STRING ? use->value.string : NULL;
}

/* The config's own table of that id, so that a bare name keeps its parameters; NULL: it has none.
 */
static struct pst_config_node *own_table(const struct pst_job *job, enum pst_axis_kind axis,
                                         const char *id)
{
    const struct pst_config_node own = own_tables(job, axis);

    for (uint32_t i = 0; i < own.n_children; i++) {
        const char *its = id_in(own.children[i]);

        if (its != NULL && strcmp(its, id) == 0) {
            return own.children[i];
        }
    }
    return NULL;
}

/* Once it is judged: its paths are no longer relative to the file then. */
static json_t *json_of(const struct pst_config_node *node)
{
    struct pst_config_node root = *node;
    const struct pst_config config = {.root = &root};
    json_t *value;
    char *text;

    root.key = NULL;
    text = pst_config_to_json(&config);
    value = pst_json_made(json_loads(text, JSON_DECODE_ANY, NULL));
    free(text);
    return value;
}

/* A strategy as it is written: a name, or a table with `use`. *ret_value NULL: neither. */
static pst_status read_strategy(const struct pst_job *job, enum pst_axis_kind axis,
                                struct pst_config_node *written, json_t **ret_value,
                                struct pst_error *err)
{
    struct pst_config_node use = *written, *children = &use, named = *written, *table = NULL;
    pst_status status = PST_OK;

    if (written->kind == PST_CONFIG_STRING) {
        use.key = "use";
        named.kind = PST_CONFIG_TABLE;
        named.n_children = 1;
        named.children = &children;
        table = own_table(job, axis, written->value.string);
        table = table != NULL ? table : &named;
    } else if (id_in(written) != NULL) {
        table = written;
    }
    *ret_value = NULL;
    if (table != NULL) {
        status = check_table(job, table, pst_axis_places[axis].table, err);
        *ret_value = status == PST_OK ? json_of(table) : NULL;
    }
    return status;
}

/* One or several memory optimizers, always as an array. */
static pst_status read_memopts(const struct pst_job *job, struct pst_config_node *written,
                               json_t **ret_value, struct pst_error *err)
{
    bool several = written->kind == PST_CONFIG_ARRAY, good = true;
    json_t *list = pst_json_made(json_array());
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && good && i < (several ? written->n_children : 1); i++) {
        json_t *table;

        status = read_strategy(job, PST_AXIS_MEMOPT, several ? written->children[i] : written,
                               &table, err);
        good = table != NULL;
        if (good && json_array_append_new(list, table) != 0) {
            pst_out_of_memory();
        }
    }
    *ret_value = good ? list : NULL;
    if (!good) {
        json_decref(list);
    }
    return status;
}

static int64_t least_number(enum pst_axis_kind axis)
{
    return axis == PST_AXIS_ZERO ? 0 : 1;
}

static int64_t most_number(enum pst_axis_kind axis)
{
    return axis == PST_AXIS_ZERO ? 3 : axis == PST_AXIS_TENSOR ? 1024 : 1048576;
}

/* *ret_value NULL: it is not what is wanted there. */
static pst_status read_value(const struct pst_job *job, enum pst_axis_kind axis,
                             struct pst_config_node *written, json_t **ret_value,
                             struct pst_error *err)
{
    if (axis == PST_AXIS_MEMOPT) {
        return read_memopts(job, written, ret_value, err);
    }
    if (axis < PST_AXIS_MEMOPT) {
        return read_strategy(job, axis, written, ret_value, err);
    }
    if ((axis == PST_AXIS_REPLICAS || axis == PST_AXIS_TENSOR) &&
        written->kind == PST_CONFIG_STRING) {
        *ret_value = json_of(written);
        return PST_OK;
    }
    if (axis == PST_AXIS_SEQUENCE) {
        *ret_value = written->kind == PST_CONFIG_BOOL ? json_of(written) : NULL;
        return PST_OK;
    }
    *ret_value = written->kind == PST_CONFIG_INT && written->value.integer >= least_number(axis) &&
                         written->value.integer <= most_number(axis)
                     ? json_of(written)
                     : NULL;
    return PST_OK;
}

/* Checks the config's own tables of a strategy that is not listed. */
static pst_status check_own(const struct pst_job *job, enum pst_axis_kind axis,
                            struct pst_error *err)
{
    const struct pst_config_node own = own_tables(job, axis);
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < own.n_children && status == PST_OK; i++) {
        status = check_table(job, own.children[i], pst_axis_places[axis].table, err);
    }
    return status;
}

/* Makes the config's own value the only one of an axis. */
static void own_value(struct pst_combinations *set, const struct pst_job *job,
                      enum pst_axis_kind axis)
{
    const json_t *own = json_object_get(set->base, pst_axis_places[axis].table);
    struct pst_axis_value *value = pst_arena_array(&set->arena, 1, sizeof *value);

    if (pst_axis_places[axis].entry != NULL) {
        own = json_object_get(own, pst_axis_places[axis].entry);
    }
    value->label = axis == PST_AXIS_MICROBATCH
                       ? pst_arena_printf(&set->arena, "%lld", (long long)job->train.microbatch)
                   : axis == PST_AXIS_REPLICAS ? pst_arena_strdup(&set->arena, job->train.degrees)
                   : axis == PST_AXIS_ZERO
                       ? pst_arena_printf(&set->arena, "%lld", (long long)job->parallel.zero)
                   : axis == PST_AXIS_TENSOR   ? pst_arena_strdup(&set->arena, job->parallel.tensor)
                   : axis == PST_AXIS_SEQUENCE ? job->parallel.sequence ? "true" : "false"
                   : own == NULL               ? "-"
                                               : label_of(&set->arena, own);
    set->axes[axis] = (struct pst_axis){1, value};
}

static pst_status check_twice(const struct reading *reading, const char *key,
                              const struct pst_axis *axis, struct pst_error *err)
{
    const char **labels = pst_alloc((size_t)axis->n + 1, sizeof *labels), *twice = NULL;

    for (uint32_t i = 0; i < axis->n; i++) {
        labels[i] = axis->values[i].label;
    }
    qsort(labels, axis->n, sizeof *labels, pst_by_text);
    for (uint32_t i = 1; i < axis->n && twice == NULL; i++) {
        twice = strcmp(labels[i - 1], labels[i]) == 0 ? labels[i] : NULL;
    }
    free(labels);
    return twice == NULL ? PST_OK
                         : fail(reading, err, "config.value", key,
                                "\"%s\" in [%s] has \"%s\" twice", key, reading->section, twice);
}

static pst_status fail_wanted(const struct reading *reading, enum pst_axis_kind axis,
                              struct pst_error *err)
{
    const char *key = pst_axis_places[axis].key;

    switch (axis) {
    case PST_AXIS_MEMOPT:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of names, of tables with `use`, or of arrays "
                    "of them",
                    key, reading->section);
    case PST_AXIS_DEVICES:
    case PST_AXIS_MICROBATCH:
    case PST_AXIS_ZERO:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of numbers from %" PRId64 " to %" PRId64, key,
                    reading->section, least_number(axis), most_number(axis));
    case PST_AXIS_SEQUENCE:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of true and false", key, reading->section);
    case PST_AXIS_TENSOR:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of numbers from %" PRId64 " to %" PRId64
                    ", or of texts such as \"1,2\"",
                    key, reading->section, least_number(axis), most_number(axis));
    case PST_AXIS_REPLICAS:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of numbers, or of texts such as \"1,2\"", key,
                    reading->section);
    default:
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] must be an array of names or of tables with `use`", key,
                    reading->section);
    }
}

static pst_status read_axis(struct pst_combinations *set, const struct reading *reading,
                            enum pst_axis_kind axis, struct pst_config_node *list,
                            struct pst_error *err)
{
    const char *key = pst_axis_places[axis].key;
    struct pst_axis *into = &set->axes[axis];

    if (list->kind != PST_CONFIG_ARRAY) {
        return fail_wanted(reading, axis, err);
    }
    if (list->n_children == 0) {
        return fail(reading, err, "config.value", key,
                    "\"%s\" in [%s] is empty; remove it to use the config's own", key,
                    reading->section);
    }
    into->values = pst_arena_array(&set->arena, list->n_children, sizeof *into->values);
    for (uint32_t i = 0; i < list->n_children; i++) {
        struct pst_axis_value *value = &into->values[i];
        pst_status status = read_value(reading->job, axis, list->children[i], &value->value, err);

        if (status != PST_OK) {
            return status;
        }
        if (value->value == NULL) {
            return fail_wanted(reading, axis, err);
        }
        into->n++;
        value->label = label_of(&set->arena, value->value);
    }
    return check_twice(reading, key, into, err);
}

static pst_status check_keys(const struct reading *reading, const struct pst_config_node *compare,
                             struct pst_error *err)
{
    const char *names[PST_AXES + 1] = {[PST_AXES] = "methods"};

    for (uint32_t a = 0; a < PST_AXES; a++) {
        names[a] = pst_axis_places[a].key;
    }
    for (uint32_t i = 0; i < compare->n_children; i++) {
        const char *key = compare->children[i]->key, *nearest;

        nearest = pst_nearest(key, names, PST_AXES + 1);
        if (nearest == NULL || strcmp(nearest, key) != 0) {
            fail(reading, err, "config.key", key, "unknown key \"%s\" in [%s]", key,
                 reading->section);
            pst_error_hint(
                err,
                nearest != NULL
                    ? "did you mean \"%s\"?"
                    : "it has methods, partitioners, schedulers, "
                      "memopts, devices, microbatches, replicas, zero, tensor, sequence%s",
                nearest != NULL ? nearest : "");
            return PST_ERR_CONFIG;
        }
    }
    return PST_OK;
}

/* --- methods -----------------------------------------------------------------------------------*/

static pst_status fail_method(const struct reading *reading, struct pst_error *err)
{
    return fail(
        reading, err, "config.value", "methods",
        "\"%s\" in [%s] must be an array of tables with name, partitioner, scheduler, "
        "memopt (each a name or a table with `use`), and without a list of one of these beside "
        "it",
        "methods", reading->section);
}

/* One value of a method; what it does not say is the config's own. */
static pst_status read_part(struct pst_combinations *set, const struct reading *reading,
                            enum pst_axis_kind axis, struct pst_config_node *method, uint32_t i,
                            struct pst_error *err)
{
    struct pst_config_node *written = pst_config_get(method, pst_axis_places[axis].table);
    struct pst_config_node own = own_tables(reading->job, axis);
    struct pst_axis_value *value = &set->axes[axis].values[i];
    pst_status status = PST_OK;

    if (written == NULL && own.n_children > 0) {
        written = axis == PST_AXIS_MEMOPT ? &own : own.children[0];
    }
    if (written != NULL) {
        status = read_value(reading->job, axis, written, &value->value, err);
    } else if (axis != PST_AXIS_MEMOPT) {
        const char *table = pst_axis_places[axis].table;

        fail(reading, err, "config.key", "methods",
             "method \"%s\" of [%s] has no %s, and the config has none, either", set->methods[i],
             reading->section, table);
        pst_error_hint(err, "add %s = \"...\" to the method, or [%s] to the config", table, table);
        return PST_ERR_CONFIG;
    }
    if (status != PST_OK || (written != NULL && value->value == NULL)) {
        return status != PST_OK ? status : fail_method(reading, err);
    }
    set->axes[axis].n++;
    value->label = written == NULL ? "-" : label_of(&set->arena, value->value);
    return PST_OK;
}

static pst_status read_method(struct pst_combinations *set, const struct reading *reading,
                              struct pst_config_node *method, uint32_t i, struct pst_error *err)
{
    const struct pst_config_node *name =
        method->kind == PST_CONFIG_TABLE ? pst_config_get(method, "name") : NULL;
    pst_status status = PST_OK;

    if (name == NULL || name->kind != PST_CONFIG_STRING) {
        return fail_method(reading, err);
    }
    for (uint32_t k = 0; k < method->n_children; k++) {
        const char *key = method->children[k]->key;
        bool known = strcmp(key, "name") == 0;

        for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
            known |= strcmp(key, pst_axis_places[a].table) == 0;
        }
        if (!known) {
            return fail(reading, err, "config.key", "methods",
                        "unknown key \"%s\" in a method of [%s]", key, reading->section);
        }
    }
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(set->methods[k], name->value.string) == 0) {
            return fail(reading, err, "config.value", "methods",
                        "two methods of [%s] have the name \"%s\"", reading->section,
                        name->value.string);
        }
    }
    set->methods[i] = pst_arena_strdup(&set->arena, name->value.string);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT && status == PST_OK; a++) {
        status = read_part(set, reading, a, method, i, err);
    }
    return status;
}

static pst_status read_methods(struct pst_combinations *set, const struct reading *reading,
                               struct pst_config_node *compare, struct pst_config_node *list,
                               struct pst_error *err)
{
    uint32_t n = list->n_children;
    pst_status status = PST_OK;

    if (list->kind != PST_CONFIG_ARRAY || n == 0 || n > reading->most) {
        return fail_method(reading, err);
    }
    set->methods = pst_arena_array(&set->arena, n, sizeof *set->methods);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT; a++) {
        if (pst_config_get(compare, pst_axis_places[a].key) != NULL) {
            return fail_method(reading, err);
        }
        set->axes[a].values = pst_arena_array(&set->arena, n, sizeof *set->axes[a].values);
    }
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        status = read_method(set, reading, list->children[i], i, err);
    }
    return status;
}

/* The lists that there are; compare NULL: none. */
static pst_status read_lists(struct pst_combinations *set, const struct reading *reading,
                             struct pst_config_node *compare, struct pst_error *err)
{
    struct pst_config_node *methods = compare == NULL ? NULL : pst_config_get(compare, "methods");
    pst_status status = compare == NULL ? PST_OK : check_keys(reading, compare, err);
    uint64_t n = 1;

    if (status == PST_OK && methods != NULL) {
        status = read_methods(set, reading, compare, methods, err);
    }
    for (enum pst_axis_kind a = 0; a < PST_AXES && status == PST_OK; a++) {
        struct pst_config_node *list =
            compare == NULL ? NULL : pst_config_get(compare, pst_axis_places[a].key);

        if (list != NULL) {
            status = read_axis(set, reading, a, list, err);
        } else if (methods == NULL && a <= PST_AXIS_MEMOPT) {
            status = check_own(reading->job, a, err);
        }
        n *= set->axes[a].n > 0 ? pst_combinations_factor(set, a) : 1;
        if (status == PST_OK && n > reading->most) {
            status = fail(reading, err, "config.limit", pst_axis_places[a].key,
                          "[%s] asks for more than %u combinations, counted up to \"%s\"",
                          reading->section, reading->most, pst_axis_places[a].key);
        }
    }
    set->n = (uint32_t)n;
    return status;
}

pst_status pst_combinations_read_lists(const struct pst_job *job, const char *section,
                                       struct pst_config_node *lists, uint32_t most,
                                       struct pst_combinations *ret_set, struct pst_error *err)
{
    const struct reading reading = {job, section, most};
    struct pst_combinations set = {.path = job->config->path};
    pst_status status = read_lists(&set, &reading, lists, err);
    char *text;

    if (status != PST_OK) {
        pst_combinations_finish(&set);
        return status;
    }
    text = pst_config_to_json(job->config);
    set.base = pst_json_made(json_loads(text, 0, NULL));
    free(text);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        if (set.axes[a].n == 0) {
            own_value(&set, job, a);
        }
    }
    json_object_del(set.base, "compare");
    json_object_del(set.base, "tune");
    *ret_set = set;
    return PST_OK;
}

pst_status pst_combinations_read(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err)
{
    return pst_combinations_read_lists(job, "compare", pst_config_get(job->config->root, "compare"),
                                       PST_COMBINATIONS_MOST, ret_set, err);
}
