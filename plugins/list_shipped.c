/* SPDX-License-Identifier: Apache-2.0
 *
 *     list_shipped FOLDER FILE...
 *
 * Writes down what these files of the folder are, so that the program knows them again as its own.
 * Lines of other files stay, if the files do. The build calls it for each plugin that it links, the
 * installation for all.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "host/shipped.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static void die(const char *what)
{
    fprintf(stderr, "list_shipped: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool is_given(const char *name, int n, char **files)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(name, base_name(files[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The old list's lines of files that are neither given nor gone. */
static void copy_others(FILE *out, int n, char **files)
{
    FILE *old = fopen(PST_SHIPPED_LIST, "re");
    char line[PST_HASH_TEXT + 1 + NAME_MAX + 2];

    while (old != NULL && fgets(line, sizeof line, old) != NULL) {
        char *name = line + PST_HASH_TEXT + 1;

        if (strlen(line) <= PST_HASH_TEXT + 1) {
            continue;
        }
        name[strcspn(name, "\n")] = '\0';
        if (!is_given(name, n, files) && access(name, F_OK) == 0) {
            fprintf(out, "%s\n", line);
        }
    }
    if (old != NULL) {
        fclose(old);
    }
}

static void add(FILE *out, const char *path)
{
    char digest[PST_HASH_TEXT];
    struct pst_hash hash;

    if (!pst_hash_file(AT_FDCWD, base_name(path), 0, &hash)) {
        die(path);
    }
    fprintf(out, "%s  %s\n", pst_hash_text(&hash, digest), base_name(path));
}

int main(int argc, char **argv)
{
    static const char fresh[] = PST_SHIPPED_LIST ".new";
    int folder = argc < 2 ? -1 : open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FILE *out;

    if (argc < 3) {
        fprintf(stderr, "usage: list_shipped FOLDER FILE...\n");
        return 2;
    }
    /* Many plugins are linked at once. */
    if (folder < 0 || fchdir(folder) != 0 || flock(folder, LOCK_EX) != 0) {
        die(argv[1]);
    }
    umask(022);
    out = fopen(fresh, "we");
    if (out == NULL) {
        die(fresh);
    }
    copy_others(out, argc - 2, argv + 2);
    for (int i = 2; i < argc; i++) {
        add(out, argv[i]);
    }
    if (fclose(out) != 0 || rename(fresh, PST_SHIPPED_LIST) != 0) {
        die(PST_SHIPPED_LIST);
    }
    return 0;
}
