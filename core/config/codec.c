/* SPDX-License-Identifier: Apache-2.0 */
#include "config/codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static struct pst_codec_level *open_level(struct pst_codec *c)
{
    return &c->levels[c->depth];
}

/* The next value, which stays the next one. */
static json_t *peek_value(struct pst_codec *c, const char *key)
{
    const struct pst_codec_level *level = open_level(c);

    if (c->depth == 0) {
        return c->root;
    }
    return key != NULL ? json_object_get(level->at, key) : json_array_get(level->at, level->index);
}

struct pst_fields *pst_codec_place(struct pst_codec *c, bool element)
{
    pst_fields_leave(c->in, 0);
    for (uint32_t i = 2; i <= c->depth + element; i++) {
        const char *key = i <= c->depth ? c->levels[i].key : NULL;

        pst_fields_enter(c->in, key != NULL ? key : "",
                         key != NULL ? PST_FIELDS_NO_INDEX : c->levels[i - 1].index - 1);
    }
    return c->in;
}

/* Fails at a value: a member, an element, or the top. */
#define fail_value(c, kind, key, ...)                                                              \
    pst_fields_fail(pst_codec_place(c, (key) == NULL && (c)->depth > 0), kind, key, __VA_ARGS__)

static void note_key(struct pst_codec_level *level, const char *key)
{
    if (key != NULL && level->n_keys < PST_CODEC_MEMBERS &&
        (level->n_keys == 0 || level->keys[level->n_keys - 1] != key)) {
        level->keys[level->n_keys++] = key;
    }
}

json_t *pst_codec_find(struct pst_codec *c, const char *key)
{
    json_t *value = pst_codec_is_sound(c) ? peek_value(c, key) : NULL;

    note_key(open_level(c), key);
    open_level(c)->index += key == NULL;
    return value;
}

/* Returns the next value; fails and returns NULL if it has another type. */
static json_t *find_typed(struct pst_codec *c, const char *key, const char *expected,
                          bool (*is_type)(const json_t *))
{
    json_t *value = pst_codec_find(c, key);

    if (!pst_codec_is_sound(c) || (value != NULL && is_type(value))) {
        return value;
    }
    if (c->format == NULL) {
        fail_value(c, NULL, key, "%s, expected %s", value == NULL ? "missing" : "of another type",
                   expected);
    } else if (c->depth == 0) {
        fail_value(c, NULL, key, "must be %s of the format \"%s\"", expected, c->format);
    } else {
        fail_value(c, "config.value", key, "must be %s", expected);
    }
    return NULL;
}

#define IS_TYPE(name, test)                                                                        \
    static bool name(const json_t *value)                                                          \
    {                                                                                              \
        return test;                                                                               \
    }

IS_TYPE(is_array, json_is_array(value))
IS_TYPE(is_object, json_is_object(value))
IS_TYPE(is_string, json_is_string(value))
IS_TYPE(is_text, json_is_string(value) || json_is_null(value))
IS_TYPE(is_integer, json_is_integer(value))
IS_TYPE(is_exact, json_is_integer(value) || json_is_string(value))
IS_TYPE(is_number, json_is_number(value))
IS_TYPE(is_bool, json_is_boolean(value))

/* --- objects and arrays ------------------------------------------------------------------------*/

static void begin_level(struct pst_codec *c, const char *key, bool is_array_wanted)
{
    json_t *at = NULL;
    struct pst_codec_level *level;

    if (pst_codec_reads(c)) {
        at = find_typed(c, key, is_array_wanted ? "an array" : "an object",
                        is_array_wanted ? is_array : is_object);
    } else if (is_array_wanted) {
        pst_json_array(c->out, key);
    } else {
        pst_json_object(c->out, key);
    }
    level = &c->levels[++c->depth]; /* its keys need no zeros */
    level->at = at;
    level->key = key;
    level->index = 0;
    level->is_array = is_array_wanted;
    level->lacks_member = false;
    level->n_keys = 0;
}

void pst_codec_object(struct pst_codec *c, const char *key)
{
    begin_level(c, key, false);
}

