/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define FFFD "\xEF\xBF\xBD"

/* Shortest forms only, no surrogates, nothing above U+10FFFF (RFC 3629, section 4). */
static void test_length(void **state)
{
    (void)state;
    assert_int_equal(pst_utf8_length("a"), 1);
    assert_int_equal(pst_utf8_length("\xC3\xA4"), 2);
    assert_int_equal(pst_utf8_length("\xE2\x82\xAC"), 3);
    assert_int_equal(pst_utf8_length("\xF0\x9F\x98\x80"), 4);
    assert_int_equal(pst_utf8_length("\x80"), 0);
    assert_int_equal(pst_utf8_length("\xC3"), 0);
    assert_int_equal(pst_utf8_length("\xE2\x82"), 0);
    assert_int_equal(pst_utf8_length("\xC0\x80"), 0);
    assert_int_equal(pst_utf8_length("\xE0\x9F\xBF"), 0);
    assert_int_equal(pst_utf8_length("\xED\xA0\x80"), 0);
    assert_int_equal(pst_utf8_length("\xF4\x90\x80\x80"), 0);
}

static void expect_print(const char *text, const char *wanted)
{
    char *printed = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&printed, &size);

    assert_non_null(out);
    pst_text_print(out, text);
    fclose(out);
    assert_string_equal(printed, wanted);
    free(printed);
}

static void test_print(void **state)
{
    (void)state;
    expect_print("", "");
    expect_print("a\tb\nc", "a\tb\nc");
    expect_print("\xC3\xA4\xE2\x82\xAC", "\xC3\xA4\xE2\x82\xAC");
    expect_print("\033[31m\r\a\x7F", FFFD "[31m" FFFD FFFD FFFD);
    /* U+009B, which some terminals take for ESC [; U+00A0 is a space. */
    expect_print("\xC2\x9B\xC2\xA0", FFFD "\xC2\xA0");
    expect_print("\x9B\xFF\xC3", FFFD FFFD FFFD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
