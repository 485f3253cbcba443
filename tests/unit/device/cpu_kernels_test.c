/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of the cpu device against the reference kernels.
 */
#include "cpu_cases.h"

static void check(const struct rig_case *test, uint32_t dtype, uint32_t threads, bool with_add,
                  bool in_place)
{
    struct pst_device *plain = rig_open("reference", 1), *fast = rig_open("auto", threads);
    struct rig expected, found;

    rig_init(&expected, test, dtype, 20240229);
    rig_init(&found, test, dtype, 20240229);
    expected.with_add = found.with_add = with_add;
    expected.add_in_place = found.add_in_place = in_place;
    rig_ops->enter(plain);
    rig_run(&expected, plain);
    rig_ops->enter(fast);
    rig_run(&found, fast);
    rig_compare_all(&expected, &found);
    rig_finish(&expected);
    rig_finish(&found);
    rig_ops->close(plain);
    rig_ops->close(fast);
}

static void f32(void **state)
{
    check(*state, PST_F32, 1, false, false);
}

static void f32_threads(void **state)
{
    check(*state, PST_F32, 3, true, false);
}

static void bf16(void **state)
{
    check(*state, PST_BF16, 1, true, true);
}

static void f32_in_place(void **state)
{
    check(*state, PST_F32, 1, true, true);
}

int main(void)
{
    void (*const functions[])(void **) = {f32, f32_threads, f32_in_place, bf16};
    const char *const suffixes[] = {"f32", "f32, 3 threads", "f32, in place", "bf16"};
    static struct CMUnitTest tests[4 * N_CPU_CASES];
    static char names[4 * N_CPU_CASES][64];
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        for (uint32_t k = 0; k < 4; k++, n++) {
            snprintf(names[n], sizeof names[n], "%s, %s", cpu_cases[i].name, suffixes[k]);
            tests[n] = (struct CMUnitTest){names[n], functions[k], NULL, NULL,
                                           (void *)(uintptr_t)&cpu_cases[i]};
        }
    }
    return cmocka_run_group_tests_name("cpu kernels", tests, rig_load, NULL);
}
