/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole training steps on the cpu device: every cut, order of passes and memory action gives the
 * same losses, norms and parameters, bit for bit; the gradient is the derivative of the loss; the
 * arena is used to its last byte and no further.
 */
#include "unit/exec/real.h"

#include <math.h>

static const struct layout layouts[] = {
    {1, {0}, ORDER_GPIPE, false, {0}},          {1, {0}, ORDER_1F1B, true, {0}},
    {2, {0, 1}, ORDER_1F1B, false, {0}},        {2, {0, 1}, ORDER_SPLIT, false, {0}},
    {3, {0, 1, 2}, ORDER_1F1B, true, {0}},      {3, {0, 1, 2}, ORDER_SPLIT, true, {0}},
    {4, {0, 1, 1, 0}, ORDER_GPIPE, false, {0}}, {4, {0, 1, 0, 1}, ORDER_REVERSE, false, {0}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void check_model(const char *model, const char *settings, uint32_t dtype)
{
    struct real_run first = real_train(model, settings, dtype, &layouts[0]);

    for (uint32_t k = 1; k < LAYOUTS; k++) {
        struct real_run run = real_train(model, settings, dtype, &layouts[k]);

        real_same(&first, &run, model, k);
    }
    free(first.parameters);
}

TEST(test_mlp)
{
    check_model("mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32);
}

TEST(test_mlp_bf16)
{
    check_model("mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_BF16);
}

/* Tied embedding and head on different ranks, dropout. */
TEST(test_gpt)
{
    check_model("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", PST_F32);
}

TEST(test_gpt_bf16)
{
    check_model("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", PST_BF16);
}

/* Branches: tensors with several consumers, edges that skip stages. */
TEST(test_mmt)
{
    check_model("mmt", "layers=1 dim=16 heads=2 context=8 vocab=7", PST_F32);
}

/* Running statistics, residuals. */
TEST(test_resnet)
{
    check_model("resnet", "image=8 width=4 stages=2 blocks=1 classes=7", PST_F32);
}

#define MMT    "layers=1 dim=16 heads=2 context=8 vocab=7"
#define BERT   "layers=2 dim=16 heads=2 context=8 vocab=7"
#define DLRM   "features=5 width=12 entries=7 vector=3 classes=7"
#define CANDLE "width=12 rnaseq=5 descriptors=6 fingerprints=7"

#define T5     "dim=16 heads=2 head_dim=4 ff=24 context=8 targets=6 vocab=7 buckets=8 max_distance=6"
#define AMOEBA "filters=8 classes=7"

/* Data that goes into several stages, tied parameters, numbers as targets. */
TEST(test_zoo)
{
    check_model("bert", BERT " dropout=0.2", PST_F32);
    check_model("dlrm", DLRM " bag=concat", PST_F32);
    check_model("dlrm", DLRM " bag=sum", PST_BF16);
    check_model("candle-uno", CANDLE, PST_F32);
    check_model("mmt", MMT " blocks=bare", PST_F32);
    check_model("candle-uno", CANDLE, PST_BF16);
    check_model("t5", T5 " dropout=0.2", PST_F32);
    check_model("t5", T5, PST_BF16);
    check_model("amoebanet", AMOEBA, PST_F32);
}

/*
 * Descent by a small rate along the gradient lowers the loss by rate x norm^2, to first order; a
 * wrong gradient anywhere has a smaller projection on the true one.
 */
static void check_slope_at(const char *model, const char *settings, float rate)
{
    struct pst_update update = {.optimizer = PST_SGD, .lr = rate, .step = 1};
    struct pst_step_result before, after;
    FINISHED_BY(real_destroy) struct real real;
    double slope;

    real_create(&real, model, settings, PST_F32, &layouts[2], 4 * SIZE, 0, 0);
    real_data(&real, REAL_CLASSES);
    before = real_step(&real, &update);
    after = real_step(&real, &update); /* step 1 again: the same samples and random numbers */
    slope = (before.loss - after.loss) / rate / (before.grad_norm * before.grad_norm);
    if (fabs(slope - 1) > 0.03) {
        fail_msg("%s: the loss fell by %.4f of what the gradient says", model, slope);
    }
}

static void check_slope(const char *model, const char *settings)
{
    check_slope_at(model, settings, 1e-3f);
}

TEST(test_slope)
{
    check_slope("mlp", "inputs=12 hidden=16 layers=2 classes=7 act=gelu");
    check_slope("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7");
    check_slope("mmt", "layers=1 dim=16 heads=2 context=8 vocab=7");
    check_slope("mmt", MMT " blocks=bare");
    check_slope("bert", BERT);
    check_slope("dlrm", DLRM " bag=concat");
    check_slope("dlrm", DLRM " bag=sum");
    check_slope("candle-uno", CANDLE);
    check_slope("t5", T5);
    check_slope_at("amoebanet", AMOEBA " image=64", 1e-6f); /* steep: a norm of some 40 */
}

TEST(test_learns)
{
    struct pst_update update = {
        .optimizer = PST_ADAM, .lr = 0.02f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};
    FINISHED_BY(real_destroy) struct real real;
    double first = 0, last = 0;

    real_create(&real, "mlp", "inputs=12 hidden=32 layers=2 classes=7", PST_F32, &layouts[2],
                4 * SIZE, 2, 0);
    real_data(&real, REAL_CLASSES);
    for (uint32_t i = 0; i < 60; i++) {
        update.step = i + 1;
        last = real_step(&real, &update).loss;
        first = i == 0 ? last : first;
    }
    assert_true(first > 1.0); /* about ln 7 */
    assert_true(last < 0.1 * first);
    assert_true(fabs(real_eval(&real) - last) < 0.1);
}
