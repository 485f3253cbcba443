/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "config/report.h"
#include "config/value.h"

#define MAX_ROWS 1000

static const struct pst_param *row_at(const struct pst_param *rows, size_t row_size, uint32_t i)
{
    return (const struct pst_param *)((const char *)rows + (size_t)i * row_size);
}

static const struct pst_param *find_row(const struct pst_param *rows, uint32_t n_rows,
                                        size_t row_size, const char *key)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct pst_param *row = row_at(rows, row_size, i);

        if (strcmp(row->key, key) == 0) {
            return row;
        }
    }
    return NULL;
}

static bool listed(const char *const *words, const char *word)
{
    for (; words != NULL && *words != NULL; words++) {
        if (strcmp(*words, word) == 0) {
            return true;
        }
    }
    return false;
}

static void report_unknown(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                           const char *const *others, const struct pst_config_node *node,
                           const char *section, struct pst_report *report)
{
    const char *candidates[MAX_ROWS + 64];
    char word[64], hint[96];
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_rows && n < MAX_ROWS; i++) {
        candidates[n++] = row_at(rows, row_size, i)->key;
    }
    for (; others != NULL && *others != NULL && n < MAX_ROWS + 64; others++) {
        candidates[n++] = *others;
    }
    pst_report_word(word, node->key);
    pst_report_key(report, "config.key", node, "unknown key \"%s\" in %s%s", word, section,
                   pst_nearest_hint(hint, node->key, candidates, n));
    if (hint[0] == '\0' && report->count == 1) {
        snprintf(hint, sizeof hint, "%.80s takes", section);
        pst_error_hint_words(&report->first, hint, candidates, n);
    }
}

static void store(const struct pst_value *value, const struct pst_param *row,
                  struct pst_arena *arena, void *to)
{
    struct pst_value copy = *value;

    if (row->type == PST_PARAM_STRING || row->type == PST_PARAM_PATH) {
        copy.as.string = pst_arena_strdup(arena, value->as.string);
    }
    pst_value_store(&copy, (char *)to + row->offset);
}

static void fill_defaults(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                          struct pst_arena *arena, void *to)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct pst_param *row = row_at(rows, row_size, i);
        struct pst_value value;
        bool ok;

        if (row->initial == NULL) {
            continue;
        }
        ok = pst_value_parse(row->type, row->range, row->initial, &value);
        PST_ASSERT(ok);
        store(&value, row, arena, to);
    }
}

/* A wrong value goes to the report. */
static void fill_one(const struct pst_param *row, struct pst_config_node *node, const char *section,
                     struct pst_arena *arena, void *to, struct pst_report *report)
{
    struct pst_value value;
    char why[512];

    node->used = true;
    if (!pst_value_read(row, node, &value, why) || !pst_value_in_range(row, &value, why)) {
        pst_report_value(report, "config.value", node, "\"%s\" in %s %s", row->key, section, why);
        return;
    }
    store(&value, row, arena, to);
}

static void report_missing(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                           struct pst_config_node *table, const char *section,
                           struct pst_report *report)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct pst_param *row = row_at(rows, row_size, i);

        if (row->initial == NULL && (table == NULL || pst_config_get(table, row->key) == NULL)) {
            pst_report_value(report, "config.key", table, "%s needs the key \"%s\": %s", section,
                             row->key, row->doc);
        }
    }
}

pst_status pst_params_fill(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                           struct pst_config_node *table, const char *section,
                           const char *const *others, struct pst_arena *arena, void *ret_struct,
                           struct pst_error *err)
{
    struct pst_report report = {.count = 0};

    if (table != NULL && table->kind != PST_CONFIG_TABLE) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", table->file, table->line,
                           table->column, "%s must be a table", section);
    }
    fill_defaults(rows, n_rows, row_size, arena, ret_struct);
    for (uint32_t i = 0; table != NULL && i < table->n_children; i++) {
        struct pst_config_node *node = table->children[i];
        const struct pst_param *row = find_row(rows, n_rows, row_size, node->key);

        if (row == NULL && !listed(others, node->key)) {
            report_unknown(rows, n_rows, row_size, others, node, section, &report);
        } else if (row != NULL) {
            fill_one(row, node, section, arena, ret_struct, &report);
        }
    }
    report_missing(rows, n_rows, row_size, table, section, &report);
    return pst_report_finish(&report, err);
}

static bool key_sound(const char *key)
{
    size_t n = key == NULL ? 0 : strlen(key);

    return n > 0 && n < 64 && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* What is wrong with a row by itself, or NULL. */
static const char *row_fault(const struct pst_param *row, size_t struct_size)
{
    size_t size = pst_value_size(row->type);
    struct pst_value value;
    char why[512];

    if (size == 0) {
        return "has an unknown type";
    }
    if (row->doc == NULL || row->doc[0] == '\0') {
        return "has no doc";
    }
    if (row->offset % size != 0 || struct_size < size || row->offset > struct_size - size) {
        return "has an offset that is no such field of the struct";
    }
    if (!pst_value_range_sound(row->type, row->range)) {
        return "has a range that cannot be understood";
    }
    if (row->initial == NULL) {
        return NULL;
    }
    if (!pst_value_parse(row->type, row->range, row->initial, &value)) {
        return "has a default that is not of its type";
    }
    return pst_value_in_range(row, &value, why) ? NULL : "has a default outside its range";
}

static const char *pair_fault(const struct pst_param *a, const struct pst_param *b)
{
    size_t size_a = pst_value_size(a->type), size_b = pst_value_size(b->type);

    if (strcmp(a->key, b->key) == 0) {
        return "appears twice";
    }
    if (a->offset < b->offset + size_b && b->offset < a->offset + size_a) {
        return "overlaps the field of another row";
    }
    return NULL;
}

static pst_status fail_row(struct pst_error *err, uint32_t row, const char *key, const char *fault)
{
    char word[64];

    return pst_fail(err, PST_ERR_BUG, "plugin.descriptor", "parameter row %u: \"%s\" %s", row,
                    pst_report_word(word, key == NULL ? "" : key), fault);
}

pst_status pst_params_verify(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                             size_t struct_size, struct pst_error *err)
{
    if (n_rows > MAX_ROWS) {
        return fail_row(err, MAX_ROWS, NULL, "is one row too many");
    }
    if (n_rows > 0 && (rows == NULL || row_size < sizeof *rows)) {
        return fail_row(err, 0, NULL, "is absent, or rows are smaller than they must be");
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct pst_param *row = row_at(rows, row_size, i);
        const char *fault;

        if (!key_sound(row->key)) {
            return fail_row(err, i, row->key,
                            "is no key: lower-case letters, digits, underscores, at most 63");
        }
        fault = row_fault(row, struct_size);
        for (uint32_t j = 0; fault == NULL && j < i; j++) {
            fault = pair_fault(row, row_at(rows, row_size, j));
        }
        if (fault != NULL) {
            return fail_row(err, i, row->key, fault);
        }
    }
    return PST_OK;
}
