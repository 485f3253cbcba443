/* SPDX-License-Identifier: Apache-2.0
 *
 * [compare] as it is written, and the combinations that it comes to. What is wrong there whatever
 * the other strategies are (a plugin that there is not, a parameter that it does not take, a value
 * twice) is said before anything is tried, and where it stands.
 */
#include "tune/combine.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "planner/state.h"

/* What jansson made: that it made nothing is for want of memory. */
static void *made(void *value)
{
    if (value == NULL) {
        pst_out_of_memory();
    }
    return value;
}

/* What an axis is called in [compare], and where its values go. */
struct axis_place {
    const char *key, *table, *entry; /* entry: NULL where the value is the whole table */
};
static const struct axis_place axis_places[PST_AXES] = {
    [PST_AXIS_PARTITIONER] = {"partitioners", "partitioner", NULL},
    [PST_AXIS_SCHEDULER] = {"schedulers", "scheduler", NULL},
    [PST_AXIS_MEMOPT] = {"memopts", "memopt", NULL},
    [PST_AXIS_DEVICES] = {"devices", "cluster", "devices"},
    [PST_AXIS_MICROBATCH] = {"microbatches", "train", "microbatch"},
};

/* How many times an axis multiplies the combinations: strategies of methods go round together. */
static uint32_t factor_of(const struct pst_combinations *set, enum pst_axis_kind axis)
{
    bool follows = set->methods != NULL && (axis == PST_AXIS_SCHEDULER || axis == PST_AXIS_MEMOPT);

    return follows ? 1 : set->axes[axis].n;
}

static pst_status fail(const struct pst_job *job, struct pst_error *err, const char *kind,
                       const char *key, const char *format, const char *word)
    __attribute__((format(printf, 5, 0)));

static pst_status fail(const struct pst_job *job, struct pst_error *err, const char *kind,
                       const char *key, const char *format, const char *word)
{
    return pst_config_place(job->config, "compare", key,
                            pst_fail(err, PST_ERR_CONFIG, kind, format, word), err);
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
            char *text = made(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT));

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

    if (json_is_integer(value)) {
        return pst_arena_printf(arena, "%lld", (long long)json_integer_value(value));
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
    pst_status st = pst_job_plugin_is_foreign(job, table, kind, &foreign, err);

    if (st != PST_OK || foreign) {
        return st;
    }
    st = pst_job_plugin(job, table, kind, &plugin, err);
    return st == PST_OK ? pst_instance_check(plugin, table, err) : st;
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
    value = made(json_loads(text, JSON_DECODE_ANY, NULL));
    free(text);
    return value;
}

/* A strategy as it is written: a name, or a table with `use`. *ret_value NULL: neither. */
static pst_status read_strategy(const struct pst_job *job, enum pst_axis_kind axis,
                                struct pst_config_node *written, json_t **ret_value,
                                struct pst_error *err)
{
    struct pst_config_node use = *written, *children = &use, named = *written, *table = NULL;
    pst_status st = PST_OK;

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
        st = check_table(job, table, axis_places[axis].table, err);
        *ret_value = st == PST_OK ? json_of(table) : NULL;
    }
    return st;
}

/* One or several memory optimizers, always as an array. */
static pst_status read_memopts(const struct pst_job *job, struct pst_config_node *written,
                               json_t **ret_value, struct pst_error *err)
{
    bool several = written->kind == PST_CONFIG_ARRAY, good = true;
    json_t *list = made(json_array());
    pst_status st = PST_OK;

    for (uint32_t i = 0; st == PST_OK && good && i < (several ? written->n_children : 1); i++) {
        json_t *table;

        st = read_strategy(job, PST_AXIS_MEMOPT, several ? written->children[i] : written, &table,
                           err);
        good = table != NULL;
        if (good && json_array_append_new(list, table) != 0) {
            pst_out_of_memory();
        }
    }
    *ret_value = good ? list : NULL;
    if (!good) {
        json_decref(list);
    }
    return st;
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
    *ret_value = written->kind == PST_CONFIG_INT && written->value.integer >= 1 &&
                         written->value.integer <= 1048576
                     ? json_of(written)
                     : NULL;
    return PST_OK;
}

/* What the config itself has of a strategy that is not listed. */
static pst_status check_own(const struct pst_job *job, enum pst_axis_kind axis,
                            struct pst_error *err)
{
    const struct pst_config_node own = own_tables(job, axis);
    pst_status st = PST_OK;

