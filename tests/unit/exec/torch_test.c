/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor against others: loss and gradients of the built-in GPT and Llama, cut into
 * pipelines, with either kind of kernels, against those that PyTorch computes for the same weights
 * (recorded by scripts/record_torch.py); and the weights that every optimizer arrives at against
 * its rule written out in double.
 */
#include "unit/graph/recorded_model.h"
#include "unit/prove/rig.h"
#include "unit/transport/support.h"

#include <math.h>

#include "exec/exec.h"

static const struct pst_device_ops *cpu;
static const struct pst_transport_ops *threads;

/* The cpu device, but for the arenas that the ranks get: they are noted. */
static struct pst_device_ops noting;
static void *bases[RIG_MAX];
static _Thread_local uint32_t rank_here; /* a device opens on the thread that uses it */
static const char *kernels = "auto";
static struct pst_device *asked; /* with these kernels */
static const struct pst_graph *asked_graph;

static pst_status noting_open(const struct pst_device_config *config,
                              struct pst_device **ret_device, struct pst_error *err)
{
    rank_here = config->index;
    return cpu->open(config, ret_device, err);
}

static pst_status noting_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                               struct pst_error *err)
{
    pst_status status = cpu->arena(device, bytes, ret_base, err);

    bases[rank_here] = status == PST_OK ? *ret_base : NULL;
    return status;
}

static uint64_t workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    return cpu->workspace(asked, asked_graph, op, pass, samples);
}

static void open_model(struct rig *rig, const char *model, const char *settings, uint64_t seed)
{
    rig_open(rig, model, settings, seed);
    rig->cost = (struct pst_cost_model){
        .graph = rig->graph, .cluster = &rig->cluster, .workspace = workspace};
    asked_graph = rig->graph;
}

static struct pst_exec *make_exec(struct rig *rig, double clip)
{
    struct pst_exec_config config = {.graph = rig->graph,
                                     .plan = rig->plan,
                                     .programs = (const struct pst_program *const *)rig->programs,
                                     .device = &noting,
                                     .device_config = {.threads = 1, .kernels = kernels},
                                     .transport = threads,
                                     .stall_ns = 60000000000u,
                                     .seed = 3,
                                     .clip = clip};
    struct pst_error err = {0};
    struct pst_exec *exec = NULL;

    assert_ok(pst_exec_create(&config, &exec, &err), &err);
    return exec;
}

static struct pst_step_result step(struct pst_exec *exec, const struct pst_batch *batch,
                                   const struct pst_update *update)
{
    struct pst_step_result result = {0};
    struct pst_error err = {0};

    assert_ok(pst_exec_step(exec, batch, update, &result, &err), &err);
    return result;
}

/* --- PyTorch ---------------------------------------------------------------------------------- */

static const json_t *recorded(const json_t *root, const char *name)
{
    const json_t *params = json_object_get(root, "params");

    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *param = json_array_get(params, i);

        if (strcmp(json_string_value(json_object_get(param, "name")), name) == 0) {
            return param;
        }
    }
    fail_msg("parameter %s is not recorded", name);
    return NULL;
}

/* Into the arenas of all ranks that hold the parameter. */
static void set_weights(const struct rig *rig, const json_t *root)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        const struct pst_program *program = rig->programs[d];

        for (uint32_t i = 0; i < program->n_params; i++) {
            const struct pst_parameter *parameter =
                &rig->graph->params[program->params[i].parameter];
            const json_t *values = json_object_get(recorded(root, parameter->name), "values");
            uint64_t offset = program->values[program->params[i].weight].offset;
            float *weights = (float *)(void *)((char *)bases[d] + offset);

            assert_int_equal(json_array_size(values), parameter->elems);
            for (uint64_t k = 0; k < parameter->elems; k++) {
                weights[k] = (float)json_number_value(json_array_get(values, k));
            }
        }
    }
}

static int32_t *integers(const json_t *root, const char *key)
{
    const json_t *array = json_object_get(root, key);
    int32_t *values = calloc(json_array_size(array), sizeof *values);

    for (size_t i = 0; i < json_array_size(array); i++) {
        values[i] = (int32_t)json_number_value(json_array_get(array, i));
    }
    return values;
}

/* Largest difference, relative to the largest value. */
static double difference(const float *found, const json_t *expected, uint64_t n)
{
    double worst = 0, largest = 0;

    assert_int_equal(json_array_size(expected), n);
    for (uint64_t k = 0; k < n; k++) {
        double value = json_number_value(json_array_get(expected, k));

        worst = fmax(worst, fabs(found[k] - value));
        largest = fmax(largest, fabs(value));
    }
    return worst / largest;
}

