/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a key of [data] names, and reading them in place; values in files and in keys.
 * Reading is by pread: the page cache is as fast as a mapping here, and a file that shrinks is an
 * error and not a signal.
 */
#include "data/data_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/link.h"
#include "base/number.h"
#include "base/util.h"

#define MAX_OPEN 128 /* files; what is beyond is opened for each read */

/* Grows with each file. */
struct gathered {
    const char *key;
    struct pst_paths paths;
    size_t capacity;
    struct {
        dev_t device;
        ino_t inode;
    } * seen;
    size_t n_seen, seen_capacity;
    struct pst_error *err;
};

static pst_status fail_file(struct gathered *g, pst_status status, const char *kind,
                            const char *name, const char *why)
{
    return pst_fail(g->err, status, kind, "%s: \"%s\"%s", g->key, name, why);
}

static bool already_seen(const struct gathered *g, const struct stat *info)
{
    for (size_t i = 0; i < g->n_seen; i++) {
        if (g->seen[i].device == info->st_dev && g->seen[i].inode == info->st_ino) {
            return true;
        }
    }
    return false;
}

/* A glob may meet folders, empty files and second names of a file: those are passed over. What was
   named outright must be a file with something in it. */
static pst_status take_file(struct gathered *g, const char *path, bool named)
{
    struct stat info;
    pst_status status;

    if (stat(path, &info) != 0) {
        return named ? fail_file(g, PST_ERR_IO, "input.path", path, " cannot be read") : PST_OK;
    }
    if (!S_ISREG(info.st_mode)) {
        return named ? fail_file(g, PST_ERR_CONFIG, "input.path", path, " is not a regular file")
                     : PST_OK;
    }
    if (info.st_size == 0) {
        return named ? fail_file(g, PST_ERR_CONFIG, "input.syntax", path, " is empty") : PST_OK;
    }
    status = pst_link_follow(path, NULL, g->err);
    if (status != PST_OK || already_seen(g, &info)) {
        return status;
    }
    pst_grow(&g->seen, &g->seen_capacity, g->n_seen, sizeof *g->seen);
    g->seen[g->n_seen].device = info.st_dev;
    g->seen[g->n_seen].inode = info.st_ino;
    g->n_seen++;
    pst_grow(&g->paths.paths, &g->capacity, g->paths.n, sizeof *g->paths.paths);
    g->paths.paths[g->paths.n++] = pst_strdup(path);
    return PST_OK;
}

/* Adds the matches of one pattern to `found`. A plain name must exist, perhaps with that ending; a
   glob may match nothing. */
static pst_status expand_pattern(struct gathered *g, const char *pattern, const char *ending,
                                 int flags, glob_t *found)
{
    int rc = pst_glob(pattern, flags, found);

    if (rc == GLOB_NOMATCH && ending != NULL && strpbrk(pattern, "*?[") == NULL) {
        char *whole = pst_printf("%s%s", pattern, ending);

        rc = pst_glob(whole, flags, found);
        free(whole);
    }
    if (rc != 0 && strpbrk(pattern, "*?[") == NULL) {
        return fail_file(g, PST_ERR_IO, "input.path", pattern, ": there is no such file");
    }
    return PST_OK;
}

/* Was this path written out in the list, rather than matched by a glob? */
static bool is_named(const char *patterns, const char *path)
{
    size_t n = strlen(path);

    for (const char *p = patterns; (p = strstr(p, path)) != NULL; p++) {
        if ((p == patterns || p[-1] == ':' || p[-1] == '\n') && strchr(":\n", p[n]) != NULL) {
            return true;
        }
    }
    return false;
}

static pst_status expand_all(struct gathered *g, const char *patterns, const char *ending,
                             glob_t *found)
{
    char *copy = pst_strdup(patterns), *rest = copy, *pattern;
    int flags = GLOB_NOSORT;
    pst_status status = PST_OK;

    while (status == PST_OK && (pattern = strsep(&rest, ":\n")) != NULL) {
        if (pattern[0] != '\0') {
            status = expand_pattern(g, pattern, ending, flags, found);
            flags |= GLOB_APPEND;
        }
    }
    free(copy);
    if (status == PST_OK && found->gl_pathc == 0) {
        status = fail_file(g, PST_ERR_IO, "input.path", patterns, ": no file matches");
    }
    return status;
}

pst_status pst_paths_find(const char *patterns, const char *key, const char *ending,
                          struct pst_paths *ret_paths, struct pst_error *err)
{
    struct gathered g = {.key = key, .err = err};
    glob_t found = {0};
    pst_status status;

    if (patterns == NULL || patterns[0] == '\0') {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: it has no file name; give files or globs, separated by ':'", key);
    }
    status = expand_all(&g, patterns, ending, &found);
    if (status == PST_OK) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, pst_by_text);
    }
    for (size_t i = 0; status == PST_OK && i < found.gl_pathc; i++) {
        status = take_file(&g, found.gl_pathv[i], is_named(patterns, found.gl_pathv[i]));
    }
    if (status == PST_OK && g.paths.n == 0) {
        status = fail_file(&g, PST_ERR_CONFIG, "input.syntax", patterns,
                           ": all of these files are empty");
    }
    globfree(&found);
    free(g.seen);
    if (status != PST_OK) {
        pst_paths_finish(&g.paths);
        return status;
    }
    *ret_paths = g.paths;
    return PST_OK;
}

