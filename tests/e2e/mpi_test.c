/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with one process per device, against the same runs in one process: replicas with batch norm
 * and evaluations, ties, stages that are DAGs, what is offloaded, delayed versions without a norm
 * over all devices, plans from a file, traces. And how a run begins: processes that are too few or
 * not of one mind, or not started by a launcher.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"
#include "mpi_rig.h"

enum { MOST = 12 };

/* The same with one process and with n of them. */
static void check(const char *what, const char *path, uint32_t n, const char *const *sets)
{
    const char *with[MOST + 2];
    struct trace alone, apart;
    uint32_t i = 0;

    for (; sets[i] != NULL; i++) {
        with[i] = sets[i];
    }
    with[i] = "run.transport=mpi";
    with[i + 1] = NULL;
    bits_train(path, sets, &alone);
    mpi_rig_launch(n);
    bits_train(path, with, &apart);
    mpi_rig_launch(0);
    bits_expect_same(what, &apart, &alone);
}

#define CHECK(what, path, n, ...) check(what, path, n, (const char *const[]){__VA_ARGS__, NULL})

static void test_replicas(void **state)
{
    const char *path = bits_config("resnet.toml", bits_resnet);

    (void)state;
    CHECK("two of two", path, 4, "cluster.devices=4", "train.degrees=[2]", "train.microbatch=4",
          "train.eval_every=2", "train.eval_batches=2");
    CHECK("data parallel", path, 3, "cluster.devices=3", "train.degrees=[3]", "train.microbatch=6",
          "train.eval_every=1", "train.eval_batches=1", "train.clip=0");
    path = bits_config("gpt.toml", bits_gpt);
    CHECK("tied in replicas", path, 4, "cluster.devices=4", "train.degrees=[2]",
          "train.microbatch=4", "train.sample=4", "train.eval_batches=1");
    CHECK("delayed in replicas", path, 4, "cluster.devices=4", "train.degrees=[2]",
          "train.microbatch=4", "scheduler.use=2bw", "train.clip=0", "train.steps=5");
}

static void test_models(void **state)
{
    (void)state;
    CHECK("branches", bits_config("mmt.toml", bits_mmt), 3, "cluster.devices=3");
    CHECK("two towers", bits_config("t5.toml", bits_t5), 4, "cluster.devices=4",
          "scheduler.use=1f1b", "memopt.use=full");
    CHECK("bf16", bits_config("bert.toml", bits_bert), 2, "cluster.devices=2", "run.dtype=bf16",
          "run.kernels=reference", "train.eval_batches=1");
    CHECK("one device", bits_config("candle.toml", bits_candle), 1, "cluster.devices=1");
}

static void test_copies(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY "/told", 1), 0);
    CHECK("offloaded", path, 2, "cluster.devices=2", "memopt.use=letters", "memopt.letters=S",
          "run.copy_check=true", "scheduler.use=1f1b");
    assert_int_equal(unsetenv("PENSTOCK_PLUGIN_PATH"), 0);
}

/* Without a norm over all devices each works out its share, and processes tell each other. */
static void test_delayed(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    CHECK("no norm", path, 3, "cluster.devices=3", "scheduler.use=2bw", "train.clip=0",
          "train.steps=6", "train.drain_every=4", "train.eval_every=5", "train.eval_batches=1");
}

/* Rank 0 reads the plan; the file says how many devices there are. */
static void test_plan_file(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt), *plan = support_path("plan.json");
    struct outcome o = penstock("plan", path, "--set", "cluster.devices=2", "-o", plan);
    struct trace alone, apart;
    char set[192];

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    snprintf(set, sizeof set, "run.plan=%s", plan);
    bits_train(path, (const char *const[]){set, "cluster.devices=2", NULL}, &alone);
    mpi_rig_launch(2);
    bits_train(path, (const char *const[]){set, "cluster.devices=4", "run.transport=mpi", NULL},
               &apart);
    mpi_rig_launch(0);
    bits_expect_same("from a file", &apart, &alone);
}

/* The spans of every device are in the trace that rank 0 writes. */
static void test_trace(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt), *file = support_path("run.json");
    char set[192];
    uint32_t n_passes[3] = {0};
    json_t *root, *event;
    struct outcome o;
    size_t i;

    (void)state;
    snprintf(set, sizeof set, "output.trace=%s", file);
    mpi_rig_launch(3);
    o = penstock("train", path, "--set", "cluster.devices=3", "--set", "run.transport=mpi", "--set",
                 set, "--set", "output.trace_steps=2");
    mpi_rig_launch(0);
    expect_code(&o, 0);
    outcome_finish(&o);
    root = json_load_file(file, 0, NULL);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        json_int_t pid = json_integer_value(json_object_get(event, "pid"));
        const char *name = json_string_value(json_object_get(event, "name"));
        const char *phase = json_string_value(json_object_get(event, "ph"));

        if (pid < 3 && json_integer_value(json_object_get(event, "tid")) == 0 && phase[0] == 'X' &&
            name != NULL && strstr(name, "F") != NULL) {
            n_passes[pid]++;
        }
    }
    json_decref(root);
    for (i = 0; i < 3; i++) {
        assert_true(n_passes[i] >= 2 * 6); /* micro-batches */
    }
}

