/* SPDX-License-Identifier: Apache-2.0 */
#include "host/search.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_status check_owner(const char *path, const char *what, const struct stat *info,
                              struct pst_error *err)
{
    if (info->st_uid != 0 && info->st_uid != geteuid()) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: this %s belongs to user %u, neither to root nor to you; plugins are "
                        "loaded only from places that nobody else can change",
                        path, what, (unsigned)info->st_uid);
    }
    if ((info->st_mode & S_IWOTH) != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: this %s can be written by everybody; \"chmod o-w %s\" helps, or move "
                        "the plugin elsewhere",
                        path, what, path);
    }
    return PST_OK;
}

/*
 * Every folder from `folder` (which is overwritten) up to the root. A sticky one that all may write
 * to, such as /tmp, is no place for the plugin itself but may stand higher up: there nobody else
 * can exchange the folder that holds it.
 */
static pst_status check_folders(char *folder, struct pst_error *err)
{
    for (bool first = true;; first = false) {
        struct stat info;
        char *slash;
        pst_status st;

        if (stat(folder, &info) != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure", "%s: %s", folder,
                            strerror(errno));
        }
        if (!first && (info.st_mode & S_ISVTX) != 0) {
            info.st_mode &= ~(mode_t)S_IWOTH;
        }
        st = check_owner(folder, "folder", &info, err);
        if (st != PST_OK || strcmp(folder, "/") == 0) {
            return st;
        }
        slash = strrchr(folder, '/');
        slash[slash == folder ? 1 : 0] = '\0';
    }
}

/* The program's own folder: whoever can change it can exchange the program as well. */
static bool is_home(struct pst_arena *arena, const char *folder)
{
    const char *home = pst_search_home(arena);
    char real[PATH_MAX];

    return home != NULL && realpath(home, real) != NULL && strcmp(real, folder) == 0;
}

/* There is no such file, or what it is cannot be told. */
static pst_status fail_absent(const char *path, struct pst_error *err)
{
    const int code = errno;

    return code == ENOENT || code == ENOTDIR
               ? pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "%s: %s", path, strerror(code))
               : pst_fail(err, PST_ERR_CONFIG, "plugin.insecure", "%s cannot be looked at: %s",
                          path, strerror(code));
}

pst_status pst_search_secure(struct pst_arena *arena, const char *path, const char **ret_path,
                             struct pst_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char *given = slash == NULL   ? pst_arena_strdup(arena, ".")
                  : slash == path ? pst_arena_strdup(arena, "/")
                                  : pst_arena_strndup(arena, path, (size_t)(slash - path));
    char folder[PATH_MAX];
    struct stat info;
    char *full;
    pst_status st;

    if (realpath(given, folder) == NULL) {
        return fail_absent(path, err);
    }
    full = pst_arena_printf(arena, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
    if (lstat(full, &info) != 0) {
        return fail_absent(full, err);
    }
    if (!S_ISREG(info.st_mode)) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: not a regular file (links are not followed)", full);
    }
    if (!is_home(arena, folder)) {
        st = check_owner(full, "file", &info, err);
        if (st == PST_OK) {
            st = check_folders(folder, err);
        }
        if (st != PST_OK) {
            return st;
        }
    }
    *ret_path = full;
    return PST_OK;
}
