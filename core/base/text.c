/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <string.h>

size_t pst_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xC2 ? 0
               : s[0] < 0xE0 ? 2
               : s[0] < 0xF0 ? 3
               : s[0] < 0xF5 ? 4
                             : 0;

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) {
        return 0;
    }
    return n;
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
        text += n == 0 ? 1 : n;
    }
}
