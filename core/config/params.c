/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/util.h"
#include "config/job.h"
#include "config/report.h"

#define MAX_ROWS       1000
#define MAX_ENUM_WORDS 64

/* --- one value: from TOML, from the text of a default, against its range -------------------- */

struct value {
    uint32_t type; /* PST_PARAM_* */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string;
        uint32_t word;  /* PST_PARAM_ENUM: index */
        uint64_t units; /* PST_PARAM_BYTES, _TIME, _RATE */
    } as;
};

/* The C type of each type of value, and its name in messages. */
static const struct {
    size_t size; /* bytes and alignment of the field */
    const char *name;
} types[] = {
    [PST_PARAM_BOOL] = {sizeof(bool), "true or false"},
    [PST_PARAM_INT] = {sizeof(int64_t), "an integer"},
    [PST_PARAM_FLOAT] = {sizeof(double), "a number"},
    [PST_PARAM_STRING] = {sizeof(const char *), "a string"},
    [PST_PARAM_ENUM] = {sizeof(uint32_t), "one of these words"},
    [PST_PARAM_BYTES] = {sizeof(uint64_t), "bytes, or a string such as \"16 GiB\""},
    [PST_PARAM_TIME] = {sizeof(uint64_t), "seconds, or a string such as \"5 us\""},
    [PST_PARAM_RATE] = {sizeof(uint64_t), "bytes per second, or a string such as \"900 MB/s\""},
    [PST_PARAM_PATH] = {sizeof(const char *), "the path of a file as a string"},
};

/* 0: there is no such type. */
static size_t value_size(uint32_t type)
{
    return type < sizeof types / sizeof *types ? types[type].size : 0;
}

static bool parse_units(uint32_t type, const char *text, uint64_t *ret_units)
{
    switch (type) {
    case PST_PARAM_BYTES:
        return pst_parse_bytes(text, ret_units);
    case PST_PARAM_RATE:
        return pst_parse_rate(text, ret_units);
    default:
        return pst_parse_time(text, ret_units);
    }
}

/* Takes the first of the words "a|b|c" off the list; false: there are no more. */
static bool next_word(const char **words, const char **ret_word, size_t *ret_length)
{
    if (*words == NULL) {
        return false;
    }
    *ret_word = *words;
    *ret_length = strcspn(*words, "|");
    *words = (*words)[*ret_length] == '|' ? *words + *ret_length + 1 : NULL;
    return true;
}

