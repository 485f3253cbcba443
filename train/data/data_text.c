/* SPDX-License-Identifier: Apache-2.0
 *
 * Text files as a stream in memory: bytes, or the tokens that a tokenizer makes of each document. A
 * document is a file, or a member of each line of JSON.
 */
#include "data/data_impl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "data/tokenizer.h"

#define MAX_TEXT ((uint64_t)1 << 30)

/* The tokens, or bytes, of the files read so far. */
struct gathered {
    const struct pst_tokenizer *tokenizer;
    char *bytes; /* tokens are int32_t */
    uint64_t n, room, text_bytes;
    uint32_t width;
};

static void append_tokens(struct gathered *g, const void *tokens, uint64_t n)
{
    if (g->n + n >= g->room) {
        g->room = g->n + n + 1 > 2 * g->room ? g->n + n + 1 : 2 * g->room;
        g->bytes = pst_resize(g->bytes, g->room, g->width);
    }
    if (n > 0) { /* of an empty text there are no tokens */
        memcpy(g->bytes + g->n * g->width, tokens, n * g->width);
    }
    g->n += n;
}

static pst_status append_text(struct gathered *g, const char *text, size_t length,
                              struct pst_error *err)
{
    int32_t *tokens = NULL;
    uint64_t n = 0;
    pst_status status;

    if (g->tokenizer == NULL) {
        append_tokens(g, text, length);
        return PST_OK;
    }
    status = pst_tokenizer_encode(g->tokenizer, text, length, false, &tokens, &n, err);
    if (status == PST_OK) {
        append_tokens(g, tokens, n);
    }
    free(tokens);
    return status;
}

/* --- lines of JSON ---------------------------------------------------------------------------- */

struct line {
    const char *path;
    const char *at;
    size_t length; /* without its end */
    uint32_t number;
};

/* The next line that is not blank, with *rest after it; false: there is none. */
static bool next_line(struct line *line, const char **rest, const char *end)
{
    while (*rest < end) {
        const char *stop = memchr(*rest, '\n', (size_t)(end - *rest));

        line->at = *rest;
        line->length = (size_t)((stop == NULL ? end : stop) - line->at);
        line->number++;
        *rest = stop == NULL ? end : stop + 1;
        for (size_t i = 0; i < line->length; i++) {
            if (strchr(" \t\r", line->at[i]) == NULL || line->at[i] == '\0') {
                return true;
            }
        }
    }
    return false;
}

static pst_status fail_line(const struct line *line, uint32_t column, const char *what,
                            const char *word, struct pst_error *err)
{
    return pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", line->path, line->number, column,
                       "%s%s", what, word);
}

/* json_decref() what it returns. */
static json_t *parse_line(const struct line *line, json_error_t *ret_error)
{
    json_t *value =
        json_loadb(line->at, line->length,
                   JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, ret_error);

    if (value == NULL && json_error_code(ret_error) == json_error_out_of_memory) {
        pst_out_of_memory();
    }
    return value;
}

static pst_status fail_member(const struct line *line, json_t *value, const char *field,
                              struct pst_error *err)
{
    const char *key;
    json_t *member;
    char what[200], names[200] = "";
    pst_status status;

    snprintf(what, sizeof what, "\"%.100s\"%s", field,
             json_object_get(value, field) != NULL ? " is not a string"
                                                   : " is not a member; set data.field to one");
    status =
        fail_line(line, 0, json_is_object(value) ? what : "the line is not a JSON object", "", err);
    json_object_foreach(value, key, member)
    {
        pst_text_append(names, sizeof names, "%s\"%s\"", names[0] == '\0' ? "" : ", ", key);
    }
    if (names[0] != '\0') {
        pst_error_hint(err, "the line has %s", names);
    } else if (json_is_array(value)) {
        pst_data_hint_list(line->path, err);
    }
    return status;
}

static pst_status append_line(struct gathered *g, const struct line *line, const char *field,
                              struct pst_error *err)
{
    json_error_t error;
    json_t *value = parse_line(line, &error), *text;
    pst_status status;

    if (value == NULL) {
        status = fail_line(line, error.column > 0 ? (uint32_t)error.column : 0,
                           "the line is not JSON: ", error.text, err);
        if (line->at[0] == '[') {
            pst_data_hint_list(line->path, err);
        }
        return status;
    }
    text = json_object_get(value, field);
    if (json_is_string(text)) {
        status = append_text(g, json_string_value(text), json_string_length(text), err);
        if (status != PST_OK) {
            pst_error_prefix(err, "line %u", line->number);
        }
    } else {
        status = fail_member(line, value, field, err);
    }
    json_decref(value);
    return status;
}

