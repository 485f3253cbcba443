/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include "test.h"

#include "generate/generate.h"

/* Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8. */
TEST(test_draw)
{
    const float logits[3] = {0.0f, logf(2.0f), logf(5.0f)};

    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.0), 0);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.124), 0);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.126), 1);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.374), 1);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.376), 2);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 0, 0.999999), 2);
}

/* At half the temperature probabilities are squared: 1/30, 4/30, 25/30. At 0 the best is taken. */
TEST(test_temperature)
{
    const float logits[3] = {0.0f, logf(2.0f), logf(5.0f)};

    assert_int_equal(pst_draw_class(logits, 3, 0.5, 0, 0.033), 0);
    assert_int_equal(pst_draw_class(logits, 3, 0.5, 0, 0.034), 1);
    assert_int_equal(pst_draw_class(logits, 3, 0.5, 0, 0.166), 1);
    assert_int_equal(pst_draw_class(logits, 3, 0.5, 0, 0.167), 2);
    assert_int_equal(pst_draw_class(logits, 3, 0.0, 0, 0.0), 2);
}

/* Large logits do not overflow. */
TEST(test_large)
{
    const float logits[2] = {5000.0f, 4000.0f};

    assert_int_equal(pst_draw_class(logits, 2, 1.0, 0, 0.999), 0);
}

/* Of probabilities 1/8, 2/8, 5/8 the first two of the largest are 2/7, 5/7. What is as likely as
   the last of them is among them. */
TEST(test_top_k)
{
    const float logits[3] = {0.0f, logf(2.0f), logf(5.0f)}, same[3] = {1.0f, 0.0f, 1.0f};

    assert_int_equal(pst_draw_class(logits, 3, 1.0, 2, 0.0), 1);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 2, 0.285), 1);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 2, 0.286), 2);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 1, 0.0), 2);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 3, 0.0), 0);
    assert_int_equal(pst_draw_class(logits, 3, 1.0, 9, 0.0), 0);
    assert_int_equal(pst_draw_class(same, 3, 1.0, 1, 0.0), 0);
    assert_int_equal(pst_draw_class(same, 3, 1.0, 1, 0.6), 2);
}
