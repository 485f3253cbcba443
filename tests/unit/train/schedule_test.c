/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "train/schedule.h"

static void near(double found, double expected)
{
    assert_true(found > expected - 1e-12 && found < expected + 1e-12);
}

TEST(test_constant)
{
    struct pst_job_train train = {.steps = 10, .lr = 0.5, .min_lr = 0.1, .schedule = 0};

    near(pst_learning_rate(&train, 0), 0.5);
    near(pst_learning_rate(&train, 9), 0.5);
    train.warmup = 4;
    near(pst_learning_rate(&train, 0), 0.125);
    near(pst_learning_rate(&train, 1), 0.25);
    near(pst_learning_rate(&train, 3), 0.5);
    near(pst_learning_rate(&train, 4), 0.5);
}

/* Warm-up of 2 over 7 steps: the cosine runs over steps 2 ... 6, its middle is step 4, its first
   quarter step 3: (1 + cos 45 degrees) / 2 = 0.8535... of the way up. */
TEST(test_cosine)
{
    struct pst_job_train train = {.steps = 7, .lr = 1.0, .min_lr = 0.2, .schedule = 1, .warmup = 2};

    near(pst_learning_rate(&train, 0), 0.5);
    near(pst_learning_rate(&train, 1), 1.0);
    near(pst_learning_rate(&train, 2), 1.0);
    near(pst_learning_rate(&train, 3), 0.2 + 0.8 * 0.85355339059327376);
    near(pst_learning_rate(&train, 4), 0.6);
    near(pst_learning_rate(&train, 6), 0.2);
}

/* Warm-up as long as the run, a run of one step: nothing divides by zero. */
TEST(test_short)
{
    struct pst_job_train train = {.steps = 3, .lr = 3.0, .schedule = 1, .warmup = 3};

    near(pst_learning_rate(&train, 0), 1.0);
    near(pst_learning_rate(&train, 2), 3.0);
    train.steps = 1;
    train.warmup = 0;
    near(pst_learning_rate(&train, 0), 3.0);
}
