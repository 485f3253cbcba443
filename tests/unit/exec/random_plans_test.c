/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that no strategy would make: convex cuts of any shape, stages dealt to ranks at random
 * (some get none), passes in any legal order, any set of recomputed operators, any results kept on
 * another rank between forward and backward. Each trains with the
 * bits of one stage that recomputes nothing, reaches its predicted peak to the byte, and is legal.
 *
 * The seed is printed; PENSTOCK_SEED and PENSTOCK_ROUNDS choose others.
 */
#include "unit/prove/rig.h"
#include "unit/exec/general_model.h"
#include "unit/transport/support.h"

#include <math.h>

#include "exec/exec.h"
#include "sim/sim.h"

enum { STEPS = 2, ROUNDS = 6 };

struct subject {
    const char *model, *settings;
    uint32_t classes;
};

static const struct subject subjects[] = {
    {"mlp", "inputs=12 hidden=16 layers=4 classes=7", 7},
    {"mlp", "inputs=5 hidden=6 layers=3 classes=3 act=gelu", 3},
    {"gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", 7},
    {"gpt", "layers=2 dim=8 heads=1 context=5 vocab=11 tied=false", 11},
    {"mmt", "branches=3 layers=1 dim=8 heads=2 context=6 vocab=7 dropout=0.1", 7},
    {"resnet", "image=8 width=4 stages=2 blocks=2 classes=7", 7},
    {"resnet", "image=9 width=4 stages=2 blocks=1 classes=5 bottleneck=true", 5},
    {"fan", "", 6},
    {"general", "", 6},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static uint32_t n_guests; /* of all plans */
static const struct pst_device_ops *device_ops;
static const struct pst_transport_ops *transport_ops;

struct result {
    double losses[STEPS], norms[STEPS], eval;
    float *parameters, *output;
};

static struct pst_device *asked; /* for workspace sizes */
static const struct pst_graph *asked_graph;

static uint64_t workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    return device_ops->workspace(asked, asked_graph, op, pass, samples);
}

/* A tensor with four uses, one operator that reads it twice, one that reads it late. */
static struct pst_graph *make_fan(uint32_t dtype)
{
    struct pst_graph_builder *builder = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    const uint64_t x_dims[] = {4, 6}, w_dims[] = {6, 6}, t_dims[] = {4};
    uint32_t x, targets, h, sum, loss;