static void check_gradients(const struct rig *rig, struct pst_exec *exec, const json_t *root,
                            double bound)
{
    float values[4096];

    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        const struct pst_parameter *parameter = &rig->graph->params[p];
        const json_t *expected = json_object_get(recorded(root, parameter->name), "gradient");
        double found;

        assert_true(parameter->elems <= 4096);
        assert_int_equal(pst_exec_get_gradient(exec, p, values), PST_OK);
        found = difference(values, expected, parameter->elems);
        if (!(found <= bound)) {
            fail_msg("%s: off by %g, at most %g", parameter->name, found, bound);
        }
    }
}

static pst_status ask_with(const char *kernels_)
{
    struct pst_device_config config = {.threads = 1, .kernels = kernels_};
    struct pst_error err = {0};

    if (asked != NULL) {
        cpu->close(asked);
    }
    kernels = kernels_;
    return cpu->open(&config, &asked, &err);
}

/* Twice as far as f32 takes PyTorch itself from the recorded numbers; half as much more for the sum
   over three micro-batches. */
static void check_model(const char *model)
{
    char path[160];
    json_error_t why;
    json_t *root;
    struct pst_batch batch = {.inputs = {NULL}};
    const json_t *losses;
    double expected = 0, bound;

    snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/tests/data/torch/%s.json", model);
    root = json_load_file(path, 0, &why);
    assert_non_null(root);
    losses = json_object_get(root, "losses");
    bound = 1.5 * 2 * json_real_value(json_object_get(root, "f32_error")) / 16777216;
    batch.inputs[0] = integers(root, "tokens");
    batch.inputs[1] = integers(root, "targets");
    for (size_t i = 0; i < json_array_size(losses); i++) {
        expected += json_number_value(json_array_get(losses, i)) / 3;
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct rig_shape shape = {.devices = 1 + i / 2,
                                  .chunks = 1 + i % 2,
                                  .batch = 3,
                                  .microbatch = i == 1 ? 3 : 1,
                                  .recompute = i % 3 == 0,
                                  .split = i % 3 == 1};
        struct pst_update update = {.optimizer = PST_SGD, .lr = 0, .step = 1};
        struct pst_exec *exec;
        FINISHED_BY(rig_close) struct rig rig;
        double loss;

        open_model(&rig, model, recorded_settings(root, model), 40 + i);
        rig_plan(&rig, &shape);
        exec = make_exec(&rig, 0);
        set_weights(&rig, root);
        loss = step(exec, &batch, &update).loss;
        if (fabs(loss - expected) > bound * expected) {
            fail_msg("plan %u: loss %.9g, expected %.9g", i, loss, expected);
        }
        check_gradients(&rig, exec, root, bound);
        pst_exec_destroy(exec);
    }
    free((void *)(uintptr_t)batch.inputs[0]);
    free((void *)(uintptr_t)batch.inputs[1]);
    json_decref(root);
}

TEST(test_models)
{
    static const char *const kinds[] = {"reference", "auto"};

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ask_with(kinds[i]), PST_OK);
        check_model("gpt");
        check_model("llama");
    }
}

/* --- optimizers ------------------------------------------------------------------------------- */

struct weights {
    double *w, *m, *v;
    float *found, *grad;
};

/* One step of the rule for one weight, in double. */
static void rule(const struct pst_update *u, double clip_scale, bool decays, double g, double *w,
                 double *m, double *v)
{
    double decay = decays ? (double)u->weight_decay : 0;

    g *= clip_scale;
    switch (u->optimizer) {
    case PST_SGD:
        *w -= u->lr * (g + decay * *w);
        break;
    case PST_MOMENTUM:
        *v = u->momentum * *v + g + decay * *w;
        *w -= u->lr * *v;
        break;
    default:
        *m = u->beta1 * *m + (1 - u->beta1) * g;
        *v = u->beta2 * *v + (1 - u->beta2) * g * g;
        if (u->optimizer == PST_ADAMW) {
            *w *= 1 - u->lr * decay;
        }
        *w -= u->lr * (*m / (1 - pow(u->beta1, (double)u->step))) /
              (sqrt(*v / (1 - pow(u->beta2, (double)u->step))) + u->eps);
        break;
    }
}

/* The norm over all parameters, in double, from what the executor says of each gradient. */
static double read_gradients(const struct rig *rig, struct pst_exec *exec, float *grad)
{
    double sum = 0;

    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        assert_int_equal(pst_exec_get_gradient(exec, p, grad), PST_OK);
        for (uint64_t k = 0; k < rig->graph->params[p].elems; k++) {
            sum += (double)grad[k] * grad[k];
        }
        grad += rig->graph->params[p].elems;
    }
    return sqrt(sum);
}

