/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of what the program says to wrong requests. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_EXPECT_ERROR_H
#define PENSTOCK_TESTS_EXPECT_ERROR_H

#include <jansson.h>

#include "support.h"

/* Runs twice, with and without --json, and holds both answers against what is expected. */
static inline void expect_error(const char *const *args, int code, const char *kind,
                                const char *words)
{
    const char *with_json[SUPPORT_ARGUMENTS];
    struct outcome plain = support_run(args), machine;
    const char *message;
    json_t *root, *error;
    json_error_t why;
    int n = 0;

    while (args[n] != NULL) {
        with_json[n] = args[n];
        n++;
    }
    with_json[n] = "--json";
    with_json[n + 1] = NULL;
    expect_code(&plain, code);
    expect_text(plain.err, "penstock: ");
    expect_text(plain.err, words);
    machine = support_run(with_json);
    expect_code(&machine, code);
    root = json_loads(machine.out, 0, &why);
    if (root == NULL) {
        fail_msg("not one JSON object (%s): %s", why.text, machine.out);
    }
    error = json_object_get(root, "error");
    assert_non_null(error);
    assert_int_equal(json_integer_value(json_object_get(error, "code")), code);
    message = json_string_value(json_object_get(error, "kind"));
    assert_non_null(message);
    assert_string_equal(message, kind);
    message = json_string_value(json_object_get(error, "message"));
    assert_non_null(message);
    /* The words may stand in any of the fields: what matters is that they are there. */
    expect_text(machine.out, words);
    json_decref(root);
    outcome_finish(&plain);
    outcome_finish(&machine);
}

#define EXPECT_ERROR(code, kind, words, ...)                                                       \
    expect_error((const char *const[]){__VA_ARGS__, NULL}, code, kind, words)

#endif
