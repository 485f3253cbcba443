/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are wrong in one place: the message names the place and what would be right there.
 * Streams that take nothing. Text that could drive a terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect_error.h"

#include <sys/resource.h>
#include <unistd.h>

static const char good[] = "[model]\n"
                           "use = \"gpt\"\n"
                           "layers = 1\n"
                           "dim = 16\n"
                           "heads = 2\n"
                           "context = 8\n"
                           "[data]\n"
                           "kind = \"synthetic\"\n"
                           "[train]\n"
                           "steps = 2\n"
                           "batch = 8\n"
                           "microbatch = 2\n"
                           "[cluster]\n"
                           "devices = 2\n"
                           "[partitioner]\n"
                           "use = \"uniform\"\n"
                           "[scheduler]\n"
                           "use = \"1f1b\"\n"
                           "eager = true\n"
                           "[[memopt]]\n"
                           "use = \"none\"\n";

#define SET(code, kind, words, set)                                                                \
    EXPECT_ERROR(code, kind, words, "plan", support_path("good.toml"), "--set", set)

/* What is known but not part of this build is missing (4); what nobody knows is wrong (2). */
static void test_modules(void **state)
{
    (void)state;
    if (access(PENSTOCK_PLUGIN_DIR "/device-cuda.so", F_OK) != 0) {
        SET(4, "machine.missing", "NVIDIA GPUs", "run.device=cuda");
    }
    if (PENSTOCK_MPIEXEC[0] == '\0') {
        SET(4, "machine.missing", "several machines", "run.transport=mpi");
    }
    if (access(PENSTOCK_PLUGIN_DIR "/transport-nccl.so", F_OK) != 0) {
        SET(4, "machine.missing", "threads", "run.transport=nccl");
    }
    SET(2, "config.value", "did you mean", "run.device=cpuu");
    SET(2, "config.value", "did you mean", "run.transport=thread");
    /* Also where a device takes no notice of it, or nothing is run. */
    SET(2, "config.value", "onednn", "run.kernels=onedn");
    SET(2, "config.value", "onednn", "run={kernels=\"onedn\",device=\"emulated\"}");
    EXPECT_ERROR(2, "config.value", "did you mean", "simulate", support_path("good.toml"), "--set",
                 "run.transport=thread");
    SET(2, "config.value", "edge", "run.p2p=edges");
    SET(2, "config.value", "auto", "run.graphs=yes");
    SET(2, "config.value", "bf16", "run.dtype=fp16");
}

