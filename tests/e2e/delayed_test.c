/* SPDX-License-Identifier: Apache-2.0
 *
 * `2bw` from outside: the gradient of batch t is taken at the weights after max(t - 1, 0) updates
 * and applied to the newest (Narayanan et al., ICML 2021, section 3.1). Batches 0 and 1 read the
 * first weights, so there is a synchronous run that shows each of their losses, and one that makes
 * the sum of their updates. Neither devices nor drains nor memory actions enter a bit; a run ends
 * with all its updates made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "bits.h"

/* Eight micro-batches; the same learning rate in runs of different length. */
#define MODEL                                                                                      \
    "[model]\nuse = \"gpt\"\nlayers = 3\ndim = 16\nheads = 2\ncontext = 8\ndropout = 0.1\n"        \
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
#define MODEL_OF_NUMBERS                                                                           \
    "[model]\nuse = \"mlp\"\nlayers = 6\nhidden = 32\n[data]\nkind = \"synthetic\"\n"
#define REST                                                                                       \
    "eval_batches = 2\nsample = 0\n[cluster]\ndevices = 4\n[partitioner]\nuse = \"uniform\"\n"     \
    "[scheduler]\nuse = \"2bw\"\n[[memopt]]\nuse = \"none\"\n"
static const char text[] = MODEL "[train]\nsteps = 5\nbatch = 16\nmicrobatch = 2\nlr = 3e-3\n"
                                 "schedule = \"constant\"\nwarmup = 0\n" REST;
static const char sgd[] =
    MODEL_OF_NUMBERS "[train]\nsteps = 2\nbatch = 16\nmicrobatch = 2\nlr = 0.25\n"
                     "optimizer = \"sgd\"\nclip = 0\nweight_decay = 0\n"
                     "schedule = \"constant\"\nwarmup = 0\n" REST;

static struct trace run(const char *path, const char *a, const char *b)
{
    const char *const sets[] = {a, b, NULL};
    struct trace trace;

    bits_train(path, sets, &trace);
    return trace;
}

/* Losses and norms of the first two batches are those at the first weights: where a synchronous run
   never moves, it shows the same. From the third on other weights are read than it would. */
static void test_first_batches(void **state)
{
    const char *path = support_write("first.toml", text);
    struct trace delayed = run(path, "train.eval_batches=0", NULL);
    struct trace plain = run(path, "train.eval_batches=0", "scheduler.use=gpipe");
    struct trace still[2] = {run(path, "train.lr=0", "scheduler.use=gpipe"),
                             run(path, "train.lr=0", NULL)};

    (void)state;
    assert_true(bits_steps_are_same(&delayed, &plain, 1));
    assert_true(bits_steps_are_same(&delayed, &still[0], 2));
    assert_string_not_equal(delayed.losses[1], plain.losses[1]);
    assert_string_not_equal(delayed.losses[2], still[0].losses[2]);
    assert_string_not_equal(delayed.losses[2], plain.losses[2]);
    bits_expect_same("without a learning rate", &still[1], &still[0]);
}

/* Nothing that a plan may choose changes a bit: not even where the pipeline runs empty. */
static void test_nothing_else_matters(void **state)
{
    static const char *const changes[] = {
        "cluster.devices=1",   "cluster.devices=2",        "cluster.devices=3",
        "memopt.use=full",     "partitioner.use=chain-dp", "scheduler.relaxed_m=true",
        "train.drain_every=1", "train.drain_every=2",      "train.drain_every=3",
        "train.drain_every=5", "train.drain_every=100",    "train.on_non_finite=skip",
        "train.clip=1.0"};
    const char *path = support_write("same.toml", text);
    struct trace first = run(path, "train.eval_every=0", NULL);
    struct trace deep = run(path, "cluster.devices=12", "scheduler.relaxed_m=true");

    (void)state;
    assert_int_equal(first.n_steps, 5);
    assert_int_equal(first.n_evals, 1);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct trace trace = run(path, changes[i], NULL);

        bits_expect_same(changes[i], &trace, &first);
    }
    bits_expect_same("more devices than micro-batches", &deep, &first);
}

/* An evaluation drains, sees the newest weights and leaves no trace in the steps behind it. W(1) is
   also what one synchronous step makes. */
static void test_evaluation(void **state)
{
    const char *path = support_write("eval.toml", text);
    struct trace rare = run(path, "train.eval_every=0", NULL);
    struct trace often = run(path, "train.eval_every=1", NULL);
    struct trace one[2] = {run(path, "train.steps=1", "scheduler.use=gpipe"),
                           run(path, "train.steps=1", NULL)};
    struct trace two = run(path, "train.steps=2", NULL);

    (void)state;
    assert_true(bits_steps_are_same(&rare, &often, 5));
    assert_int_equal(often.n_evals, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(often.eval_steps[i], i + 1);
        assert_true(i == 0 || often.evals[i] != often.evals[i - 1]);
    }
    bits_expect_same("one step", &one[1], &one[0]);
    assert_true(often.evals[0] == one[0].evals[0]);
    assert_true(often.evals[1] == two.evals[0]); /* both updates are made when the run ends */
    assert_true(often.evals[4] == rare.evals[0]);
}