    for (uint32_t i = 0; i < own.n_children && st == PST_OK; i++) {
        st = check_table(job, own.children[i], axis_places[axis].table, err);
    }
    return st;
}

/* The same as the one value of an axis. */
static void own_value(struct pst_combinations *set, const struct pst_job *job,
                      enum pst_axis_kind axis)
{
    const json_t *own = json_object_get(set->base, axis_places[axis].table);
    struct pst_axis_value *value = pst_arena_array(&set->arena, 1, sizeof *value);

    if (axis_places[axis].entry != NULL) {
        own = json_object_get(own, axis_places[axis].entry);
    }
    value->label = axis == PST_AXIS_MICROBATCH
                       ? pst_arena_printf(&set->arena, "%lld", (long long)job->train.microbatch)
                   : own == NULL ? "-"
                                 : label_of(&set->arena, own);
    set->axes[axis] = (struct pst_axis){1, value};
}

static const char *what_is_wanted(enum pst_axis_kind axis)
{
    switch (axis) {
    case PST_AXIS_MEMOPT:
        return "\"%s\" in [compare] must be an array of names, of tables with `use`, or of arrays "
               "of them";
    case PST_AXIS_DEVICES:
    case PST_AXIS_MICROBATCH:
        return "\"%s\" in [compare] must be an array of numbers from 1 to 1048576";
    default:
        return "\"%s\" in [compare] must be an array of names or of tables with `use`";
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static pst_status check_twice(const struct pst_job *job, const char *key,
                              const struct pst_axis *axis, struct pst_error *err)
{
    const char **labels = pst_alloc((size_t)axis->n + 1, sizeof *labels), *twice = NULL;
    char format[128];

    for (uint32_t i = 0; i < axis->n; i++) {
        labels[i] = axis->values[i].label;
    }
    qsort(labels, axis->n, sizeof *labels, by_text);
    for (uint32_t i = 1; i < axis->n && twice == NULL; i++) {
        twice = strcmp(labels[i - 1], labels[i]) == 0 ? labels[i] : NULL;
    }
    free(labels);
    if (twice == NULL) {
        return PST_OK;
    }
    snprintf(format, sizeof format, "\"%s\" in [compare] has \"%%s\" twice", key);
    return fail(job, err, "config.value", key, format, twice);
}

static pst_status read_axis(struct pst_combinations *set, const struct pst_job *job,
                            enum pst_axis_kind axis, struct pst_config_node *list,
                            struct pst_error *err)
{
    const char *key = axis_places[axis].key;
    struct pst_axis *into = &set->axes[axis];

    if (list->kind != PST_CONFIG_ARRAY) {
        return fail(job, err, "config.value", key, what_is_wanted(axis), key);
    }
    if (list->n_children == 0) {
        return fail(job, err, "config.value", key,
                    "\"%s\" in [compare] is empty; leave it out for the config's own", key);
    }
    into->values = pst_arena_array(&set->arena, list->n_children, sizeof *into->values);
    for (uint32_t i = 0; i < list->n_children; i++) {
        struct pst_axis_value *value = &into->values[i];
        pst_status st = read_value(job, axis, list->children[i], &value->value, err);

        if (st != PST_OK) {
            return st;
        }
        if (value->value == NULL) {
            return fail(job, err, "config.value", key, what_is_wanted(axis), key);
        }
        into->n++;
        value->label = label_of(&set->arena, value->value);
    }
    return check_twice(job, key, into, err);
}

static pst_status check_keys(const struct pst_job *job, const struct pst_config_node *compare,
                             struct pst_error *err)
{
    const char *names[PST_AXES + 1] = {[PST_AXES] = "methods"};

    for (uint32_t a = 0; a < PST_AXES; a++) {
        names[a] = axis_places[a].key;
    }
    for (uint32_t i = 0; i < compare->n_children; i++) {
        const char *key = compare->children[i]->key, *nearest;

        nearest = pst_nearest(key, names, PST_AXES + 1);
        if (nearest == NULL || strcmp(nearest, key) != 0) {
            fail(job, err, "config.key", key, "unknown key \"%s\" in [compare]", key);
            pst_error_hint(err,
                           nearest != NULL ? "did you mean \"%s\"?"
                                           : "it has methods, partitioners, schedulers, "
                                             "memopts, devices, microbatches%s",
                           nearest != NULL ? nearest : "");
            return PST_ERR_CONFIG;
        }
    }
    return PST_OK;
}

/* --- methods -----------------------------------------------------------------------------------*/

static pst_status fail_method(const struct pst_job *job, struct pst_error *err)
{
    return fail(
        job, err, "config.value", "methods",
        "\"%s\" in [compare] must be an array of tables with name, partitioner, scheduler, "
        "memopt (each a name or a table with `use`), and without a list of one of these beside "
        "it",
        "methods");
}

/* One value of a method; what it does not say is the config's own. */
static pst_status read_part(struct pst_combinations *set, const struct pst_job *job,
                            enum pst_axis_kind axis, struct pst_config_node *method, uint32_t i,
                            struct pst_error *err)
{
    struct pst_config_node *written = pst_config_get(method, axis_places[axis].table);
    struct pst_config_node own = own_tables(job, axis);
    struct pst_axis_value *value = &set->axes[axis].values[i];
    pst_status st = PST_OK;

    if (written == NULL && own.n_children > 0) {
        written = axis == PST_AXIS_MEMOPT ? &own : own.children[0];
    }
    if (written != NULL) {
        st = read_value(job, axis, written, &value->value, err);
    }
    if (st != PST_OK || value->value == NULL) {
        return st != PST_OK ? st : fail_method(job, err);
    }
    set->axes[axis].n++;
    value->label = label_of(&set->arena, value->value);
    return PST_OK;
}

static pst_status read_method(struct pst_combinations *set, const struct pst_job *job,
                              struct pst_config_node *method, uint32_t i, struct pst_error *err)
{
    const struct pst_config_node *name =
        method->kind == PST_CONFIG_TABLE ? pst_config_get(method, "name") : NULL;
    pst_status st = PST_OK;

    if (name == NULL || name->kind != PST_CONFIG_STRING) {
        return fail_method(job, err);
    }
    for (uint32_t k = 0; k < method->n_children; k++) {
        const char *key = method->children[k]->key;
        bool known = strcmp(key, "name") == 0;

        for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
            known |= strcmp(key, axis_places[a].table) == 0;
        }
        if (!known) {
            return fail(job, err, "config.key", "methods",
                        "unknown key \"%s\" in a method of [compare]", key);
        }
    }
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(set->methods[k], name->value.string) == 0) {
            return fail(job, err, "config.value", "methods",
                        "two methods of [compare] have the name \"%s\"", name->value.string);
        }
    }
    set->methods[i] = pst_arena_strdup(&set->arena, name->value.string);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT && st == PST_OK; a++) {
        st = read_part(set, job, a, method, i, err);
    }
    return st;
}

