/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

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

/* C0, DEL, C1 (U+0080 to U+009F) */
static bool is_control(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    return s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && s[1] < 0xA0);
}

bool pst_text_is_plain(const char *text)
{
    while (*text != '\0') {
        size_t n = pst_utf8_length(text);

        if (n == 0 || is_control(text)) {
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
        } else if (is_control(text)) {
            memset(text, ' ', n);
        }
        text += n == 0 ? 1 : n;
    }
}

void pst_text_print(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t n = pst_utf8_length(text);

        if (n == 0 || (is_control(text) && *text != '\n' && *text != '\t')) {
            fputs("\xEF\xBF\xBD", out);
        } else {
            fwrite(text, 1, n, out);
        }
        text += n == 0 ? pst_utf8_subpart(text) : n;
    }
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

bool pst_text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}
