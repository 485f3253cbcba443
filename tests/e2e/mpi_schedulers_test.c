/* SPDX-License-Identifier: Apache-2.0
 *
 * Every scheduler there is, with one process per device: losses, norms, evaluations and the text
 * are those of the same plan in one process, bit for bit, and all devices reach the predicted
 * peaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedulers.h"

#include "mpi_rig.h"

static void test_same_bits(void **state)
{
    (void)state;
    check_reference();
    for (uint32_t i = 0; i < n_ids; i++) {
        struct trace trace, alone = gpipe;
        char texts[MAX_SETTINGS][192];
        const char *sets[MAX_SETTINGS + 2];
        uint32_t n = 0;

        settings(ids[i], texts, sets);
        if (write_plan(sets, support_path("plan.json"))) {
            bits_train(config, sets, &alone);
        }
        while (sets[n] != NULL) {
            n++;
        }
        sets[n] = "run.transport=mpi";
        sets[n + 1] = NULL;
        mpi_rig_launch(4);
        bits_train(config, sets, &trace);
        mpi_rig_launch(0);
        bits_expect_same(ids[i], &trace, &alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };

    return mpi_rig_is_here() ? cmocka_run_group_tests(tests, schedulers_begin, schedulers_end)
                             : MPI_RIG_SKIP;
}
