/* SPDX-License-Identifier: Apache-2.0
 *
 * What pipedream-2bw, vpipe and dawnpiper plan for 2BW's schedule trains, with the losses of every
 * other cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

/* Losses are delayed, whoever cuts. */
static void test_2bw(void **state)
{
    static const char *const partitioners[] = {
        "partitioner.use=pipedream-2bw", "partitioner.use=vpipe", "partitioner.use=dawnpiper"};
    const char *path = bits_config("2bw.toml", bits_gpt);
    const char *sets[] = {"scheduler.use=2bw", "cluster.devices=3", "partitioner.use=uniform",
                          NULL};
    struct trace first, trace;

    (void)state;
    bits_train(path, sets, &first);
    for (uint32_t i = 0; i < 3; i++) {
        sets[2] = partitioners[i];
        bits_train(path, sets, &trace);
        bits_expect_same(sets[2], &trace, &first);
    }
}

/* Two pipelines of two stages: gradients are summed as those of any other cut that is as wide. */
static void test_replicas(void **state)
{
    static const char *const schedulers[] = {"scheduler.use=1f1b", "scheduler.use=2bw"};
    const char *path = bits_config("replicas.toml", bits_gpt);
    const char *sets[] = {"scheduler.use=gpipe", "cluster.devices=4", "train.degrees=[2]",
                          "partitioner.use=uniform", NULL};
    struct trace first, trace;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        sets[0] = schedulers[i];
        sets[3] = "partitioner.use=uniform";
        bits_train(path, sets, &first);
        sets[3] = "partitioner.use=pipedream-2bw";
        bits_train(path, sets, &trace);
        bits_expect_same(sets[0], &trace, &first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_2bw),
        cmocka_unit_test(test_replicas),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
