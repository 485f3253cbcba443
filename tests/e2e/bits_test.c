/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise that makes strategies comparable: for one micro-batch size, every cut, order and
 * memory action gives the same losses and gradient norms, bit for bit, and every device's arena
 * peaks exactly where it was predicted to. 40 combinations for each model with the plain
 * schedulers, and a choice of them with all others, through the program itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

#define STEPS 3

struct trace {
    char losses[STEPS][40]; /* hexadecimal floats */
    double norms[STEPS];
};

static const char gpt[] = "[model]\nuse = \"gpt\"\nlayers = 3\ndim = 16\nheads = 2\ncontext = 12\n"
                          "dropout = 0.1\n"
                          "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n";
static const char resnet[] =
    "[model]\nuse = \"resnet\"\ndepth = \"custom\"\nimage = 8\nstages = 2\n"
    "blocks = 1\nwidth = 8\nclasses = 4\n"
    "[data]\nkind = \"synthetic\"\n";
static const char mmt[] = "[model]\nuse = \"mmt\"\nbranches = 3\nlayers = 1\ndim = 16\nheads = 2\n"
                          "context = 6\ndropout = 0.1\n"
                          "[data]\nkind = \"synthetic\"\n";
static const char common[] =
    "[train]\nsteps = 3\nbatch = 12\nmicrobatch = 2\nlr = 1e-3\nclip = 0.5\n"
    "eval_every = 0\neval_batches = 0\nsample = 0\nwarmup = 1\n"
    "[cluster]\ndevices = 1\n[partitioner]\nuse = \"uniform\"\n"
    "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n";

static void read_step(const char *line, struct trace *ret_trace, uint32_t *n)
{
    json_t *object = json_loads(line, 0, NULL);
    json_t *hex;

    assert_non_null(object);
    hex = json_object_get(object, "loss_hex");
    if (hex != NULL && json_object_get(object, "grad_norm") != NULL) {
        assert_true(*n < STEPS);
        snprintf(ret_trace->losses[*n], sizeof ret_trace->losses[0], "%s", json_string_value(hex));
        ret_trace->norms[(*n)++] = json_real_value(json_object_get(object, "grad_norm"));
    }
    if (json_is_true(json_object_get(object, "done"))) {
        json_t *peak = json_object_get(object, "peak_bytes");
        json_t *predicted = json_object_get(object, "predicted_peak_bytes");

        assert_true(json_array_size(peak) > 0);
        assert_int_equal(json_array_size(peak), json_array_size(predicted));
        for (size_t i = 0; i < json_array_size(peak); i++) {
            assert_true(json_integer_value(json_array_get(peak, i)) > 0);
            assert_int_equal(json_integer_value(json_array_get(peak, i)),
                             json_integer_value(json_array_get(predicted, i)));
        }
    }
    json_decref(object);
}

static void train(const char *path, const char *const *sets, struct trace *ret_trace)
{
    const char *args[20] = {"train", path, "--json"};
    struct outcome outcome;
    uint32_t n = 0;
    char *rest, *line;

    for (uint32_t i = 0; sets[i] != NULL; i++) {
        args[3 + 2 * i] = "--set";
        args[4 + 2 * i] = sets[i];
    }
    outcome = support_run(args);
    expect_code(&outcome, 0);
    rest = outcome.out;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line != '\0') {
            read_step(line, ret_trace, &n);
        }
    }
    assert_int_equal(n, STEPS);
    outcome_finish(&outcome);
}

static void check_run(const char *name, const char *path, const char *const *sets,
                      const struct trace *first, struct trace *ret_trace)
{
    memset(ret_trace, 0, sizeof *ret_trace);
    print_message("%s: %s %s %s %s\n", name, sets[0], sets[1], sets[2], sets[3]);
    train(path, sets, ret_trace);
    for (uint32_t i = 0; first != NULL && i < STEPS; i++) {
        assert_string_equal(ret_trace->losses[i], first->losses[i]);
        assert_true(ret_trace->norms[i] == first->norms[i]);
    }
}

static const char *const memopts[] = {"memopt.use=none", "memopt.use=full"};
static const char *const partitioners[] = {"partitioner.use=uniform", "partitioner.use=chain-dp"};

/* Every scheduler of the tree that needs no file, twice: with other devices, memory actions and
   cuts; which ones differs from model to model. */
