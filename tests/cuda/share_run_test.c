/* SPDX-License-Identifier: Apache-2.0
 *
 * run.share as users meet it, and a GPU that stands still: the program with the device on the host
 * under the name cuda. A copy of the program beside a folder of plugins has those for its own.
 */
#include "test.h"

#include <limits.h>

static char program[PATH_MAX];
#define REAL_BINARY     PENSTOCK_REAL_BINARY
#define PENSTOCK_BINARY program

#include "expect_error.h"

static const char config_text[] =
    "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 16\nheads = 2\ncontext = 8\nvocab = 16\n"
    "[data]\nkind = \"synthetic\"\n"
    "[train]\nsteps = 3\nbatch = 8\nmicrobatch = 2\neval_batches = 0\n"
    "[run]\ndevice = \"cuda\"\n"
    "[cluster]\ndevices = 4\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";

static int begin(void **state)
{
    static const char *const plugins[] = {"device-cpu.so", "transport-threads.so",
                                          "partitioner-uniform.so", "scheduler-1f1b.so",
                                          "memopt-none.so"};
    char command[2048];
    int n;

    if (support_begin(state) != 0) {
        return -1;
    }
    n = snprintf(command, sizeof command,
                 "set -e; cd %s; mkdir plugins; cp %s penstock; chmod 755 . plugins; "
                 "cp %s/tests/device-cuda-on-host.so plugins/device-cuda.so",
                 support_folder, REAL_BINARY, PENSTOCK_PLUGIN_DIR);
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++) {
        n += snprintf(command + n, sizeof command - (size_t)n, "; cp %s/%s plugins/",
                      PENSTOCK_PLUGIN_DIR, plugins[i]);
    }
    snprintf(command + n, sizeof command - (size_t)n, "; cd plugins; %s/../list_shipped . *.so",
             PENSTOCK_PLUGIN_DIR);
    snprintf(program, sizeof program, "%s/penstock", support_folder);
    support_write("share.toml", config_text);
    return system(command) == 0 ? 0 : -1;
}

static const char *config(void)
{
    return support_path("share.toml");
}

static void with_gpus(const char *n, const char *driver)
{
    assert_int_equal(setenv("ON_HOST_GPUS", n, 1), 0);
    assert_int_equal(setenv("ON_HOST_DRIVER", driver, 1), 0);
}

/* The losses of all steps, as the program writes their bits; free() it. */
static char *losses(const char *share, const char *devices)
{
    struct outcome o = penstock("train", config(), "--json", "--set", share, "--set", devices);
    char *text, *at = o.out;
    size_t n = 0;

    expect_code(&o, 0);
    text = calloc(1, strlen(o.out) + 1);
    assert_non_null(text);
    while ((at = strstr(at, "\"loss_hex\":\"")) != NULL) {
        const size_t length = strcspn(at += strlen("\"loss_hex\":\""), "\"");

        memcpy(text + n, at, length);
        n += length;
        text[n++] = '\n';
    }
    if (n < 15) {
        fail_msg("no losses in %s", o.out);
    }
    outcome_finish(&o);
    return text;
}

TEST(same_losses)
{
    char *alone, *shared;
    static const char *const ways[][2] = {{"run.share=2", "cluster.devices=4"},
                                          {"run.share=4", "cluster.devices=4"},
                                          {"run.share=2", "cluster.devices=2"},
                                          {"run.share=1", "cluster.devices=2"},
                                          {"run.share=0", "cluster.devices=4"}};

    with_gpus("2", "green");
    alone = losses("run.share=1", "cluster.devices=1");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        shared = losses(ways[i][0], ways[i][1]);
        assert_string_equal(alone, shared);
        free(shared);
    }
    with_gpus("1", "none"); /* plain streams */
    shared = losses("run.share=4", "cluster.devices=4");
    assert_string_equal(alone, shared);
    free(shared);
    free(alone);
}

TEST(refusals)
{
    with_gpus("1", "green");
    EXPECT_ERROR(4, "machine.missing", "4 ranks, 2 for each GPU, want 2 GPUs, and there is 1",
                 "train", config(), "--set", "run.share=2");
    EXPECT_ERROR(4, "machine.missing", "cannot be split into 20 equal parts", "train", config(),
                 "--set", "run.share=20");
    EXPECT_ERROR(4, "machine.missing", "transport mpi cannot have 4 ranks on one GPU", "plan",
                 config(), "--set", "run.share=4", "--set", "run.transport=mpi");
    EXPECT_ERROR(4, "machine.missing", "transport nccl cannot have 2 ranks on one GPU", "plan",
                 config(), "--set", "run.share=2", "--set", "run.transport=nccl");
    EXPECT_ERROR(2, "config.value", "share", "train", config(), "--set", "run.share=-1");
    EXPECT_ERROR(2, "config.value", "share", "train", config(), "--set", "run.share=many");
    EXPECT_ERROR(2, "config.value", "share", "train", config(), "--set", "run.share=2000");
}

/* It is said how: before the run, by the trace, by profile and doctor. */
TEST(said)
{
    static const char *const words[][2] = {
        {"green", "4 ranks a GPU, each on 32 of its 132 multiprocessors"},
        {"none", "4 ranks a GPU on plain streams: the driver has no cu"}};
    const char *trace = support_path("trace.json");
    char set[256];

    snprintf(set, sizeof set, "output.trace=%s", trace);
    for (size_t i = 0; i < 2; i++) {
        struct outcome o;
        char *text;

        with_gpus("1", words[i][0]);
        o = penstock("train", config(), "--set", "run.share=4", "--set", set);
        expect_code(&o, 0);
        expect_text(o.out, words[i][1]);
        outcome_finish(&o);
        text = support_read(trace);
        assert_non_null(text);
        expect_text(text, "\"sharing\":\"");
        expect_text(text, words[i][1]);
        free(text);
        o = penstock("doctor");
        expect_code(&o, 0);
        expect_text(o.out, i == 0 ? "run.share by green contexts" : "run.share by plain streams");
        outcome_finish(&o);
    }
}

/* What is measured is a part. */
TEST(profile_of_a_part)
{
    const char *profile = support_path("profile.json");
    struct outcome o;
    char *text;

    with_gpus("1", "green");
    o = penstock("profile", config(), "-o", profile, "--set", "run.share=3");
    expect_code(&o, 0);
    outcome_finish(&o);
    text = support_read(profile);
    assert_non_null(text);
    expect_text(text, "3 ranks a GPU, each on 40 of its 132 multiprocessors");
    free(text);
}

/* Other devices have nothing to share. */
TEST(not_read_elsewhere)
{
    struct outcome o =
        penstock("train", config(), "--set", "run.device=cpu", "--set", "run.share=1");

    expect_code(&o, 0);
    outcome_finish(&o);
}

/* A kernel that never ends: the run ends all the same, and says what it waited for. Records of
   events before the first step are fewer than that. */
TEST(a_gpu_that_stands_still)
{
    with_gpus("1", "none");
    setenv("ON_HOST_STREAMS", "threads", 1);
    setenv("ON_HOST_STUCK", "60", 1);
    EXPECT_ERROR(1, "run.stalled", "for its device cuda", "train", config(), "--set",
                 "cluster.devices=2", "--set", "run.stall_limit=\"500 ms\"");
    unsetenv("ON_HOST_STUCK");
    unsetenv("ON_HOST_STREAMS");
}

TEST_GROUP(begin, support_end)
