/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring operators: every pass that does something has a time, what is alike has the same, and
 * neither groups nor being stopped change that.
 */
#include "measure/measure.h"

#include "module.h"
#include "unit/graph/graph_support.h"

#include <math.h>

#include "base/util.h"
#include "measure/measure_impl.h"

static const struct pst_device_ops *device;

static int load(void **state)
{
    device = load_device_module(PENSTOCK_PLUGIN_DIR "/device-cpu.so");
    return 0;
}

static struct pst_measure_config config_of(const struct pst_graph *graph, uint32_t samples)
{
    return (struct pst_measure_config){
        .graph = graph,
        .device = device,
        .device_config = {.threads = 1, .kernels = "auto"},
        .samples = samples,
        .warmups = 1,
        .rounds = 3,
        .memory_bytes = UINT64_MAX,
    };
}

static struct pst_measured *measure(const struct pst_measure_config *config)
{
    struct pst_measured *measured = calloc(config->graph->n_ops, sizeof *measured);
    struct pst_measured_update update;
    struct pst_error err = {0};

    assert_non_null(measured);
    assert_ok(pst_measure_ops(config, measured, &update, &err), &err);
    return measured;
}

/* Every kernel of every model that the core builds can be run on its own. */
TEST(test_every_pass_of_every_model_has_a_time)
{
    static const char *const models[][2] = {
        {"mlp", "layers=2"}, {"gpt", "layers=2"}, {"resnet", ""}, {"mmt", "layers=2"}};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        OWN(graph) *graph = make_model(models[i][0], models[i][1], PST_F32);
        struct pst_measure_config config = config_of(graph, 2);
        struct pst_measured *measured = measure(&config);

        for (uint32_t o = 0; o < graph->n_ops; o++) {
            struct pst_op_grad grad;

            pst_op_grad_info(graph, o, &grad);
            assert_true(measured[o].ns[0] > 0);
            assert_int_equal(measured[o].ns[1] > 0, grad.has_b);
            assert_int_equal(measured[o].ns[2] > 0, grad.has_w);
            assert_true(measured[o].rounds >= 3);
        }
        free(measured);
    }
}

TEST(test_operators_that_are_alike_share_a_time)
{
    OWN(graph) *graph = make_model("gpt", "layers=6", PST_F32);
    struct pst_measure_config config = config_of(graph, 1);
    struct pst_measured *measured = measure(&config);
    uint32_t pairs = 0;

    for (uint32_t a = 0; a < graph->n_ops; a++) {
        for (uint32_t b = a + 1; b < graph->n_ops; b++) {
            if (pst_measure_alike(graph, a, b)) {
                assert_memory_equal(&measured[a], &measured[b], sizeof *measured);
                pairs++;
            }
        }
    }
    /* attention alone: the pairs of six */
    assert_true(pairs >= 15);
    free(measured);
}

/* Of four slices that compute 1, 3, 5, 7 the first takes 10 and the last but one 30, so the second
   takes 20 and the last would take 40, 30 more than the first. It takes 33. Of two or three all are
   measured. */
TEST(test_slices_take_what_they_compute_but_for_the_last)
{
    static const double ns[] = {10, 33, 30}, work[] = {1, 7, 5}, shrinks[] = {10, 33, 9};
    static const double means[] = {4, 13 / 3.0, 4}, growths[] = {23, 30, 30};
    static const double takes[] = {43 / 2.0, 73 / 3.0, 93 / 4.0};
    static const uint32_t turns[] = {0, 3, 2};
    struct pst_graph graph = {.slices = 2};
    double mean = 0, growth = 0, saved = 0;

    for (uint32_t i = 0; i < 3; i++, graph.slices++) {
        assert_true(measure_grows(&graph, ns, work, means[i], &mean, &growth, &saved));
        assert_true(fabs(mean - takes[i]) < 1e-12 && fabs(growth - growths[i]) < 1e-12 &&
                    fabs(saved - (growths[i] - 23)) < 1e-12);
    }
    graph.slices = 4;
    assert_false(measure_grows(&graph, shrinks, work, 4, &mean, &growth, &saved));
    for (uint32_t round = 0; round < 6; round++) {
        assert_int_equal(measure_slice(&graph, round), turns[round % 3]);
    }
}

