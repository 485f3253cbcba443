/* SPDX-License-Identifier: Apache-2.0
 *
 * What users of GPUs are told, over the doubles of CUDA, cuDNN and NCCL: two ranks that NCCL would
 * find on one GPU, before anything is planned; shapes that cuDNN does not serve, once each.
 */
#include "test.h"

#include <unistd.h>

#include "on_host_rig.h"

#include "expect_error.h"

static const char gpt[] =
    "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 32\nheads = 2\ncontext = 8\nvocab = 16\n"
    "[data]\nkind = \"synthetic\"\n"
    "[train]\nsteps = 1\nbatch = 4\nmicrobatch = 2\neval_batches = 0\n"
    "[run]\ndevice = \"cuda\"\ndtype = \"bf16\"\n"
    "[cluster]\ndevices = 2\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";

static const char *config(void)
{
    return support_write("gpus.toml", gpt);
}

static void with_gpus(const char *n)
{
    assert_int_equal(setenv("ON_HOST_GPUS", n, 1), 0);
}

TEST(two_ranks_on_a_gpu)
{
    struct outcome o;

    with_gpus("1");
    EXPECT_ERROR(4, "machine.missing",
                 "ranks 0 and 1 would both have GPU 0000:01:00.0; take run.transport = ", "plan",
                 config(), "--set", "run.transport=nccl");
    with_gpus("3");
    EXPECT_ERROR(4, "machine.missing", "with run.share = 3, or 3 devices", "train", config(),
                 "--set", "run.transport=nccl", "--set", "cluster.devices=7");
    EXPECT_ERROR(4, "machine.missing", "ranks 0 and 3 would both have GPU 0000:01:00.0", "train",
                 config(), "--set", "run.transport=nccl", "--set", "cluster.devices=4");
    with_gpus("2"); /* one each; and threads, which share */
    o = penstock("train", config(), "--set", "run.transport=nccl");
    expect_code(&o, 0);
    outcome_finish(&o);
    with_gpus("1");
    o = penstock("train", config());
    expect_code(&o, 0);
    outcome_finish(&o);
}

/* Set before the first call of CUDA, whoever makes it; unless the environment says otherwise. */
TEST(kernels_are_loaded_early)
{
    static const char *const commands[] = {"train", "plan", "compare", "profile"};
    struct outcome o;

    with_gpus("2");
    setenv("ON_HOST_EAGER", "1", 1);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        o = penstock(commands[i], config(), "--set", "run.transport=nccl");
        expect_code(&o, 0);
        outcome_finish(&o);
    }
    unsetenv("ON_HOST_EAGER");
}

static uint32_t count(const char *text, const char *words)
{
    uint32_t n = 0;

    for (; (text = strstr(text, words)) != NULL; text += strlen(words)) {
        n++;
    }
    return n;
}

/* Both ranks have a layer, so that each shape is asked for by the planner and by both of them. */
TEST(shapes_that_are_not_served)
{
    static const char forward[] = "attention, 2 samples, 2 heads of 16, 8 rows, 8 keys, bf16",
                      backward[] =
                          "attention backward, 2 samples, 2 heads of 16, 8 rows, 8 keys, bf16";
    static const struct {
        const char *how, *words, *end;
        uint32_t n;
    } cases[] = {{"choosy", "cuDNN refuses ", "; it goes the simple way\n", 2},
                 {"broken", "cuDNN cannot compile ", " if the plan has room enough for that\n", 2}};
    struct outcome o;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("ON_HOST_DNN", cases[i].how, 1);
        o = penstock("train", config());
        expect_code(&o, 0);
        expect_text(o.err, forward);
        expect_text(o.err, backward);
        assert_int_equal(count(o.err, cases[i].words), cases[i].n);
        assert_int_equal(count(o.err, cases[i].end), cases[i].n);
        outcome_finish(&o);
    }
    setenv("ON_HOST_DNN", "tight", 1); /* nor is there room for the simple way */
    o = penstock("train", config());
    assert_int_not_equal(o.code, 0);
    expect_text(o.err, " if the plan has room enough for that\n");
    expect_text(o.err, "it is broken; run.kernels = \"simple\" does without cuDNN");
    assert_int_equal(count(o.err, "simple way\n"), 0);
    outcome_finish(&o);
    setenv("ON_HOST_DNN", "absent", 1);
    o = penstock("train", config());
    expect_code(&o, 0);
    assert_int_equal(count(o.err, "attention and convolution go the simple way"), 1);
    outcome_finish(&o);
    o = penstock("train", config(), "--set", "run.kernels=simple"); /* as one wished */
    expect_code(&o, 0);
    assert_int_equal(count(o.err, "cuDNN") + count(o.err, "simple way"), 0);
    outcome_finish(&o);
    unsetenv("ON_HOST_DNN");
}

int main(void)
{
    return on_host_is_here() ? run_own_tests(on_host_begin, support_end) : 77;
}
