/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights that are symbolic links: those of the hub's cache lead from snapshots/REVISION
 * to blobs. A link is followed where it stays in the folder, or within such a cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "weights/weights_impl.h"

static bool lies_in(const char *path, const char *folder, size_t n)
{
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Both paths have no link in them. */
static bool is_allowed(const char *folder, const char *path)
{
    static const char snapshots[] = "/snapshots/";
    const char *at = strstr(folder, snapshots);
    bool allowed = lies_in(path, folder, strlen(folder));

    while (at != NULL && !allowed) {
        const size_t n = (size_t)(at - folder);

        allowed = lies_in(path, folder, n) && lies_in(path + n, "/blobs", 6);
        at = strstr(at + 1, snapshots);
    }
    return allowed;
}

pst_status pst_weights_open_file(int folder, const char *folder_path, const char *name,
                                 const char *path, struct pst_st_file **ret_file,
                                 struct pst_error *err)
{
    char base[PATH_MAX], target[PATH_MAX], *slash;
    struct stat info;
    pst_status status;
    int fd;

    if (strchr(name, '/') != NULL || fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISLNK(info.st_mode)) {
        return pst_st_open(folder, name, path, ret_file, err);
    }
    if (realpath(folder_path, base) == NULL || realpath(path, target) == NULL) {
        pst_heed_no_memory();
        return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot follow the link: %s",
                           strerror(errno));
    }
    if (!is_allowed(base, target)) {
        status = pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0,
                             "it is a link to %.300s, which is outside the folder", target);
        pst_error_hint(err, "name the folder of the file itself, or copy the file");
        return status;
    }
    slash = strrchr(target, '/');
    *slash = '\0';
    fd = open(slash == target ? "/" : target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot follow the link: %s",
                           strerror(errno));
    }
    status = pst_st_open(fd, slash + 1, path, ret_file, err);
    close(fd);
    return status;
}