uint32_t pst_codec_array(struct pst_codec *c, const char *key)
{
    begin_level(c, key, true);
    return (uint32_t)json_array_size(open_level(c)->at);
}

/* Looks from *at on, where the next key of a file mostly is. */
static bool is_known(const struct pst_codec_level *level, const char *key, uint32_t *at)
{
    for (uint32_t n = 0; n < level->n_keys; n++) {
        *at = *at < level->n_keys ? *at : 0;
        if (strcmp(level->keys[(*at)++], key) == 0) {
            return true;
        }
    }
    return false;
}

static void refuse_others(struct pst_codec *c, const struct pst_codec_level *level)
{
    uint32_t at = 0;
    char hint[96] = "";
    const char *key;
    json_t *value;

    json_object_foreach(level->at, key, value)
    {
        if (is_known(level, key, &at)) {
            continue;
        }
        if (c->format != NULL) {
            pst_nearest_hint(hint, key, level->keys, level->n_keys);
        }
        if (!level->lacks_member || hint[0] != '\0') {
            c->in->status = level->lacks_member ? PST_OK : c->in->status;
            pst_codec_fail(c, c->format != NULL ? "config.key" : NULL, NULL,
                           "unknown key \"%.64s\"%s", key, hint);
            return;
        }
    }
}

void pst_codec_require(struct pst_codec *c, const char *key, const char *missing)
{
    if (!pst_codec_is_sound(c) || pst_codec_has(c, key, true)) {
        return;
    }
    if (missing != NULL) {
        pst_codec_fail(c, "config.key", NULL, "%s", missing);
    } else {
        pst_codec_fail(c, "config.key", NULL, "\"%s\" is missing", key);
    }
    open_level(c)->lacks_member = true;
}

void pst_codec_end(struct pst_codec *c)
{
    struct pst_codec_level *level = open_level(c);

    if (!pst_codec_reads(c)) {
        pst_json_end(c->out, level->is_array ? ']' : '}');
    } else if (level->is_array && json_array_size(level->at) > level->index) {
        pst_codec_fail(c, NULL, NULL, "%zu elements, expected %zu", json_array_size(level->at),
                       level->index);
    } else if (!level->is_array && !c->lenient) {
        refuse_others(c, level);
    }
    c->depth--;
}

void pst_codec_newline(struct pst_codec *c)
{
    if (!pst_codec_reads(c)) {
        pst_json_newline(c->out);
    }
}

bool pst_codec_skip_object(struct pst_codec *c, const char *key)
{
    return find_typed(c, key, "an object", is_object) != NULL;
}

void pst_codec_verbatim(struct pst_codec *c, const char *key, const char *text, size_t length,
                        const char **object)
{
    const char *at = NULL;
    size_t n;

    if (!pst_codec_reads(c)) {
        pst_json_raw(c->out, key, *object);
        return;
    }
    n = pst_json_find(text, length, open_level(c)->key, key, &at);
    if (pst_codec_skip_object(c, key) && n > 0) {
        *object = pst_arena_strndup(c->arena, at, n);
    }
}

bool pst_codec_has(struct pst_codec *c, const char *key, bool there)
{
    if (!pst_codec_reads(c)) {
        return there;
    }
    note_key(open_level(c), key);
    return pst_codec_is_sound(c) && peek_value(c, key) != NULL;
}

bool pst_codec_null(struct pst_codec *c, const char *key, bool is_null)
{
    is_null = pst_codec_reads(c) ? json_is_null(peek_value(c, key)) : is_null;
    if (is_null && pst_codec_reads(c)) {
        pst_codec_find(c, key);
    } else if (is_null) {
        pst_json_raw(c->out, key, "null");
    }
    return is_null;
}

/* --- values ------------------------------------------------------------------------------------*/

void pst_codec_uint(struct pst_codec *c, const char *key, uint32_t *number)
{
    json_int_t read;
    json_t *value;

    if (!pst_codec_reads(c)) {
        pst_json_uint(c->out, key, *number);
        return;
    }
    value = find_typed(c, key, "an integer", is_integer);
    read = json_integer_value(value);
    if (read < 0 || read > UINT32_MAX - 1) {
        fail_value(c, NULL, key, "%lld, expected an integer from 0 to %u", (long long)read,
                   UINT32_MAX - 1);
        read = 0;
    }
    *number = (uint32_t)read;
}