    assert_int_equal(pst_graph_builder_create("fan", dtype, &builder, &err), PST_OK);
    x = pst_graph_input(builder, "x", PST_FIELD_X, dtype, 2, x_dims);
    targets = pst_graph_input(builder, "t", PST_FIELD_TARGET, PST_I32, 1, t_dims);
    h = x;
    for (uint32_t i = 0; i < 5; i++) {
        char name[16];
        uint32_t param[2], in[1] = {h};
        struct pst_op op = {.kind = PST_OP_LINEAR,
                            .in = in,
                            .n_in = 1,
                            .param = param,
                            .n_param = 2,
                            .name = name,
                            .act = PST_ACT_GELU};

        pst_graph_layer(builder, i);
        snprintf(name, sizeof name, "w%u", i);
        param[0] = pst_graph_param(builder, name, 2, w_dims, PST_INIT_NORMAL, 0.5f, true);
        snprintf(name, sizeof name, "b%u", i);
        param[1] = pst_graph_param(builder, name, 1, w_dims, PST_INIT_NORMAL, 0.1f, false);
        snprintf(name, sizeof name, "linear%u", i);
        if (i == 0) {
            h = pst_graph_add(builder, &op);
            sum = h;
        } else {
            uint32_t y = pst_graph_add(builder, &op), pair[2] = {sum, y};
            struct pst_op add = {.kind = PST_OP_ADD, .in = pair, .n_in = 2, .name = name};

            snprintf(name, sizeof name, "add%u", i);
            sum = pst_graph_add(builder, &add);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t pair[2] = {i == 0 ? h : sum, h};
        struct pst_op add = {
            .kind = PST_OP_ADD, .in = pair, .n_in = 2, .name = i == 0 ? "twice" : "late"};
        uint32_t y = pst_graph_add(builder, &add);

        if (i == 0) {
            uint32_t again[2] = {sum, y};
            struct pst_op join = {.kind = PST_OP_ADD, .in = again, .n_in = 2, .name = "join"};

            sum = pst_graph_add(builder, &join);
        } else {
            sum = y;
        }
    }
    {
        uint32_t in[2] = {sum, targets};
        struct pst_op op = {.kind = PST_OP_CROSS_ENTROPY, .in = in, .n_in = 2, .name = "loss"};

        loss = pst_graph_add(builder, &op);
    }
    assert_ok(pst_graph_finish(builder, loss, sum, &graph, &err), &err);
    pst_graph_builder_destroy(builder);
    return graph;
}

/* Any topological order: operators whose inputs are there, drawn one by one. */
static void draw_order(struct rig *rig, uint32_t *order)
{
    const struct pst_graph *graph = rig->graph;
    bool *done = calloc(graph->n_ops, 1);

    for (uint32_t n = 0; n < graph->n_ops; n++) {
        uint32_t ready = 0, pick = 0;

        for (uint32_t v = 0; v < graph->n_ops; v++) {
            bool ok = !done[v];

            for (uint32_t i = 0; ok && i < graph->ops[v].n_in; i++) {
                uint32_t maker = graph->tensors[graph->ops[v].in[i]].producer;

                ok = maker == PST_NONE || done[maker];
            }
            if (ok && rig_draw(rig, ++ready) == 0) {
                pick = v;
            }
        }
        assert_true(ready > 0);
        done[pick] = true;
        order[n] = pick;
    }
    free(done);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void draw_cut(struct rig *rig, uint32_t batch, uint32_t size, uint32_t n_stages,
                     uint32_t n_ranks)
{
    struct pst_error err = {0};
    uint32_t n = rig->graph->n_ops, at = 0, odds = rig_draw(rig, 3);
    uint32_t *order = calloc(n, sizeof *order);

    if (rig_draw(rig, 2) == 0) {
        draw_order(rig, order);
    } else {
        for (uint32_t v = 0; v < n; v++) {
            order[v] = v;
        }
    }
    pst_plan_create(rig->graph, batch, n_ranks, &rig->plan);
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t left = n - at - (n_stages - s - 1), rank = rig_draw(rig, n_ranks);
        uint32_t take = 1 + rig_draw(rig, 1 + 2 * left / (n_stages - s));

        take = s + 1 == n_stages ? n - at : take > left ? left : take;
        qsort(order + at, take, sizeof *order, by_value);
        pst_plan_add_stage(rig->plan, order + at, take, &rank, 1, size, 1);
        for (uint32_t i = 0; i < take; i++) {
            bool again = odds == 1 ? rig_draw(rig, 2) == 0 : odds == 2;

            ((uint8_t *)(uintptr_t)rig->plan->stages[s].actions)[i] =
                again ? PST_ACTION_RECOMPUTE : PST_ACTION_KEEP;
        }
        at += take;
    }
    free(order);
    rig->plan->optimizer_slots = 2;
    assert_int_equal(pst_plan_connect(rig->plan, rig->graph, &err), PST_OK);
}

static void draw_plan(struct rig *rig, uint32_t batch, uint32_t size, bool simple)
{
    uint32_t n_ops = rig->graph->n_ops;
    uint32_t n_stages = simple ? 1 : 1 + rig_draw(rig, n_ops < 8 ? n_ops : 8);
    uint32_t n_ranks = simple ? 1 : 1 + rig_draw(rig, 6);
    struct pst_pass *orders[RIG_MAX] = {NULL};
    uint32_t n_passes[RIG_MAX] = {0};
    struct pst_error err = {0};

    if (simple) {
        struct rig_shape shape = {
            .devices = 1, .chunks = 1, .batch = batch, .microbatch = size, .slots = 2};

        rig_cut(rig, &shape);
    } else {
        draw_cut(rig, batch, size, n_stages, n_ranks);
    }
    for (uint32_t d = 0; d < n_ranks; d++) {
        orders[d] = calloc(3 * (size_t)n_stages * batch + 1, sizeof **orders);
    }
    rig_random_orders(rig, rig_draw(rig, 2) == 0, orders, n_passes);
    for (uint32_t s = 0; !simple && s < rig->plan->n_stages; s++) {
        uint32_t rank = rig->plan->stages[s].ranks[0];

        if (rig_draw(rig, 2) == 0) {
            rig_draw_guests(rig, s, orders[rank], n_passes[rank]);
            n_guests += rig->plan->stages[s].n_guests;
        }
    }
    if (pst_plan_lower(rig->plan, rig->graph, &rig->cost, (const struct pst_pass *const *)orders,
                       n_passes, true, &err) != PST_OK) {
        fail_msg("lowering: %s\n%s", err.message, err.details);
    }
    for (uint32_t d = 0; d < n_ranks; d++) {
        free(orders[d]);
    }
    rig_programs(rig);
}

static void *draw_data(const struct pst_graph *graph, uint32_t field, uint32_t batch,
                       uint32_t classes)
{
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &graph->tensors[i];
        uint64_t n = tensor->elems * batch;
        char *data;

        if (tensor->role != PST_ROLE_INPUT || tensor->field != field) {
            continue;
        }
        data = malloc(n * pst_dtype_bytes(tensor->dtype));
        for (uint64_t k = 0; k < n; k++) {
            struct pst_philox word = pst_philox(77, field, k);
            float value = 2 * pst_uniform(word.v[0]) - 1;
            uint32_t bits;

            memcpy(&bits, &value, sizeof bits);
            if (tensor->dtype == PST_I32) {
                ((int32_t *)(void *)data)[k] = (int32_t)(word.v[1] % classes);
            } else if (tensor->dtype == PST_F32) {
                ((float *)(void *)data)[k] = value;
            } else {
                ((uint16_t *)(void *)data)[k] = (uint16_t)(bits >> 16);
            }
        }
        return data;
    }
    return NULL;
}

