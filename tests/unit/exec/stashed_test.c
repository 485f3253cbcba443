/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream's weight stashing (Narayanan et al., SOSP 2019) against a program without a pipeline:
 * the whole model on one device, one micro-batch after the other, the parameters of stage s of L as
 * they were L - 1 - s updates before, forward and backward, and each gradient applied to the
 * newest. For every depth and pattern of drains the same losses, norms and weights, bit for bit,
 * and the arena used to its last byte.
 */
#include "unit/exec/batches.h"

static const char mlp[] = "inputs=12 hidden=16 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2 tied=false";
static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";

/* All versions of all parameters. */
struct history {
    float **values;       /* [version * n_params + row] */
    uint32_t n_params, n; /* updates so far */
};

static void remember(struct history *history, const struct reference *ref)
{
    for (uint32_t i = 0; i < history->n_params; i++) {
        size_t bytes = reference_elems(ref, i) * sizeof(float);
        float *copy = malloc(bytes);

        memcpy(copy, ref->now[i], bytes);
        history->values[(size_t)history->n * history->n_params + i] = copy;
    }
}

/* On how many stages behind its own the gradient of a parameter waits, by the plan's cut. */
static uint32_t delay_of(const struct real *real, const struct reference *ref, uint32_t row)
{
    uint32_t op = ref->real.graph->params[ref->program->params[row].parameter].users[0];

    for (uint32_t s = 0; s < real->plan->n_stages; s++) {
        for (uint32_t i = 0; i < real->plan->stages[s].n_nodes; i++) {
            if (real->plan->stages[s].nodes[i] == op) {
                return real->plan->n_stages - 1 - s;
            }
        }
    }
    fail_msg("nobody uses parameter %u", row);
    return 0;
}

/* Micro-batch g of the run at the weights that each stage has stashed for it, and its update; adds
   to the step's loss and to the square sums of its gradients. */
static void micro_step(const struct real *real, struct reference *ref, struct history *history,
                       const struct pst_update *update, double *loss, double *squares)
{
    uint32_t g = history->n;

    for (uint32_t i = 0; i < history->n_params; i++) {
        uint32_t delay = delay_of(real, ref, i), version = g > delay ? g - delay : 0;

        memcpy(ref->before[i], history->values[(size_t)version * history->n_params + i],
               reference_elems(ref, i) * sizeof(float));
    }
    reference_step(ref, update);
    for (uint32_t i = 0; i < ref->real.batch; i++) {
        *loss += ref->losses[i];
    }
    for (uint32_t i = 0; i < history->n_params; i++) {
        squares[ref->program->params[i].parameter] += ref->real.device_ops->square_sum(
            ref->device, reference_gradient(ref, i), reference_elems(ref, i));
    }
    history->n++;
    remember(history, ref);
}

/* A step in sequence. */
static struct reference_step sequential(const struct real *real, struct reference *ref,
                                        struct history *history, const struct scene *scene,
                                        const struct batches *batches, uint32_t t)
{
    struct pst_update update = update_of(scene->optimizer, t);
    double *squares = calloc(ref->real.graph->n_params, sizeof *squares);
    struct reference_step step = {0};
    void *first[PST_MAX_INPUTS];

    memcpy(first, ref->real.inputs, sizeof first);
    for (uint32_t j = 0; j < scene->m; j++) {
        for (uint32_t i = 0; i < ref->real.graph->n_tensors; i++) {
            const struct pst_tensor *tensor = &ref->real.graph->tensors[i];

            if (tensor->role == PST_ROLE_INPUT) {
                ref->real.inputs[i] =
                    (char *)batches->inputs[t][i] + (size_t)j * ref->real.batch * tensor->bytes;
            }
        }
        micro_step(real, ref, history, &update, &step.loss, squares);
    }
    memcpy(ref->real.inputs, first, sizeof first);
    for (uint32_t p = 0; p < ref->real.graph->n_params; p++) {
        step.norm += squares[p];
    }
    step.loss /= real->batch;
    step.norm = sqrt(step.norm);
    free(squares);
    return step;
}

static void check_steps(struct real *real, struct reference *ref, const struct scene *scene)
{
    struct history history = {.n_params = ref->program->n_params};
    struct pst_step_result results[STEPS];
    struct batches batches;

    history.values = calloc(((size_t)STEPS * scene->m + 1) * history.n_params, sizeof(float *));
    remember(&history, ref);
    make_batches(real, 0, &batches);
    run_batches(real, scene->optimizer, scene->drain_every, &batches, results);
    for (uint32_t t = 0; t < STEPS; t++) {
        struct reference_step step = sequential(real, ref, &history, scene, &batches, t);

        if (results[t].skipped || results[t].loss != step.loss ||
            results[t].grad_norm != step.norm || !isfinite(step.loss) || step.norm <= 0) {
            fail_msg("%s, optimizer %u, %u stages, %u micro-batches, drain %u, step %u: "
                     "loss %a, norm %a; in sequence %a, %a",
                     scene->model, scene->optimizer, scene->n_stages, scene->m, scene->drain_every,
                     t, results[t].loss, results[t].grad_norm, step.loss, step.norm);
        }
    }
    for (size_t i = 0; i < ((size_t)history.n + 1) * history.n_params; i++) {
        free(history.values[i]);
    }
    free(history.values);
    free_batches(&batches);
}

