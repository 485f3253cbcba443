/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of rounds, against the values of another program.
 */
#include "test.h"

#include <math.h>

#include "tune/significance.h"

#include "significance_values.inc"

#define NEAR(a, b, part) assert_true(fabs((a) - (b)) <= (part)*fmax(fabs(b), 1e-6))

TEST(test_tails_of_the_studentized_range)
{
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        NEAR(pst_range_tail(tails[i].q, tails[i].k, tails[i].df), tails[i].tail, 1e-5);
    }
    assert_true(pst_range_tail(0, 3, 4) == 1);
}

TEST(test_the_range_of_two_is_students_t)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        NEAR(pst_range_point(0.05, 2, points[i].df), points[i].t * M_SQRT2, 1e-5);
    }
}

TEST(test_the_interval_of_a_method)
{
    NEAR(pst_interval_half(rounds, ROUNDS), HALF_OF_FIRST, 1e-5);
}

TEST(test_differences_between_methods)
{
    struct pst_blocks blocks;

    pst_blocks_init(rounds, METHODS, ROUNDS, &blocks);
    for (uint32_t a = 0; a < METHODS; a++) {
        for (uint32_t b = 0; b < METHODS; b++) {
            struct pst_difference difference = pst_blocks_compare(&blocks, a, b);

            assert_true(fabs(difference.mean - pairs[a][b].mean) < 1e-12);
            if (a != b) {
                NEAR(difference.half, pairs[a][b].half, 1e-5);
                NEAR(difference.p, pairs[a][b].p, 1e-4);
            }
        }
    }
    /* the last is slower by a third, the others are equal but for noise */
    assert_true(pst_blocks_compare(&blocks, 3, 0).p < 0.01);
    assert_true(pst_blocks_compare(&blocks, 1, 0).p > 0.05);
}

/* Rounds in which nothing varies: any difference is one. */
TEST(test_rounds_without_noise)
{
    static const double values[] = {1, 1, 2, 2};
    struct pst_blocks blocks;

    pst_blocks_init(values, 2, 2, &blocks);
    assert_true(pst_blocks_compare(&blocks, 0, 1).p == 0);
    assert_true(pst_blocks_compare(&blocks, 0, 0).p == 1);
}

TEST(test_medians)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};

    assert_true(pst_median(odd, 3) == 2);
    assert_true(pst_median(even, 4) == 2.5);
}