/* Every message below stands at the value that is wrong. */
static void test_places(void **state)
{
    static const struct {
        const char *set, *place;
    } cases[] = {
        {"model.use=3", "--set:1:11: \"use\" in [model] must be a string"},
        {"model.heads=3", "--set:1:13: \"heads\" in [model] is 3, which does not divide dim = 16"},
        {"model.use=gtp", "--set:1:11: no model \"gtp\"; did you mean \"gpt\"? there are mlp"},
        {"run.device=cpuu", "--set:1:12: no device"},
        {"run.kernels=x", "--set:1:13: "},
        {"partitioner.path=/nonexistent/a.so", "--set:1:18: /nonexistent/a.so"},
        {"partitioner.path=\"\"", "--set:1:18: \"path\" in [partitioner] names no file"},
        {"train.steps=99999999999999999999", "not representable"},
        {"train.lr=1e400", "1e400"},
        {"steps=3", "--set:1:1: \"steps\" belongs into [train]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome o = penstock("plan", support_path("good.toml"), "--set", cases[i].set);

        expect_code(&o, 2);
        expect_text(o.err, cases[i].place);
        outcome_finish(&o);
    }
}

/* --set changes the plugin, and the file's parameters belong to the other one. */
static void test_other_plugin(void **state)
{
    const char *config = support_path("good.toml");

    (void)state;
    EXPECT_ERROR(2, "config.key", "in [scheduler] (gpipe)", "plan", config, "--set",
                 "scheduler.use=gpipe");
    EXPECT_ERROR(2, "config.key", "replaces the whole table", "plan", config, "--set",
                 "scheduler.use=gpipe");
    /* The advice works. */
    {
        struct outcome o = penstock("plan", config, "--set", "scheduler={use = \"gpipe\"}");

        expect_code(&o, 0);
        outcome_finish(&o);
    }
}

static void test_usage(void **state)
{
    const char *config = support_path("good.toml");

    (void)state;
    EXPECT_ERROR(2, "usage", "plugins info: NAME|FILE is missing", "plugins", "info");
    EXPECT_ERROR(2, "usage", "plugins new: KIND ID [FOLDER] is missing", "plugins", "new", "x");
    EXPECT_ERROR(2, "usage", "no value may follow", "train", config, "--verbose=3");
    EXPECT_ERROR(2, "config.file", "empty", "train", "");
    EXPECT_ERROR(2, "input.path", "none.json", "check", support_path("none.json"));
    EXPECT_ERROR(2, "input.path", "folder", "check", support_folder);
}

static int run_into(const char *path, const char *const *args, char **ret_err)
{
    int out = open(path, O_WRONLY), err = memfd_create("err", MFD_CLOEXEC), code;

    assert_true(out >= 0 && err >= 0);
    code = support_wait(support_spawn(args, out, err));
    close(out);
    *ret_err = support_drain(err);
    return code;
}

/* A full disk is an error, also for a run that has done its work. */
static void test_full_output(void **state)
{
    const char *config = support_path("good.toml");
    const char *const commands[][5] = {
        {"plan", config, NULL},
        {"plan", config, "--json", NULL},
        {"train", config, NULL},
        {"train", config, "-q"},
        {"train", config, "--json", "-q"},
        {"doctor", NULL},
        {"plugins", "--json", NULL},
        {"--help", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *err;

        assert_int_equal(run_into("/dev/full", commands[i], &err), 2);
        expect_text(err, "cannot write to standard output");
        free(err);
    }
}

/* So is a limit on the size of files, which would end the process in the middle of a word. What was
   there before stays. */
static void test_file_limit(void **state)
{
    const char *plan = support_path("limited.json"), *config = support_path("good.toml");
    struct rlimit before, limit;
    char *kept, *now, *err;
    struct outcome o;
    int code;

    (void)state;
    o = penstock("plan", config, "-o", plan);
    expect_code(&o, 0);
    outcome_finish(&o);
    kept = support_read(plan);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 1024, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    code =
        run_into("/dev/null",
                 (const char *[]){"plan", config, "-o", plan, "--set", "train.seed=7", NULL}, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, 2);
    expect_text(err, "limited.json: cannot write the file");
    now = support_read(plan);
    assert_string_equal(now, kept);
    free(err);
    free(kept);
    free(now);
}

/* What a file name or a plan of another model brings along never reaches a terminal as it is. */
static void test_control_characters(void **state)
{
    struct outcome o = penstock("plan", "a\033[31m\x9b.toml");

    (void)state;
    expect_code(&o, 2);
    assert_null(strchr(o.err, '\033'));
    assert_null(strchr(o.err, '\x9b'));
    expect_text(o.err, "a\xEF\xBF\xBD[31m\xEF\xBF\xBD.toml");
    outcome_finish(&o);
}

/* Two searches, one file. */
static void test_same_plan(void **state)
{
    static const char *const strategies[] = {"partitioner.use=uniform", "partitioner.use=chain-dp",
                                             "memopt.use=full"};
    const char *config = support_path("good.toml");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char *text[2];

        for (int k = 0; k < 2; k++) {
            struct outcome o =
                penstock("plan", config, "--set", strategies[i], "-o", support_path("p.json"));

            expect_code(&o, 0);
            outcome_finish(&o);
            text[k] = support_read(support_path("p.json"));
            assert_non_null(text[k]);
        }
        assert_string_equal(text[0], text[1]);
        free(text[0]);
        free(text[1]);
    }
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

/* Threads beyond the cores take turns. On one device there is nothing but computation, so a step
   takes longer by threads / cores; the plan file speaks of the described device all the same. */
static void test_shared_cores(void **state)
{
    static const char *const threads[] = {"run.threads_per_device=1",
                                          "run.threads_per_device=1024"};
    const char *file = support_path("shared.json");
    double step_us[2], cores = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct outcome o =
            penstock("plan", support_path("good.toml"), "--json", "-o", file, "--set",
                     "cluster.devices=1", "--set", "scheduler.use=1f1b", "--set", threads[i]);
        json_t *root;

        expect_code(&o, 0);
        root = json_loads(o.out, 0, NULL);
        assert_non_null(root);
        step_us[i] = number(root, "step_us");
        cores = number(root, "cores");
        assert_true(number(root, "threads") == (i == 0 ? 1 : 1024));
        json_decref(root);
        outcome_finish(&o);
        root = json_load_file(file, 0, NULL);
        assert_non_null(root);
        if (i == 0) {
            assert_true(number(json_object_get(root, "predicted"), "step_us") == step_us[0]);
        } else {
            assert_true(number(json_object_get(root, "predicted"), "step_us") <= step_us[1]);
        }
        json_decref(root);
    }
    if (cores < 1024) {
        double ratio = step_us[1] / step_us[0] / (1024 / cores);

        assert_true(ratio > 0.99 && ratio < 1.01);
    }
}

static int begin(void **state)
{
    return support_begin(state) == 0 && support_write("good.toml", good) != NULL ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_other_plugin),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_full_output),
        cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_same_plan),
        cmocka_unit_test(test_shared_cores),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