/* No shape shows how many keys attention sees. */
/* The same shapes, another function or another order of axes. */
TEST(test_maps_are_not_alike)
{
    const struct pst_form flipped = {.rank = 2, .dims = {4, 4}, .from = {1, 0}, .step = {1, 1}};
    const struct pst_form backwards = {
        .rank = 2, .dims = {4, 4}, .from = {0, 1}, .start = {3, 0}, .step = {-1, 1}};
    const struct pst_op ops[] = {
        {.kind = PST_OP_MAP, .map = PST_MAP_EXP},     {.kind = PST_OP_MAP, .map = PST_MAP_EXP},
        {.kind = PST_OP_MAP, .map = PST_MAP_TANH},    {.kind = PST_OP_STRIDED, .form = &flipped},
        {.kind = PST_OP_STRIDED, .form = &backwards},
    };
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t y = linear(b, "fc", input(b, "x", PST_F32, 4, 4, 0), 4, 4, PST_ACT_NONE);
    OWN(graph) * graph;

    for (uint32_t i = 0; i < 5; i++) {
        y = add_op(b, ops[i], names[i], y, PST_NONE, PST_NONE, PST_NONE);
    }
    graph = finish(b, y, 4, 0);
    assert_true(pst_measure_alike(graph, find_op(graph, "a"), find_op(graph, "b")));
    assert_false(pst_measure_alike(graph, find_op(graph, "a"), find_op(graph, "c")));
    assert_false(pst_measure_alike(graph, find_op(graph, "d"), find_op(graph, "e")));
}

TEST(test_windows_are_not_alike)
{
    struct pst_op op = {.kind = PST_OP_ATTENTION, .heads = 2, .causal = true, .window = 2};
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x = linear(b, "qkv", input(b, "x", PST_F32, 8, 3, 0), 3, 24, PST_ACT_NONE), y[3];
    OWN(graph) * graph;

    for (uint32_t i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};

        op.window = i == 2 ? 4 : 2;
        y[i] = add_op(b, op, names[i], x, PST_NONE, PST_NONE, PST_NONE);
    }
    y[1] = plain(b, PST_OP_ADD, "a+b", y[0], y[1]);
    graph = finish(b, plain(b, PST_OP_ADD, "all", y[1], y[2]), 8, 0);
    assert_true(pst_measure_alike(graph, find_op(graph, "a"), find_op(graph, "b")));
    assert_false(pst_measure_alike(graph, find_op(graph, "a"), find_op(graph, "c")));
}

static void count_groups(void *context, uint64_t done, uint64_t all)
{
    uint64_t *seen = context;

    assert_true(done <= all);
    assert_true(done >= seen[0]);
    seen[0] = done;
    seen[1] = all;
}

/* One operator at a time gives times to all of them, too. */
TEST(test_small_memory_makes_groups)
{
    OWN(graph) *graph = make_model("mlp", "layers=4", PST_F32);
    struct pst_measure_config config = config_of(graph, 4);
    uint64_t seen[2] = {0, 0}, largest = 0;
    struct pst_measured *measured;

    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const struct pst_op *op = &graph->ops[o];
        uint64_t bytes = 4096;

        for (uint32_t i = 0; i < op->n_in; i++) {
            bytes += 4 * 2 * graph->tensors[op->in[i]].bytes + 128;
        }
        for (uint32_t i = 0; i < op->n_out; i++) {
            bytes += 4 * 2 * graph->tensors[op->out[i]].bytes + 128;
        }
        for (uint32_t i = 0; i < op->n_param; i++) {
            bytes += op->param[i] == PST_NONE ? 0 : 3 * 4 * graph->params[op->param[i]].elems + 192;
        }
        largest = bytes > largest ? bytes : largest;
    }
    config.memory_bytes = largest + (1u << 20); /* and a workspace */
    config.progress = count_groups;
    config.context = seen;
    measured = measure(&config);
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        assert_true(measured[o].ns[0] > 0);
    }
    assert_true(seen[0] == seen[1] && seen[1] > 0);
    free(measured);
}

TEST(test_too_little_memory_names_the_operator)
{
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_measure_config config = config_of(graph, 4);
    struct pst_measured *measured = calloc(graph->n_ops, sizeof *measured);
    struct pst_measured_update update;
    struct pst_error err = {0};

    config.memory_bytes = 1;
    assert_int_equal(pst_measure_ops(&config, measured, &update, &err), PST_ERR_NOMEM);
    assert_string_equal(err.kind, "machine.memory");
    assert_non_null(strstr(err.message, graph->ops[0].name));
    free(measured);
}