/* Evaluation is of the newest weights: of the mlp the loss that a step in sequence has there. */
static void check_eval(struct real *real, struct reference *ref, const struct scene *scene)
{
    struct pst_update update = update_of(scene->optimizer, STEPS);
    double loss = real_eval(real), sum = 0;

    assert_true(isfinite(loss));
    if (strcmp(scene->model, "mlp") != 0) { /* not the same in training */
        return;
    }
    ref->delayed = false;
    update.lr = 0;
    update.weight_decay = 0;
    for (uint32_t j = 0; j < scene->m; j++) {
        for (uint32_t i = 0; i < ref->real.graph->n_tensors; i++) {
            const struct pst_tensor *tensor = &ref->real.graph->tensors[i];

            if (tensor->role == PST_ROLE_INPUT) {
                memcpy(ref->real.inputs[i],
                       (char *)real->inputs[i] + (size_t)j * ref->real.batch * tensor->bytes,
                       (size_t)ref->real.batch * tensor->bytes);
            }
        }
        reference_step(ref, &update);
        for (uint32_t i = 0; i < ref->real.batch; i++) {
            sum += ref->losses[i];
        }
    }
    assert_true(loss == sum / real->batch);
}

static void check(const struct scene *scene)
{
    struct layout layout = {
        scene->n_stages, {0, 1, 2, 3, 4, 5}, ORDER_STASHED, scene->recompute, {0}};
    uint32_t slots = slots_of(scene->optimizer), width = scene->width > 0 ? scene->width : 1;
    uint32_t *replicas;
    FINISHED_BY(reference_finish) struct reference ref;
    FINISHED_BY(real_destroy) struct real real;

    for (uint32_t s = 0; s < scene->n_stages && width > 1; s++) {
        layout.replicas[s] = width;
    }
    reference_init(&ref, scene->model, scene->settings, scene->dtype, SIZE * width, slots, 0);
    real_data(&ref.real, CLASSES);
    replicas = calloc(ref.real.graph->n_ops, sizeof *replicas);
    for (uint32_t op = 0; op < ref.real.graph->n_ops; op++) {
        replicas[op] = width;
    }
    ref.replicas = width > 1 ? replicas : NULL;
    real_create(&real, scene->model, scene->settings, scene->dtype, &layout,
                scene->m * SIZE * width, slots, 0);
    real_data(&real, CLASSES);
    check_steps(&real, &ref, scene);
    check_weights(&real, &ref);
    real_check_peaks(&real);
    check_eval(&real, &ref, scene);
    free(replicas);
}

/* Every depth, and numbers of micro-batches that its versions divide or do not. */
TEST(test_shapes)
{
    for (uint32_t d = 1; d <= 5; d++) {
        for (uint32_t m = d; m < d + 4; m++) {
            check(&(struct scene){.model = "mlp",
                                  .settings = mlp,
                                  .dtype = PST_F32,
                                  .optimizer = PST_ADAMW,
                                  .n_stages = d,
                                  .m = m,
                                  .drain_every = (d + m) % 4});
        }
    }
}

TEST(test_optimizers)
{
    check_optimizers(check, mlp, 1);
}

/* A drain leaves the versions where they are: fill reads old ones again. */
TEST(test_drains)
{
    check_drains(check, mlp, 5);
}

/* Dropout and replays, which read what forward read; running statistics. */
TEST(test_models)
{
    for (uint32_t i = 0; i < 8; i++) {
        check(&(struct scene){.model = i & 1 ? "resnet" : "gpt",
                              .settings = i & 1 ? resnet : gpt,
                              .dtype = PST_F32,
                              .optimizer = PST_ADAM,
                              .n_stages = 2 + i / 2 % 2,
                              .m = 3 + i / 4,
                              .drain_every = i % 3,
                              .recompute = (i & 2) != 0});
    }
}

TEST(test_bf16)
{
    check_bf16(check, mlp, gpt, 1);
}

/* Gradients are summed over the replicas after every micro-batch. */
TEST(test_replicas)
{
    for (uint32_t i = 0; i < 4; i++) {
        check(&(struct scene){.model = i & 1 ? "gpt" : "mlp",
                              .settings = i & 1 ? gpt : mlp,
                              .dtype = PST_F32,
                              .optimizer = PST_ADAMW,
                              .n_stages = 2,
                              .m = 3,
                              .drain_every = i,
                              .recompute = (i & 2) != 0,
                              .width = 2});
    }
}
