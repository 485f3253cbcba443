/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan from a file on devices that are too small: refused before the first step, with a table and
 * the number of bytes that would do. With that number it trains, with one byte less it does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

static const char config[] = "[model]\nuse = \"mlp\"\nlayers = 4\n[data]\nkind = \"synthetic\"\n"
                             "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\neval_batches = 1\n"
                             "[cluster]\ndevices = 2\n[partitioner]\nuse = \"uniform\"\n"
                             "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n";

/* Trains the plan with so many bytes on each device; the last line of the output. */
static json_t *train(const char *path, const char *plan, unsigned long long bytes, int code)
{
    char set[64], *last, *end;
    struct outcome outcome;
    json_t *object;

    snprintf(set, sizeof set, "cluster.memory=%llu", bytes);
    outcome = penstock("train", path, "--plan", plan, "--set", set, "--json");
    expect_code(&outcome, code);
    end = outcome.out + strlen(outcome.out);
    assert_true(end > outcome.out);
    end[-1] = '\0';
    last = strrchr(outcome.out, '\n');
    if (code != 0) {
        assert_null(last); /* not one step */
    }
    object = json_loads(last == NULL ? outcome.out : last + 1, 0, NULL);
    assert_non_null(object);
    outcome_finish(&outcome);
    return object;
}

static unsigned long long would_do(const json_t *object)
{
    const json_t *error = json_object_get(object, "error");
    char *details = json_dumps(error, 0);

    assert_string_equal(json_string_value(json_object_get(error, "kind")), "plan.infeasible");
    assert_non_null(strstr(details, "activations"));
    free(details);
    return (unsigned long long)json_integer_value(json_object_get(error, "enough_bytes"));
}

static void test_plan_file(void **state)
{
    const char *path = support_write("fit.toml", config), *plan = support_path("fit.json");
    struct outcome outcome = penstock("plan", path, "-o", plan);
    unsigned long long enough, most = 0;
    json_t *object, *peaks;

    (void)state;
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    object = train(path, plan, 10000, 1);
    enough = would_do(object);
    json_decref(object);
    object = train(path, plan, enough, 0);
    peaks = json_object_get(object, "peak_bytes");
    for (size_t i = 0; i < json_array_size(peaks); i++) {
        unsigned long long peak = (unsigned long long)json_integer_value(json_array_get(peaks, i));

        most = peak > most ? peak : most;
    }
    assert_true(most == enough);
    json_decref(object);
    object = train(path, plan, enough - 1, 1);
    assert_true(would_do(object) == enough);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan_file)};

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
