/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of a plan file, with their path in messages; from names to operators, their results and
 * parameters of the graph.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/plan_file.h"

size_t pst_plan_enter(struct pst_plan_reader *reader, const char *key)
{
    size_t mark = reader->field_length;
    int n = snprintf(reader->field + mark, sizeof reader->field - mark, "%s%s",
                     mark == 0 ? "" : ".", key);
    size_t length = mark + (n > 0 ? (size_t)n : 0);
    reader->field_length = length < sizeof reader->field ? length : sizeof reader->field - 1;
    return mark;
}

size_t pst_plan_enter_index(struct pst_plan_reader *reader, size_t index)
{
    size_t mark = reader->field_length;
    int n = snprintf(reader->field + mark, sizeof reader->field - mark, "[%zu]", index);
    size_t length = mark + (n > 0 ? (size_t)n : 0);
    reader->field_length = length < sizeof reader->field ? length : sizeof reader->field - 1;
    return mark;
}

void pst_plan_leave(struct pst_plan_reader *reader, size_t mark)
{
    reader->field_length = mark;
    reader->field[mark] = '\0';
}

void pst_plan_fail(struct pst_plan_reader *reader, const char *kind, const char *format, ...)
{
    char text[512];
    if (reader->status != PST_OK) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reader->status =
        pst_fail_at(reader->err, PST_ERR_CONFIG, kind != NULL ? kind : "input.syntax", reader->path,
                    0, 0, "%s%s%s", reader->field, reader->field_length > 0 ? ": " : "", text);
}

static json_t *member(struct pst_plan_reader *reader, json_t *object, const char *key,
                      const char *expected, bool (*is_type)(const json_t *))
{
    json_t *value = json_object_get(object, key);
    if (reader->status != PST_OK) {
        return NULL;
    }
    if (value == NULL || !is_type(value)) {
        size_t mark = pst_plan_enter(reader, key);
        pst_plan_fail(reader, NULL, "%s, expected %s",
                      value == NULL ? "missing" : "of another type", expected);
        pst_plan_leave(reader, mark);
        return NULL;
    }
    return value;
}

static bool is_array(const json_t *value)
{
    return json_is_array(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

static bool is_integer(const json_t *value)
{
    return json_is_integer(value);
}

static bool is_exact(const json_t *value)
{
    return json_is_integer(value) || json_is_string(value);
}

json_t *pst_plan_array(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    return member(reader, object, key, "an array", is_array);
}

json_t *pst_plan_object(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    return member(reader, object, key, "an object", is_object);
}

const char *pst_plan_string(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    return json_string_value(member(reader, object, key, "a string", is_string));
}

static uint32_t to_u32(struct pst_plan_reader *reader, json_t *value)
{
    json_int_t number = json_integer_value(value);
    if (number < 0 || number > UINT32_MAX - 1) {
        pst_plan_fail(reader, NULL, "%lld, expected an integer from 0 to %u", (long long)number,
                      UINT32_MAX - 1);
        return 0;
    }
    return (uint32_t)number;
}

uint32_t pst_plan_u32(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    json_t *value = member(reader, object, key, "an integer", is_integer);
    if (value == NULL) {
        return 0;
    }
    size_t mark = pst_plan_enter(reader, key);
    uint32_t number = to_u32(reader, value);
    pst_plan_leave(reader, mark);
    return number;
}

/* Decimal digits alone, at least 2^53: the form of what a double cannot hold. */
static bool parse_large(const char *text, uint64_t *ret_value)
{
    char *end;
    if (text[0] < '1' || text[0] > '9') {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < PST_PLAN_FILE_EXACT) {
        return false;
    }
    *ret_value = value;
    return true;
}

uint64_t pst_plan_u64(struct pst_plan_reader *reader, json_t *object, const char *key)
{
    json_t *value = member(reader, object, key, "an integer", is_exact);
    uint64_t number = 0;
    if (value == NULL) {
        return 0;
    }
    size_t mark = pst_plan_enter(reader, key);
    if (json_is_string(value) ? !parse_large(json_string_value(value), &number)
                              : json_integer_value(value) < 0 ||
                                    (uint64_t)json_integer_value(value) >= PST_PLAN_FILE_EXACT) {
        pst_plan_fail(reader, NULL, "expected an integer from 0 on, as a string from 2^53 on");
    } else if (json_is_integer(value)) {
        number = (uint64_t)json_integer_value(value);
    }
    pst_plan_leave(reader, mark);
    return number;
}

uint32_t pst_plan_u32_at(struct pst_plan_reader *reader, json_t *array, size_t index)
{
    json_t *value = json_array_get(array, index);
    if (reader->status != PST_OK) {
        return 0;
    }
    size_t mark = pst_plan_enter_index(reader, index);
    uint32_t number = 0;
    if (!json_is_integer(value)) {
        pst_plan_fail(reader, NULL, "expected an integer");
    } else {
        number = to_u32(reader, value);
    }
    pst_plan_leave(reader, mark);
    return number;
}

uint32_t *pst_plan_u32_array(struct pst_plan_reader *reader, json_t *array)
{
    size_t n = json_array_size(array);
    uint32_t *values = pst_arena_array(&reader->plan->arena, n, sizeof *values);
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        values[i] = pst_plan_u32_at(reader, array, i);
    }
    return values;
}

void pst_plan_known_keys(struct pst_plan_reader *reader, json_t *object, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *const *known = keys;
        while (*known != NULL && strcmp(*known, key) != 0) {
            known++;
        }
        if (*known == NULL) {
            pst_plan_fail(reader, NULL, "unknown key \"%.64s\"", key);
            return;
        }
    }
}

