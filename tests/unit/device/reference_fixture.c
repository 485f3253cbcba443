/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_fixture.h"

#include <math.h>

json_t *fixture_load(const char *name)
{
    char path[512];
    json_error_t error;
    json_t *root;

    snprintf(path, sizeof path, "%s/tests/data/torch/%s.json", PENSTOCK_SOURCE_DIR, name);
    root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fail_msg("%s: %s", path, error.text);
    }
    return root;
}

const json_t *fixture_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (value == NULL) {
        fail_msg("fixture has no %s", key);
    }
    return value;
}

uint64_t fixture_integer(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(fixture_get(object, key));
}

void fixture_numbers(const json_t *array, double *ret_values, uint64_t n)
{
    assert_int_equal(json_array_size(array), n);
    for (uint64_t i = 0; i < n; i++) {
        ret_values[i] = json_number_value(json_array_get(array, i));
    }
}

void fixture_compare(const char *what, const json_t *array, const double *values, uint64_t n,
                     double bound)
{
    double *expected = calloc(n + 1, sizeof *expected);
    double allowed;

    assert_non_null(expected);
    fixture_numbers(array, expected, n);
    allowed = bound * rig_largest(expected, n);
    for (uint64_t i = 0; i < n; i++) {
        if (!(fabs(values[i] - expected[i]) <= allowed)) {
            fail_msg("%s[%llu]: %.9g, recorded %.9g, bound %.3g", what, (unsigned long long)i,
                     values[i], expected[i], allowed);
        }
    }
    free(expected);
}
