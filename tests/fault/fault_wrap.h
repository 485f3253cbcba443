/* SPDX-License-Identifier: Apache-2.0
 *
 * The points of PENSTOCK_FAULT that are calls of the system. Builds with faults have the linker put
 * these functions in the place of those calls (--wrap), in everything of this tree and in no
 * library that it uses: code that is written tomorrow has its points already.
 * cmake/PenstockFaults.cmake names them. A plugin gets the files of those that it calls, and so
 * imports nothing that it must not.
 */
#ifndef PST_FAULT_FAULT_WRAP_H
#define PST_FAULT_FAULT_WRAP_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "base/fault.h"

typedef int pst_fault_call_fn(const char *point, int usual, size_t *bytes);

static inline int nothing_fails(const char *point, int usual, size_t *bytes)
{
    (void)point;
    (void)usual;
    (void)bytes;
    return 0;
}

/* The error that a call is to fail with, or 0; errno is as it was then. In a plugin the program has
   the rules, which it may not import: without them, or with another program, nothing fails. */
static inline int error_at(const char *point, int usual, size_t *bytes)
{
    static _Atomic(pst_fault_call_fn *) found;
    pst_fault_call_fn *call = atomic_load(&found);
    const int before = errno;
    int code;

    if (call == NULL) {
        *(void **)&call = dlsym(RTLD_DEFAULT, "pst_fault_call");
        call = call != NULL ? call : nothing_fails;
        atomic_store(&found, call);
    }
    code = call(point, usual, bytes);
    errno = before;
    return code;
}

static inline bool fails_at(const char *point, int usual, size_t *bytes)
{
    const int code = error_at(point, usual, bytes);

    if (code != 0) {
        errno = code;
    }
    return code != 0;
}

/* WRAP(point, usual error, what a failed call returns, type, name, parameters, arguments). What
   only some programs have is weak in all. */
#define WRAP(point, usual, failed, type, name, parameters, arguments)                              \
    type __real_##name parameters __attribute__((weak));                                           \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails_at(point, usual, NULL) ? (failed) : __real_##name arguments;                  \
    }

/* The same for calls that return their error. */
#define WRAP_CODE(point, usual, name, parameters, arguments)                                       \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        const int code = error_at(point, usual, NULL);                                             \
                                                                                                   \
        return code != 0 ? code : __real_##name arguments;                                         \
    }

#endif
