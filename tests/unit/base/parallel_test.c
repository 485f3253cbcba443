/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 10000 };

static void square(void *context, uint32_t i)
{
    uint64_t *values = context;

    values[i] += (uint64_t)i * i + 1; /* += : a second call would show */
}

static void test_each_once(void **state)
{
    static uint64_t values[N];
    uint32_t i;

    (void)state;
    pst_parallel(N, square, values);
    for (i = 0; i < N; i++) {
        assert_int_equal(values[i], (uint64_t)i * i + 1);
    }
}

static void test_none_and_one(void **state)
{
    uint64_t value = 0;

    (void)state;
    pst_parallel(0, square, NULL);
    pst_parallel(1, square, &value);
    assert_int_equal(value, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_none_and_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