static bool stop(void)
{
    return true;
}

TEST(test_it_can_be_stopped)
{
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_measure_config config = config_of(graph, 4);
    struct pst_measured *measured = calloc(graph->n_ops, sizeof *measured);
    struct pst_measured_update update;
    struct pst_error err = {0};

    config.cancelled = stop;
    assert_int_equal(pst_measure_ops(&config, measured, &update, &err), PST_ERR_CANCELLED);
    free(measured);
}

/* Three rounds are asked for; where they take too little there are up to fifty times as many. */
TEST(test_short_rounds_are_repeated)
{
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_measure_config config = config_of(graph, 1);
    uint64_t seen[2] = {0, 0};
    struct pst_measured *measured;

    config.least_ns = UINT64_MAX;
    config.progress = count_groups;
    config.context = seen;
    measured = measure(&config);
    assert_true(measured[0].rounds >= 50 * config.rounds);
    assert_int_equal(measured[0].rounds % (50 * config.rounds), 0);
    assert_true(seen[0] == seen[1] && seen[1] > 0);
    free(measured);
}

#define ADDING_NS 3000000u

/* Computes for so long; time in which others have the core does not count. */
static void compute(uint64_t ns)
{
    uint64_t start = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);

    while (pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < ns) {
    }
}

static void add_slowly(struct pst_device *opened, float *dst, const float *src, uint64_t elems)
{
    compute(ADDING_NS);
}

static uint32_t count_params(const struct pst_op *op)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->n_param; i++) {
        n += op->param[i] != PST_NONE;
    }
    return n;
}

/* Of four micro-batches three add their gradient to what is there. */
TEST(test_all_but_the_first_gradient_are_added)
{
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_measure_config config = config_of(graph, 1);
    struct pst_device_ops slow = *device;
    struct pst_measured *measured;

    slow.accumulate = add_slowly;
    config.device = &slow;
    config.microbatches = 4;
    measured = measure(&config);
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        assert_true(measured[o].ns[2] >= 0.75 * count_params(&graph->ops[o]) * ADDING_NS);
    }
    free(measured);
}

/* The core is with others: as if it were taken from the thread. */
static void add_without_core(struct pst_device *opened, float *dst, const float *src,
                             uint64_t elems)
{
    const struct timespec time = {.tv_nsec = ADDING_NS};

    nanosleep(&time, NULL);
}

/* ThreadSanitizer does not see how OpenMP's workers wait for each other: one thread there. */
#ifdef __SANITIZE_THREAD__
#define MOST_THREADS 1u
#else
#define MOST_THREADS 2u
#endif

TEST(test_what_others_take_counts_where_several_threads_compute)
{
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_device_ops slow = *device;

    slow.accumulate = add_without_core;
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
        struct pst_measure_config config = config_of(graph, 1);
        struct pst_measured *measured;

        config.device = &slow;
        config.device_config.threads = threads;
        config.microbatches = 4;
        measured = measure(&config);
        for (uint32_t o = 0; o < graph->n_ops; o++) {
            const uint32_t n = count_params(&graph->ops[o]);

            assert_int_equal(n > 0 && measured[o].ns[2] >= 0.75 * n * ADDING_NS,
                             n > 0 && threads > 1);
        }
        free(measured);
    }
}

static uint64_t updated_elems;

static void count_update(struct pst_device *opened, const struct pst_update *update, float *weights,
                         const float *grad, float *s0, float *s1, void *working, uint32_t dtype,
                         uint64_t elems)
{
    assert_non_null(s0);
    assert_non_null(s1);
    assert_int_equal(dtype, PST_F32);
    device->update(opened, update, weights, grad, s0, s1, working, dtype, elems);
    updated_elems += elems;
    compute(ADDING_NS);
}

