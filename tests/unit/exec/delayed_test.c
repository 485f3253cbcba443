/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous plans of the delayed version rule (Narayanan et al., ICML 2021) against delayed
 * gradients in sequence: for every depth, number of micro-batches and pattern of drains the same
 * losses, norms and weights, bit for bit, and the arena used to its last byte.
 */
#include "unit/exec/batches.h"

static const char mlp[] = "inputs=12 hidden=16 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2";
static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";
static const char mmt[] = "layers=1 dim=16 heads=2 context=8 vocab=7";

/* Evaluation is of the newest weights: the loss of another step in sequence that reads them. */
static void check_eval(struct real *real, struct reference *ref, const struct scene *scene)
{
    struct pst_update update = update_of(scene->optimizer, STEPS);
    double loss = real_eval(real);

    assert_true(isfinite(loss));
    if (strcmp(scene->model, "mlp") == 0) { /* the same in training */
        ref->delayed = false;
        assert_true(loss == reference_step(ref, &update).loss);
    }
}

/* A step in sequence, with its data in the place of the first. */
static struct reference_step sequential(struct reference *ref, const struct scene *scene,
                                        const struct batches *batches, uint32_t t)
{
    struct pst_update update = update_of(scene->optimizer, t);
    struct reference_step step;
    void *first[PST_MAX_INPUTS];

    memcpy(first, ref->real.inputs, sizeof first);
    memcpy(ref->real.inputs, batches->inputs[t], sizeof first);
    step = reference_step(ref, &update);
    memcpy(ref->real.inputs, first, sizeof first);
    return step;
}

static bool agrees(const struct pst_step_result *result, const struct reference_step *step,
                   bool bad)
{
    if (bad) {
        return result->skipped && !isfinite(result->loss) && !isfinite(step->loss);
    }
    return !result->skipped && result->loss == step->loss && result->grad_norm == step->norm &&
           isfinite(step->loss) && step->norm > 0;
}

static void check_steps(struct real *real, struct reference *ref, const struct scene *scene)
{
    struct pst_step_result results[STEPS];
    struct batches batches;
    bool clips = false;

    make_batches(real, scene->bad_step, &batches);
    run_batches(real, scene->optimizer, scene->drain_every, &batches, results);
    for (uint32_t t = 0; t < STEPS; t++) {
        struct reference_step step = sequential(ref, scene, &batches, t);

        if (!agrees(&results[t], &step, t > 0 && t == scene->bad_step)) {
            fail_msg("%s, optimizer %u, %u stages, %u micro-batches, clip %g, drain %u, step %u: "
                     "loss %a, norm %a; in sequence %a, %a",
                     scene->model, scene->optimizer, scene->n_stages, scene->m, scene->clip,
                     scene->drain_every, t, results[t].loss, results[t].grad_norm, step.loss,
                     step.norm);
        }
        clips = clips || step.norm > scene->clip;
    }
    assert_true(clips);
    free_batches(&batches);
}

static void check(const struct scene *scene)
{
    struct layout layout = {scene->n_stages, {0, 1, 2, 3, 4, 5}, ORDER_2BW, scene->recompute, {0}};
    uint32_t slots = slots_of(scene->optimizer), batch = scene->m * SIZE;
    FINISHED_BY(reference_finish) struct reference ref;
    FINISHED_BY(real_destroy) struct real real;

    reference_init(&ref, scene->model, scene->settings, scene->dtype, batch, slots, scene->clip);
    real_data(&ref.real, CLASSES);
    real_create_with(&real, scene->model, scene->settings, scene->dtype, &layout, batch, slots,
                     scene->clip, scene->bad_step > 0);
    real_data(&real, CLASSES);
    check_steps(&real, &ref, scene);
    check_weights(&real, &ref);
    check_eval(&real, &ref, scene);
    real_check_peaks(&real);
}

/* Every depth and number of micro-batches, fewer than stages too. */
TEST(test_shapes)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8};

    for (uint32_t d = 1; d <= 4; d++) {
        for (uint32_t i = 0; i < 5; i++) {
            for (uint32_t clip = 0; clip < 2; clip++) {
                check(&(struct scene){.model = "mlp",
                                      .settings = mlp,
                                      .dtype = PST_F32,
                                      .optimizer = PST_ADAMW,
                                      .n_stages = d,
                                      .m = counts[i],
                                      .clip = clip * 0.5,
                                      .drain_every = (d + i) % 4});
            }
        }
    }
}

TEST(test_optimizers)
{
    check_optimizers(check, mlp, 2);
}

TEST(test_drains)
{
    check_drains(check, mlp, 3);
}

/* A step that is not finite makes no update on any stage, whichever version the next ones read. */
TEST(test_skip)
{
    for (uint32_t i = 0; i < 16; i++) {
        check(&(struct scene){.model = "mlp",
                              .settings = mlp,
                              .dtype = PST_F32,
                              .optimizer = i % 4,
                              .n_stages = 1 + i / 4,
                              .m = 2 + i % 3,
                              .clip = i & 1 ? 0.5 : 0,
                              .drain_every = i % 3,
                              .bad_step = 1 + i % (STEPS - 1)});
    }
}

/* Tied embedding and head on the first and the last stage, dropout, replays. */
TEST(test_gpt)
{
    for (uint32_t i = 0; i < 8; i++) {
        check(&(struct scene){.model = "gpt",
                              .settings = gpt,
                              .dtype = PST_F32,
                              .optimizer = PST_ADAMW,
                              .n_stages = 1 + i % 4,
                              .m = 2 + i % 3,
                              .clip = i & 1 ? 0.5 : 0,
                              .drain_every = i % 3,
                              .recompute = (i & 2) != 0});
    }
}

TEST(test_bf16)
{
    check_bf16(check, mlp, gpt, 2);
}

/* Running statistics; branches whose edges skip stages. */
TEST(test_other_models)
{
    for (uint32_t i = 0; i < 4; i++) {
        check(&(struct scene){.model = i & 1 ? "mmt" : "resnet",
                              .settings = i & 1 ? mmt : resnet,
                              .dtype = PST_F32,
                              .optimizer = PST_ADAM,
                              .n_stages = 3,
                              .m = 3,
                              .clip = i & 2 ? 0.5 : 0,
                              .drain_every = 3,
                              .recompute = i & 1});
    }
}

/* Batches 0 and 1 both read the first weights. So plain training has the same loss at batch 0; at
   batch 1 it reads other weights already. */
TEST(test_is_delayed)
{
    FINISHED_BY(reference_finish) struct reference delayed, plain;

    reference_init(&delayed, "mlp", mlp, PST_F32, 4 * SIZE, 0, 0);
    reference_init(&plain, "mlp", mlp, PST_F32, 4 * SIZE, 0, 0);
    real_data(&delayed.real, CLASSES);
    real_data(&plain.real, CLASSES);
    plain.delayed = false;
    for (uint32_t t = 0; t < 4; t++) {
        struct pst_update update = update_of(PST_SGD, t);
        double a = reference_step(&delayed, &update).loss;
        double b = reference_step(&plain, &update).loss;

        assert_int_equal(a == b, t == 0);
    }
}
