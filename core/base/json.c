/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

#define MAX_DEPTH    (sizeof((struct pst_json *)NULL)->comma / sizeof(bool))
#define STREAM_BYTES 65536

void pst_json_init(struct pst_json *json)
{
    memset(json, 0, sizeof *json);
}

void pst_json_init_in(struct pst_json *json, char *room, size_t size)
{
    *json = (struct pst_json){.text = room, .capacity = size, .lent = true};
}

void pst_json_stream(struct pst_json *json, FILE *out)
{
    if (json->capacity < STREAM_BYTES) {
        json->capacity = STREAM_BYTES;
        json->text = pst_resize(json->text, json->capacity, 1);
    }
    json->out = out;
}

void pst_json_finish(struct pst_json *json)
{
    if (!json->lent) {
        free(json->text);
    }
    memset(json, 0, sizeof *json);
}

char *pst_json_take(struct pst_json *json)
{
    char *text = NULL;

    if (!json->failed && json->depth == 0) {
        text = json->text;
        json->text = NULL;
    }
    pst_json_finish(json);
    return text;
}

/* Makes room for `need` bytes: by writing out what there is, else by a larger buffer. */
static void make_room(struct pst_json *json, size_t need)
{
    if (json->out != NULL) {
        need -= json->length;
        fwrite(json->text, 1, json->length, json->out); /* a failure stays in ferror() */
        json->length = 0;
        if (need <= json->capacity) {
            return;
        }
    }
    if (json->lent) {
        pst_out_of_memory();
    }
    json->capacity = json->capacity < 128 ? 256 : json->capacity * 2;
    json->capacity = json->capacity < need ? need : json->capacity;
    json->text = pst_resize(json->text, json->capacity, 1);
}

static inline void put_text(struct pst_json *json, const char *text, size_t n)
{
    if (json->failed) {
        return;
    }
    if (json->length + n + 1 > json->capacity) { /* with the NUL */
        make_room(json, json->length + n + 1);
    }
    memcpy(json->text + json->length, text, n);
    json->length += n;
    json->text[json->length] = '\0';
}

static void put_escape(struct pst_json *json, uint32_t c)
{
    static const char named[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *at = c == '\0' || c > 0x7F ? NULL : strchr(named, (int)c);
    char text[8];

    if (at != NULL) {
        snprintf(text, sizeof text, "\\%c", letters[at - named]);
    } else {
        snprintf(text, sizeof text, "\\u%04x", c);
    }
    put_text(json, text, strlen(text));
}

/* Does a character stand for itself in a string? ASCII alone: others may be broken or hidden. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

/* Writes one character that may not stand for itself; returns its length in the text. */
static size_t put_special(struct pst_json *json, const char *text)
{
    const size_t n = pst_utf8_length(text);
    const uint32_t hidden = n == 0 ? 0 : pst_text_hidden(text); /* a terminal may show the answer */

    if (n == 0) {
        put_text(json, "\xEF\xBF\xBD", 3); /* U+FFFD: file names need not be UTF-8, JSON must */
        return pst_utf8_subpart(text);
    }
    if (*text == '"' || *text == '\\') {
        put_escape(json, (unsigned char)*text);
    } else if (hidden != 0) {
        put_escape(json, hidden);
    } else {
        put_text(json, text, n);
    }
    return n;
}

static void put_string(struct pst_json *json, const char *value)
{
    put_text(json, "\"", 1);
    while (*value != '\0') {
        size_t n = 0;

        while (is_plain((unsigned char)value[n])) {
            n++;
        }
        put_text(json, value, n);
        value += n;
        value += *value == '\0' ? 0 : put_special(json, value);
    }
    put_text(json, "\"", 1);
}

/* Writes the comma and the key before a value. */
static void begin_value(struct pst_json *json, const char *key)
{
    if (json->comma[json->depth]) {
        put_text(json, ",", 1);
    }
    json->comma[json->depth] = true;
    if (key != NULL) {
        put_string(json, key);
        put_text(json, ":", 1);
    }
}

static void open_bracket(struct pst_json *json, const char *key, const char *bracket)
{
    if (json->depth + 1 >= MAX_DEPTH) {
        json->failed = true;
        return;
    }
    begin_value(json, key);
    put_text(json, bracket, 1);
    json->depth++;
    json->comma[json->depth] = false;
}

void pst_json_object(struct pst_json *json, const char *key)
{
    open_bracket(json, key, "{");
}

void pst_json_array(struct pst_json *json, const char *key)
{
    open_bracket(json, key, "[");
}

void pst_json_end(struct pst_json *json, char bracket)
{
    if (json->depth == 0) {
        json->failed = true;
        return;
    }
    json->depth--;
    put_text(json, &bracket, 1);
}

void pst_json_raw(struct pst_json *json, const char *key, const char *text)
{
    begin_value(json, key);
    put_text(json, text, strlen(text));
}

void pst_json_string(struct pst_json *json, const char *key, const char *value)
{
    if (value == NULL) {
        pst_json_raw(json, key, "null");
        return;
    }
    begin_value(json, key);
    put_string(json, value);
}

static void put_integer(struct pst_json *json, const char *key, bool negative, uint64_t magnitude)
{
    char text[24], *const end = text + sizeof text, *at = end;

    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative) {
        *--at = '-';
    }
    begin_value(json, key);
    put_text(json, at, (size_t)(end - at));
}

