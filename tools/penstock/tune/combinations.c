/* SPDX-License-Identifier: Apache-2.0
 *
 * The combinations that lists come to: their values, their configs.
 */
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "tune/combinations_impl.h"

void *pst_json_made(void *value)
{
    if (value == NULL) {
        pst_out_of_memory();
    }
    return value;
}

const struct pst_axis_place pst_axis_places[PST_AXES] = {
    [PST_AXIS_PARTITIONER] = {"partitioners", "partitioner", NULL},
    [PST_AXIS_SCHEDULER] = {"schedulers", "scheduler", NULL},
    [PST_AXIS_MEMOPT] = {"memopts", "memopt", NULL},
    [PST_AXIS_DEVICES] = {"devices", "cluster", "devices"},
    [PST_AXIS_MICROBATCH] = {"microbatches", "train", "microbatch"},
    [PST_AXIS_REPLICAS] = {"replicas", "train", "degrees"},
    [PST_AXIS_ZERO] = {"zero", "parallel", "zero"},
    [PST_AXIS_TENSOR] = {"tensor", "parallel", "tensor"},
    [PST_AXIS_SEQUENCE] = {"sequence", "parallel", "sequence"},
};

/* The factor of an axis in the number of combinations: strategies of methods go round together. */
uint32_t pst_combinations_factor(const struct pst_combinations *set, enum pst_axis_kind axis)
{
    bool follows = set->methods != NULL && (axis == PST_AXIS_SCHEDULER || axis == PST_AXIS_MEMOPT);

    return follows ? 1 : set->axes[axis].n;
}

void pst_combinations_all_sizes(struct pst_combinations *set, uint32_t batch)
{
    struct pst_axis *axis = &set->axes[PST_AXIS_MICROBATCH];

    if (axis->n > 0 && axis->values[0].value != NULL) {
        return;
    }
    set->n /= axis->n;
    *axis = (struct pst_axis){0, pst_arena_array(&set->arena, 32, sizeof *axis->values)};
    for (uint32_t size = 1; batch % size == 0 && size <= batch; size *= 2) {
        axis->values[axis->n++] =
            (struct pst_axis_value){.label = pst_arena_printf(&set->arena, "%u", size),
                                    .value = pst_json_made(json_integer(size))};
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
    if (pst_combinations_factor(set, axis) == 1) {
        axis = axis <= PST_AXIS_MEMOPT && set->methods != NULL ? PST_AXIS_PARTITIONER : axis;
    }
    for (uint32_t a = PST_AXES - 1; a > axis; a--) {
        i /= pst_combinations_factor(set, a);
    }
    return i % set->axes[axis].n;
}

const char *pst_combination_method(const struct pst_combinations *set, uint32_t i)
{
    return set->methods == NULL ? NULL : set->methods[value_at(set, i, PST_AXIS_PARTITIONER)];
}

const struct pst_axis_value *pst_combination_value(const struct pst_combinations *set, uint32_t i,
                                                   enum pst_axis_kind axis)
{
    return &set->axes[axis].values[value_at(set, i, axis)];
}

/* Does combination i have one part because the list says so? */
static bool is_listed_whole(const struct pst_combinations *set, uint32_t i)
{
    const json_t *value = pst_combination_value(set, i, PST_AXIS_TENSOR)->value;
    const char *text = json_string_value(value);

    return text != NULL ? strcmp(text, "1") == 0 : json_integer_value(value) == 1;
}

/* How the config divides operators: keys of [parallel], but not those that an axis lists. */
static const char *const own_divisions[] = {"ways", "way", "sequence"};
#define OWN_DIVISIONS (sizeof own_divisions / sizeof *own_divisions)

static bool is_listed(const struct pst_combinations *set, uint32_t i, const char *key)
{
    return strcmp(key, "sequence") == 0 &&
           pst_combination_value(set, i, PST_AXIS_SEQUENCE)->value != NULL;
}

/* Is the value one with which the job says nothing about parts? */
static bool says_nothing(const json_t *value)
{
    const char *word = json_string_value(value);

    return value == NULL || json_is_false(value) || (word != NULL && strcmp(word, "auto") == 0);
}

bool pst_combination_undivided(const struct pst_combinations *set, uint32_t i)
{
    const json_t *parallel = json_object_get(set->base, "parallel");
    bool any = false;

    for (size_t k = 0; k < OWN_DIVISIONS; k++) {
        any |= !is_listed(set, i, own_divisions[k]) &&
               !says_nothing(json_object_get(parallel, own_divisions[k]));
    }
    return any && is_listed_whole(set, i);
}

const char *pst_combination_label(const struct pst_combinations *set, uint32_t i,
                                  enum pst_axis_kind axis)
{
    const struct pst_axis_value *value = pst_combination_value(set, i, axis);

    return axis == PST_AXIS_SEQUENCE && value->value == NULL && is_listed_whole(set, i)
               ? "false"
               : value->label;
}

static void set_member(json_t *object, const char *key, json_t *value)
{
    if (json_object_set(object, key, value) != 0) {
        pst_out_of_memory();
    }
}

/* Puts a value, which is borrowed, into a table of the config, which is made where it is missing.
 */
static void put_entry(json_t *config, const char *table, const char *entry, json_t *value)
{
    json_t *at = json_object_get(config, table);

    if (at == NULL) {
        at = pst_json_made(json_object());
        set_member(config, table, at);
        json_decref(at);
    }
    set_member(at, entry, value);
}

/* One part divides nothing, so it does not matter how several would. */
static void drop_divisions(const struct pst_combinations *set, uint32_t i, json_t *config)
{
    json_t *parallel = json_object_get(config, "parallel");

    for (size_t k = 0; k < OWN_DIVISIONS && is_listed_whole(set, i); k++) {
        if (!is_listed(set, i, own_divisions[k])) {
            json_object_del(parallel, own_divisions[k]);
        }
    }
}

static void put_number(json_t *config, const char *entry, uint32_t number)
{
    if (number != 0) {
        json_t *value = pst_json_made(json_integer(number));

        put_entry(config, "train", entry, value);
        json_decref(value);
    }
}

char *pst_combination_config(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                             uint32_t batch)
{
    json_t *config = pst_json_made(json_deep_copy(set->base));
    char *text;

    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        json_t *value = pst_combination_value(set, i, a)->value;

        if (value != NULL && pst_axis_places[a].entry == NULL) {
            set_member(config, pst_axis_places[a].table, value);
        } else if (value != NULL) {
            put_entry(config, pst_axis_places[a].table, pst_axis_places[a].entry, value);
        }
    }
    drop_divisions(set, i, config);
    put_number(config, "microbatch", microbatch);
    put_number(config, "batch", batch);
    text = pst_json_text(config);
    json_decref(config);
    return text;
}
