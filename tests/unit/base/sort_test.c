/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include "test.h"

enum { N = 5000 };

/* Keys of one, of low, of high and of all digits: ascending, and equal keys in their old order. */
TEST(test_ascends_and_is_stable)
{
    static const uint64_t masks[] = {0, 0x7, UINT64_C(0xFF00) << 48, 0x10000000FF, UINT64_MAX};
    static struct pst_sort_row rows[N];

    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        uint64_t seed = 1, sum = 0, left = 0;

        for (uint32_t i = 0; i < N; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            rows[i] = (struct pst_sort_row){(seed ^ seed >> 29) & masks[m], i};
            sum += rows[i].key * (i + 1);
        }
        pst_sort_rows(rows, N);
        for (uint32_t i = 0; i < N; i++) {
            left += rows[i].key * (rows[i].at + 1);
            assert_true(i == 0 || rows[i - 1].key < rows[i].key ||
                        (rows[i - 1].key == rows[i].key && rows[i - 1].at < rows[i].at));
        }
        assert_true(left == sum);
    }
}

TEST(test_none_and_one)
{
    struct pst_sort_row row = {7, 3};

    pst_sort_rows(&row, 0);
    pst_sort_rows(&row, 1);
    assert_true(row.key == 7 && row.at == 3);
}
