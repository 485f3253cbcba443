/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/combine_impl.h"

#include <stdlib.h>
#include <string.h>

const struct pst_axis_place pst_axis_places[PST_AXES] = {
    [PST_AXIS_PARTITIONER] = {"partitioners", "partitioner", NULL},
    [PST_AXIS_SCHEDULER] = {"schedulers", "scheduler", NULL},
    [PST_AXIS_MEMOPT] = {"memopts", "memopt", NULL},
    [PST_AXIS_DEVICES] = {"devices", "cluster", "devices"},
    [PST_AXIS_MICROBATCH] = {"microbatches", "train", "microbatch"},
};

uint32_t pst_combination_factor(const struct pst_combinations *set, enum pst_axis_kind axis)
{
    bool follows = set->methods != NULL && (axis == PST_AXIS_SCHEDULER || axis == PST_AXIS_MEMOPT);

    return follows ? 1 : set->axes[axis].n;
}

pst_status pst_combinations_all_sizes(struct pst_combinations *set, uint32_t batch,
                                      struct pst_error *err)
{
    struct pst_axis *axis = &set->axes[PST_AXIS_MICROBATCH];
    struct pst_axis_value *values;

    if (axis->n > 0 && axis->values[0].value != NULL) {
        return PST_OK;
    }
    values = pst_arena_array(&set->arena, 32, sizeof *values);
    if (values == NULL) {
        return pst_fail_nomem(err);
    }
    set->n /= axis->n;
    *axis = (struct pst_axis){0, values};
    for (uint32_t size = 1; batch % size == 0 && size <= batch; size *= 2) {
        struct pst_axis_value *value = &values[axis->n++];

        value->value = json_integer(size);
        value->label = pst_arena_printf(&set->arena, "%u", size);
        if (value->value == NULL || value->label == NULL) {
            return pst_fail_nomem(err);
        }
    }
    set->n *= axis->n;
    return PST_OK;
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
    if (pst_combination_factor(set, axis) == 1) {
        axis = axis <= PST_AXIS_MEMOPT && set->methods != NULL ? PST_AXIS_PARTITIONER : axis;
    }
    for (uint32_t a = PST_AXES - 1; a > axis; a--) {
        i /= pst_combination_factor(set, a);
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

/* Puts a value, which is borrowed, into a table of the config, which is made where it is missing.
 */
static bool put(json_t *config, const char *table, const char *entry, json_t *value)
{
    json_t *at = json_object_get(config, table);

    if (at == NULL) {
        at = json_object();
        if (at == NULL || json_object_set_new(config, table, at) != 0) {
            return false;
        }
    }
    return json_object_set(at, entry, value) == 0;
}

static bool put_number(json_t *config, const char *entry, uint32_t number)
{
    json_t *value = number == 0 ? NULL : json_integer(number);
    bool ok = number == 0 || (value != NULL && put(config, "train", entry, value));

    json_decref(value);
    return ok;
}

char *pst_combination_config(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                             uint32_t batch)
{
    json_t *config = json_deep_copy(set->base);
    bool ok = config != NULL;
    char *text = NULL;

    for (enum pst_axis_kind a = 0; a < PST_AXES && ok; a++) {
        json_t *value = set->axes[a].values[value_at(set, i, a)].value;

        if (value != NULL && pst_axis_places[a].entry == NULL) {
            ok = json_object_set(config, pst_axis_places[a].table, value) == 0;
        } else if (value != NULL) {
            ok = put(config, pst_axis_places[a].table, pst_axis_places[a].entry, value);
        }
    }
    if (ok && put_number(config, "microbatch", microbatch) && put_number(config, "batch", batch)) {
        text = json_dumps(config, JSON_COMPACT | JSON_REAL_PRECISION(17));
    }
    json_decref(config);
    return text;
}
