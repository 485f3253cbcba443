/* SPDX-License-Identifier: Apache-2.0
 *
 * [compare] as it is written.
 */
#include "tune/combine_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static pst_status fail(const struct pst_job *job, struct pst_error *err, const char *kind,
                       const char *key, const char *format, const char *word)
    __attribute__((format(printf, 5, 0)));

static pst_status fail(const struct pst_job *job, struct pst_error *err, const char *kind,
                       const char *key, const char *format, const char *word)
{
    pst_fail(err, PST_ERR_CONFIG, kind, format, word);
    pst_config_place(job->config, "compare", key, err);
    return PST_ERR_CONFIG;
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
            char *text = pst_combine_made(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT));

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

/* The base's own table where it has that id, so that a bare name keeps its parameters; else a table
   with nothing but the id. New. */
static json_t *table_of_name(const json_t *own, const char *name)
{
    const char *use = json_string_value(json_object_get(own, "use"));

    if (use != NULL && strcmp(use, name) == 0) {
        return json_deep_copy(own);
    }
    return json_pack("{s:s}", "use", name);
}

/* The base's [[memopt]] with that name, or NULL. */
static const json_t *own_memopt(const json_t *own, const char *name)
{
    const json_t *element;
    size_t i;

    json_array_foreach((json_t *)own, i, element)
    {
        const char *use = json_string_value(json_object_get(element, "use"));

        if (use != NULL && strcmp(use, name) == 0) {
            return element;
        }
    }
    return json_is_object(own) ? own : NULL;
}

/* A strategy as it is written: a name, or a table with `use`. New, or NULL: neither. */
static json_t *read_strategy(const json_t *written, const json_t *own)
{
    if (json_is_string(written)) {
        return table_of_name(own, json_string_value(written));
    }
    if (json_is_object(written) && json_is_string(json_object_get(written, "use"))) {
        return json_deep_copy(written);
    }
    return NULL;
}

