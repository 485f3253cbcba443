/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of `penstock partition`. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_PARTITION_RIG_H
#define PENSTOCK_TESTS_PARTITION_RIG_H

#include <math.h>

#include "expect_error.h"

#define ASKER GALLERY "/partitioner-asker.so"

#define HEAD "{\"format\":\"penstock-problem\",\"version\":1,"
static inline json_t *object_of(const struct outcome *outcome)
{
    json_t *object = json_loads(outcome->out, JSON_REJECT_DUPLICATES, NULL);

    if (object == NULL) {
        fail_msg("no JSON:\n%s\n%s", outcome->out, outcome->err);
    }
    return object;
}

static inline void expect_number(const json_t *object, const char *key, double should)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value) || fabs(json_number_value(value) - should) > 1e-12 * fabs(should)) {
        fail_msg("%s is %.17g, should be %.17g", key, json_number_value(value), should);
    }
}

static inline void expect_list(const json_t *object, const char *key, const char *should)
{
    char *is = json_dumps(json_object_get(object, key), JSON_COMPACT | JSON_ENCODE_ANY);

    assert_non_null(is);
    assert_string_equal(is, should);
    free(is);
}

/* Does the line that begins with the operator end like this, of however many blanks? */
static inline void expect_row(const char *text, const char *operator_name, const char *end)
{
    char line[256] = "";
    const char *at = strstr(text, operator_name);
    size_t n = 0;

    assert_non_null(at);
    for (; *at != '\n' && *at != '\0' && n + 1 < sizeof line; at++) {
        if (*at != ' ' || (n > 0 && line[n - 1] != ' ')) {
            line[n++] = *at;
        }
    }
    while (n > 0 && line[n - 1] == ' ') {
        n--;
    }
    line[n] = '\0';
    if (n < strlen(end) || strcmp(line + n - strlen(end), end) != 0) {
        fail_msg("\"%s\" does not end with \"%s\"", line, end);
    }
}

#endif
