/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan file of every scheduler there is: simulated, drawn, written for PyTorch where it
 * has that form, proven and trained with to the bits of gpipe.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedulers.h"

/* The step that one more costs is positive, and no rank is busier than the time there is. */
static void check_simulation(const char *id, const char *plan)
{
    struct outcome o =
        penstock("simulate", plan, "--json", "--steps", "2", "--svg", support_path("figure.svg"));
    json_t *root = json_loads(o.out, 0, NULL), *rank;
    double total = json_number_value(json_object_get(root, "total_us"));
    size_t i;

    expect_code(&o, 0);
    print_message("%s: a step of %.0f us\n", id,
                  json_number_value(json_object_get(root, "step_us")));
    assert_true(json_number_value(json_object_get(root, "step_us")) > 0);
    assert_true(json_number_value(json_object_get(root, "bubble")) >= 0);
    assert_int_equal(json_array_size(json_object_get(root, "ranks")), 4);
    json_array_foreach(json_object_get(root, "ranks"), i, rank)
    {
        double busy = json_number_value(json_object_get(rank, "busy_us"));

        assert_true(busy > 0 && busy <= total);
    }
    json_decref(root);
    outcome_finish(&o);
}

/* What else is done with a plan file. */
static void check_file(const char *id, const char *plan, bool asynchronous)
{
    struct outcome o;
    char *figure;

    check_simulation(id, plan);
    figure = support_read(support_path("figure.svg"));
    expect_text(figure, "</svg>");
    free(figure);
    o = penstock("export", "pytorch-csv", plan, "-o", support_path("out.csv"));
    expect_code(&o, asynchronous ? 1 : 0);
    outcome_finish(&o);
}

static void test_plan_files(void **state)
{
    char plan[128], set_plan[192];

    (void)state;
    check_reference();
    snprintf(plan, sizeof plan, "%s", support_path("plan.json"));
    snprintf(set_plan, sizeof set_plan, "run.plan=%s", plan);
    for (uint32_t i = 0; i < n_ids; i++) {
        struct trace trace;
        char texts[MAX_SETTINGS][192];
        const char *sets[MAX_SETTINGS + 1];
        bool asynchronous;

        settings(ids[i], texts, sets);
        asynchronous = write_plan(sets, plan);
        check_file(ids[i], plan, asynchronous);
        sets[0] = set_plan; /* in place of the scheduler */
        bits_train(config, sets, &trace);
        check_bits(ids[i], &trace, asynchronous);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_files),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