static void check_schedulers(const char *name, const char *path, uint32_t model,
                             const struct trace *first)
{
    static const char *const schedulers[] = {
        "scheduler={use=\"interleaved\"}",
        "scheduler={use=\"interleaved\",chunks=3,split=true}",
        "scheduler={use=\"group-interleaved\"}",
        "scheduler={use=\"group-interleaved\",chunks=3,group=1}",
        "scheduler={use=\"looped-bfs\"}",
        "scheduler={use=\"zb-h1\"}",
        "scheduler={use=\"zb-h2\"}",
        "scheduler={use=\"interleaved-zb\",chunks=3}",
        "scheduler={use=\"zbv\"}",
        "scheduler={use=\"1f1b-v\"}",
        "scheduler={use=\"zb-auto\"}",
        "scheduler={use=\"v-zb\"}",
        "scheduler={use=\"v-min\"}",
        "scheduler={use=\"v-half\",variant=\"improved\"}",
        "scheduler={use=\"dualpipev\"}", /* six micro-batches: up to three devices */
    };
    const uint32_t n = sizeof schedulers / sizeof schedulers[0];

    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t which = i % n, p = i < n ? 2 + (which + model) % 2 : which + 1 == n ? 1 : 4;
        uint32_t other = i / n + which + model;
        const char *const devices[] = {"cluster.devices=1", "cluster.devices=2",
                                       "cluster.devices=3", "cluster.devices=4"};
        const char *sets[] = {devices[p - 1], schedulers[which], memopts[other & 1],
                              partitioners[other >> 1 & 1], NULL};
        struct trace trace;

        check_run(name, path, sets, first, &trace);
    }
}

static void check_model(const char *name, const char *text, uint32_t model)
{
    static const char *const stages[] = {"cluster.devices=1", "cluster.devices=2",
                                         "cluster.devices=3", "cluster.devices=4",
                                         "cluster.devices=8"};
    static const char *const schedulers[] = {"scheduler.use=gpipe", "scheduler.use=1f1b"};
    char config[2048];
    struct trace first, trace;
    const char *path;
    uint32_t n = 0;

    snprintf(config, sizeof config, "%s%s", text, common);
    path = support_write(name, config);
    for (uint32_t s = 0; s < 5; s++) {
        for (uint32_t k = 0; k < 8; k++) {
            const char *sets[] = {stages[s], schedulers[k & 1], memopts[k >> 1 & 1],
                                  partitioners[k >> 2], NULL};

            check_run(name, path, sets, n == 0 ? NULL : &first, n == 0 ? &first : &trace);
            n++;
        }
    }
    assert_int_equal(n, 40);
    assert_string_not_equal(first.losses[0], first.losses[STEPS - 1]);
    check_schedulers(name, path, model, &first);
}

static void test_gpt(void **state)
{
    (void)state;
    check_model("gpt.toml", gpt, 0);
}

/* Branches side by side, by the scheduler that runs graphs of stages: the bits of gpipe on one
   device. Several micro-batch sizes: the same but for rounding, and peaks as predicted. */
static void test_stage_graph(void **state)
{
    static const char *const alone[] = {"scheduler.use=gpipe", NULL};
    static const char *const graph[] = {
        "scheduler.use=per-stage", "cluster.devices=4",
        "partitioner={use=\"manual\",stages=\"branch.0.*;branch.1.*;branch.2.*;*\"}", NULL};
    static const char *const sizes[] = {
        "scheduler.use=per-stage", "cluster.devices=4",
        "partitioner={use=\"manual\",stages=\"branch.0.*;branch.1.*;branch.2.*;*\","
        "microbatch_sizes=\"1,2,4,6\"}",
        NULL};
    char config[2048];
    struct trace traces[3] = {{.norms = {0}}};
    const char *path;

    (void)state;
    snprintf(config, sizeof config, "%s%s", mmt, common);
    path = support_write("graph.toml", config);
    train(path, alone, &traces[0]);
    train(path, graph, &traces[1]);
    train(path, sizes, &traces[2]);
    for (uint32_t i = 0; i < STEPS; i++) {
        double loss = strtod(traces[0].losses[i], NULL);

        assert_string_equal(traces[1].losses[i], traces[0].losses[i]);
        assert_true(traces[1].norms[i] == traces[0].norms[i]);
        assert_float_equal(strtod(traces[2].losses[i], NULL), loss, 1e-5 * loss);
    }
}

static void test_resnet(void **state)
{
    (void)state;
    check_model("resnet.toml", resnet, 1);
}

static void test_mmt(void **state)
{
    (void)state;
    check_model("mmt.toml", mmt, 2);
}

/* The test itself can fail: another micro-batch size sums in another order. */
static void test_can_differ(void **state)
{
    static const char *const same[] = {"train.microbatch=2", NULL};
    static const char *const other[] = {"train.microbatch=3", NULL};
    struct trace a = {0}, b = {0};
    char config[2048];
    const char *path;
    bool differ = false;

    (void)state;
    snprintf(config, sizeof config, "%s%s", gpt, common);
    path = support_write("differ.toml", config);
    train(path, same, &a);
    train(path, other, &b);
    for (uint32_t i = 0; i < STEPS; i++) {
        differ |= strcmp(a.losses[i], b.losses[i]) != 0 || a.norms[i] != b.norms[i];
    }
    assert_true(differ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),         cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_stage_graph), cmocka_unit_test(test_mmt),
        cmocka_unit_test(test_can_differ),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
