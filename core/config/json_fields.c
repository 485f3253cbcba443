/* SPDX-License-Identifier: Apache-2.0 */
#include "config/json_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"

void pst_fields_fail(struct pst_fields *fields, const char *kind, const char *key,
                     const char *format, ...)
{
    char text[768];
    const char *item = fields->item;
    va_list args;

    if (fields->status != PST_OK) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fields->status = pst_fail_at(
        fields->err, PST_ERR_CONFIG, kind != NULL ? kind : "input.syntax", fields->path, 0, 0,
        "%s%s%s%s%.100s%s%s%s", fields->where, fields->where[0] != '\0' && key != NULL ? "." : "",
        key != NULL ? key : "", item != NULL ? " (\"" : "", item != NULL ? item : "",
        item != NULL ? "\")" : "", fields->where[0] != '\0' || key != NULL ? ": " : "", text);
}

void pst_fields_begin(struct pst_fields *fields, const char *where)
{
    size_t length = strlen(where);

    snprintf(fields->where, sizeof fields->where, "%.*s",
             (int)(length > 0 && where[length - 1] == '.' ? length - 1 : length), where);
}

size_t pst_fields_enter(struct pst_fields *fields, const char *key, size_t index)
{
    size_t mark = strlen(fields->where), room = sizeof fields->where - mark;
    const char *dot = mark == 0 || key[0] == '\0' ? "" : ".";

    if (index == PST_FIELDS_NO_INDEX) {
        snprintf(fields->where + mark, room, "%s%s", dot, key);
    } else {
        snprintf(fields->where + mark, room, "%s%s[%zu]", dot, key, index);
    }
    return mark;
}

void pst_fields_leave(struct pst_fields *fields, size_t mark)
{
    fields->where[mark] = '\0';
}

bool pst_fields_format(struct pst_fields *fields, const json_t *root, const char *format)
{
    const char *word = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");

    if (!json_is_object(root)) {
        pst_fields_fail(fields, "input.syntax", NULL, "must be an object of the format \"%s\"",
                        format);
    } else if (word == NULL) {
        pst_fields_fail(fields, "input.syntax", "format", "must be \"%s\"", format);
    } else if (strcmp(word, format) != 0) {
        pst_fields_fail(fields, "input.syntax", "format", "must be \"%s\", not \"%.64s\"", format,
                        word);
    } else if (!json_is_integer(version) || json_integer_value(version) != 1) {
        pst_fields_fail(fields, "input.syntax", "version", "this penstock reads version 1");
    }
    return fields->status == PST_OK;
}

void pst_fields_known(struct pst_fields *fields, const json_t *object, const char *const *keys,
                      uint32_t n)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char hint[96];
        uint32_t i = 0;

        while (i < n && strcmp(keys[i], key) != 0) {
            i++;
        }
        if (i == n) {
            pst_fields_fail(fields, "config.key", NULL, "unknown key \"%.64s\"%s", key,
                            pst_nearest_hint(hint, key, keys, n));
            return;
        }
    }
}

bool pst_fields_require(struct pst_fields *fields, const json_t *object, const char *key)
{
    if (json_object_get(object, key) == NULL) {
        pst_fields_fail(fields, "config.key", NULL, "\"%s\" is missing", key);
        return false;
    }
    return true;
}

static double number_of(struct pst_fields *fields, const json_t *value, const char *key,
                        double least, double most)
{
    double number = json_number_value(value);

    if (!json_is_number(value)) {
        pst_fields_fail(fields, "config.value", key, "must be a number from %.17g to %.17g", least,
                        most);
        return least;
    }
    if (!(number >= least && number <= most)) {
        pst_fields_fail(fields, "config.value", key,
                        "must be a number from %.17g to %.17g, not %.15g", least, most, number);
        return least;
    }
    return number + 0.0; /* no negative zero */
}

double pst_fields_number(struct pst_fields *fields, const json_t *object, const char *key,
                         double least, double most, double initial)
{
    const json_t *value = json_object_get(object, key);

    return value == NULL ? initial : number_of(fields, value, key, least, most);
}

static uint32_t count_of(struct pst_fields *fields, const json_t *value, const char *key,
                         double least, double most)
{
    double n = number_of(fields, value, key, least, fmin(most, UINT32_MAX));

    if (n != floor(n)) {
        pst_fields_fail(fields, "config.value", key, "must be a whole number, not %.15g", n);
    }
    return (uint32_t)n;
}

uint32_t pst_fields_count(struct pst_fields *fields, const json_t *object, const char *key,
                          double least, double most, double initial)
{
    const json_t *value = json_object_get(object, key);

    return value == NULL ? (uint32_t)initial : count_of(fields, value, key, least, most);
}

const char *pst_fields_string(struct pst_fields *fields, const json_t *object, const char *key,
                              const char *initial)
{
    const json_t *value = json_object_get(object, key);

    if (value == NULL) {
        return initial;
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        pst_fields_fail(fields, "config.value", key, "must be a string that is not empty");
        return NULL;
    }
    return json_string_value(value);
}

uint32_t pst_fields_word(struct pst_fields *fields, const json_t *object, const char *key,
                         const char *const *words, uint32_t initial)
{
    const char *word = pst_fields_string(fields, object, key, words[initial]);
    char all[256] = "", hint[96];
    uint32_t n = 0;

    for (; words[n] != NULL; n++) {
        if (word != NULL && strcmp(words[n], word) == 0) {
            return n;
        }
        pst_text_append(all, sizeof all, "%s%s", n == 0 ? "" : ", ", words[n]);
    }
    if (word != NULL) {
        pst_fields_fail(fields, "config.value", key, "\"%.64s\" is none of %s%s", word, all,
                        pst_nearest_hint(hint, word, words, n));
    }
    return 0;
}

json_t *pst_fields_object(struct pst_fields *fields, const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (value != NULL && !json_is_object(value)) {
        pst_fields_fail(fields, "config.value", key, "must be an object");
        return NULL;
    }
    return value;
}

json_t *pst_fields_array(struct pst_fields *fields, const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (value != NULL && !json_is_array(value)) {
        pst_fields_fail(fields, "config.value", key, "must be an array");
        return NULL;
    }
    return value;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

uint32_t *pst_fields_counts(struct pst_fields *fields, const json_t *object, const char *key,
                            double least, double most, struct pst_arena *arena, uint32_t *ret_n)
{
    const json_t *value = json_object_get(object, key);
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    uint32_t *counts;

    *ret_n = 0;
    if (value == NULL) {
        return NULL;
    }
    if (n == 0 || n > UINT32_MAX) {
        pst_fields_fail(fields, "config.value", key, "must hold at least one number");
        return NULL;
    }
    counts = pst_arena_array(arena, n, sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        counts[i] = count_of(fields, json_is_array(value) ? json_array_get(value, i) : value, key,
                             least, most);
    }
    qsort(counts, n, sizeof *counts, by_value);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || counts[i] != counts[*ret_n - 1]) {
            counts[(*ret_n)++] = counts[i];
        }
    }
    return counts;
}
