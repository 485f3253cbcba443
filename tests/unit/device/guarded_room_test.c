/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena leaves address space for the libraries behind kernels, or is refused.
 */
#include "device/cpu/guard_page_arena.h"

#include "test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, ARENA = 8 * MIB };

static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In a process with so much address space beside an arena: 0 it is there, 1 refused with a word
   about libraries, 2 refused otherwise. */
static int with_beside(uint64_t beside)
{
    uint64_t now = address_space();
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {now + ARENA + beside, now + ARENA + beside};
        struct pst_guarded block = {.mapping = NULL};
        struct pst_error err = {.status = PST_OK};

        if (setrlimit(RLIMIT_AS, &limit) != 0) {
            _exit(3);
        }
        if (pst_guarded_init(&block, ARENA, &err) == PST_OK) {
            _exit(0);
        }
        _exit(err.status == PST_ERR_NOMEM && strstr(err.message, "libraries") != NULL ? 1 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(test_room)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own address space is beyond any limit */
#endif
    assert_int_equal(with_beside((uint64_t)64 * MIB), 0);
    assert_int_equal(with_beside((uint64_t)16 * MIB), 1);
}
