/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on the cuda device against the cpu device: losses and norms of the first steps agree
 * within what rounding explains; ways that save kernels make the same bits. On a GPU, skipped where
 * there is none; with "on-host" the same kernels compiled for the host.
 */
#include "unit/exec/real.h"

#include "cuda/open.h"

#include <math.h>

enum { STEPS = 4, CLASSES = 7 };

struct figures {
    double losses[STEPS], norms[STEPS], eval;
};

/* Kernels so far; a GPU does not count them. */
static int kernels(void)
{
    const struct pst_device_ops *ops;
    struct cuda_on_host *host;

    if (real_on_cpu || strcmp(real_other_device(), CUDA_ON_HOST) != 0) {
        return 0;
    }
    cuda_on_host_open(&ops, &host);
    return atomic_load(&host->kernels);
}

static int kernels_of_steps; /* in the last training, without its evaluation */

static const struct layout two_stages = {2, {0, 1}, ORDER_SPLIT, true, {0}};

static struct figures train(const char *model, const char *settings, uint32_t dtype,
                            const struct layout *layout)
{
    struct pst_update update = {.optimizer = PST_MOMENTUM, .lr = 0.02f, .momentum = 0.9f};
    struct figures run;
    struct real real;

    real_create(&real, model, settings, dtype, layout, 4 * SIZE, 1, 1.0);
    real_data(&real, CLASSES);
    kernels_of_steps = -kernels();
    for (uint32_t i = 0; i < STEPS; i++) {
        struct pst_step_result result;

        update.step = i + 1;
        result = real_step(&real, &update);
        run.losses[i] = result.loss;
        run.norms[i] = result.grad_norm;
    }
    kernels_of_steps += kernels();
    run.eval = real_eval(&real);
    real_destroy(&real);
    return run;
}

static void close_to(const char *model, const char *what, uint32_t step, double expected,
                     double found, double tolerance)
{
    if (!(fabs(expected - found) <= tolerance * fabs(expected))) {
        fail_msg("%s, %s %u: %.9g on the cpu, %.9g here", model, what, step, expected, found);
    }
}

/* f32 carries 24 bits and these sums are short; bf16 rounds every activation to 8. */
static void agree(const char *model, const char *settings, uint32_t dtype)
{
    const double tolerance = dtype == PST_F32 ? 1e-4 : 3e-2;
    struct figures cpu, cuda;

    real_on_cpu = true;
    cpu = train(model, settings, dtype, &two_stages);
    real_on_cpu = false;
    cuda = train(model, settings, dtype, &two_stages);
    for (uint32_t i = 0; i < STEPS; i++) {
        close_to(model, "loss", i + 1, cpu.losses[i], cuda.losses[i], tolerance);
        close_to(model, "norm", i + 1, cpu.norms[i], cuda.norms[i], 4 * tolerance);
    }
    close_to(model, "evaluation", 0, cpu.eval, cuda.eval, tolerance);
}

TEST(test_mlp)
{
    agree("mlp", "inputs=12 hidden=16 layers=4 classes=7 act=gelu", PST_F32);
    agree("mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_BF16);
}

/* Dropout: the same numbers are drawn on both. */
TEST(test_gpt)
{
    agree("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", PST_F32);
    agree("gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", PST_BF16);
}

/* Heads that share keys, norms of them, positions, a window. */
#define LLAMA                                                                                      \
    "layers=2 dim=16 heads=4 kv_heads=2 head_dim=8 ff=24 context=8 vocab=7 window=5 "              \
    "qk_norm=true qkv_bias=true"

TEST(test_llama)
{
    agree("llama", LLAMA, PST_F32);
    agree("llama", LLAMA, PST_BF16);
    agree("llama", LLAMA " experts=4 capacity=1.25", PST_F32);
}

TEST(test_others)
{
    agree("resnet", "image=8 width=4 stages=2 blocks=1 classes=7", PST_F32);
    agree("t5",
          "dim=16 heads=2 head_dim=4 ff=24 context=8 targets=6 vocab=7 buckets=8 max_distance=6",
          PST_F32);
    agree("dlrm", "features=5 width=12 entries=7 vector=3 classes=7 bag=sum", PST_F32);
}

static const struct pst_device_ops *begins_no_pass(const struct pst_device_ops *ops)
{
    static struct pst_device_ops changed;

    changed = *ops;
    changed.begin_pass = NULL;
    return &changed;
}

static const struct layout one_stage = {1, {0}, ORDER_GPIPE, false, {0}},
                           replays = {1, {0}, ORDER_GPIPE, true, {0}},
                           delayed = {2, {0, 1}, ORDER_2BW, false, {0}};

/* The same bits with fewer kernels and with more, which `one` and `watch` ask for. least, most: how
   many fewer for a micro-batch, of which a step has four. */
static void same_bits(const char *model, const char *settings, uint32_t dtype,
                      const struct layout *layout, const char *one,
                      const struct pst_device_ops *(*watch)(const struct pst_device_ops *),
                      int least, int most)
{
    struct figures few, many;
    int fewer;

    few = train(model, settings, dtype, layout);
    fewer = -kernels_of_steps;
    real_kernels = one;
    real_watch = watch;
    many = train(model, settings, dtype, layout);
    real_kernels = "auto";
    real_watch = NULL;
    fewer += kernels_of_steps;
    assert_memory_equal(&few, &many, sizeof few);
    if (kernels() > 0) {
        assert_in_range(fewer, 4 * STEPS * least, 4 * STEPS * most);
    }
}

#define SMALL "layers=1 dim=16 heads=2 context=8 vocab=7"

/* Sums and their norms in one kernel and in two. Of the replays one may lie so that it takes two.
 */
TEST(test_pairs)
{
    same_bits("gpt", SMALL, PST_BF16, &replays, "unpaired", NULL, 3, 4);
    same_bits("llama", SMALL " ff=24", PST_F32, &one_stage, "unpaired", NULL, 2, 2);
}

/* Biases rounded in front of a pass, 128 at once, and in front of each product. */
TEST(test_biases)
{
    same_bits("gpt", SMALL, PST_BF16, &replays, "auto", begins_no_pass, 6, 6);
    same_bits("gpt", SMALL, PST_BF16, &delayed, "auto", begins_no_pass, 1, 3);
    same_bits("mlp", "inputs=12 hidden=16 layers=149 classes=7", PST_BF16, &one_stage, "auto",
              begins_no_pass, 148, 148);
}

int main(int argc, char **argv)
{
    const bool on_host = argc == 2 && strcmp(argv[1], "on-host") == 0;
    setenv("PENSTOCK_TEST_DEVICE",
           on_host ? PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so"
                   : PENSTOCK_PLUGIN_DIR "/device-cuda.so",
           1);
    load_device("cuda"); /* or skipped here */
    return run_own_tests(NULL, NULL);
}
