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
#include "base/util.h"

struct scan {
    const char *path, *text;
    size_t length, at;
    uint32_t line, depth;
    struct pst_error *err;
};

/* Behind the opening quote; ends at the closing one or at the end of the text. */
static pst_status scan_string(struct scan *scan)
{
    size_t begin = ++scan->at;

    while (scan->at < scan->length && scan->text[scan->at] != '"') {
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
    }
    return scan->at - begin <= PST_JSON_STRING
               ? PST_OK
               : pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, scan->line, 0,
                             "a string of more than %zu bytes", PST_JSON_STRING);
}

static pst_status scan_text(struct scan *scan)
{
    pst_status st = PST_OK;

    for (; st == PST_OK && scan->at < scan->length; scan->at++) {
        char c = scan->text[scan->at];

        if (c == '"') {
            st = scan_string(scan);
        } else if (c == '\n') {
            scan->line++;
        } else if (c == '[' || c == '{') {
            if (++scan->depth > PST_JSON_NESTING) {
                st = pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, scan->line,
                                 0, "brackets nested more than %d deep", PST_JSON_NESTING);
            }
        } else if ((c == ']' || c == '}') && scan->depth > 0) {
            scan->depth--;
        }
    }
    return st;
}

/* --- where a parser stopped --------------------------------------------------------------------*/

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

/* What is open at a position of a text that scan_text let pass. */
static void place_find(const char *text, size_t position, struct place *ret_place)
{
    size_t at, begin;

    *ret_place = (struct place){.depth = 0};
    for (at = 0; at < position; at++) {
        if (text[at] != '"') {
            place_sign(ret_place, text[at]);
            continue;
        }
        for (begin = ++at; at < position && text[at] != '"';) {
            at += text[at] == '\\' ? 2 : 1;
        }
        if (at < position) {
            const struct slice string = {text + begin, at - begin};

            place_string(ret_place, &string);
        }
    }
}

/* "graph.nodes[3].forward_us ("conv1"): ", or "" at the top. */
static void place_text(const struct place *place, char *text, size_t room)
{
    const struct slice *name = NULL;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 1; i <= place->depth && used < room; i++) {
        const struct level *level = &place->levels[i];
        int length = 0;

        if (level->is_object && level->has_key) {
            length =
                snprintf(text + used, room - used, "%s%.*s", used > 0 ? "." : "",
                         (int)(level->key.length < 40 ? level->key.length : 40), level->key.at);
        } else if (!level->is_object) {
            length = snprintf(text + used, room - used, "[%zu]", level->index);
        }
        used += length > 0 ? (size_t)length : 0;
        name = level->name.at != NULL ? &level->name : name;
    }
    if (used > 0 && used < room && name != NULL) {
        snprintf(text + used, room - used,
                 " (\"%.*s\"): ", (int)(name->length < 80 ? name->length : 80), name->at);
    } else if (used > 0 && used < room) {
        snprintf(text + used, room - used, ": ");
    }
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
    size_t position = error->position > 0 ? (size_t)error->position : 0;
    const char *word;
    struct place place;
    char where[400];

    position = position < scan->length ? position : scan->length;
    word = not_finite(scan->text, scan->length, position);
    place_find(scan->text, position, &place);
    place_text(&place, where, sizeof where);
    return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.syntax", scan->path,
                       error->line > 0 ? (uint32_t)error->line : 0,
                       error->column > 0 ? (uint32_t)error->column : 0, "%s%s%s", where,
                       word != NULL ? "must be a finite number, not " : error->text,
                       word != NULL ? word : "");
}

pst_status pst_json_load(const char *path, size_t max_bytes, json_t **ret_root,
                         struct pst_error *err)
{
    struct scan scan = {.path = path, .line = 1, .err = err};
    json_error_t error;
    json_t *root = NULL;
    char *text = NULL;
    size_t length = 0, skip;
    pst_status st = pst_file_read(path, max_bytes, "input.path", &text, &length, err);

    if (st != PST_OK) {
        return st;
    }
    skip = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    scan.text = text + skip;
    scan.length = length - skip;
    st = scan_text(&scan);
    if (st == PST_OK) {
        root = json_loadb(text + skip, length - skip, JSON_REJECT_DUPLICATES, &error);
        if (root == NULL && json_error_code(&error) == json_error_out_of_memory) {
            pst_out_of_memory();
        }
        if (root == NULL) {
            st = fail_syntax(&scan, &error);
        }
    }
    free(text);
    if (st == PST_OK) {
        *ret_root = root;
    }
    return st;
}
