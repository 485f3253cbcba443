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
    (void)state;
    bits_check_some("bert", bits_config("bert.toml", bits_bert));
}

/* Data go into stages all along the pipeline. */
static void test_dlrm(void **state)
{
    (void)state;
    bits_check_some("dlrm", bits_config("dlrm.toml", bits_dlrm));
}

/* Two sequences; the encoder's result read all along the decoder; three users of one table. */
static void test_t5(void **state)
{
    (void)state;
    bits_check_some("t5", bits_config("t5.toml", bits_t5));
}

/* Numbers as targets. */
static void test_candle(void **state)
{
    (void)state;
    bits_check_some("candle-uno", bits_config("candle.toml", bits_candle));
}

/* Cells that read two others, running statistics, convolutions of all shapes. */
static void test_amoebanet(void **state)
{
    (void)state;
    bits_check_some("amoebanet", bits_config("amoebanet.toml", bits_amoebanet));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),      cmocka_unit_test(test_dlrm),
        cmocka_unit_test(test_candle),    cmocka_unit_test(test_t5),
        cmocka_unit_test(test_amoebanet),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
