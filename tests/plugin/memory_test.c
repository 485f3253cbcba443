/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of a planning run fails in turn: exit code 4, an error or a plan comes of it,
 * never a crash, and behind an error or a plan nothing stays.
 */
#include "job_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#else
#define COUNTING 1

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static bool counting;
static uint64_t n_allocations, fail_at;
static int64_t n_live;

static bool refused(void)
{
    if (counting && ++n_allocations == fail_at) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

void *malloc(size_t n)
{
    void *p = refused() ? NULL : __libc_malloc(n);

    n_live += counting && p != NULL;
    return p;
}

void *calloc(size_t n, size_t size)
{
    void *p = refused() ? NULL : __libc_calloc(n, size);

    n_live += counting && p != NULL;
    return p;
}

void *realloc(void *old, size_t n)
{
    void *p = refused() ? NULL : __libc_realloc(old, n);

    n_live += counting && p != NULL && old == NULL;
    return p;
}

void free(void *p)
{
    n_live -= counting && p != NULL;
    __libc_free(p);
}

static const char toml[] = "[model]\nuse = \"gpt\"\nlayers = 1\ndim = 8\nheads = 2\ncontext = 4\n"
                           "vocab = 5\n[data]\nkind = \"synthetic\"\n"
                           "[train]\nbatch = 4\nmicrobatch = 2\n[cluster]\ndevices = 2\n"
                           "memory = \"1 GiB\"\n"
                           "[partitioner]\nuse = \"chain-dp\"\n[scheduler]\nuse = \"1f1b\"\n"
                           "[[memopt]]\nuse = \"full\"\n";

enum { SAME = 0, REFUSED, NO_WORD, LEAK, OUT_OF_MEMORY, NONE_FAILED };

/* Plans in a process of its own, where that allocation fails. */
static int plan_without(struct job_rig *rig, uint64_t number)
{
    struct pst_planned planned = {.plan = NULL};
    pid_t pid = fork();
    int status = 0;
    pst_status st;

    assert_true(pid >= 0);
    if (pid > 0) {
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    close(STDERR_FILENO);
    fail_at = number;
    counting = true;
    st = pst_planner_run(&rig->job, rig->graph, &rig->cluster, &rig->cost, NULL, &planned,
                         &rig->err);
    pst_planned_finish(&planned);
    counting = false;
    if (n_live > 1) { /* the graph's own arena may have grown by a view */
        _exit(LEAK);
    }
    if (st != PST_OK) {
        _exit(rig->err.message[0] == '\0' ? NO_WORD : REFUSED);
    }
    _exit(n_allocations < fail_at ? NONE_FAILED : SAME);
}
#endif

static void test_every_allocation_fails(void **state)
{
#if COUNTING
    struct job_rig rig;
    struct pst_planned planned;
    uint32_t n = 0, n_fatal = 0;
    int end;

    (void)state;
    assert_int_equal(job_rig_init(&rig, toml), PST_OK);
    /* Once in peace: plugins are loaded for good, and the graph makes its view. */
    assert_int_equal(
        pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, &planned, &rig.err),
        PST_OK);
    pst_planned_finish(&planned);
    do {
        end = plan_without(&rig, ++n);
        if (end == NO_WORD || end == LEAK) {
            fail_msg("allocation %u: %s", n, end == LEAK ? "blocks stay behind" : "no word");
        }
        n_fatal += end == OUT_OF_MEMORY;
    } while (end != NONE_FAILED && n < 100000);
    print_message("%u allocations, %u of them fatal\n", n, n_fatal);
    assert_int_equal(end, NONE_FAILED);
    assert_true(n_fatal > 50);
    job_rig_finish(&rig);
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
