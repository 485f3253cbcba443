/* SPDX-License-Identifier: Apache-2.0 */
#include "base/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static bool lies_in(const char *path, const char *folder, size_t n)
{
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Both paths have no link in them. */
static bool is_allowed(const char *folder, const char *path)
{
    static const char snapshots[] = "/snapshots/";
    const char *at = strstr(folder, snapshots);
    bool allowed = lies_in(path, folder, strcmp(folder, "/") == 0 ? 0 : strlen(folder));

    while (at != NULL && !allowed) {
        const size_t n = (size_t)(at - folder);

        allowed = lies_in(path, folder, n) && lies_in(path + n, "/blobs", 6);
        at = strstr(at + 1, snapshots);
    }
    return allowed;
}

char *pst_link_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL   ? pst_strdup(".")
           : slash == path ? pst_strdup("/")
                           : pst_strndup(path, (size_t)(slash - path));
}

static bool resolve(const char *path, char ret_folder[PATH_MAX], char ret_target[PATH_MAX])
{
    char *folder = pst_link_folder(path);
    const bool is = realpath(folder, ret_folder) != NULL && realpath(path, ret_target) != NULL;

    free(folder);
    return is;
}

pst_status pst_link_follow(const char *path, char ret_target[PATH_MAX], struct pst_error *err)
{
    char folder[PATH_MAX], target[PATH_MAX];
    const bool fits = strlen(path) < sizeof target;
    struct stat info;
    pst_status status;

    if (fits && (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))) {
        strcpy(target, path);
    } else if (!resolve(path, folder, target)) {
        pst_heed_no_memory();
        return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot follow the link: %s",
                           strerror(errno));
    } else if (!is_allowed(folder, target)) {
        status = pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0,
                             "it is a link to %.300s, which is outside the folder", target);
        pst_error_hint(err, "name the file itself, or copy it");
        return status;
    }
    if (ret_target != NULL) {
        strcpy(ret_target, target);
    }
    return PST_OK;
}
