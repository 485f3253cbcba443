/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "data/permute.h"

/* Every value is hit exactly once, for sizes around powers of two and of four. */
TEST(test_bijection)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097};

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t n = sizes[s];
        unsigned char *seen = calloc(n, 1);

        assert_non_null(seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t to = pst_permute(7, 3, n, i);

            assert_true(to < n);
            assert_int_equal(seen[to], 0);
            seen[to] = 1;
        }
        free(seen);
    }
}

/* Seeds and epochs give different orders; the same ones the same. */
TEST(test_keys)
{
    uint32_t moved_by_epoch = 0, moved_by_seed = 0, in_place = 0;
    const uint64_t n = 1000;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = pst_permute(1, 0, n, i);

        assert_int_equal(to, pst_permute(1, 0, n, i));
        moved_by_epoch += to != pst_permute(1, 1, n, i);
        moved_by_seed += to != pst_permute(2, 0, n, i);
        in_place += to == i;
    }
    /* A random permutation agrees with another in one place on average; 20 has probability 1e-18.
     */
    assert_true(moved_by_epoch > n - 20);
    assert_true(moved_by_seed > n - 20);
    assert_true(in_place < 20);
}

/* No trend left: neighbours end up as far apart as two random values, n / 3 on average. */
TEST(test_spread)
{
    const uint64_t n = 10000;
    double sum = 0;

    for (uint64_t i = 0; i + 1 < n; i++) {
        double a = (double)pst_permute(5, 0, n, i), b = (double)pst_permute(5, 0, n, i + 1);

        sum += a > b ? a - b : b - a;
    }
    sum /= (double)(n - 1) * (double)n;
    assert_true(sum > 1.0 / 3 - 0.02 && sum < 1.0 / 3 + 0.02);
}