/* Decimal digits alone, at least 2^53: the form of what a double cannot hold. */
static bool parse_large(const char *text, uint64_t *ret_value)
{
    unsigned long long value;
    char *end;

    if (text[0] < '1' || text[0] > '9') {
        return false;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    *ret_value = value;
    return errno == 0 && *end == '\0' && value >= PST_CODEC_EXACT;
}

void pst_codec_bytes(struct pst_codec *c, const char *key, uint64_t *number)
{
    char text[24];
    json_t *value;

    if (!pst_codec_reads(c)) {
        if (*number < PST_CODEC_EXACT) {
            pst_json_uint(c->out, key, *number);
        } else {
            snprintf(text, sizeof text, "%llu", (unsigned long long)*number);
            pst_json_string(c->out, key, text);
        }
        return;
    }
    value = find_typed(c, key, "an integer", is_exact);
    *number = (uint64_t)json_integer_value(value);
    if (json_is_string(value) ? !parse_large(json_string_value(value), number)
                              : json_integer_value(value) < 0 || *number >= PST_CODEC_EXACT) {
        fail_value(c, NULL, key, "expected an integer from 0 on, as a string from 2^53 on");
        *number = 0;
    }
}

void pst_codec_bool(struct pst_codec *c, const char *key, bool *flag)
{
    if (pst_codec_reads(c)) {
        *flag = json_is_true(find_typed(c, key, "true or false", is_bool));
    } else {
        pst_json_bool(c->out, key, *flag);
    }
}

void pst_codec_number(struct pst_codec *c, const char *key, double *number, double least,
                      double most)
{

    if (!pst_codec_reads(c)) {
        pst_json_number(c->out, key, *number);
        return;
    }
    *number = json_number_value(find_typed(c, key, "a number", is_number));
    if (!(*number >= least && *number <= most)) {
        fail_value(c, NULL, key, "expected a number from %.17g to %.17g", least, most);
        *number = least;
    }
}

void pst_codec_string(struct pst_codec *c, const char *key, const char **text)
{
    if (pst_codec_reads(c)) {
        *text = json_string_value(find_typed(c, key, "a string", is_string));
    } else {
        pst_json_string(c->out, key, *text);
    }
}

void pst_codec_text(struct pst_codec *c, const char *key, const char **text)
{
    if (pst_codec_reads(c)) {
        *text = json_string_value(find_typed(c, key, "a string or null", is_text));
        *text = pst_arena_strdup(c->arena, *text);
    } else {
        pst_json_string(c->out, key, *text);
    }
}

void pst_codec_constant(struct pst_codec *c, const char *key, const char *word)
{
    const char *text = word;

    pst_codec_string(c, key, &text);
    if (text != NULL && strcmp(text, word) != 0) {
        pst_codec_fail(c, NULL, key, "\"%.32s\", expected \"%s\"", text, word);
    }
}

void pst_codec_position(struct pst_codec *c, const char *key, uint32_t number)
{
    uint32_t stated = number;

    pst_codec_uint(c, key, &stated);
    if (stated != number && pst_codec_is_sound(c)) {
        pst_codec_fail(c, NULL, key, "%u, expected %u: they are numbered in order", stated, number);
    }
}

void *pst_codec_items(struct pst_codec *c, const char *key, void *items, uint32_t *n, size_t size)
{
    uint32_t there = pst_codec_array(c, key);
    void *at;

    if (pst_codec_reads(c)) {
        *n = there;
        at = pst_arena_array(c->arena, there, size);
        memcpy(items, &at, sizeof at);
    } else {
        memcpy(&at, items, sizeof at);
    }
    return at;
}

void pst_codec_uints(struct pst_codec *c, const char *key, const uint32_t **items, uint32_t *n)
{
    uint32_t *at = pst_codec_items(c, key, items, n, sizeof *at);

    for (uint32_t i = 0; i < *n && pst_codec_is_sound(c); i++) {
        pst_codec_uint(c, NULL, &at[i]);
    }
    pst_codec_end(c);
}
