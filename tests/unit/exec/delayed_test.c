/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous plans of the delayed version rule (Narayanan et al., ICML 2021) against delayed
 * gradients in sequence: for every depth, number of micro-batches and pattern of drains the same
 * losses, norms and weights, bit for bit, and the arena used to its last byte.
 */
#include "unit/exec/reference.h"

enum { STEPS = 7, CLASSES = 7 };

struct scene {
    const char *model, *settings;
    uint32_t dtype, optimizer;
    uint32_t n_stages, m;
    double clip;
    uint32_t drain_every; /* 0: at the end alone */
    bool recompute;
    uint32_t bad_step; /* has an input that is not finite, and is passed over; 0: none */
};

/* Data of every step. */
struct batches {
    void *inputs[STEPS][PST_MAX_INPUTS];
};

static const char mlp[] = "inputs=12 hidden=16 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2";
static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";
static const char mmt[] = "layers=1 dim=16 heads=2 context=8 vocab=7";

static struct pst_update update_of(uint32_t optimizer, uint32_t step)
{
    return (struct pst_update){.optimizer = optimizer,
                               .lr = optimizer <= PST_MOMENTUM ? 0.05f : 0.01f,
                               .momentum = 0.9f,
                               .beta1 = 0.9f,
                               .beta2 = 0.99f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .step = step + 1};
}

static uint32_t slots_of(uint32_t optimizer)
{
    return optimizer == PST_SGD ? 0 : optimizer == PST_MOMENTUM ? 1 : 2;
}

/* No two steps alike: whole numbers go up, others change their sign here and there. */
static void *vary(const void *from, uint64_t n, uint32_t dtype, uint32_t step)
{
    size_t bytes = n * pst_dtype_bytes(dtype);
    void *to = malloc(bytes);

    memcpy(to, from, bytes);
    for (uint64_t k = 0; k < n; k++) {
        if (dtype == PST_I32) {
            ((int32_t *)to)[k] = (int32_t)(((uint64_t)((int32_t *)to)[k] + k * step) % CLASSES);
        } else if ((k + step) % (2 + step) == 0) {
            ((unsigned char *)to)[(k + 1) * pst_dtype_bytes(dtype) - 1] ^= 0x80;
        }
    }
    return to;
}

static void make_batches(const struct real *real, uint32_t bad_step, struct batches *ret_batches)
{
    memset(ret_batches, 0, sizeof *ret_batches);
    for (uint32_t i = 0; i < real->graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &real->graph->tensors[i];

        for (uint32_t t = 0; t < STEPS && tensor->role == PST_ROLE_INPUT; t++) {
            ret_batches->inputs[t][i] =
                vary(real->inputs[i], tensor->elems * real->batch, tensor->dtype, t);
        }
    }
    if (bad_step > 0) {
        *(float *)ret_batches->inputs[bad_step][0] = INFINITY;
    }
}

static void free_batches(struct batches *batches)
{
    for (uint32_t t = 0; t < STEPS; t++) {
        for (uint32_t f = 0; f < PST_MAX_INPUTS; f++) {
            free(batches->inputs[t][f]);
        }
    }
}

static void submit(struct real *real, const struct batches *batches, uint32_t optimizer,
                   uint32_t step)
{
    struct pst_batch batch = {.inputs = {batches->inputs[step][0], batches->inputs[step][1]},
                              .first_sample = (uint64_t)step * real->batch};
    struct pst_update update = update_of(optimizer, step);
    struct pst_error err = {0};

    MUST(pst_exec_submit(real->exec, &batch, &update, &err));
}

/* Keeps three steps in flight. */
static void run(struct real *real, const struct scene *scene, const struct batches *batches,
                struct pst_step_result *results)
{
    struct pst_error err = {0};
    uint32_t n = 0;

    for (uint32_t done = 0; done < STEPS; done++) {
        while (n < STEPS && pst_exec_in_flight(real->exec) < 3) {
            submit(real, batches, scene->optimizer, n++);
            if (n == STEPS || (scene->drain_every > 0 && n % scene->drain_every == 0)) {
                pst_exec_drain(real->exec);
            }
        }
        MUST(pst_exec_collect(real->exec, &results[done], &err));
    }
}

static void check_weights(struct real *real, const struct reference *ref)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        uint32_t parameter = ref->program->params[i].parameter;
        uint64_t n = real->graph->params[parameter].elems;
        float *values = malloc(n * sizeof *values);

        assert_int_equal(pst_exec_get_parameter(real->exec, parameter, values), PST_OK);
        assert_memory_equal(values, ref->now[i], n * sizeof *values);
        free(values);
    }
}

static void check_peaks(struct real *real)
{
    uint64_t peaks[MOST_STAGES];

    pst_exec_measured_peaks(real->exec, peaks);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        uint64_t train = real->programs[r]->arena_bytes, eval = real->eval_programs[r]->arena_bytes;

        assert_int_equal(peaks[r], train > eval ? train : eval);
    }
}

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
    run(real, scene, &batches, results);
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
    struct reference ref;
    struct real real;

    reference_init(&ref, scene->model, scene->settings, scene->dtype, batch, slots, scene->clip);
    real_data(&ref.real, CLASSES);
    real_create_with(&real, scene->model, scene->settings, scene->dtype, &layout, batch, slots,
                     scene->clip, scene->bad_step > 0);
    real_data(&real, CLASSES);
    check_steps(&real, &ref, scene);
    check_weights(&real, &ref);
    check_eval(&real, &ref, scene);
    check_peaks(&real);
    real_destroy(&real);
    reference_finish(&ref);
}

/* Every depth and number of micro-batches, fewer than stages too. */
static void test_shapes(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8};

    (void)state;
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

/* Every rule of update, with and without clipping, at every depth. */
static void test_optimizers(void **state)
{
    (void)state;
    for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
        for (uint32_t clip = 0; clip < 2; clip++) {
            for (uint32_t d = 1; d <= 4; d++) {
                check(&(struct scene){.model = "mlp",
                                      .settings = mlp,
                                      .dtype = PST_F32,
                                      .optimizer = optimizer,
                                      .n_stages = d,
                                      .m = 4,
                                      .clip = clip * 0.5});
            }
        }
    }
}

static void test_drains(void **state)
{
    (void)state;
    for (uint32_t every = 0; every <= 4; every++) {
        check(&(struct scene){.model = "mlp",
                              .settings = mlp,
                              .dtype = PST_F32,
                              .optimizer = PST_MOMENTUM,
                              .n_stages = 4,
                              .m = 3,
                              .drain_every = every});
    }
}

/* A step that is not finite makes no update on any stage, whichever version the next ones read. */
static void test_skip(void **state)
{
    (void)state;
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
static void test_gpt(void **state)
{
    (void)state;
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

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        check(&(struct scene){.model = i & 1 ? "gpt" : "mlp",
                              .settings = i & 1 ? gpt : mlp,
                              .dtype = PST_BF16,
                              .optimizer = PST_ADAMW,
                              .n_stages = 3,
                              .m = 4,
                              .clip = i & 2 ? 0.5 : 0});
    }
}

/* Running statistics; branches whose edges skip stages. */
static void test_other_models(void **state)
{
    (void)state;
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
static void test_is_delayed(void **state)
{
    struct reference delayed, plain;

    (void)state;
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
    reference_finish(&delayed);
    reference_finish(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),       cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_drains),       cmocka_unit_test(test_skip),
        cmocka_unit_test(test_gpt),          cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_other_models), cmocka_unit_test(test_is_delayed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
