/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise that makes strategies comparable: for one micro-batch size, every cut, order and
 * memory action gives the same losses and gradient norms, bit for bit, and every device's arena
 * peaks exactly where it was predicted to. 40 combinations for each model with the plain
 * schedulers, through the program itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

static void test_gpt(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("gpt", bits_config("gpt.toml", bits_gpt), &first);
}

/* Running statistics; no random numbers in training. */
static void test_resnet(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("resnet", bits_config("resnet.toml", bits_resnet), &first);
}

/* The test itself can fail: another micro-batch size sums in another order. */
static void test_can_differ(void **state)
{
    static const char *const same[] = {"train.microbatch=2", NULL};
    static const char *const other[] = {"train.microbatch=3", NULL};
    const char *path = bits_config("differ.toml", bits_gpt);
    struct trace a, b;

    (void)state;
    bits_train(path, same, &a);
    bits_train(path, other, &b);
    assert_false(bits_are_same(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_can_differ),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