static void check_legal(struct rig *rig)
{
    struct pst_check_report *report = calloc(1, sizeof *report);
    struct pst_error err = {0};
    uint64_t first = 0, second = 0;

    assert_ok(rig_check(rig, true, report, &err), &err);
    free(report);
    assert_int_equal(pst_sim_run(rig->plan, rig->graph, &rig->cost, NULL, NULL, &first, &err),
                     PST_OK);
    assert_int_equal(pst_sim_run(rig->plan, rig->graph, &rig->cost, NULL, NULL, &second, &err),
                     PST_OK);
    assert_int_equal(first, second);
    assert_true(first > 0);
}

struct eval {
    struct pst_plan *plan;
    struct pst_program *programs[RIG_MAX];
};

static void make_eval(struct rig *rig, uint32_t batch, struct eval *ret_eval)
{
    struct pst_error err = {0};

    memset(ret_eval, 0, sizeof *ret_eval);
    assert_int_equal(
        pst_plan_forward_twin(rig->plan, rig->graph, &rig->cost, batch, 0, &ret_eval->plan, &err),
        PST_OK);
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        if (pst_program_create(ret_eval->plan, rig->graph, &rig->cost, d, &ret_eval->programs[d],
                               &err) != PST_OK) {
            fail_msg("evaluation: %s\n%s", err.message, err.details);
        }
    }
}

static void finish_eval(struct rig *rig, struct eval *eval)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        pst_program_destroy(eval->programs[d]);
    }
    pst_plan_destroy(eval->plan);
}

static struct result run(struct rig *rig, uint32_t dtype, uint32_t classes, double clip)
{
    struct pst_update update = {.optimizer = PST_ADAMW,
                                .lr = 0.01f,
                                .beta1 = 0.9f,
                                .beta2 = 0.99f,
                                .eps = 1e-8f,
                                .weight_decay = 0.1f};
    uint32_t batch = rig->plan->batch, size = rig->plan->stages[0].microbatch_size;
    uint64_t peaks[RIG_MAX], n_output = size * rig->graph->tensors[rig->graph->logits].elems;
    struct result result = {0};
    struct pst_exec_config config = {
        .graph = rig->graph,
        .plan = rig->plan,
        .programs = (const struct pst_program *const *)rig->programs,
        .device = device_ops,
        .device_config = {.threads = 1, .kernels = dtype == PST_BF16 ? "reference" : "auto"},
        .transport = transport_ops,
        .stall_ns = 60000000000u,
        .seed = 3,
        .clip = clip};
    struct pst_batch data = {.inputs = {draw_data(rig->graph, PST_FIELD_X, batch, classes),
                                        draw_data(rig->graph, PST_FIELD_TARGET, batch, classes)}};
    struct pst_error err = {0};
    struct pst_exec *exec = NULL;
    struct eval eval;
    float *at;

    make_eval(rig, batch, &eval);
    config.eval_plan = eval.plan;
    config.eval_programs = (const struct pst_program *const *)eval.programs;
    assert_ok(pst_exec_create(&config, &exec, &err), &err);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct pst_step_result step;

        update.step = i + 1;
        data.first_sample = i * batch;
        assert_ok(pst_exec_step(exec, &data, &update, &step, &err), &err);
        result.losses[i] = step.loss;
        result.norms[i] = step.grad_norm;
    }
    result.output = malloc(n_output * sizeof(float));
    assert_int_equal(pst_exec_eval(exec, &data, &result.eval, result.output, n_output, &err),
                     PST_OK);
    result.parameters = malloc(count_parameters(rig->graph) * sizeof(float));
    at = result.parameters;
    for (uint32_t i = 0; i < rig->graph->n_params; i++) {
        assert_int_equal(pst_exec_get_parameter(exec, i, at), PST_OK);
        at += rig->graph->params[i].elems;
    }
    assert_int_equal(pst_exec_measured_peaks(exec, peaks, NULL), PST_OK);
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        uint64_t train = rig->programs[d]->arena_bytes, twin = eval.programs[d]->arena_bytes;

        if (peaks[d] != (train > twin ? train : twin)) {
            fail_msg("device %u reaches %llu bytes, predicted %llu (training), %llu (evaluation)",
                     d, (unsigned long long)peaks[d], (unsigned long long)train,
                     (unsigned long long)twin);
        }
    }
    pst_exec_destroy(exec);
    finish_eval(rig, &eval);
    free((void *)(uintptr_t)data.inputs[0]);
    free((void *)(uintptr_t)data.inputs[1]);
    return result;
}