void pst_json_int(struct pst_json *json, const char *key, int64_t value)
{
    put_integer(json, key, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void pst_json_uint(struct pst_json *json, const char *key, uint64_t value)
{
    put_integer(json, key, false, value);
}

void pst_json_number(struct pst_json *json, const char *key, double value)
{
    char text[32];

    pst_json_raw(json, key, isfinite(value) ? pst_number_format(text, value) : "null");
}

void pst_json_float(struct pst_json *json, const char *key, double value)
{
    char text[40];

    pst_number_format(text, value);
    if (strpbrk(text, ".e") == NULL) {
        strcat(text, ".0");
    }
    pst_json_raw(json, key, text);
}

void pst_json_real(struct pst_json *json, const char *key, double value, int decimals)
{
    char text[32];

    pst_json_raw(json, key, isfinite(value) ? pst_number_format_to(text, value, decimals) : "null");
}

void pst_json_figure(struct pst_json *json, const char *key, double value)
{
    char text[32];

    pst_json_raw(json, key, isfinite(value) ? pst_number_format_figure(text, value) : "null");
}

void pst_json_us(struct pst_json *json, const char *key, double ns)
{
    pst_json_real(json, key, ns / 1e3, 3);
}

void pst_json_bool(struct pst_json *json, const char *key, bool value)
{
    pst_json_raw(json, key, value ? "true" : "false");
}

void pst_json_uints(struct pst_json *json, const char *key, const uint32_t *values, uint32_t n)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_uint(json, NULL, values[i]);
    }
    pst_json_end(json, ']');
}

void pst_json_bytes(struct pst_json *json, const char *key, const uint64_t *values, uint32_t n)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_uint(json, NULL, values[i]);
    }
    pst_json_end(json, ']');
}

void pst_json_strings(struct pst_json *json, const char *key, const char *const *values, uint32_t n)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_string(json, NULL, values[i]);
    }
    pst_json_end(json, ']');
}

static void *resize_nothing(size_t bytes)
{
    return pst_resize(NULL, bytes, 1);
}

void pst_json_share_memory(void)
{
    json_set_alloc_funcs(resize_nothing, free);
}

void pst_json_error(struct pst_json *json, const struct pst_error *err)
{
    int code = pst_error_exit_code(err);

    pst_json_int(json, "code", code);
    pst_json_string(json, "kind", code == PST_EXIT_BUG ? "internal" : err->kind);
    pst_json_string(json, "message", err->message);
    if (err->hint[0] != '\0') {
        pst_json_string(json, "hint", err->hint);
    }
    if (err->enough_bytes != 0) {
        pst_json_uint(json, "enough_bytes", err->enough_bytes);
    }
    if (err->enough_memory_limit > 0) {
        pst_json_number(json, "enough_memory_limit", err->enough_memory_limit);
    }
}

void pst_json_newline(struct pst_json *json)
{
    put_text(json, "\n", 1);
}

/* --- what jansson read -------------------------------------------------------------------------*/

static void add_value(struct pst_json *json, const char *key, const json_t *value)
{
    const char *name;
    const json_t *one;
    size_t i;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        pst_json_object(json, key);
        json_object_foreach((json_t *)value, name, one)
        {
            add_value(json, name, one);
        }
        pst_json_end(json, '}');
        break;
    case JSON_ARRAY:
        pst_json_array(json, key);
        json_array_foreach((json_t *)value, i, one)
        {
            add_value(json, NULL, one);
        }
        pst_json_end(json, ']');
        break;
    case JSON_STRING:
        pst_json_string(json, key, json_string_value(value));
        break;
    case JSON_INTEGER:
        pst_json_int(json, key, json_integer_value(value));
        break;
    case JSON_REAL:
        pst_json_float(json, key, json_real_value(value));
        break;
    default:
        pst_json_raw(json, key,
                     json_is_true(value)    ? "true"
                     : json_is_false(value) ? "false"
                                            : "null");
    }
}

const char *pst_json_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

char *pst_json_text(const json_t *value)
{
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    add_value(&json, NULL, value);
    text = pst_json_take(&json);
    if (text == NULL) { /* nested deeper than any reader goes; it says so */
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    }
    if (text == NULL) {
        pst_out_of_memory();
    }
    return text;
}