static pst_status read_methods(struct pst_combinations *set, const struct pst_job *job,
                               struct pst_config_node *compare, struct pst_config_node *list,
                               struct pst_error *err)
{
    uint32_t n = list->n_children;
    pst_status st = PST_OK;

    if (list->kind != PST_CONFIG_ARRAY || n == 0 || n > PST_COMBINATIONS_MOST) {
        return fail_method(job, err);
    }
    set->methods = pst_arena_array(&set->arena, n, sizeof *set->methods);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT; a++) {
        if (pst_config_get(compare, axis_places[a].key) != NULL) {
            return fail_method(job, err);
        }
        set->axes[a].values = pst_arena_array(&set->arena, n, sizeof *set->axes[a].values);
    }
    for (uint32_t i = 0; i < n && st == PST_OK; i++) {
        st = read_method(set, job, list->children[i], i, err);
    }
    return st;
}

/* The lists that there are; compare NULL: none. */
static pst_status read_lists(struct pst_combinations *set, const struct pst_job *job,
                             struct pst_config_node *compare, struct pst_error *err)
{
    struct pst_config_node *methods = compare == NULL ? NULL : pst_config_get(compare, "methods");
    pst_status st = compare == NULL ? PST_OK : check_keys(job, compare, err);
    uint64_t n = 1;

    if (st == PST_OK && methods != NULL) {
        st = read_methods(set, job, compare, methods, err);
    }
    for (enum pst_axis_kind a = 0; a < PST_AXES && st == PST_OK; a++) {
        struct pst_config_node *list =
            compare == NULL ? NULL : pst_config_get(compare, axis_places[a].key);

        if (list != NULL) {
            st = read_axis(set, job, a, list, err);
        } else if (methods == NULL && a <= PST_AXIS_MEMOPT) {
            st = check_own(job, a, err);
        }
        n *= set->axes[a].n > 0 ? factor_of(set, a) : 1;
        if (st == PST_OK && n > PST_COMBINATIONS_MOST) {
            st = fail(job, err, "config.limit", axis_places[a].key,
                      "[compare] asks for more than 100000 combinations, counted up to \"%s\"",
                      axis_places[a].key);
        }
    }
    set->n = (uint32_t)n;
    return st;
}

