/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include "test.h"

enum { N = 10000 };

static void square(void *context, uint32_t i)
{
    uint64_t *values = context;

    values[i] += (uint64_t)i * i + 1; /* += : a second call would show */
}

TEST(test_each_once)
{
    static uint64_t values[N];

    pst_parallel(N, square, values);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(values[i], (uint64_t)i * i + 1);
    }
}

TEST(test_none_and_one)
{
    uint64_t value = 0;

    pst_parallel(0, square, NULL);
    pst_parallel(1, square, &value);
    assert_int_equal(value, 1);
}