/* --- how a run begins --------------------------------------------------------------------------
 */

/* One message, on standard error or out, with its code. */
static void expect_failure(const char *const *args, int code, const char *words)
{
    struct outcome o = support_run(args);
    const char *first;

    expect_code(&o, code);
    expect_text(o.err, words);
    first = strstr(o.err, "penstock: ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "penstock: "));
    outcome_finish(&o);
}

#define FAIL(code, words, ...)                                                                     \
    expect_failure((const char *const[]){"train", __VA_ARGS__, NULL}, code, words)

static void test_beginnings(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    FAIL(2, "not started by an MPI launcher; mpirun -n 3 penstock train", path, "--set",
         "cluster.devices=3", "--set", "run.transport=mpi");
    FAIL(2, "gpt.toml --set run.device=cuda --set run.transport=mpi", path, "--set",
         "run.device=cuda", "--set", "run.transport=mpi");
    mpi_rig_launch(2);
    FAIL(2, "2 processes for 3 devices, there must be one for each; mpirun -n 3 penstock", path,
         "--set", "cluster.devices=3", "--set", "run.transport=mpi");
    FAIL(2, "rehearses a run in one process", path, "--set", "cluster.devices=2", "--set",
         "run.transport=mpi", "--set", "run.device=emulated");
    FAIL(2, "no such file", path, "--set", "cluster.devices=2", "--set", "run.transport=mpi",
         "--set", "data.train=/nowhere/at/all");
    FAIL(1, "no plan found that fits", path, "--set", "cluster.devices=2", "--set",
         "run.transport=mpi", "--set", "cluster.memory=10000");
    mpi_rig_launch(0);
}

/* What all find before they meet, one tells; profile is for one. */
static void test_before_meeting(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    mpi_rig_launch(4);
    FAIL(2, "/nowhere/at/all.toml: cannot open", "/nowhere/at/all.toml", "--set",
         "run.transport=mpi");
    FAIL(2, "unknown key \"stepz\" in [train]", path, "--set", "train.stepz=3");
    FAIL(2, "unknown option --nothing", path, "--nothing");
    expect_failure((const char *const[]){"profile", path, NULL}, 2,
                   "measures one device in one process, and 4 were started");
    mpi_rig_launch(0);
}

/* What only one finds it tells, with its rank, also where another one finds something else. */
static void test_own_errors(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    struct outcome o;

    (void)state;
    mpi_rig_launch(1);
    FAIL(2, "/nowhere/b.toml: rank 1 (host ", path, "--set", "cluster.devices=2", "--set",
         "run.transport=mpi", ":", "-n", "1", PENSTOCK_BINARY, "train", "/nowhere/b.toml");
    o = penstock("train", "/nowhere/a.toml", ":", "-n", "1", PENSTOCK_BINARY, "train",
                 "/nowhere/b.toml");
    mpi_rig_launch(0);
    expect_code(&o, 2);
    expect_text(o.err, "penstock: /nowhere/a.toml: cannot open");
    expect_text(o.err, "penstock: /nowhere/b.toml: rank 1 (host ");
    outcome_finish(&o);
}

/* Without a transport between processes they are several runs, and say so. */
static void test_alone(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    const char *words = "processes were started, and with run.transport = \"threads\" each trains";
    struct outcome o;

    (void)state;
    mpi_rig_launch(2);
    o = penstock("train", path, "--json", "--set", "train.steps=1");
    mpi_rig_launch(0);
    expect_code(&o, 0);
    expect_text(o.err, words);
    expect_text(o.err, "run.transport = \"mpi\" makes them one run");
    outcome_finish(&o);
    mpi_rig_launch(1);
    o = penstock("train", path, "--json", "--set", "train.steps=1");
    mpi_rig_launch(0);
    expect_code(&o, 0);
    assert_null(strstr(o.err, words));
    outcome_finish(&o);
}

/* Two programs in one job. */
static void test_disagreement(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    mpi_rig_launch(1);
    FAIL(2, "\"lr\":0.5, not \"lr\":0.001", path, "--set", "cluster.devices=2", "--set",
         "run.transport=mpi", ":", "-n", "1", PENSTOCK_BINARY, "train", path, "--set",
         "cluster.devices=2", "--set", "run.transport=mpi", "--set", "train.lr=0.5");
    mpi_rig_launch(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas),     cmocka_unit_test(test_models),
        cmocka_unit_test(test_copies),       cmocka_unit_test(test_delayed),
        cmocka_unit_test(test_plan_file),    cmocka_unit_test(test_trace),
        cmocka_unit_test(test_beginnings),   cmocka_unit_test(test_alone),
        cmocka_unit_test(test_disagreement), cmocka_unit_test(test_before_meeting),
        cmocka_unit_test(test_own_errors),
    };

    return mpi_rig_is_here() ? cmocka_run_group_tests(tests, support_begin, support_end)
                             : MPI_RIG_SKIP;
}