void pst_paths_finish(struct pst_paths *paths)
{
    for (uint32_t i = 0; i < paths->n; i++) {
        free(paths->paths[i]);
    }
    free(paths->paths);
}

/* --- in place --------------------------------------------------------------------------------- */

static pst_status fail_io(const char *path, const char *what, struct pst_error *err)
{
    return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot %s: %s", what,
                       strerror(errno));
}

static int open_to_read(const char *path)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const int fd = open(path, flags | O_NOATIME); /* an eighth of a small read looks at the clock */

    return fd < 0 && errno == EPERM ? open(path, flags) : fd; /* of somebody else's file */
}

pst_status pst_data_file_open(const char *path, uint32_t *n_open, struct pst_data_file *ret_file,
                              struct pst_error *err)
{
    struct stat info;
    int fd = open_to_read(path);

    if (fd < 0) {
        return fail_io(path, "open the file", err);
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "not a regular file");
    }
    if (*n_open >= MAX_OPEN) {
        close(fd);
        fd = -1;
    } else {
        ++*n_open;
    }
    *ret_file = (struct pst_data_file){pst_strdup(path), fd, (uint64_t)info.st_size};
    return PST_OK;
}

void pst_data_file_close(struct pst_data_file *file)
{
    if (file->path != NULL && file->fd >= 0) {
        close(file->fd);
    }
    free(file->path);
}

static pst_status read_from(const struct pst_data_file *file, int fd, uint64_t offset, char *bytes,
                            uint64_t n, struct pst_error *err)
{
    while (n > 0) {
        ssize_t got = pread(fd, bytes, n < PST_FILE_PIECE ? n : PST_FILE_PIECE, (off_t)offset);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_io(file->path, "read the file", err);
        }
        if (got == 0) {
            struct stat info = {.st_size = 0};

            fstat(fd, &info);
            return pst_data_file_fail(file, err, "has %lld bytes, but had %llu when the run began",
                                      (long long)info.st_size, (unsigned long long)file->size);
        }
        bytes += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return PST_OK;
}

pst_status pst_data_file_read(const struct pst_data_file *file, uint64_t offset, void *ret_bytes,
                              uint64_t n, struct pst_error *err)
{
    int fd = file->fd >= 0 ? file->fd : open_to_read(file->path);
    pst_status status;

    if (fd < 0) {
        return fail_io(file->path, "open the file again", err);
    }
    status = read_from(file, fd, offset, ret_bytes, n, err);
    if (file->fd < 0) {
        close(fd);
    }
    return status;
}

pst_status pst_data_file_fail(const struct pst_data_file *file, struct pst_error *err,
                              const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", file->path, 0, 0, "%s", text);
}

/* --- parts ------------------------------------------------------------------------------------ */

void pst_parts_add(struct pst_parts *parts, const struct pst_part *part)
{
    struct pst_part *added;

    parts->parts = pst_resize(parts->parts, parts->n_parts + 1, sizeof *parts->parts);
    added = &parts->parts[parts->n_parts++];
    *added = *part;
    added->first = parts->n;
    parts->n += part->n;
}

const struct pst_part *pst_parts_find(const struct pst_parts *parts, uint64_t at)
{
    return &parts->parts[PST_FIRST(i, parts->n_parts, parts->parts[i].first > at) - 1];
}

void pst_parts_finish(struct pst_parts *parts)
{
    for (uint32_t i = 0; i < parts->n_parts; i++) {
        pst_data_file_close(&parts->parts[i].file);
    }
    free(parts->parts);
}

/* --- values ----------------------------------------------------------------------------------- */

int64_t pst_element_whole(uint32_t element, const void *values, uint64_t i)
{
    switch (element) {
    case PST_ELEMENT_U8:
        return ((const uint8_t *)values)[i];
    case PST_ELEMENT_I8:
        return ((const int8_t *)values)[i];
    case PST_ELEMENT_U16:
        return ((const uint16_t *)values)[i];
    case PST_ELEMENT_I16:
        return ((const int16_t *)values)[i];
    case PST_ELEMENT_U32:
        return ((const uint32_t *)values)[i];
    case PST_ELEMENT_I32:
        return ((const int32_t *)values)[i];
    default: /* u64 beyond the range is negative, and no class */
        return ((const int64_t *)values)[i];
    }
}

uint64_t pst_data_read_numbers(const char *text, uint64_t n, bool positive, double *ret_numbers)
{
    uint64_t found = 0;

    while (found < n) {
        if (!pst_number_parse(text, &text, &ret_numbers[found]) ||
            (positive && !(ret_numbers[found] > 0))) {
            return 0;
        }
        found++;
        text += strspn(text, " ");
        if (*text != ',') {
            break;
        }
        text += 1 + strspn(text + 1, " ");
    }
    return *text == '\0' ? found : 0;
}