/* Seven rounds of three micro-batches are three steps. */
TEST(test_updates_are_measured_once_a_step)
{
    const struct pst_update update = {.optimizer = PST_ADAMW,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.999f,
                                      .eps = 1e-8f,
                                      .step = 1,
                                      .grad_scale = 1};
    OWN(graph) *graph = make_model("mlp", "layers=2", PST_F32);
    struct pst_measure_config config = config_of(graph, 1);
    struct pst_device_ops slow = *device;
    struct pst_measured *measured = calloc(graph->n_ops, sizeof *measured);
    struct pst_measured_update result;
    struct pst_error err = {0};
    uint64_t elems = 0;

    for (uint32_t p = 0; p < graph->n_params; p++) {
        elems += graph->params[p].elems;
    }
    slow.update = count_update;
    config.device = &slow;
    config.update = &update;
    config.optimizer_slots = 2;
    config.microbatches = 3;
    config.rounds = 7;
    updated_elems = 0;
    assert_ok(pst_measure_ops(&config, measured, &result, &err), &err);
    assert_int_equal(updated_elems, 3 * elems);
    assert_int_equal(result.bytes, elems * sizeof(float));
    assert_true(result.ns >= (double)graph->n_params * ADDING_NS);
    free(measured);
}

#define CELL 64u

/* Which value was written last to each cell of the arena. */
struct owners {
    const struct pst_program *program;
    uint32_t *cells;
};

static void own(struct owners *owners, uint32_t value)
{
    const struct pst_value *v = &owners->program->values[value];

    assert_true(v->offset + v->bytes <= owners->program->arena_bytes);
    for (uint64_t c = v->offset / CELL; c < (v->offset + v->bytes + CELL - 1) / CELL; c++) {
        owners->cells[c] = value;
    }
}

static void assert_owned(const struct owners *owners, uint32_t value)
{
    const struct pst_value *v = &owners->program->values[value];

    for (uint64_t c = v->offset / CELL; c < (v->offset + v->bytes + CELL - 1) / CELL; c++) {
        assert_int_equal(owners->cells[c], value);
    }
}

/* Gradients that are the same have one value. */
static void walk_back(const struct pst_graph *graph, struct owners *owners,
                      const uint32_t *operands, uint32_t o, bool *written)
{
    const struct pst_op *op = &graph->ops[o];
    const struct pst_operands at = pst_operands_of(op);
    uint32_t dy = operands[at.dy];
    struct pst_op_grad grad;

    pst_op_grad_info(graph, o, &grad);
    for (uint32_t i = 0; i < grad.n_z; i++) {
        own(owners, operands[at.z + i]);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            own(owners, operands[at.dp + i]);
        }
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if ((grad.b_dx >> i & 1) != 0) {
            assert_true(operands[at.dx + i] != dy);
            own(owners, operands[at.dx + i]);
            written[operands[at.dx + i]] = true;
        }
    }
    /* nothing of that has been put where the gradient of the result is, which W reads */
    if (written[dy]) {
        assert_owned(owners, dy);
    }
}

TEST(test_gradients_that_pass_by_lie_apart)
{
    static const char *const models[] = {"mlp", "gpt", "resnet", "mmt", "bert", "t5"};

    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        OWN(graph) *graph = make_model(models[k], k == 2 ? "" : "layers=2", PST_F32);
        struct pst_measure_config config = config_of(graph, 1);
        FINISHED_BY(measure_places_finish) struct measure_places places;
        uint32_t *ops = calloc(graph->n_ops, sizeof *ops);
        struct owners owners = {&places.program, NULL};
        uint64_t all = 0;
        bool *written;

        for (uint32_t o = 0; o < graph->n_ops; o++) {
            ops[o] = o;
        }
        measure_place(&config, NULL, ops, graph->n_ops, &places);
        owners.cells = malloc((places.program.arena_bytes / CELL + 1) * sizeof *owners.cells);
        memset(owners.cells, 0xFF, (places.program.arena_bytes / CELL + 1) * sizeof *owners.cells);
        written = calloc(places.program.n_values, sizeof *written);
        for (uint32_t t = 0; t < graph->n_tensors; t++) {
            all += graph->tensors[t].bytes;
        }
        for (uint32_t o = graph->n_ops; o-- > 0;) {
            walk_back(graph, &owners, places.operands[o], o, written);
        }
        for (uint32_t p = 0; p < graph->n_params; p++) {
            all += 3 * graph->params[p].elems * sizeof(float);
        }
        /* they take turns: all of them and all scratch take less than the values again */
        assert_true(places.program.arena_bytes < 2 * all);
        free(owners.cells);
        free(written);
        free(ops);
    }
}

TEST_GROUP(load, NULL)