/* One or several memory optimizers, always as an array. */
static json_t *read_memopts(const json_t *written, const json_t *own)
{
    json_t *list = json_array();
    size_t n = json_is_array(written) ? json_array_size(written) : 1;

    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(written) ? json_array_get(written, i) : written;
        json_t *table = read_strategy(
            one, json_is_string(one) ? own_memopt(own, json_string_value(one)) : NULL);

        if (table == NULL || json_array_append_new(list, table) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *read_value(enum pst_axis_kind axis, const json_t *written, const json_t *own)
{
    switch (axis) {
    case PST_AXIS_PARTITIONER:
    case PST_AXIS_SCHEDULER:
        return read_strategy(written, own);
    case PST_AXIS_MEMOPT:
        return read_memopts(written, own);
    default:
        return json_is_integer(written) && json_integer_value(written) >= 1 &&
                       json_integer_value(written) <= 1048576
                   ? json_integer(json_integer_value(written))
                   : NULL;
    }
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

/* What the base has, as the one value of an axis that is not listed. */
static void own_value(struct pst_combinations *set, const struct pst_job *job,
                      enum pst_axis_kind axis)
{
    const json_t *own = json_object_get(set->base, pst_axis_places[axis].table);
    struct pst_axis_value *value = pst_arena_array(&set->arena, 1, sizeof *value);

    if (axis == PST_AXIS_MICROBATCH) {
        value->label = pst_arena_printf(&set->arena, "%lld", (long long)job->train.microbatch);
    } else if (pst_axis_places[axis].entry != NULL) {
        const json_t *entry = json_object_get(own, pst_axis_places[axis].entry);

        value->label = entry == NULL ? "-" : label_of(&set->arena, entry);
    } else {
        value->label = own == NULL ? "-" : label_of(&set->arena, own);
    }
    set->axes[axis] = (struct pst_axis){1, value};
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
                            enum pst_axis_kind axis, const json_t *list, struct pst_error *err)
{
    const json_t *own = json_object_get(set->base, pst_axis_places[axis].table);
    struct pst_axis *into = &set->axes[axis];
    size_t n = json_array_size(list);

    if (!json_is_array(list)) {
        return fail(job, err, "config.value", pst_axis_places[axis].key, what_is_wanted(axis),
                    pst_axis_places[axis].key);
    }
    if (n == 0) {
        return fail(job, err, "config.value", pst_axis_places[axis].key,
                    "\"%s\" in [compare] is empty; leave it out for the config's own",
                    pst_axis_places[axis].key);
    }
    into->values = pst_arena_array(&set->arena, (uint32_t)n, sizeof *into->values);
    for (size_t i = 0; i < n; i++) {
        struct pst_axis_value *value = &into->values[into->n];

        value->value = read_value(axis, json_array_get(list, i), own);
        if (value->value == NULL) {
            return fail(job, err, "config.value", pst_axis_places[axis].key, what_is_wanted(axis),
                        pst_axis_places[axis].key);
        }
        into->n++;
        value->label = label_of(&set->arena, value->value);
    }
    return check_twice(job, pst_axis_places[axis].key, into, err);
}

static pst_status check_keys(const struct pst_job *job, const json_t *compare,
                             struct pst_error *err)
{
    const char *names[PST_AXES + 1] = {[PST_AXES] = "methods"}, *key;
    json_t *value;

    for (uint32_t a = 0; a < PST_AXES; a++) {
        names[a] = pst_axis_places[a].key;
    }
    json_object_foreach((json_t *)compare, key, value)
    {
        const char *nearest = pst_nearest(key, names, PST_AXES + 1);
        bool known = nearest != NULL && strcmp(nearest, key) == 0;

        if (!known) {
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

/* One value of a method; what it does not say is the base's. */
static pst_status read_part(struct pst_combinations *set, const struct pst_job *job,
                            enum pst_axis_kind axis, const json_t *method,
                            struct pst_axis_value *ret_value, struct pst_error *err)
{
    const json_t *own = json_object_get(set->base, pst_axis_places[axis].table);
    const json_t *written = json_object_get(method, pst_axis_places[axis].table);

    if (written == NULL) {
        written = own;
    }
    ret_value->value = written == NULL ? NULL : read_value(axis, written, own);
    if (ret_value->value == NULL) {
        return fail_method(job, err);
    }
    set->axes[axis].n++;
    ret_value->label = label_of(&set->arena, ret_value->value);
    return PST_OK;
}

static pst_status read_method(struct pst_combinations *set, const struct pst_job *job,
                              const json_t *method, uint32_t i, struct pst_error *err)
{
    const char *name = json_string_value(json_object_get(method, "name")), *key;
    pst_status st = PST_OK;
    json_t *value;

    if (name == NULL) {
        return fail_method(job, err);
    }
    json_object_foreach((json_t *)method, key, value)
    {
        bool known = strcmp(key, "name") == 0;

        for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
            known |= strcmp(key, pst_axis_places[a].table) == 0;
        }
        if (!known) {
            return fail(job, err, "config.key", "methods",
                        "unknown key \"%s\" in a method of [compare]", key);
        }
    }
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(set->methods[k], name) == 0) {
            return fail(job, err, "config.value", "methods",
                        "two methods of [compare] have the name \"%s\"", name);
        }
    }
    set->methods[i] = pst_arena_strdup(&set->arena, name);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT && st == PST_OK; a++) {
        st = read_part(set, job, a, method, &set->axes[a].values[i], err);
    }
    return st;
}

static pst_status read_methods(struct pst_combinations *set, const struct pst_job *job,
                               const json_t *compare, struct pst_error *err)
{
    const json_t *list = json_object_get(compare, "methods");
    size_t n = json_array_size(list);
    pst_status st = PST_OK;

    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT; a++) {
        if (json_object_get(compare, pst_axis_places[a].key) != NULL) {
            return fail_method(job, err);
        }
    }
    if (!json_is_array(list) || n == 0 || n > PST_COMBINATIONS_MOST) {
        return fail_method(job, err);
    }
    set->methods = pst_arena_array(&set->arena, (uint32_t)n, sizeof *set->methods);
    for (enum pst_axis_kind a = 0; a <= PST_AXIS_MEMOPT; a++) {
        set->axes[a].values =
            pst_arena_array(&set->arena, (uint32_t)n, sizeof *set->axes[a].values);
    }
    for (size_t i = 0; i < n && st == PST_OK; i++) {
        st = read_method(set, job, json_array_get(list, i), (uint32_t)i, err);
    }
    return st;
}

static pst_status read_axes(struct pst_combinations *set, const struct pst_job *job,
                            struct pst_error *err)
{
    const json_t *compare = json_object_get(set->base, "compare");
    bool methods = json_object_get(compare, "methods") != NULL;
    uint64_t n = 1;
    pst_status st = check_keys(job, compare, err);

    if (st == PST_OK && methods) {
        st = read_methods(set, job, compare, err);
    }
    for (enum pst_axis_kind a = 0; a < PST_AXES && st == PST_OK; a++) {
        const json_t *list = json_object_get(compare, pst_axis_places[a].key);

        if (list != NULL) {
            st = read_axis(set, job, a, list, err);
        } else if (!methods || a > PST_AXIS_MEMOPT) {
            own_value(set, job, a);
        }
        n *= pst_combination_factor(set, a);
        if (st == PST_OK && n > PST_COMBINATIONS_MOST) {
            st = fail(job, err, "config.limit", pst_axis_places[a].key,
                      "[compare] asks for more than 100000 combinations, counted up to \"%s\"",
                      pst_axis_places[a].key);
        }
    }
    set->n = (uint32_t)n;
    return st;
}

static pst_status read(const struct pst_job *job, struct pst_combinations *set,
                       struct pst_error *err)
{
    char *text = pst_config_to_json(job->config);
    pst_status st;

    *set = (struct pst_combinations){.path = job->config->path};
    set->base = pst_combine_made(json_loads(text, 0, NULL));
    free(text);
    st = read_axes(set, job, err);
    if (st != PST_OK) {
        pst_combinations_finish(set);
    }
    return st;
}

pst_status pst_combinations_read(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err)
{
    struct pst_combinations set;
    pst_status st = read(job, &set, err); /* has it the right form? */

    if (st == PST_OK) {
        pst_combinations_finish(&set);
        st = pst_combinations_check(job, err);
    }
    if (st == PST_OK) {
        st = read(job, &set, err); /* paths are no longer relative to the file now */
    }
    if (st != PST_OK) {
        return st;
    }
    json_object_del(set.base, "compare");
    *ret_set = set;
    return PST_OK;
}