/* Index of the first such word. */
static bool find_word(const char *words, const char *text, size_t n, uint32_t *ret_index)
{
    const char *word;
    size_t length;

    for (uint32_t i = 0; next_word(&words, &word, &length); i++) {
        if (length == n && memcmp(word, text, n) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

bool pst_params_word(const char *words, const char *text, uint32_t *ret_index)
{
    return text[0] != '\0' && find_word(words, text, strlen(text), ret_index);
}

/* The default's text, or one end of a range. False when it is not of that type. */
static bool parse_value(uint32_t type, const char *range, const char *text, struct value *ret_value)
{
    struct value value = {.type = type};
    const char *end = text;
    bool ok;

    switch (type) {
    case PST_PARAM_BOOL:
        value.as.boolean = strcmp(text, "true") == 0;
        ok = value.as.boolean || strcmp(text, "false") == 0;
        break;
    case PST_PARAM_INT:
        ok = pst_number_parse_int(text, &value.as.integer);
        break;
    case PST_PARAM_FLOAT:
        ok = pst_number_parse(text, &end, &value.as.number) && *end == '\0';
        break;
    case PST_PARAM_STRING:
    case PST_PARAM_PATH:
        value.as.string = text;
        ok = true;
        break;
    case PST_PARAM_ENUM:
        ok = range != NULL && pst_params_word(range, text, &value.as.word);
        break;
    case PST_PARAM_BYTES:
    case PST_PARAM_TIME:
    case PST_PARAM_RATE:
        ok = parse_units(type, text, &value.as.units);
        break;
    default:
        ok = false;
    }
    if (ok) {
        *ret_value = value;
    }
    return ok;
}

/* --- ranges: "1..64", "0..", "..1", in the unit of the parameter ------------------------------*/

struct range {
    bool has_low, has_high;
    char low_text[64], high_text[64];
    struct value low, high;
};

static int compare(const struct value *a, const struct value *b)
{
    switch (a->type) {
    case PST_PARAM_INT:
        return (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
    case PST_PARAM_FLOAT:
        return (a->as.number > b->as.number) - (a->as.number < b->as.number);
    default:
        return (a->as.units > b->as.units) - (a->as.units < b->as.units);
    }
}

static bool parse_range(uint32_t type, const char *text, struct range *ret_range)
{
    const char *dots = strstr(text, "..");
    size_t n_low;

    if (dots == NULL) {
        return false;
    }
    n_low = (size_t)(dots - text);
    if (n_low >= sizeof ret_range->low_text || strlen(dots + 2) >= sizeof ret_range->high_text) {
        return false;
    }
    memset(ret_range, 0, sizeof *ret_range);
    memcpy(ret_range->low_text, text, n_low);
    strcpy(ret_range->high_text, dots + 2);
    ret_range->has_low = n_low > 0;
    ret_range->has_high = dots[2] != '\0';
    if ((ret_range->has_low && !parse_value(type, NULL, ret_range->low_text, &ret_range->low)) ||
        (ret_range->has_high && !parse_value(type, NULL, ret_range->high_text, &ret_range->high))) {
        return false;
    }
    if (ret_range->has_low && ret_range->has_high) {
        return compare(&ret_range->low, &ret_range->high) <= 0;
    }
    return ret_range->has_low || ret_range->has_high;
}

/* They are distinct, and none is empty. */
static bool words_sound(const char *range)
{
    const char *words = range, *word;
    uint32_t n = 0, first;
    size_t length;

    while (next_word(&words, &word, &length)) {
        if (length == 0 || n == MAX_ENUM_WORDS || !find_word(range, word, length, &first) ||
            first != n++) {
            return false;
        }
    }
    return true;
}

/* Returns true if the range text is valid, low <= high and the words of an enum are distinct. */
static bool range_sound(uint32_t type, const char *range)
{
    struct range parsed;

    switch (type) {
    case PST_PARAM_ENUM:
        return range != NULL && words_sound(range);
    case PST_PARAM_BOOL:
    case PST_PARAM_PATH:
        return range == NULL;
    case PST_PARAM_STRING: /* of the whole numbers that it takes besides words */
        return range == NULL || parse_range(PST_PARAM_INT, range, &parsed);
    default:
        return range == NULL || parse_range(type, range, &parsed);
    }
}

static const char *value_text(char text[48], const struct value *value)
{
    switch (value->type) {
    case PST_PARAM_INT:
        snprintf(text, 48, "%" PRId64, value->as.integer);
        break;
    case PST_PARAM_FLOAT:
        pst_number_format(text, value->as.number);
        break;
    case PST_PARAM_TIME:
        snprintf(text, 48, "%" PRIu64 " ns", value->as.units);
        break;
    default:
        snprintf(text, 48, "%" PRIu64, value->as.units);
    }
    return text;
}

/* Inside the row's range? why as above: "must be at least 1, not 0". */
static bool in_range(const struct pst_param *row, const struct value *value, char why[512])
{
    struct range range;
    char text[48];

    if (row->range == NULL || value->type == PST_PARAM_ENUM || value->type == PST_PARAM_STRING ||
        value->type == PST_PARAM_PATH || value->type == PST_PARAM_BOOL ||
        !parse_range(row->type, row->range, &range)) {
        return true;
    }
    if ((!range.has_low || compare(value, &range.low) >= 0) &&
        (!range.has_high || compare(value, &range.high) <= 0)) {
        return true;
    }
    value_text(text, value);
    if (!range.has_high) {
        snprintf(why, 512, "must be at least %s, not %s", range.low_text, text);
    } else if (!range.has_low) {
        snprintf(why, 512, "must be at most %s, not %s", range.high_text, text);
    } else {
        snprintf(why, 512, "must be between %s and %s, not %s", range.low_text, range.high_text,
                 text);
    }
    return false;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"nothing",    "a table", "an array", "a string",
                                        "an integer", "a float", "a boolean"};

    return kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

/* A plain number where units are meant: bytes, bytes per second, or seconds. */
static bool units_from_number(uint32_t type, long double number, uint64_t *ret_units)
{
    if (type == PST_PARAM_TIME) {
        number = roundl(number * 1e9L);
    }
    if (!(number >= 0) || !(number < 0x1p64L) || number != floorl(number)) {
        return false;
    }
    *ret_units = (uint64_t)number;
    return true;
}

/* An integer, a number or a string as text; else NULL. */
static const char *scalar_text(const struct pst_config_node *node, char number[32])
{
    switch (node->kind) {
    case PST_CONFIG_INT:
        snprintf(number, 32, "%" PRId64, node->value.integer);
        return number;
    case PST_CONFIG_FLOAT:
        return pst_number_format(number, node->value.number);
    case PST_CONFIG_STRING:
        return node->value.string;
    default:
        return NULL;
    }
}

static bool read_units(uint32_t type, const struct pst_config_node *node, uint64_t *ret_units,
                       char why[512])
{
    const char *quote = node->kind == PST_CONFIG_STRING ? "\"" : "", *text;
    char word[64], number[32];

    if (node->kind == PST_CONFIG_STRING ? parse_units(type, node->value.string, ret_units)
        : node->kind == PST_CONFIG_INT
            ? units_from_number(type, (long double)node->value.integer, ret_units)
            : node->kind == PST_CONFIG_FLOAT &&
                  units_from_number(type, (long double)node->value.number, ret_units)) {
        return true;
    }
    text = scalar_text(node, number);
    snprintf(why, 512, "must be %s, not %s%s%s", types[type].name, quote,
             text != NULL ? pst_report_word(word, text) : kind_name(node->kind), quote);
    return false;
}

/* "a, b or c" */
static void list_words(char *text, size_t size, const char *words)
{
    const char *word;
    size_t n;

    text[0] = '\0';
    while (next_word(&words, &word, &n)) {
        pst_text_append(text, size, "%.*s%s", (int)n, word,
                        words == NULL                ? ""
                        : strchr(words, '|') == NULL ? " or "
                                                     : ", ");
    }
}

static void explain_word(const struct pst_param *row, const char *word, char why[512])
{
    char copy[256], shown[64], list[256], hint[96];
    const char *words[MAX_ENUM_WORDS];
    uint32_t n = 0;
    char *save = NULL;

    snprintf(copy, sizeof copy, "%s", row->range);
    for (char *at = strtok_r(copy, "|", &save); at != NULL && n < MAX_ENUM_WORDS;
         at = strtok_r(NULL, "|", &save)) {
        words[n++] = at;
    }
    list_words(list, sizeof list, row->range);
    snprintf(why, 512, "must be %s, not \"%s\"%s", list, pst_report_word(shown, word),
             pst_nearest_hint(hint, word, words, n));
}

static bool read_word(const struct pst_param *row, const struct pst_config_node *node,
                      uint32_t *ret_word, char why[512])
{
    char list[256], number[32];

    if (node->kind == PST_CONFIG_BOOL &&
        pst_params_word(row->range, node->value.boolean ? "true" : "false", ret_word)) {
        return true; /* "auto|true|false" */
    }
    if (node->kind != PST_CONFIG_STRING) {
        list_words(list, sizeof list, row->range);
        snprintf(number, sizeof number, "%" PRId64,
                 node->kind == PST_CONFIG_INT ? node->value.integer : 0);
        if (node->kind == PST_CONFIG_INT && pst_params_word(row->range, number, ret_word)) {
            snprintf(why, 512, "must be a word; write \"%s\", with quotes", number);
            return false;
        }
        snprintf(why, 512, "must be %s, not %s", list, kind_name(node->kind));
        return false;
    }
    if (!pst_params_word(row->range, node->value.string, ret_word)) {
        explain_word(row, node->value.string, why);
        return false;
    }
    return true;
}

/* A list of words or numbers as a string, "1,2,4", which has its place in `why`. */
static bool read_list(const struct pst_config_node *node, struct value *ret_value, char why[512])
{
    why[0] = '\0';
    for (uint32_t i = 0; i < node->n_children; i++) {
        char number[32];
        const char *text = scalar_text(node->children[i], number);

        if (text == NULL || strchr(text, ',') != NULL || strlen(why) + strlen(text) + 2 > 512) {
            return false;
        }
        pst_text_append(why, 512, "%s%s", i > 0 ? "," : "", text);
    }
    ret_value->as.string = why;
    return node->n_children > 0;
}

static bool default_is_number_or_empty(const struct pst_param *row)
{
    const char *end = row->initial;
    double number;

    return end != NULL && (*end == '\0' || (pst_number_parse(end, &end, &number) && *end == '\0'));
}

/* A string, a list of words or numbers, where the row has a range a whole number in it, or where
   its default is a number or the empty string any number. */
static bool read_string(const struct pst_param *row, const struct pst_config_node *node,
                        struct value *ret_value, char why[512])
{
    const struct pst_param number = {.type = PST_PARAM_INT, .range = row->range};
    struct value value = {.type = PST_PARAM_INT};

    if (node->kind == PST_CONFIG_INT && row->range != NULL) {
        value.as.integer = node->value.integer;
        if (!in_range(&number, &value, why)) {
            return false;
        }
        snprintf(why, 512, "%" PRId64, node->value.integer);
        ret_value->as.string = why;
        return true;
    }
    if (node->kind == PST_CONFIG_INT || node->kind == PST_CONFIG_FLOAT) {
        ret_value->as.string = default_is_number_or_empty(row) ? scalar_text(node, why) : NULL;
    } else {
        ret_value->as.string = node->kind == PST_CONFIG_STRING ? node->value.string : NULL;
    }
    if (ret_value->as.string != NULL ||
        (node->kind == PST_CONFIG_ARRAY && read_list(node, ret_value, why))) {
        return true;
    }
    if (node->kind == PST_CONFIG_ARRAY) {
        snprintf(why, 512,
                 "must be a string, or a list of numbers and of strings without commas, of 1 to "
                 "510 bytes");
    } else {
        snprintf(why, 512, "must be %s, not %s",
                 row->range != NULL ? "a whole number, a list or a string" : types[row->type].name,
                 kind_name(node->kind));
    }
    return false;
}

/* A number, or a part of a hundred: "75%" is 0.75. */
static bool read_number(const struct pst_config_node *node, double *ret_number)
{
    const char *end = NULL;

    switch (node->kind) {
    case PST_CONFIG_INT:
        *ret_number = (double)node->value.integer;
        return true;
    case PST_CONFIG_FLOAT:
        *ret_number = node->value.number;
        return true;
    case PST_CONFIG_STRING:
        if (!pst_number_parse(node->value.string, &end, ret_number) || strcmp(end, "%") != 0) {
            return false;
        }
        *ret_number /= 100;
        return true;
    default:
        return false;
    }
}

/* False when a node is of the wrong kind for that type; why then holds the rest of a sentence that
   starts with the key: "must be an integer, not a string". A list of integers is read as a string,
   "1,2", which then has its place in `why`. */
/* Nothing moves so few bytes per second: the unit is missing, as in link_bandwidth = 16. */
static void warn_of_unit(const struct pst_param *row, const struct pst_config_node *node,
                         uint64_t units)
{
    char text[128];

    if (row->type == PST_PARAM_RATE && units > 0 && units < 1024 &&
        (node->kind != PST_CONFIG_STRING || strpbrk(node->value.string, "Bb") == NULL)) {
        snprintf(text, sizeof text, "%.40s is %llu bytes per second; is \"%llu GB/s\" meant?",
                 row->key, (unsigned long long)units, (unsigned long long)units);
        pst_log_once(PST_LOG_WARN, "config", text);
    }
}

static bool read_value(const struct pst_param *row, const struct pst_config_node *node,
                       struct value *ret_value, char why[512])
{
    struct value value = {.type = row->type};
    bool ok = true;

    switch (row->type) {
    case PST_PARAM_BOOL:
        ok = node->kind == PST_CONFIG_BOOL;
        value.as.boolean = ok && node->value.boolean;
        break;
    case PST_PARAM_INT:
        ok = node->kind == PST_CONFIG_INT;
        value.as.integer = ok ? node->value.integer : 0;
        break;
    case PST_PARAM_FLOAT:
        ok = read_number(node, &value.as.number);
        break;
    case PST_PARAM_STRING:
        if (!read_string(row, node, &value, why)) {
            return false;
        }
        break;
    case PST_PARAM_PATH:
        ok = node->kind == PST_CONFIG_STRING;
        value.as.string = ok ? node->value.string : NULL;
        break;
    case PST_PARAM_ENUM:
        if (!read_word(row, node, &value.as.word, why)) {
            return false;
        }
        break;
    default:
        if (!read_units(row->type, node, &value.as.units, why)) {
            return false;
        }
        warn_of_unit(row, node, value.as.units);
    }
    if (!ok) {
        snprintf(why, 512, "must be %s, not %s", types[row->type].name, kind_name(node->kind));
        return false;
    }
    *ret_value = value;
    return true;
}

/* --- a table of values --------------------------------------------------------------------- */

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

/* The key of another table of the config, where `section` is one, too. */
static bool meant_elsewhere(const char *key, const char *section, struct pst_job_meant *ret)
{
    char table[64];
    size_t n;

    if (section[0] != '[' || !pst_job_key_meant(key, ret)) {
        return false;
    }
    snprintf(table, sizeof table, "%s", section + strspn(section, "["));
    table[strcspn(table, "].")] = '\0';
    n = strlen(table);
    return pst_text_is_one_of(pst_job_tables, table) &&
           (strncmp(ret->key, table, n) != 0 || ret->key[n] != '.');
}

static void report_unknown(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                           const char *const *others, const struct pst_config_node *node,
                           bool in_job, const char *section, struct pst_report *report)
{
    const char *candidates[MAX_ROWS + 64];
    char word[64], hint[160];
    struct pst_job_meant meant;
    const bool elsewhere = in_job && meant_elsewhere(node->key, section, &meant);
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_rows && n < MAX_ROWS; i++) {
        candidates[n++] = row_at(rows, row_size, i)->key;
    }
    for (; others != NULL && *others != NULL && n < MAX_ROWS + 64; others++) {
        candidates[n++] = *others;
    }
    pst_report_word(word, node->key);
    pst_nearest_hint(hint, node->key, candidates, n);
    if (elsewhere && meant.table != NULL) {
        snprintf(hint, sizeof hint, "; it belongs into [%s]", meant.table);
    } else if (elsewhere && hint[0] == '\0') {
        snprintf(hint, sizeof hint, "; did you mean %s%s?", meant.key, meant.remark);
    }
    pst_report_key(report, "config.key", node, "unknown key \"%s\" in %s%s", word, section, hint);
    if (hint[0] == '\0' && report->count == 1) {
        snprintf(hint, sizeof hint, "%.80s takes", section);
        pst_error_hint_words(&report->first, hint, candidates, n);
    }
}

static void store_value(const struct value *value, const struct pst_param *row,
                        struct pst_arena *arena, void *to)
{
    struct value copy = *value;

    if (row->type == PST_PARAM_STRING || row->type == PST_PARAM_PATH) {
        copy.as.string = pst_arena_strdup(arena, value->as.string);
    }
    memcpy((char *)to + row->offset, &copy.as, value_size(row->type));
}

static void fill_defaults(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                          struct pst_arena *arena, void *to)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct pst_param *row = row_at(rows, row_size, i);
        struct value value;
        bool ok;

        if (row->initial == NULL) {
            continue;
        }
        ok = parse_value(row->type, row->range, row->initial, &value);
        PST_ASSERT(ok);
        store_value(&value, row, arena, to);
    }
}

/* A wrong value goes to the report. */
static void fill_one(const struct pst_param *row, struct pst_config_node *node, const char *section,
                     struct pst_arena *arena, void *to, struct pst_report *report)
{
    struct value value;
    char why[512];

    node->used = true;
    if (!read_value(row, node, &value, why) || !in_range(row, &value, why)) {
        pst_report_value(report, "config.value", node, "\"%s\" in %s %s", row->key, section, why);
        return;
    }
    store_value(&value, row, arena, to);
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
        struct pst_job_meant meant;
        const bool elsewhere = table->kind == PST_CONFIG_STRING && table->key != NULL &&
                               meant_elsewhere(table->key, section, &meant);

        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", table->file, table->line,
                           table->column, "%s must be a table%s%s%s", section,
                           elsewhere ? "; did you mean " : "", elsewhere ? meant.key : "",
                           elsewhere ? "?" : "");
    }
    fill_defaults(rows, n_rows, row_size, arena, ret_struct);
    for (uint32_t i = 0; table != NULL && i < table->n_children; i++) {
        struct pst_config_node *node = table->children[i];
        const struct pst_param *row = find_row(rows, n_rows, row_size, node->key);

        if (row == NULL && !pst_text_is_one_of(others, node->key)) {
            const bool in_job = table->line != 0; /* --options alone are a root without a line */

            report_unknown(rows, n_rows, row_size, others, node, in_job, section, &report);
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

/* Returns what is wrong with a single row, or NULL. */
static const char *row_fault(const struct pst_param *row, size_t struct_size)
{
    size_t size = value_size(row->type);
    struct value value;
    char why[512];

    if (size == 0) {
        return "has an unknown type";
    }
    if (row->doc == NULL || row->doc[0] == '\0') {
        return "has no doc";
    }
    if (row->offset % size != 0 || struct_size < size || row->offset > struct_size - size) {
        return "has an offset that is not a field of the struct";
    }
    if (!range_sound(row->type, row->range)) {
        return "has a range that cannot be understood";
    }
    if (row->initial == NULL) {
        return NULL;
    }
    if (!parse_value(row->type, row->range, row->initial, &value)) {
        return "has a default that is not of its type";
    }
    return in_range(row, &value, why) ? NULL : "has a default outside its range";
}

static const char *pair_fault(const struct pst_param *a, const struct pst_param *b)
{
    size_t size_a = value_size(a->type), size_b = value_size(b->type);

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
            return fail_row(
                err, i, row->key,
                "is not a key: use lower-case letters, digits and underscores, at most 63");
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
