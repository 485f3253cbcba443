/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of a planning run fails in turn: the process ends as one without memory does, or
 * an error or a plan comes back, and then nothing stays behind.
 */
#include "job_rig.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
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
#endif

#if COUNTING
/* How a process ends; one without memory with 4. */
enum { HAS_PLAN, HAS_ERROR = 3, NO_MEMORY, SAYS_NOTHING = 30, LEAVES_BLOCKS, NOTHING_FAILED };

static int run(struct job_rig *rig, uint64_t n)
{
    struct pst_planned planned = {.plan = NULL};
    pst_status st;

    fail_at = n;
    counting = true;
    st = pst_planner_run(&rig->job, rig->graph, &rig->cluster, &rig->cost, NULL, NULL, &planned,
                         &rig->err);
    pst_planned_finish(&planned);
    counting = false;
    if (st != PST_OK && rig->err.message[0] == '\0') {
        return SAYS_NOTHING;
    }
    /* The graph's own arena may have grown by a view. */
    if (n_live > 1) {
        return LEAVES_BLOCKS;
    }
    return st != PST_OK ? HAS_ERROR : n_allocations < fail_at ? NOTHING_FAILED : HAS_PLAN;
}

static int run_apart(struct job_rig *rig, uint64_t n)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY), 2);
        _exit(run(rig, n));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status)) {
        fail_msg("allocation %u: signal %d", (unsigned)n, WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
#endif

TEST(test_every_allocation_fails)
{
#if COUNTING
    struct job_rig rig;
    struct pst_planned planned;
    unsigned n = 0, n_ended = 0, n_errors = 0;
    int code = HAS_PLAN;

    assert_int_equal(job_rig_init(&rig, toml), PST_OK);
    /* Once in peace: plugins are loaded for good, and the graph makes its view. */
    assert_int_equal(pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL,
                                     &planned, &rig.err),
                     PST_OK);
    pst_planned_finish(&planned);
    while (code != NOTHING_FAILED && n < 100000) {
        code = run_apart(&rig, ++n);
        if (code != HAS_PLAN && code != HAS_ERROR && code != NO_MEMORY && code != NOTHING_FAILED) {
            fail_msg("allocation %u: ended with %d", n, code);
        }
        n_ended += code == NO_MEMORY;
        n_errors += code == HAS_ERROR;
    }
    print_message("%u allocations, %u end the program, %u are a plugin's\n", n, n_ended, n_errors);
    assert_int_equal(code, NOTHING_FAILED);
    assert_true(n_ended > 50);
    job_rig_finish(&rig);
#else
    (void)state;
    skip();
#endif
}