static bool has_state(const struct pst_graph *graph)
{
    bool any = false;

    for (uint32_t v = 0; v < graph->n_ops; v++) {
        any |= graph->ops[v].n_state > 0;
    }
    return any;
}

static void compare(const struct rig *rig, const struct result *a, const struct result *b)
{
    uint64_t size = rig->plan->stages[0].microbatch_size;

    for (uint32_t i = 0; i < STEPS; i++) {
        if (a->losses[i] != b->losses[i] || a->norms[i] != b->norms[i]) {
            fail_msg("step %u: loss %a, norm %a; on one rank %a, %a", i + 1, b->losses[i],
                     b->norms[i], a->losses[i], a->norms[i]);
        }
    }
    assert_memory_equal(a->parameters, b->parameters, count_parameters(rig->graph) * sizeof(float));
    assert_true(isfinite(a->eval) && isfinite(b->eval));
    if (!has_state(rig->graph)) { /* running statistics take micro-batches as they come */
        assert_true(a->eval == b->eval);
        assert_memory_equal(a->output, b->output,
                            size * rig->graph->tensors[rig->graph->logits].elems * sizeof(float));
    }
}

static void finish(struct result *result)
{
    free(result->parameters);
    free(result->output);
}

static void check_subject(const struct subject *subject, uint64_t seed, uint32_t rounds)
{
    struct pst_device_config config = {.threads = 1, .kernels = "auto"};
    struct pst_error err = {0};
    uint32_t dtype = seed % 3 == 2 ? PST_BF16 : PST_F32;
    double clip = seed % 2 == 0 ? 0.5 : 0;
    FINISHED_BY(rig_close) struct rig rig;
    struct result first;

    rig_open(&rig, "mlp", "layers=1", seed);
    pst_graph_destroy(rig.graph);
    rig.graph = strcmp(subject->model, "fan") == 0 ? make_fan(dtype)
                : strcmp(subject->model, "general") == 0
                    ? general_model(dtype)
                    : make_model(subject->model, subject->settings, dtype);
    rig.cost = (struct pst_cost_model){
        .graph = rig.graph, .cluster = &rig.cluster, .workspace = workspace};
    config.kernels = dtype == PST_BF16 ? "reference" : "auto";
    asked_graph = rig.graph;
    assert_int_equal(device_ops->open(&config, &asked, &err), PST_OK);
    uint32_t size = 1 + rig_draw(&rig, 3), batch = size * (1 + rig_draw(&rig, 5));
    draw_plan(&rig, batch, size, true);
    first = run(&rig, dtype, subject->classes, clip);
    for (uint32_t i = 0; i < rounds; i++) {
        struct result other;

        rig_drop_plan(&rig);
        print_message("%s: seed %llu, round %u\n", subject->model, (unsigned long long)seed, i);
        draw_plan(&rig, batch, size, false);
        check_legal(&rig);
        other = run(&rig, dtype, subject->classes, clip);
        compare(&rig, &first, &other);
        finish(&other);
    }
    finish(&first);
    device_ops->close(asked);
}

TEST(test_random_plans)
{
    const char *seed_text = getenv("PENSTOCK_SEED"), *rounds_text = getenv("PENSTOCK_ROUNDS");
    uint64_t seed = seed_text == NULL ? 1 : strtoull(seed_text, NULL, 10);
    uint32_t rounds = rounds_text == NULL ? ROUNDS : (uint32_t)strtoul(rounds_text, NULL, 10);

    for (uint32_t i = 0; i < SUBJECTS; i++) {
        check_subject(&subjects[i], seed + i, rounds);
    }
    print_message("%u guests\n", n_guests);
    assert_true(rounds < ROUNDS || n_guests > 10);
}

int main(void)
{
    const char *other = getenv("PENSTOCK_TEST_DEVICE"); /* file of another module */
    void *module =
        dlopen(other != NULL ? other : PENSTOCK_PLUGIN_DIR "/device-cpu.so", RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *function = NULL;

    if (module != NULL) {
        *(void **)&function = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    }
    device_ops = function == NULL ? NULL : function();
    transport_ops = load_threads();
    return device_ops == NULL ? 1 : run_own_tests(NULL, NULL);
}
