/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of the cpu device against the reference kernels.
 */
#include "cpu_cases.h"
#include "cpu_compare.h"

#include <unistd.h>

static void check(const struct rig_case *test, uint32_t dtype, uint32_t threads, bool with_add,
                  bool in_place)
{
    struct pst_device *plain = rig_open("reference", 1), *fast = rig_open("auto", threads);
    struct rig expected, found;

    rig_init(&expected, test, dtype, 20240229);
    rig_init(&found, test, dtype, 20240229);
    expected.with_add = found.with_add = with_add;
    expected.add_in_place = found.add_in_place = in_place;
    rig_check(&expected, plain, &found, fast);
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

/* This program once more, where both oneDNN and our own routines take a lesser instruction set. */
static void again_under(void **state)
{
    static char text[65536];
    char command[160];
    FILE *pipe;
    size_t used;

    snprintf(command, sizeof command, "ONEDNN_MAX_CPU_ISA=%s /proc/%d/exe --once 2>&1",
             (const char *)*state, (int)getpid());
    pipe = popen(command, "r");
    assert_non_null(pipe);
    used = fread(text, 1, sizeof text - 1, pipe);
    text[used] = '\0';
    if (pclose(pipe) != 0) {
        fail_msg("%s: %s", (const char *)*state, text);
    }
}

int main(int argc, char **argv)
{
    void (*const functions[])(void **) = {f32, f32_threads, f32_in_place, bf16};
    const char *const suffixes[] = {"f32", "f32, 3 threads", "f32, in place", "bf16"};
    static struct CMUnitTest tests[4 * N_CPU_CASES + 2];
    static char names[4 * N_CPU_CASES][64], avx2[] = "AVX2", sse41[] = "SSE41";
    bool once = argc == 2 && strcmp(argv[1], "--once") == 0;
    size_t n = 0;

#ifdef __SANITIZE_THREAD__
    once = true; /* slow there, and it is one thread anyway */
#endif
    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        for (uint32_t k = 0; k < 4; k++, n++) {
            snprintf(names[n], sizeof names[n], "%s, %s", cpu_cases[i].name, suffixes[k]);
            tests[n] = (struct CMUnitTest){names[n], functions[k], NULL, NULL,
                                           (void *)(uintptr_t)&cpu_cases[i]};
        }
    }
    if (!once) {
        tests[n++] = (struct CMUnitTest){"all under AVX2", again_under, NULL, NULL, avx2};
        tests[n++] = (struct CMUnitTest){"all under SSE4.1", again_under, NULL, NULL, sse41};
    }
    return _cmocka_run_group_tests("cpu kernels", tests, n, rig_load, NULL);
}