static pst_status append_lines(struct gathered *g, const char *path, const char *text,
                               size_t length, const char *field, struct pst_error *err)
{
    const bool marked = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    const char *rest = text + (marked ? 3 : 0);
    struct line line = {.path = path};
    pst_status status = PST_OK;

    while (status == PST_OK && next_line(&line, &rest, text + length)) {
        status = append_line(g, &line, field, err);
    }
    return status;
}

/* Does the line hold an opening bracket alone? */
static bool is_bracket(const struct line *line)
{
    size_t n = line->length, begin = strspn(line->at, " \t");

    while (n > begin && (line->at[n - 1] == ' ' || line->at[n - 1] == '\r')) {
        n--;
    }
    return n == begin + 1 && (line->at[begin] == '[' || line->at[begin] == '{');
}

/* Are the first two lines objects of JSON, or a list of them, each by itself; or do they begin a
   value that is printed over lines? */
static bool has_json(const char *text, size_t length)
{
    const char *rest = text;
    struct line line = {.path = NULL};
    uint32_t n = 0;
    bool all = true;

    while (all && n < 2 && next_line(&line, &rest, text + length)) {
        json_error_t error;
        json_t *value = line.at[0] == '{' || line.at[0] == '[' ? parse_line(&line, &error) : NULL;

        if (value == NULL && n == 0 && is_bracket(&line)) {
            return next_line(&line, &rest, text + length) &&
                   strchr("{[\"", line.at[strspn(line.at, " \t")]) != NULL;
        }
        all = json_is_object(value) || json_is_object(json_array_get(value, 0));
        json_decref(value);
        n++;
    }
    return all && n > 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* The text of one file, which is all documents of it. */
static pst_status append_documents(struct gathered *g, const struct pst_data *data,
                                   const char *path, const char *text, size_t length,
                                   struct pst_error *err)
{
    const bool named = pst_text_ends(path, ".jsonl") || pst_text_ends(path, ".ndjson");
    const char *field = data->field != NULL ? data->field : named ? "text" : "";

    if (field[0] != '\0') {
        return append_lines(g, path, text, length, field, err);
    }
    if (data->field == NULL && (pst_text_ends(path, ".json") || has_json(text, length))) {
        pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                    "the file is JSON, and data.kind = \"text\" would train on its brackets");
        if (text[strspn(text, " \t\r\n")] == '[') {
            pst_data_hint_list(path, err);
        } else {
            pst_error_hint(err, "set data.field to the member of each line that is the text, such "
                                "as \"text\"; data.field = \"\" trains on the file unchanged");
        }
        return PST_ERR_CONFIG;
    }
    return append_text(g, text, length, err);
}

static pst_status append_file(struct gathered *g, const struct pst_data *data, const char *path,
                              const char *key, struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status = pst_file_read(path, (size_t)MAX_TEXT, "input.path", &text, &length, err);

    if (status != PST_OK) {
        pst_error_prefix(err, "%s", key);
        return status;
    }
    g->text_bytes += length;
    if (g->text_bytes > MAX_TEXT) {
        status = pst_fail(err, PST_ERR_CONFIG, "input.limit",
                          "%s: with \"%s\" the text is larger than 1 GiB, the maximum", key, path);
    } else {
        status = data->field == NULL || data->field[0] != '\0'
                     ? pst_data_check_text(path, text, length, err)
                     : PST_OK;
        PST_TRY(status, append_documents(g, data, path, text, length, err));
        if (status != PST_OK && err != NULL && err->file[0] == '\0') {
            pst_error_prefix(err, "%s: \"%s\"", key, path);
        }
    }
    free(text);
    return status;
}

pst_status pst_data_open_text(const struct pst_job *job, struct pst_data *data,
                              const char *patterns, const char *labels, const char *key,
                              struct pst_store *store, struct pst_error *err)
{
    struct gathered g = {.tokenizer = data->tokenizer,
                         .width = data->tokenizer == NULL ? 1 : sizeof(int32_t)};
    struct pst_paths paths;
    pst_status status = pst_paths_find(patterns, key, NULL, &paths, err);

    (void)job;
    (void)labels;
    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; status == PST_OK && i < paths.n; i++) {
        status = append_file(&g, data, paths.paths[i], key, err);
    }
    pst_paths_finish(&paths);
    if (status != PST_OK) {
        free(g.bytes);
        return status;
    }
    store->stream.element = data->tokenizer == NULL ? PST_ELEMENT_U8 : PST_ELEMENT_I32;
    store->stream.memory = g.bytes;
    pst_parts_add(&store->stream.parts, &(struct pst_part){.held = g.bytes, .n = g.n});
    return PST_OK;
}