static void read_parameters(const struct rig *rig, struct pst_exec *exec, float *values)
{
    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        assert_int_equal(pst_exec_get_parameter(exec, p, values), PST_OK);
        values += rig->graph->params[p].elems;
    }
}

/* Decay is for matrices: rank 2 and more. */
static void update_all(const struct rig *rig, const struct pst_update *update, double scale,
                       struct weights *all)
{
    uint64_t at = 0;

    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        for (uint64_t k = 0; k < rig->graph->params[p].elems; k++, at++) {
            rule(update, scale, rig->graph->params[p].rank >= 2, all->grad[at], &all->w[at],
                 &all->m[at], &all->v[at]);
        }
    }
}

static void compare_weights(const struct weights *all, uint64_t n, uint32_t optimizer,
                            uint32_t number)
{
    for (uint64_t k = 0; k < n; k++) {
        /* each step rounds the weight and the update a few times, to 2^-24 of either */
        double bound = (8.0 + 8.0 * number) / 16777216 * (fabs(all->w[k]) + 0.05);

        if (!(fabs(all->found[k] - all->w[k]) <= bound)) {
            fail_msg("optimizer %u, step %u, weight %llu: %.9g, expected %.9g", optimizer, number,
                     (unsigned long long)k, all->found[k], all->w[k]);
        }
    }
}

static void check_optimizer(uint32_t optimizer, double clip)
{
    struct rig_shape shape = {.devices = 2,
                              .chunks = 1,
                              .batch = 6,
                              .microbatch = 2,
                              .slots = optimizer == PST_SGD        ? 0
                                       : optimizer == PST_MOMENTUM ? 1
                                                                   : 2};
    struct pst_batch batch = {.inputs = {NULL}};
    int32_t tokens[36], targets[36];
    struct weights all;
    struct pst_exec *exec;
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t n_clipped = 0;
    uint64_t n;

    open_model(&rig, "gpt", "layers=1 heads=2 dim=8 vocab=17 context=6", 7);
    rig_plan(&rig, &shape);
    n = count_parameters(rig.graph);
    all = (struct weights){calloc(n, 8), calloc(n, 8), calloc(n, 8), calloc(n, 4), calloc(n, 4)};
    exec = make_exec(&rig, clip);
    read_parameters(&rig, exec, all.found);
    for (uint64_t k = 0; k < n; k++) {
        all.w[k] = all.found[k];
    }
    batch.inputs[0] = tokens;
    batch.inputs[1] = targets;
    for (uint32_t i = 1; i <= 6; i++) {
        struct pst_update update = {.optimizer = optimizer,
                                    .lr = 0.01f * (float)i,
                                    .momentum = 0.9f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.95f,
                                    .eps = 1e-6f,
                                    .weight_decay = 0.2f,
                                    .step = i};
        struct pst_step_result result;
        double norm;

        for (uint32_t k = 0; k < 36; k++) {
            tokens[k] = (int32_t)rig_draw(&rig, 17);
            targets[k] = (int32_t)rig_draw(&rig, 17);
        }
        result = step(exec, &batch, &update);
        norm = read_gradients(&rig, exec, all.grad);
        assert_true(fabs(norm - result.grad_norm) < 1e-12 * norm);
        n_clipped += clip > 0 && norm > clip;
        update_all(&rig, &update, clip > 0 && norm > clip ? clip / norm : 1, &all);
        read_parameters(&rig, exec, all.found);
        compare_weights(&all, n, optimizer, i);
    }
    assert_true(clip > 0 ? n_clipped > 0 : n_clipped == 0);
    free(all.w);
    free(all.m);
    free(all.v);
    free(all.found);
    free(all.grad);
    pst_exec_destroy(exec);
}

TEST(test_optimizers)
{
    for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
        check_optimizer(optimizer, 0);
        check_optimizer(optimizer, 0.3);
    }
}

static int begin(void **state)
{
    void *module = dlopen(PENSTOCK_PLUGIN_DIR "/device-cpu.so", RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *function = NULL;

    if (module == NULL) {
        return -1;
    }
    *(void **)&function = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    cpu = function();
    noting = *cpu;
    noting.open = noting_open;
    noting.arena = noting_arena;
    threads = load_threads();
    return ask_with("auto") == PST_OK ? 0 : -1;
}

static int end(void **state)
{
    cpu->close(asked);
    return 0;
}

TEST_GROUP(begin, end)