/* --- names --------------------------------------------------------------------------------------
 */

struct named {
    const char *name;
    uint32_t index;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Indices 0 ... n - 1 sorted by name; name_at picks the name of one. */
static uint32_t *sort_names(struct pst_plan_reader *reader, uint32_t n,
                            const char *(*name_at)(const struct pst_graph *, uint32_t))
{
    struct named *names = pst_alloc((size_t)n + 1, sizeof *names);
    uint32_t *order = pst_arena_array(&reader->plan->arena, (size_t)n + 1, sizeof *order);
    for (uint32_t i = 0; i < n; i++) {
        names[i] = (struct named){name_at(reader->graph, i), i};
    }
    qsort(names, n, sizeof *names, compare_names);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = names[i].index;
    }
    free(names);
    return order;
}

static const char *op_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->ops[i].name;
}

static const char *param_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->params[i].name;
}

void pst_plan_index_names(struct pst_plan_reader *reader)
{
    reader->op_order = sort_names(reader, reader->graph->n_ops, op_name);
    reader->param_order = sort_names(reader, reader->graph->n_params, param_name);
}

static uint32_t find_named(struct pst_plan_reader *reader, const uint32_t *order, uint32_t n,
                           const char *(*name_at)(const struct pst_graph *, uint32_t),
                           const char *name, const char *what)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(name_at(reader->graph, order[middle]), name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < n && strcmp(name_at(reader->graph, order[low]), name) == 0) {
        return order[low];
    }
    pst_plan_fail(reader, NULL, "the model has no %s \"%.64s\"", what, name);
    return PST_NONE;
}

uint32_t pst_plan_find_op(struct pst_plan_reader *reader, const char *name)
{
    return find_named(reader, reader->op_order, reader->graph->n_ops, op_name, name, "operator");
}

uint32_t pst_plan_find_result(struct pst_plan_reader *reader, const char *name)
{
    uint32_t op = pst_plan_find_op(reader, name);
    return op != PST_NONE ? reader->graph->ops[op].out[0] : PST_NONE;
}

uint32_t pst_plan_find_param(struct pst_plan_reader *reader, const char *name)
{
    return find_named(reader, reader->param_order, reader->graph->n_params, param_name, name,
                      "parameter");
}