pst_status pst_combinations_read(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err)
{
    struct pst_combinations set = {.path = job->config->path};
    pst_status st = read_lists(&set, job, pst_config_get(job->config->root, "compare"), err);
    char *text;

    if (st != PST_OK) {
        pst_combinations_finish(&set);
        return st;
    }
    text = pst_config_to_json(job->config);
    set.base = made(json_loads(text, 0, NULL));
    free(text);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        if (set.axes[a].n == 0) {
            own_value(&set, job, a);
        }
    }
    json_object_del(set.base, "compare");
    *ret_set = set;
    return PST_OK;
}

/* --- combinations ------------------------------------------------------------------------------*/

void pst_combinations_all_sizes(struct pst_combinations *set, uint32_t batch)
{
    struct pst_axis *axis = &set->axes[PST_AXIS_MICROBATCH];

    if (axis->n > 0 && axis->values[0].value != NULL) {
        return;
    }
    set->n /= axis->n;
    *axis = (struct pst_axis){0, pst_arena_array(&set->arena, 32, sizeof *axis->values)};
    for (uint32_t size = 1; batch % size == 0 && size <= batch; size *= 2) {
        axis->values[axis->n++] = (struct pst_axis_value){pst_arena_printf(&set->arena, "%u", size),
                                                          made(json_integer(size))};
    }
    set->n *= axis->n;
}

void pst_combinations_one_size(struct pst_combinations *set)
{
    struct pst_axis *axis = &set->axes[PST_AXIS_MICROBATCH];

    set->n /= axis->n;
    for (uint32_t i = 1; i < axis->n; i++) {
        json_decref(axis->values[i].value);
    }
    axis->n = 1;
}

void pst_combinations_finish(struct pst_combinations *set)
{
    for (uint32_t a = 0; a < PST_AXES; a++) {
        for (uint32_t i = 0; i < set->axes[a].n; i++) {
            json_decref(set->axes[a].values[i].value);
        }
    }
    json_decref(set->base);
    pst_arena_finish(&set->arena);
    memset(set, 0, sizeof *set);
}

/* Which value of an axis combination i has; the last axis goes round fastest. */
static uint32_t value_at(const struct pst_combinations *set, uint32_t i, enum pst_axis_kind axis)
{
    if (factor_of(set, axis) == 1) {
        axis = axis <= PST_AXIS_MEMOPT && set->methods != NULL ? PST_AXIS_PARTITIONER : axis;
    }
    for (uint32_t a = PST_AXES - 1; a > axis; a--) {
        i /= factor_of(set, a);
    }
    return i % set->axes[axis].n;
}

const char *pst_combination_method(const struct pst_combinations *set, uint32_t i)
{
    return set->methods == NULL ? NULL : set->methods[value_at(set, i, PST_AXIS_PARTITIONER)];
}

const char *pst_combination_label(const struct pst_combinations *set, uint32_t i,
                                  enum pst_axis_kind axis)
{
    return set->axes[axis].values[value_at(set, i, axis)].label;
}

static void set_member(json_t *object, const char *key, json_t *value)
{
    if (json_object_set(object, key, value) != 0) {
        pst_out_of_memory();
    }
}

/* Puts a value, which is borrowed, into a table of the config, which is made where it is missing.
 */
static void put(json_t *config, const char *table, const char *entry, json_t *value)
{
    json_t *at = json_object_get(config, table);

    if (at == NULL) {
        at = made(json_object());
        set_member(config, table, at);
        json_decref(at);
    }
    set_member(at, entry, value);
}

static void put_number(json_t *config, const char *entry, uint32_t number)
{
    if (number != 0) {
        json_t *value = made(json_integer(number));

        put(config, "train", entry, value);
        json_decref(value);
    }
}

char *pst_combination_config(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                             uint32_t batch)
{
    json_t *config = made(json_deep_copy(set->base));
    char *text;

    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        json_t *value = set->axes[a].values[value_at(set, i, a)].value;

        if (value != NULL && axis_places[a].entry == NULL) {
            set_member(config, axis_places[a].table, value);
        } else if (value != NULL) {
            put(config, axis_places[a].table, axis_places[a].entry, value);
        }
    }
    put_number(config, "microbatch", microbatch);
    put_number(config, "batch", batch);
    text = made(json_dumps(config, JSON_COMPACT | JSON_REAL_PRECISION(17)));
    json_decref(config);
    return text;
}
