/* SPDX-License-Identifier: Apache-2.0
 *
 * Every scheduler there is trains the quickstart model in small: losses, gradient norms,
 * evaluations and the generated text are those of gpipe, bit for bit; those of an asynchronous one
 * are not, and there is one such at most among so many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedulers.h"

static void test_same_bits(void **state)
{
    uint32_t n_differ = 0;

    (void)state;
    check_reference();
    for (uint32_t i = 0; i < n_ids; i++) {
        struct trace trace;
        char texts[MAX_SETTINGS][192];
        const char *sets[MAX_SETTINGS + 1];
        bool differs;

        settings(ids[i], texts, sets);
        bits_train(config, sets, &trace);
        differs = write_plan(sets, support_path("plan.json"));
        print_message("%s%s\n", ids[i], differs ? ": asynchronous" : "");
        check_bits(ids[i], &trace, differs);
        n_differ += differs;
    }
    assert_true(n_differ < n_ids / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, schedulers_begin, schedulers_end);
}
