/* SPDX-License-Identifier: Apache-2.0
 *
 * What pipedream-2bw, vpipe and dawnpiper plan trains, with the losses of every other cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

static void check(const char *name, const char *model)
{
    static const char *const partitioners[] = {
        "partitioner.use=pipedream-2bw", "partitioner.use=vpipe", "partitioner.use=dawnpiper"};
    const char *path = bits_config(name, model);
    struct trace first, trace;

    bits_train(path, (const char *const[]){NULL}, &first);
    for (uint32_t i = 0; i < 6; i++) {
        const char *sets[] = {partitioners[i % 3], "scheduler.use=1f1b", bits_memopts[i / 3],
                              "cluster.devices=3", NULL};

        bits_train(path, sets, &trace);
        bits_expect_same(sets[0], &trace, &first);
    }
}

static void test_gpt(void **state)
{
    (void)state;
    check("gpt.toml", bits_gpt);
}

static void test_resnet(void **state)
{
    (void)state;
    check("resnet.toml", bits_resnet);
}

/* Planned for 2BW's own schedule: its losses are delayed, whoever cuts. */
static void test_2bw(void **state)
{
    const char *path = bits_config("2bw.toml", bits_gpt);
    const char *sets[] = {"scheduler.use=2bw", "cluster.devices=3", "partitioner.use=uniform",
                          NULL};
    struct trace first, trace;

    (void)state;
    bits_train(path, sets, &first);
    sets[2] = "partitioner.use=pipedream-2bw";
    bits_train(path, sets, &trace);
    bits_expect_same(sets[2], &trace, &first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_2bw),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
