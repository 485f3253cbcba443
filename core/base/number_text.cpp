/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers to text, for number.h. std::to_chars knows no locale, finds the shortest digits without
 * trying lengths, and rounds as printf does. All that is C++: it allocates and throws nothing.
 */
extern "C" {
#include "base/number.h"
}

#include <charconv>
#include <cmath>
#include <cstring>

#define ROOM 32u /* of each text, with the NUL */

/* Lays shortest digits out as "%.15g" would, so that 100000 is not 1e+05: digits are those of
   "d.ddde+XX", the exponent stays from 15 digits on and below 1e-4. */
static char *lay_out(char *text, char *end)
{
    const bool negative = text[0] == '-';
    char *const e = static_cast<char *>(std::memchr(text, 'e', static_cast<size_t>(end - text)));
    char *const first = text + negative;
    const int n = e - first > 1 ? static_cast<int>(e - first) - 1 : 1; /* without the point */
    int exponent = 0;
    char digits[ROOM];

    std::from_chars(e + (e[1] == '+' ? 2 : 1), end, exponent);
    if (exponent < -4 || exponent >= (n > 15 ? n : 15)) {
        *end = '\0';
        return text;
    }
    digits[0] = first[0];
    std::memcpy(digits + 1, first + 2, static_cast<size_t>(n - 1));
    end = first;
    if (exponent < 0) {
        std::memcpy(end, "0.000", static_cast<size_t>(1 - exponent));
        end += 1 - exponent;
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1 && i > 0) {
            *end++ = '.';
        }
        *end++ = i < n ? digits[i] : '0';
    }
    *end = '\0';
    return text;
}

extern "C" char *pst_number_format(char *text, double value)
{
    const auto done = std::to_chars(text, text + ROOM - 1, value, std::chars_format::scientific);

    if (!std::isfinite(value)) { /* it has no exponent */
        *done.ptr = '\0';
        return text;
    }
    return lay_out(text, done.ptr);
}

extern "C" char *pst_number_format_to(char *text, double value, int decimals)
{
    char whole[2 * ROOM], *end; /* with the zeros at the end, which are too many for `text` */

    if (std::fabs(value) >= 1e15) { /* it has no decimals */
        return pst_number_format(text, value);
    }
    if (value == std::trunc(value)) {
        *std::to_chars(text, text + ROOM - 1, static_cast<int64_t>(value)).ptr = '\0';
        return text;
    }
    end = std::to_chars(whole, whole + sizeof whole, value, std::chars_format::fixed, decimals).ptr;
    while (decimals > 0 && end[-1] == '0') {
        end--;
    }
    end -= end[-1] == '.';
    std::memcpy(text, whole, static_cast<size_t>(end - whole));
    text[end - whole] = '\0';
    return std::strcmp(text, "-0") == 0 ? std::strcpy(text, "0") : text;
}

extern "C" char *pst_number_format_figure(char *text, double value)
{
    *std::to_chars(text, text + ROOM - 1, value, std::chars_format::general, 12).ptr = '\0';
    return text;
}
