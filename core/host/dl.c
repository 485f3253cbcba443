/* SPDX-License-Identifier: Apache-2.0 */
#include "host/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdio.h>

#include "base/memory.h"

/* libltdl calls this function when it is out of memory; unless it is set, libltdl continues without
   the memory. Not in its header; the address is NULL where libltdl does not export it. */
extern void (*lt__alloc_die)(void) __attribute__((weak));

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool ready;

static lt_dlhandle open_resident(const char *path)
{
    lt_dladvise advise;
    lt_dlhandle handle = NULL;

    if (lt_dladvise_init(&advise) != 0) {
        return NULL;
    }
    if (lt_dladvise_local(&advise) == 0 && lt_dladvise_ext(&advise) == 0 &&
        lt_dladvise_resident(&advise) == 0) {
        handle = lt_dlopenadvise(path, advise);
    }
    lt_dladvise_destroy(&advise);
    return handle;
}

/*
 * libltdl binds lazily, so that an undefined function would be found at its first call, and has one
 * message for everything ("file not found"). Hence the system's dlopen goes first.
 */
static bool open_locked(const char *path, void **ret_handle, char *ret_reason, size_t reason_size)
{
    void *bound;
    lt_dlhandle handle;

    errno = 0; /* the linker's words do not tell that there was no memory */
    bound = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (bound == NULL) {
        const char *text;

        pst_heed_no_memory();
        text = dlerror();

        snprintf(ret_reason, reason_size, "%s", text != NULL ? text : "unknown reason");
        return false;
    }
    errno = 0;
    handle = ready ? open_resident(path) : NULL;
    if (handle == NULL) {
        const char *text;

        pst_heed_no_memory();
        text = lt_dlerror();

        snprintf(ret_reason, reason_size, "libltdl: %s", text != NULL ? text : "unknown reason");
        dlclose(bound);
        return false;
    }
    dlclose(bound); /* one reference less; libltdl keeps its own */
    *ret_handle = handle;
    return true;
}

bool pst_dl_open(const char *path, void **ret_handle, char *ret_reason, size_t reason_size)
{
    bool opened;

    pthread_mutex_lock(&mutex);
    if (!ready) {
        errno = 0;
        ready = lt_dlinit() == 0;
        if (!ready) {
            pst_heed_no_memory();
        }
        if (&lt__alloc_die != NULL) {
            lt__alloc_die = pst_out_of_memory;
        }
    }
    opened = open_locked(path, ret_handle, ret_reason, reason_size);
    pthread_mutex_unlock(&mutex);
    return opened;
}

void *pst_dl_symbol(void *handle, const char *name)
{
    void *symbol;

    pthread_mutex_lock(&mutex);
    symbol = lt_dlsym(handle, name);
    pthread_mutex_unlock(&mutex);
    return symbol;
}
