/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several processes tells an error: of the same words one, of others each, and never
 * nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/alike.h"
#include "train/stop.h"

enum { MOST = 4, TELLS = 10, SILENT = 11, DIES = 12 };

struct rank {
    const char *words, *job;
    bool dies;    /* when it is to tell */
    bool stopped; /* by SIGTERM, before */
};

static void work(uint32_t r, uint32_t n, const struct rank *rank, int gate)
{
    struct pst_error err = {0};
    struct pst_alike alike;
    char text[16], job[64];

    snprintf(text, sizeof text, "%u", n);
    setenv("OMPI_COMM_WORLD_SIZE", text, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", text, 1);
    snprintf(text, sizeof text, "%u", r);
    setenv("OMPI_COMM_WORLD_RANK", text, 1);
    snprintf(job, sizeof job, "test-%ld-%s", (long)getppid(), rank->job);
    setenv("PMIX_NAMESPACE", job, 1);
    pst_stop_install();
    pst_fail(&err, PST_ERR_CONFIG, "config.value", "%s", rank->words);
    if (read(gate, text, 1) != 0) { /* all begin when it is closed */
        _exit(1);
    }
    if (rank->stopped) {
        raise(SIGTERM);
    }
    if (!pst_alike_begin(&err, &alike)) {
        _exit(SILENT);
    }
    if (rank->dies) {
        _exit(DIES);
    }
    pst_alike_end(&alike);
    _exit(TELLS);
}

/* How many tell. */
static uint32_t run(const struct rank *ranks, uint32_t n, int *ret_codes)
{
    pid_t pids[MOST];
    uint32_t n_tell = 0;
    int gate[2];

    assert_int_equal(pipe(gate), 0);
    for (uint32_t r = 0; r < n; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) {
            close(gate[1]);
            work(r, n, &ranks[r], gate[0]);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (uint32_t r = 0; r < n; r++) {
        int status;

        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        ret_codes[r] = WEXITSTATUS(status);
        assert_in_range(ret_codes[r], TELLS, DIES);
        n_tell += ret_codes[r] == TELLS;
    }
    return n_tell;
}

static void test_same(void **state)
{
    const struct rank ranks[] = {{"a", "j", false, false},
                                 {"a", "j", false, false},
                                 {"a", "j", false, false},
                                 {"a", "j", false, false}};
    int codes[MOST];

    (void)state;
    assert_int_equal(run(ranks, 4, codes), 1);
}

/* Words, or the job. */
static void test_others(void **state)
{
    const struct rank words[] = {
        {"a", "j", false, false}, {"b", "j", false, false}, {"a", "j", false, false}};
    const struct rank jobs[] = {{"a", "j", false, false}, {"a", "k", false, false}};
    int codes[MOST];

    (void)state;
    assert_int_equal(run(words, 3, codes), 2);
    assert_int_equal(codes[1], TELLS);
    assert_int_equal(run(jobs, 2, codes), 2);
}

/* The one that was to tell is killed before it has: another one does. */
static void test_dies(void **state)
{
    const struct rank ranks[] = {
        {"a", "j", true, false}, {"a", "j", false, false}, {"a", "j", false, false}};
    int codes[MOST];

    (void)state;
    run(ranks, 3, codes);
    assert_true(codes[1] == TELLS || codes[2] == TELLS);
}

/* A launcher that ends all leaves no time to wait for others. */
static void test_told_to_stop(void **state)
{
    const struct rank ranks[] = {{"a", "j", false, true}, {"b", "j", false, true}};
    int codes[MOST];

    (void)state;
    assert_int_equal(run(ranks, 2, codes), 2);
}

static void test_alone(void **state)
{
    struct pst_error err = {0};
    struct pst_alike alike = {.fd = 0};

    (void)state;
    unsetenv("OMPI_COMM_WORLD_SIZE");
    assert_true(pst_alike_begin(&err, &alike));
    assert_int_equal(alike.fd, -1);
    pst_alike_end(&alike);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),  cmocka_unit_test(test_others),
        cmocka_unit_test(test_dies),  cmocka_unit_test(test_told_to_stop),
        cmocka_unit_test(test_alone),
    };

    return cmocka_run_group_tests_name("alike", tests, NULL, NULL);
}
