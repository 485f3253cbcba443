/* SPDX-License-Identifier: Apache-2.0
 *
 * The same bits for a model of branches: as a chain of stages, and as a graph of them by the
 * scheduler that runs such. The shipped configs of that model train. What a scheduler claims of an
 * order of a graph is so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

#define CONFIGS PENSTOCK_SOURCE_DIR "/configs/"

static void test_chain(void **state)
{
    struct trace first;

    (void)state;
    bits_check_model("mmt", bits_config("mmt.toml", bits_mmt), &first);
}

/* Branches side by side: the bits of gpipe on one device, however long the runs of forwards. */
static void test_graph(void **state)
{
    static const char *const alone[] = {"scheduler.use=gpipe", NULL};
    static const char *const options[] = {"use=\"per-stage\"", "use=\"per-stage\",k=2",
                                          "use=\"per-stage\",eager=true",
                                          "use=\"per-stage\",split=true,force_chain=true"};
    const char *path = bits_config("graph.toml", bits_mmt);
    struct trace first, trace;

    (void)state;
    bits_train(path, alone, &first);
    for (uint32_t i = 0; i < 4; i++) {
        char scheduler[128];
        const char *sets[] = {
            scheduler, "cluster.devices=4", bits_memopts[i & 1],
            "partitioner={use=\"manual\",stages=\"branch.0.*;branch.1.*;branch.2.*;*\"}", NULL};

        snprintf(scheduler, sizeof scheduler, "scheduler={%s}", options[i]);
        bits_train(path, sets, &trace);
        bits_expect_same(scheduler, &trace, &first);
    }
}

/* Several micro-batch sizes: the same but for rounding, and peaks as predicted. */
static void test_sizes(void **state)
{
    static const char *const alone[] = {"scheduler.use=gpipe", NULL};
    static const char *const sizes[] = {
        "scheduler.use=per-stage", "cluster.devices=4",
        "partitioner={use=\"manual\",stages=\"branch.0.*;branch.1.*;branch.2.*;*\","
        "microbatch_sizes=\"1,2,4,6\"}",
        NULL};
    const char *path = bits_config("sizes.toml", bits_mmt);
    struct trace first, trace;

    (void)state;
    bits_train(path, alone, &first);
    bits_train(path, sizes, &trace);
    for (uint32_t i = 0; i < first.n_steps; i++) {
        double loss = strtod(first.losses[i], NULL);

        assert_float_equal(strtod(trace.losses[i], NULL), loss, 1e-5 * loss);
    }
    assert_int_equal(trace.n_steps, first.n_steps);
}

/* configs/mmt.toml, and configs/mmt-graph.toml whose last stage takes larger micro-batches:
   per-stage gives what gpipe gives with the same cut. */
static void test_shipped(void **state)
{
    static const char *const rows[][3] = {
        {CONFIGS "mmt.toml", "scheduler.use=gpipe", "scheduler.use=per-stage"},
        {CONFIGS "mmt-graph.toml", "scheduler.use=gpipe", "scheduler.use=per-stage"},
    };
    struct trace traces[2][2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const char *sets[] = {rows[i][1 + k], "train.steps=3", "train.eval_batches=1", NULL};

            bits_train(rows[i][0], sets, &traces[i][k]);
        }
        bits_expect_same(rows[i][0], &traces[i][1], &traces[i][0]);
        assert_int_equal(traces[i][0].n_evals, 1);
    }
    assert_false(bits_are_same(&traces[0][0], &traces[1][0])); /* sums of 4 and of 8 samples */
}

/* The host warns of a claim that its own times do not bear out. */
static void test_claims(void **state)
{
    static const char *const jobs[][3] = {
        {CONFIGS "models/mmt-small.toml", "cluster.devices=2", "partitioner.use=vpipe"},
        {CONFIGS "models/dlrm-small.toml", "cluster.devices=3", "partitioner.use=greedy"},
        {CONFIGS "models/candle-uno-small.toml", "cluster.devices=4", "partitioner.use=greedy"},
    };
    static const char *const commands[] = {"plan", "simulate"};

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct outcome outcome =
            penstock(commands[i % 2], jobs[i / 2][0], "--set", jobs[i / 2][1], "--set",
                     jobs[i / 2][2], "--set", "scheduler.use=v-adaptive", "--set",
                     "memopt.use=none", "--set", "run.device=emulated");

        expect_code(&outcome, 0);
        if (strstr(outcome.err, "claims") != NULL) {
            fail_msg("%s %s: %s", commands[i % 2], jobs[i / 2][0], outcome.err);
        }
        outcome_finish(&outcome);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),   cmocka_unit_test(test_graph),  cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_shipped), cmocka_unit_test(test_claims),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
