/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of parameters: "1..64", "0..", "..1", in the unit of the parameter: "1 KiB..".
 */
#include "config/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

struct range {
    bool has_low, has_high;
    char low_text[64], high_text[64];
    struct pst_value low, high;
};

static int compare(const struct pst_value *a, const struct pst_value *b)
{
    switch (a->type) {
    case PST_PARAM_INT:
        return (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
    case PST_PARAM_FLOAT:
        return (a->as.number > b->as.number) - (a->as.number < b->as.number);
    default:
        return (a->as.units > b->as.units) - (a->as.units < b->as.units);
    }
}

static bool parse_range(uint32_t type, const char *text, struct range *ret_range)
{
    const char *dots = strstr(text, "..");
    size_t n_low;

    if (dots == NULL) {
        return false;
    }
    n_low = (size_t)(dots - text);
    if (n_low >= sizeof ret_range->low_text || strlen(dots + 2) >= sizeof ret_range->high_text) {
        return false;
    }
    memset(ret_range, 0, sizeof *ret_range);
    memcpy(ret_range->low_text, text, n_low);
    strcpy(ret_range->high_text, dots + 2);
    ret_range->has_low = n_low > 0;
    ret_range->has_high = dots[2] != '\0';
    if ((ret_range->has_low &&
         !pst_value_parse(type, NULL, ret_range->low_text, &ret_range->low)) ||
        (ret_range->has_high &&
         !pst_value_parse(type, NULL, ret_range->high_text, &ret_range->high))) {
        return false;
    }
    if (ret_range->has_low && ret_range->has_high) {
        return compare(&ret_range->low, &ret_range->high) <= 0;
    }
    return ret_range->has_low || ret_range->has_high;
}

static bool words_sound(const char *range)
{
    uint32_t n = 0;

    for (const char *at = range;; at++) {
        size_t length = strcspn(at, "|");

        if (length == 0 || ++n > 64) {
            return false;
        }
        for (const char *before = range; before < at; before++) {
            size_t other = strcspn(before, "|");

            if (other == length && memcmp(before, at, length) == 0) {
                return false;
            }
            before += other;
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

bool pst_value_range_sound(uint32_t type, const char *range)
{
    struct range parsed;

    switch (type) {
    case PST_PARAM_ENUM:
        return range != NULL && words_sound(range);
    case PST_PARAM_BOOL:
    case PST_PARAM_PATH:
        return range == NULL;
    case PST_PARAM_STRING: /* of the whole numbers that it takes besides words */
        return range == NULL || parse_range(PST_PARAM_INT, range, &parsed);
    default:
        return range == NULL || parse_range(type, range, &parsed);
    }
}

static const char *value_text(char text[48], const struct pst_value *value)
{
    switch (value->type) {
    case PST_PARAM_INT:
        snprintf(text, 48, "%" PRId64, value->as.integer);
        break;
    case PST_PARAM_FLOAT:
        pst_number_format(text, value->as.number);
        break;
    case PST_PARAM_TIME:
        snprintf(text, 48, "%" PRIu64 " ns", value->as.units);
        break;
    default:
        snprintf(text, 48, "%" PRIu64, value->as.units);
    }
    return text;
}

bool pst_value_in_range(const struct pst_param *row, const struct pst_value *value, char why[512])
{
    struct range range;
    char text[48];

    if (row->range == NULL || value->type == PST_PARAM_ENUM || value->type == PST_PARAM_STRING ||
        value->type == PST_PARAM_PATH || value->type == PST_PARAM_BOOL ||
        !parse_range(row->type, row->range, &range)) {
        return true;
    }
    if ((!range.has_low || compare(value, &range.low) >= 0) &&
        (!range.has_high || compare(value, &range.high) <= 0)) {
        return true;
    }
    value_text(text, value);
    if (!range.has_high) {
        snprintf(why, 512, "must be at least %s, not %s", range.low_text, text);
    } else if (!range.has_low) {
        snprintf(why, 512, "must be at most %s, not %s", range.high_text, text);
    } else {
        snprintf(why, 512, "must be between %s and %s, not %s", range.low_text, range.high_text,
                 text);
    }
    return false;
}
