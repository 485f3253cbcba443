/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program alone has or may call.
 */
#include "fault_wrap.h"

#include <spawn.h>

#include "base/arena.h"

/* clang-format off */
WRAP("alloc", ENOMEM, NULL, void *, pst_arena_try,
     (struct pst_arena *arena, size_t size, size_t align),
     (arena, size, align))
WRAP_CODE("spawn", EAGAIN, posix_spawn,
          (pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
           const posix_spawnattr_t *attr, char *const *argv, char *const *envp),
          (pid, path, actions, attr, argv, envp))
/* clang-format on */

void *__real__Znwm(size_t size) __attribute__((weak)); /* C++'s new, in the reader of TOML */
void *__wrap__Znwm(size_t size);
void _ZSt17__throw_bad_allocv(void) __attribute__((weak, noreturn));

void *__wrap__Znwm(size_t size)
{
    if (fails_at("alloc", ENOMEM, NULL)) {
        _ZSt17__throw_bad_allocv();
    }
    return __real__Znwm(size);
}

/* The loader's own words are those of a file or name that is not there. */
void *__real_dlopen(const char *path, int mode);
void *__real_lt_dlopenadvise(const char *path, void *advise) __attribute__((weak));
void *__real_lt_dlsym(void *handle, const char *name) __attribute__((weak));
void *__wrap_dlopen(const char *path, int mode);
void *__wrap_lt_dlopenadvise(const char *path, void *advise);
void *__wrap_lt_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *path, int mode)
{
    return __real_dlopen(fails_at("dl.open", EIO, NULL) ? "/PENSTOCK_FAULT" : path, mode);
}

void *__wrap_lt_dlopenadvise(const char *path, void *advise)
{
    return __real_lt_dlopenadvise(fails_at("dl.open", EIO, NULL) ? "/PENSTOCK_FAULT" : path,
                                  advise);
}

void *__wrap_lt_dlsym(void *handle, const char *name)
{
    return __real_lt_dlsym(handle, fails_at("dl.symbol", EIO, NULL) ? "PENSTOCK_FAULT" : name);
}
