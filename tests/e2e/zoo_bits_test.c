/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of the zoo train to the same bits under every cut, order and memory action.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

/* Text with hidden tokens; a tied table at both ends. */
static void test_bert(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("bert", bits_config("bert.toml", bits_bert), &first);
}

/* Data go into stages all along the pipeline. */
static void test_dlrm(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("dlrm", bits_config("dlrm.toml", bits_dlrm), &first);
}

/* Numbers as targets. */
static void test_candle(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("candle-uno", bits_config("candle.toml", bits_candle), &first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),
        cmocka_unit_test(test_dlrm),
        cmocka_unit_test(test_candle),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
