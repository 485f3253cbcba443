/* SPDX-License-Identifier: Apache-2.0
 *
 * May a file be loaded? Only if nobody could have exchanged it who could not have exchanged the
 * running program as well: what is above both need not be examined, and the owner of the program
 * is trusted like root. So a clone below /tmp works, and a tree of another user in a container.
 */
#include "plugin/search.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The running program; with raised rights nothing follows from where it lies. */
struct program {
    char path[PATH_MAX]; /* "": unknown */
    uid_t owner;
};

static void find_program(struct program *ret_program)
{
    struct stat info;
    ssize_t n = pst_search_raised()
                    ? 0
                    : readlink("/proc/self/exe", ret_program->path, sizeof ret_program->path - 1);

    ret_program->path[n > 0 ? n : 0] = '\0';
    ret_program->owner = 0;
    if (n > 0 && stat("/proc/self/exe", &info) == 0) {
        ret_program->owner = info.st_uid;
    }
}

static pst_status check_owner(const char *path, const char *what, const struct stat *info,
                              const struct program *program, struct pst_error *err)
{
    if (info->st_uid != 0 && info->st_uid != geteuid() && info->st_uid != program->owner) {
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

static bool lies_above(const char *folder, const struct program *program)
{
    size_t n = strlen(folder);

    return strncmp(program->path, folder, n) == 0 && program->path[n] == '/';
}

/* Every folder from `folder` (which is overwritten) up to the root, or to one above the program. */
static pst_status check_folders(char *folder, const struct program *program, struct pst_error *err)
{
    for (;;) {
        struct stat info;
        char *slash;
        pst_status st;

        if (lies_above(folder, program)) {
            return PST_OK;
        }
        if (stat(folder, &info) != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure", "%s: %s", folder,
                            strerror(errno));
        }
        st = check_owner(folder, "folder", &info, program, err);
        if (st != PST_OK || strcmp(folder, "/") == 0) {
            return st;
        }
        slash = strrchr(folder, '/');
        slash[slash == folder ? 1 : 0] = '\0';
    }
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
    struct program program;
    struct stat info;
    char *full;
    pst_status st;

    if (given == NULL) {
        return pst_fail_nomem(err);
    }
    if (realpath(given, folder) == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "%s: %s", path, strerror(errno));
    }
    full = pst_arena_printf(arena, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
    if (full == NULL) {
        return pst_fail_nomem(err);
    }
    if (lstat(full, &info) != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "%s: %s", full, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: not a regular file (links are not followed)", full);
    }
    find_program(&program);
    st = check_owner(full, "file", &info, &program, err);
    if (st == PST_OK) {
        st = check_folders(folder, &program, err);
    }
    if (st == PST_OK) {
        *ret_path = full;
    }
    return st;
}
