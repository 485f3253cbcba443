/* SPDX-License-Identifier: Apache-2.0
 *
 * For LD_PRELOAD: request number EVERY_MALLOC for memory fails, whichever library it is of; with
 * EVERY_MALLOC_OF the requests of libraries whose path has this word count, and no others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long n_requests;
static long failing; /* 0: none */
static const char *library;

static void __attribute__((constructor)) read_environment(void)
{
    const char *number = getenv("EVERY_MALLOC");

    failing = number == NULL ? 0 : strtol(number, NULL, 10);
    library = getenv("EVERY_MALLOC_OF");
}

static bool fails(const void *caller)
{
    static __thread bool asks;
    Dl_info info = {.dli_fname = NULL};

    if (failing == 0 || asks) {
        return false;
    }
    asks = true;
    if (library != NULL &&
        (dladdr(caller, &info) == 0 || strstr(info.dli_fname, library) == NULL)) {
        asks = false;
        return false;
    }
    asks = false;
    if (++n_requests != failing) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
