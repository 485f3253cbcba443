/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Bytes of the character that the first one begins; 0: it begins none. */
static size_t promised(unsigned char first)
{
    return first < 0x80   ? 1
           : first < 0xC2 ? 0
           : first < 0xE0 ? 2
           : first < 0xF0 ? 3
           : first < 0xF5 ? 4
                          : 0;
}

size_t pst_utf8_subpart(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const unsigned char least = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    size_t n = 1, end = promised(s[0]);

    if (end < 2 || s[1] < least || s[1] > most) {
        return 1;
    }
    while (n < end && (s[n] & 0xC0) == 0x80) {
        n++;
    }
    return n;
}

size_t pst_utf8_length(const char *text)
{
    size_t n = pst_utf8_subpart(text);

    return n == promised((unsigned char)text[0]) ? n : 0;
}

/* Unicode 15, table 23-2 and section 23.2: line and paragraph separators, direction marks,
   embeddings, overrides, isolates, deprecated ones of that kind, and the byte order mark. */
static bool is_direction(uint32_t code)
{
    return code == 0x061C || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x206F) ||
           code == 0xFEFF;
}

uint32_t pst_text_hidden(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = pst_utf8_length(text);
    const uint32_t code = n == 1   ? s[0]
                          : n == 2 ? (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu)
                          : n == 3 ? (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu)
                                   : 0;
    const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);

    return is_control || is_direction(code) ? code : 0;
}

bool pst_text_is_plain(const char *text)
{
    while (*text != '\0') {
        size_t n = pst_utf8_length(text);

        if (n == 0 || pst_text_hidden(text) != 0) {
            return false;
        }
        text += n;
    }
    return true;
}

void pst_text_make_plain(char *text)
{
    while (*text != '\0') {
        size_t n = pst_utf8_length(text);

        if (n == 0) {
            *text = '?';
        } else if (pst_text_hidden(text) != 0) {
            memset(text, ' ', n);
        }
        text += n == 0 ? 1 : n;
    }
}

static void print_text(FILE *out, const char *text, bool in_line)
{
    while (*text != '\0') {
        const size_t n = pst_utf8_length(text);
        const uint32_t hidden = pst_text_hidden(text);

        if (*text == '\n' || *text == '\t') {
            fputs(!in_line ? (*text == '\n' ? "\n" : "\t") : *text == '\n' ? "\\n" : "\\t", out);
        } else if (is_direction(hidden)) {
            fprintf(out, "\\u{%x}", hidden);
        } else if (n == 0 || hidden != 0) {
            fputs("\xEF\xBF\xBD", out);
        } else {
            fwrite(text, 1, n, out);
        }
        text += n == 0 ? pst_utf8_subpart(text) : n;
    }
}

void pst_text_print(FILE *out, const char *text)
{
    print_text(out, text, false);
}

void pst_text_print_line(FILE *out, const char *text)
{
    print_text(out, text, true);
}

static char *format_text(const char *format, va_list args)
{
    char *text;

    if (vasprintf(&text, format, args) < 0) {
        pst_out_of_memory();
    }
    return text;
}

/* Newlines of the format end lines, those of the arguments do not: the format's are written as a
   byte that the text has nowhere else. A text that has every such byte becomes one line. */
void pst_text_printf(FILE *out, const char *format, ...)
{
    char *text, *marked = pst_strdup(format), *end, mark = 1;
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    text = format_text(format, args);
    while (mark < ' ' && (mark == '\n' || strchr(text, mark) != NULL)) {
        mark++;
    }
    if (mark < ' ') {
        for (char *at = marked; (at = strchr(at, '\n')) != NULL; at++) {
            *at = mark;
        }
        free(text);
        text = format_text(marked, again);
    }
    va_end(again);
    va_end(args);
    for (char *line = text; line != NULL; line = end) {
        end = mark < ' ' ? strchr(line, mark) : NULL;
        if (end != NULL) {
            *end++ = '\0';
        }
        print_text(out, line, true);
        fputs(end != NULL ? "\n" : "", out);
    }
    free(marked);
    free(text);
}

void pst_text_append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

char *pst_shape_text(char *text, size_t size, uint32_t rank, const uint64_t *dims)
{
    snprintf(text, size, "[");
    for (uint32_t i = 0; i < rank; i++) {
        pst_text_append(text, size, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)dims[i]);
    }
    pst_text_append(text, size, "]");
    return text;
}

char *pst_text_for_shell(char text[PST_SHELL_TEXT], const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./=+-,:@%";
    size_t n = 0;

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        snprintf(text, PST_SHELL_TEXT, "%s", word);
        return text;
    }
    text[n++] = '\'';
    for (; *word != '\0' && n < PST_SHELL_TEXT - 6; word++) {
        n += (size_t)snprintf(text + n, PST_SHELL_TEXT - n, *word == '\'' ? "'\\''" : "%c", *word);
    }
    snprintf(text + n, PST_SHELL_TEXT - n, "'");
    return text;
}

bool pst_text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

bool pst_text_is_one_of(const char *const *words, const char *word)
{
    while (words != NULL && *words != NULL && strcmp(*words, word) != 0) {
        words++;
    }
    return words != NULL && *words != NULL;
}

const char *pst_list_next(const char **list, size_t *ret_length)
{
    const char *item = *list + strspn(*list, ", ");
    size_t length = strcspn(item, ",");

    *list = item + length;
    while (length > 0 && item[length - 1] == ' ') {
        length--;
    }
    *ret_length = length;
    return length == 0 ? NULL : item;
}

bool pst_list_matches(const char *patterns, const char *name)
{
    bool found = false;
    const char *item;
    size_t length;

    while (!found && (item = pst_list_next(&patterns, &length)) != NULL) {
        char *pattern = pst_strndup(item, length);

        found = fnmatch(pattern, name, 0) == 0;
        free(pattern);
    }
    return found;
}
