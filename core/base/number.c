/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in glibc: needs no memory */
}

static locale_t get_c_locale(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale;
}

/* strtod also takes white space, hexadecimal, inf and nan, which no file of ours may hold. */
static bool starts_decimal(const char *text)
{
    text += *text == '-' || *text == '+';
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        return false;
    }
    text += *text == '.';
    return *text >= '0' && *text <= '9';
}

bool pst_number_parse_long(const char *text, const char **ret_end, long double *ret_value)
{
    long double value;
    char *end;

    if (!starts_decimal(text)) {
        return false;
    }
    value = strtold_l(text, &end, get_c_locale());
    if (end == text || !isfinite(value)) {
        return false;
    }
    *ret_end = end;
    *ret_value = value;
    return true;
}

bool pst_number_parse(const char *text, const char **ret_end, double *ret_value)
{
    double value;
    char *end;

    if (!starts_decimal(text)) {
        return false;
    }
    value = strtod_l(text, &end, get_c_locale());
    if (end == text || !isfinite(value)) {
        return false;
    }
    *ret_end = end;
    *ret_value = value;
    return true;
}

bool pst_number_parse_int(const char *text, int64_t *ret_value)
{
    long long value;
    char *end;

    if (!starts_decimal(text) || *text == '+') {
        return false;
    }
    errno = 0;
    value = strtoll(text, &end, 10);
    if (*end != '\0' || errno != 0) {
        return false;
    }
    *ret_value = value;
    return true;
}
