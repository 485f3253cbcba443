/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits that a parser would only meet after it has allocated or recursed, then the parser, and
 * which member it stopped at.
 */
#include "config/json_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"

struct scan {
    const char *path, *text;
    size_t length;
    struct pst_error *err;
};

/* --- where in a text one is --------------------------------------------------------------------*/

struct slice {
    const char *at;
    size_t length;
};

/* An object or a list that is open. */
struct level {
    bool is_object, has_key;
    size_t index;
    struct slice key, name; /* name: the value of its member of that name */
};

struct place {
    struct level levels[PST_JSON_NESTING + 1];
    uint32_t depth;
};

static bool is_word(const struct slice *slice, const char *word)
{
    return slice->length == strlen(word) && memcmp(slice->at, word, slice->length) == 0;
}

static void place_string(struct place *place, const struct slice *string)
{
    struct level *level = &place->levels[place->depth];

    if (level->is_object && !level->has_key) {
        level->key = *string;
        level->has_key = true;
    } else if (level->is_object && is_word(&level->key, "name")) {
        level->name = *string;
    }
}

static void place_sign(struct place *place, char c)
{
    struct level *level = &place->levels[place->depth];

    if ((c == '{' || c == '[') && place->depth < PST_JSON_NESTING) {
        place->levels[++place->depth] = (struct level){.is_object = c == '{'};
    } else if ((c == '}' || c == ']') && place->depth > 0) {
        place->depth--;
    } else if (c == ',') {
        level->has_key = false;
        level->index++;
    }
}

/* Past the character or the string at `at`; returns where the next one is. */
static size_t place_step(struct place *place, const char *text, size_t length, size_t at)
{
    size_t begin = at + 1;

    if (text[at] != '"') {
        place_sign(place, text[at]);
        return begin;
    }
    for (at = begin; at < length && text[at] != '"';) {
        at += text[at] == '\\' ? 2 : 1;
    }
    if (at < length) {
        place_string(place, &(struct slice){text + begin, at - begin});
    }
    return at + 1;
}

static pst_status check_limits(const struct scan *scan)
{
    struct place place = {.depth = 0};
    uint32_t line = 1, n_lists = 0;

    for (size_t at = 0, next; at < scan->length; at = next) {
        char c = scan->text[at];
        bool opens = c == '[' || c == '{', full = place.depth == PST_JSON_NESTING;

        next = place_step(&place, scan->text, scan->length, at);
        line += c == '\n';
        if (c == '"' && next - at - 2 > PST_JSON_STRING) {
            return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, line, 0,
                               "a string of more than %zu bytes", PST_JSON_STRING);
        }
        if (opens && ++n_lists > PST_JSON_LISTS) {
            return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, line, 0,
                               "more than %u arrays and objects", PST_JSON_LISTS);
        }
        if (opens && full) {
            return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, line, 0,
                               "brackets nested more than %d deep", PST_JSON_NESTING);
        }
    }
    return PST_OK;
}

/* --- where a parser stopped --------------------------------------------------------------------*/

/* "graph.nodes[3].forward_us ("conv1"): ", or "" at the top. */
static void place_text(const struct place *place, char *text, size_t room)
{
    const struct slice *name = NULL;

    text[0] = '\0';
    for (uint32_t i = 1; i <= place->depth; i++) {
        const struct level *level = &place->levels[i];

        if (level->is_object && level->has_key) {
            pst_text_append(text, room, "%s%.*s", text[0] != '\0' ? "." : "",
                            (int)(level->key.length < 40 ? level->key.length : 40), level->key.at);
        } else if (!level->is_object) {
            pst_text_append(text, room, "[%zu]", level->index);
        }
        name = level->name.at != NULL ? &level->name : name;
    }
    if (text[0] != '\0' && name != NULL) {
        pst_text_append(text, room, " (\"%.*s\")", (int)(name->length < 80 ? name->length : 80),
                        name->at);
    }
    pst_text_append(text, room, "%s", text[0] != '\0' ? ": " : "");
}

/* Words that other programs write for numbers and JSON has none of; NULL: something else. */
static const char *not_finite(const char *text, size_t length, size_t position)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    size_t begin = position < length ? position : length;

    while (begin > 0 &&
           (text[begin - 1] == '-' || (text[begin - 1] >= 'A' && text[begin - 1] <= 'z'))) {
        begin--;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);

        if (length - begin >= n && memcmp(text + begin, words[i], n) == 0) {
            return words[i];
        }
    }
    return NULL;
}

static pst_status fail_syntax(const struct scan *scan, const json_error_t *error)
{
    size_t position;
    const char *word;
    struct place place = {.depth = 0};
    char where[400];

    position = strspn(scan->text, " \t\r\n");
    if (position < scan->length && scan->text[position] != '{') { /* all readers want an object */
        pst_fail_at(scan->err, PST_ERR_CONFIG, "input.syntax", scan->path, 0, 0,
                    "the file is not JSON");
        if (scan->path != NULL && pst_text_ends(scan->path, ".toml")) {
            pst_error_hint(scan->err, "a config is TOML, and JSON is read here");
        }
        return PST_ERR_CONFIG;
    }
    position = error->position > 0 ? (size_t)error->position : 0;
    position = position < scan->length ? position : scan->length;
    word = not_finite(scan->text, scan->length, position);
    for (size_t at = 0; at < position;) {
        at = place_step(&place, scan->text, position, at);
    }
    place_text(&place, where, sizeof where);
    return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.syntax", scan->path,
                       error->line > 0 ? (uint32_t)error->line : 0,
                       error->column > 0 ? (uint32_t)error->column : 0, "%s%s%s", where,
                       word != NULL ? "must be a finite number, not " : error->text,
                       word != NULL ? word : "");
}

pst_status pst_json_parse(const char *path, const char *text, size_t length, json_t **ret_root,
                          struct pst_error *err)
{
    size_t skip = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    struct scan scan = {.path = path, .err = err, .text = text + skip, .length = length - skip};
    json_error_t error;
    pst_status status = check_limits(&scan);

    if (status != PST_OK) {
        return status;
    }
    *ret_root = json_loadb(scan.text, scan.length, JSON_REJECT_DUPLICATES, &error);
    if (*ret_root != NULL) {
        return PST_OK;
    }
    return fail_syntax(&scan, &error);
}

pst_status pst_json_load(const char *path, size_t max_bytes, json_t **ret_root,
                         struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status = pst_file_read(path, max_bytes, "input.path", &text, &length, err);

    PST_TRY(status, pst_json_parse(path, text, length, ret_root, err));
    free(text);
    return status;
}

size_t pst_json_find(const char *text, size_t length, const char *of, const char *key,
                     const char **ret_at)
{
    struct place place = {.depth = 0};
    const struct level *levels = place.levels;
    size_t begin = 0, end;

    for (size_t at = 0; at < length; at = place_step(&place, text, length, at)) {
        if (place.depth != 2 || !levels[2].has_key || !is_word(&levels[1].key, of) ||
            !is_word(&levels[2].key, key)) {
            continue;
        }
        if (begin == 0 && text[at] == ':') {
            begin = at + 1 + strspn(text + at + 1, " \t\r\n");
        } else if (begin != 0 && (text[at] == ',' || text[at] == '}')) {
            for (end = at; end > begin && strchr(" \t\r\n", text[end - 1]) != NULL;) {
                end--;
            }
            *ret_at = text + begin;
            return end - begin;
        }
    }
    return 0;
}
