/* SPDX-License-Identifier: Apache-2.0 */
#include "host/shipped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "host/search.h"

static bool is_not(struct pst_shipped *shipped, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool is_not(struct pst_shipped *shipped, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(shipped->why_not, sizeof shipped->why_not, format, args);
    va_end(args);
    return false;
}

/* Whoever may change the program may say what belongs to it, and nobody else. */
static bool is_trusted(int fd, const char *path, struct pst_shipped *shipped)
{
    struct stat list, program;

    if (fstat(fd, &list) != 0 || !S_ISREG(list.st_mode)) {
        return is_not(shipped, "is not known: %s is not a file", path);
    }
    if ((list.st_mode & S_IWOTH) != 0) {
        return is_not(shipped, "is not known: %s can be written by everybody", path);
    }
    if (list.st_uid != 0 && list.st_uid != geteuid() &&
        (stat("/proc/self/exe", &program) != 0 || list.st_uid != program.st_uid)) {
        return is_not(shipped, "is not known: %s belongs to user %u", path, (unsigned)list.st_uid);
    }
    return true;
}

/* The line of that name: what its digest should be. */
static bool look_up(const char *home, const char *name, char ret_digest[PST_HASH_TEXT],
                    struct pst_shipped *shipped)
{
    char path[PATH_MAX + sizeof PST_SHIPPED_LIST + 1], line[PST_HASH_TEXT + NAME_MAX + 3] = "";
    bool found = false;
    FILE *list;
    int fd;

    snprintf(path, sizeof path, "%s/" PST_SHIPPED_LIST, home);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    list = fd < 0 ? NULL : fdopen(fd, "r");
    if (list == NULL) {
        pst_heed_no_memory();
        is_not(shipped, "is not known: %s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    if (is_trusted(fd, path, shipped)) {
        while (!found && fgets(line, sizeof line, list) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            found = strlen(line) > PST_HASH_TEXT + 1 && strcmp(line + PST_HASH_TEXT + 1, name) == 0;
        }
        if (ferror(list)) {
            is_not(shipped, "is not known: %s: %s", path, strerror(errno));
        } else if (!found) {
            is_not(shipped, "is not on the list of what penstock came with, %s", path);
        }
    }
    fclose(list);
    memcpy(ret_digest, line, PST_HASH_TEXT - 1);
    ret_digest[PST_HASH_TEXT - 1] = '\0';
    return found;
}

static bool is_intact(const char *file, const char *wanted, struct pst_shipped *shipped)
{
    char digest[PST_HASH_TEXT];
    struct pst_hash hash;

    if (!pst_hash_file(AT_FDCWD, file, O_NOFOLLOW, &hash)) {
        return is_not(shipped, "is not known: it cannot be read: %s", strerror(errno));
    }
    if (strcmp(pst_hash_text(&hash, digest), wanted) != 0) {
        return is_not(shipped, "is not the file of that name that penstock came with; its XXH128 "
                               "digest is another");
    }
    return true;
}

void pst_shipped_find(const char *file, struct pst_shipped *ret_shipped)
{
    char real_file[PATH_MAX], folder[PATH_MAX], digest[PST_HASH_TEXT];
    struct pst_arena arena = {0};
    const char *home = pst_search_home(&arena);
    char *slash;

    memset(ret_shipped, 0, sizeof *ret_shipped);
    if (realpath(file, real_file) == NULL) {
        pst_heed_no_memory();
        ret_shipped->is = true;
    } else {
        slash = strrchr(real_file, '/');
        *slash = '\0';
        if (realpath(home, folder) == NULL || strcmp(real_file, folder) != 0) {
            is_not(ret_shipped, "is not from the program's own folder");
        } else if (look_up(folder, slash + 1, digest, ret_shipped)) {
            *slash = '/';
            ret_shipped->is = is_intact(real_file, digest, ret_shipped);
        }
    }
    pst_arena_finish(&arena);
}