/* Both gradients at the first weights: two steps of SGD make what one of twice the batch and twice
   the rate makes, but for rounding. A synchronous run of two steps makes something else. */
static void test_two_updates(void **state)
{
    const char *path = support_write("sgd.toml", sgd);
    const char *const twice[] = {"train.steps=1",        "train.batch=32",      "train.lr=0.5",
                                 "train.eval_batches=1", "scheduler.use=gpipe", NULL};
    struct trace delayed = run(path, "train.eval_every=0", NULL), sum;
    struct trace plain = run(path, "train.eval_every=0", "scheduler.use=gpipe");
    double mean, norm;

    (void)state;
    bits_train(path, twice, &sum);
    mean = (strtod(delayed.losses[0], NULL) + strtod(delayed.losses[1], NULL)) / 2;
    norm = (delayed.norms[0] + delayed.norms[1]) / 2;
    assert_true(fabs(mean - strtod(sum.losses[0], NULL)) < 1e-6 * mean);
    assert_true(sum.norms[0] < norm); /* of a mean: not more than the mean of the norms */
    print_message("held out: delayed %.9f, twice the batch %.9f, synchronous %.9f\n",
                  delayed.evals[0], sum.evals[0], plain.evals[0]);
    assert_true(fabs(delayed.evals[0] - sum.evals[0]) < 2e-6 * sum.evals[0]);
    assert_true(fabs(plain.evals[0] - sum.evals[0]) > 1e-4 * sum.evals[0]);
}

static double predicted(const char *path, const char *command, const char *set)
{
    struct outcome o = penstock(command, path, "--json", "--set", set);
    json_t *root = json_loads(o.out, 0, NULL);
    double us = json_number_value(json_object_get(root, "step_us"));
    bool plan = strcmp(command, "plan") == 0;

    expect_code(&o, 0);
    assert_true(us > 0);
    assert_int_equal(json_is_true(json_object_get(root, "asynchronous")), plan);
    assert_int_equal(json_integer_value(json_object_get(root, "weight_versions")), plan ? 2 : 0);
    json_decref(root);
    outcome_finish(&o);
    return us;
}

/* The rarer the drains, the shorter the step; at most they are one a step. */
static void test_drains_cost(void **state)
{
    static const char *const sets[] = {"train.drain_every=1", "train.drain_every=2",
                                       "train.drain_every=7", "train.drain_every=70",
                                       "train.drain_every=0"};
    const char *path = support_write("drains.toml", text);
    double last = INFINITY;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        double us = predicted(path, "simulate", sets[i]);

        assert_true(us < last);
        last = us;
    }
    assert_true(predicted(path, "plan", sets[0]) > predicted(path, "plan", sets[4]));
    assert_true(predicted(PENSTOCK_SOURCE_DIR "/configs/2bw.toml", "plan", sets[4]) > 0);
}

/* A loss that is not finite, in the words of each setting. The first weights serve two batches, so
   the third is the first that can fail. */
static void test_non_finite(void **state)
{
    static const struct {
        const char *set, *message;
        uint32_t n_skipped;
    } rows[] = {{"train.clip=0", "step 3: the loss is not finite", 0},
                {"train.clip=1", "; no parameter was updated", 0},
                {"train.on_non_finite=skip", "for the 4th time in a row", 3}};
    const char *path = support_write("bad.toml", sgd);

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct outcome o = penstock("train", path, "--json", "--quiet", "--set", "train.lr=1e30",
                                    "--set", "train.steps=12", "--set", rows[i].set);
        uint32_t n_lines = 0, n_skipped = 0;

        expect_code(&o, 1);
        for (const char *at = o.out; (at = strchr(at, '\n')) != NULL; at++) {
            n_lines++;
        }
        for (const char *at = o.out; (at = strstr(at, "\"skipped\":true")) != NULL; at++) {
            n_skipped++;
        }
        expect_text(o.out, "\"kind\":\"run.non-finite\"");
        expect_text(o.out, rows[i].message);
        assert_int_equal(n_skipped, rows[i].n_skipped);
        assert_int_equal(n_lines, 2 + n_skipped + 1);
        outcome_finish(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_batches), cmocka_unit_test(test_nothing_else_matters),
        cmocka_unit_test(test_drains_cost),   cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_two_updates),   cmocka_unit_test(test_non_finite),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
