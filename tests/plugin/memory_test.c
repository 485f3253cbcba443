/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of a planning run fails in turn: an error or a plan comes back, never a crash,
 * and nothing stays behind.
 */
#include "job_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

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

static void test_every_allocation_fails(void **state)
{
#if COUNTING
    struct job_rig rig;
    struct pst_planned planned;
    uint64_t n = 0, n_refused = 0;
    pst_status st;

    (void)state;
    assert_int_equal(job_rig_init(&rig, toml), PST_OK);
    /* Once in peace: plugins are loaded for good, and the graph makes its view. */
    assert_int_equal(pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL,
                                     &planned, &rig.err),
                     PST_OK);
    pst_planned_finish(&planned);
    do {
        memset(&planned, 0, sizeof planned);
        n_allocations = 0;
        n_live = 0;
        fail_at = ++n;
        counting = true;
        st = pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL, &planned,
                             &rig.err);
        pst_planned_finish(&planned);
        counting = false;
        n_refused += st != PST_OK;
        if (st != PST_OK && rig.err.message[0] == '\0') {
            fail_msg("allocation %u failed without a word", (unsigned)n);
        }
        /* The graph's own arena may have grown by a view. */
        if (n_live > 1) {
            fail_msg("allocation %u: %d blocks stay behind", (unsigned)n, (int)n_live);
        }
    } while (n_allocations >= fail_at && n < 100000);
    print_message("%u allocations, %u of them fatal\n", (unsigned)n, (unsigned)n_refused);
    assert_int_equal(st, PST_OK);
    assert_true(n_refused > 50);
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
