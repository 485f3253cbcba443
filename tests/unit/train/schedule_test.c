/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "loop/schedule.h"

static void near(double found, double expected)
{
    assert_true(found > expected - 1e-12 && found < expected + 1e-12);
}

TEST(test_constant)
{
    struct pst_job_loop train = {.steps = 10, .lr = 0.5, .min_lr = 0.1, .schedule = 0};

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
    struct pst_job_loop train = {.steps = 7, .lr = 1.0, .min_lr = 0.2, .schedule = 1, .warmup = 2};

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
    struct pst_job_loop train = {.steps = 3, .lr = 3.0, .schedule = 1, .warmup = 3};

    near(pst_learning_rate(&train, 0), 1.0);
    near(pst_learning_rate(&train, 2), 3.0);
    train.steps = 1;
    train.warmup = 0;
    near(pst_learning_rate(&train, 0), 3.0);
}

/*
 * Values of torch 2.15.0 and transformers 5.23.0 for lr 1, 20 steps, a warm-up of 4. Theirs begins
 * with 0 and ours ends with min_lr, so a step of the warm-up is their next one and the run is of 19
 * of their steps: get_cosine_with_min_lr_schedule_with_warmup(4, 19, min_lr_rate=0.1),
 * get_linear_schedule_with_warmup(4, 19), LinearLR(1, 0.25, 19), get_wsd_schedule(4, 6,
 * num_stable_steps=9, min_lr_ratio=0.1) but for its warm-up, which is from min_lr on, and
 * get_inverse_sqrt_schedule(4).
 */
static void same(const struct pst_job_loop *train, const double *expected)
{
    for (uint64_t step = 0; step < 20; step++) {
        near(pst_learning_rate(train, step), expected[step]);
    }
}

TEST(test_recorded_falls)
{
    struct pst_job_loop train = {.steps = 20, .lr = 1.0, .min_lr = 0.1, .warmup = 4};
    const double cosine[20] = {0.25,
                               0.5,
                               0.75,
                               1,
                               1,
                               0.99016642033021252,
                               0.96109545593917034,
                               0.91405764746872631,
                               0.85110877286148623,
                               0.77500000000000002,
                               0.68905764746872633,
                               0.59703780847044408,
                               0.50296219152955601,
                               0.41094235253127376,
                               0.32500000000000012,
                               0.24889122713851394,
                               0.18594235253127372,
                               0.13890454406082958,
                               0.10983357966978745,
                               0.10000000000000001};
    const double linear[20] = {0.25,
                               0.5,
                               0.75,
                               1,
                               1,
                               0.93333333333333335,
                               0.8666666666666667,
                               0.80000000000000004,
                               0.73333333333333328,
                               0.66666666666666663,
                               0.59999999999999998,
                               0.53333333333333333,
                               0.46666666666666667,
                               0.40000000000000002,
                               0.33333333333333331,
                               0.26666666666666666,
                               0.20000000000000001,
                               0.13333333333333333,
                               0.066666666666666666,
                               0};
    const double torch[20] = {1,
                              0.96052631578947367,
                              0.92105263157894746,
                              0.88157894736842113,
                              0.8421052631578948,
                              0.80263157894736847,
                              0.76315789473684215,
                              0.72368421052631582,
                              0.68421052631578949,
                              0.64473684210526316,
                              0.60526315789473684,
                              0.56578947368421051,
                              0.52631578947368418,
                              0.48684210526315791,
                              0.44736842105263158,
                              0.40789473684210525,
                              0.36842105263157893,
                              0.32894736842105265,
                              0.28947368421052633,
                              0.25};

    train.schedule = PST_SCHEDULE_COSINE;
    same(&train, cosine);
    train.schedule = PST_SCHEDULE_LINEAR;
    train.min_lr = 0;
    same(&train, linear);
    train.warmup = 0;
    train.min_lr = 0.25;
    same(&train, torch);
}

TEST(test_recorded_wsd)
{
    struct pst_job_loop train = {.steps = 20,
                                 .lr = 1.0,
                                 .min_lr = 0.1,
                                 .warmup = 4,
                                 .schedule = PST_SCHEDULE_WSD,
                                 .decay = 6};
    const double linear[20] = {0.25,
                               0.5,
                               0.75,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               0.84999999999999998,
                               0.70000000000000007,
                               0.55000000000000004,
                               0.40000000000000002,
                               0.24999999999999997,
                               0.10000000000000001};
    const double cosine[20] = {0.25,
                               0.5,
                               0.75,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               1,
                               0.93971143170299742,
                               0.77500000000000002,
                               0.55000000000000004,
                               0.32500000000000012,
                               0.16028856829700258,
                               0.10000000000000001};
    const double root[20] = {0.25,
                             0.5,
                             0.75,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             1,
                             0.63257653858252327,
                             0.48038475772933686,
                             0.36360389693210715,
                             0.26515307716504655,
                             0.17841616374225078,
                             0.10000000000000001};

    train.decay_form = PST_DECAY_LINEAR;
    same(&train, linear);
    train.decay = 0.3; /* of 20 steps: the same */
    same(&train, linear);
    train.decay_form = PST_DECAY_COSINE;
    same(&train, cosine);
    train.decay_form = PST_DECAY_ONE_MINUS_SQRT;
    same(&train, root);
}

TEST(test_recorded_inverse_sqrt)
{
    struct pst_job_loop train = {
        .steps = 20, .lr = 1.0, .warmup = 4, .schedule = PST_SCHEDULE_INVERSE_SQRT};
    const double expected[20] = {0.25,
                                 0.5,
                                 0.75,
                                 1,
                                 0.89442719099991586,
                                 0.81649658092772615,
                                 0.7559289460184544,
                                 0.70710678118654746,
                                 0.66666666666666663,
                                 0.63245553203367588,
                                 0.60302268915552726,
                                 0.57735026918962584,
                                 0.55470019622522915,
                                 0.53452248382484879,
                                 0.5163977794943222,
                                 0.5,
                                 0.48507125007266594,
                                 0.47140452079103173,
                                 0.45883146774112349,
                                 0.44721359549995793};

    same(&train, expected);
    train.min_lr = 0.6;
    near(pst_learning_rate(&train, 10), 0.6030226891555273);
    near(pst_learning_rate(&train, 11), 0.6);
    near(pst_learning_rate(&train, 19), 0.6);
}

/* A fall as long as what the warm-up leaves of the run, or longer; none at all. */
TEST(test_wsd_ends)
{
    struct pst_job_loop train = {.steps = 11,
                                 .lr = 1.0,
                                 .warmup = 5,
                                 .schedule = PST_SCHEDULE_WSD,
                                 .decay = 1.0,
                                 .decay_form = PST_DECAY_LINEAR};

    near(pst_learning_rate(&train, 4), 1.0);
    near(pst_learning_rate(&train, 5), 1.0);
    near(pst_learning_rate(&train, 6), 0.8);
    near(pst_learning_rate(&train, 10), 0.0);
    train.decay = 100;
    near(pst_learning_rate(&train, 6), 0.8);
    train.decay = 0;
    near(pst_learning_rate(&train, 10), 1.0);
}
