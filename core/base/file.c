/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files in and out. Reading refuses what is not a regular file; writing never leaves half a
 * file behind.
 */
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_status fail_file(struct pst_error *err, const char *kind, const char *path,
                            const char *what, int code)
{
    bool memory = code == ENOMEM;

    return pst_fail_at(err, memory ? PST_ERR_NOMEM : PST_ERR_IO, memory ? "machine.memory" : kind,
                       path, 0, 0, "cannot %s: %s", what,
                       memory ? "out of host memory" : strerror(code));
}

static pst_status fail_too_large(struct pst_error *err, const char *kind, const char *path,
                                 size_t max_bytes)
{
    char limit[32], size[32];

    snprintf(limit, sizeof limit, "%.*s.limit", (int)strcspn(kind, "."), kind);
    return pst_fail_at(err, PST_ERR_IO, limit, path, 0, 0, "the file is larger than %s",
                       pst_format_bytes(size, max_bytes));
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
static pst_status open_regular(const char *path, const char *kind, int *ret_fd, uint64_t *ret_size,
                               struct pst_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    pst_status st;

    if (fd < 0) {
        return fail_file(err, kind, path, "open the file", errno);
    }
    if (fstat(fd, &info) != 0) {
        st = fail_file(err, kind, path, "examine the file", errno);
        close(fd);
        return st;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return pst_fail_at(err, PST_ERR_IO, kind, path, 0, 0, "%s, not a regular file",
                           S_ISDIR(info.st_mode)    ? "a folder"
                           : S_ISFIFO(info.st_mode) ? "a FIFO"
                                                    : "a device or socket");
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)info.st_size;
    return PST_OK;
}

/* Reads to the end: the size is only a hint (files in /proc say 0, a file may grow meanwhile). */
static pst_status read_all(int fd, const char *path, size_t max_bytes, size_t hint,
                           const char *kind, char **ret_text, size_t *ret_length,
                           struct pst_error *err)
{
    size_t capacity = hint + 1, length = 0;
    char *text = pst_resize(NULL, capacity + 1, 1);

    for (;;) {
        ssize_t n = read(fd, text + length, capacity - length);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            free(text);
            return fail_file(err, kind, path, "read the file", errno);
        }
        if (n == 0) {
            break;
        }
        length += (size_t)n;
        if (length > max_bytes) {
            free(text);
            return fail_too_large(err, kind, path, max_bytes);
        }
        if (length == capacity) {
            capacity = capacity < 4096 ? 8192 : capacity * 2;
            text = pst_resize(text, capacity + 1, 1);
        }
    }
    text[length] = '\0';
    *ret_text = text;
    *ret_length = length;
    return PST_OK;
}

pst_status pst_file_read(const char *path, size_t max_bytes, const char *kind, char **ret_text,
                         size_t *ret_length, struct pst_error *err)
{
    uint64_t size = 0;
    pst_status st;
    int fd = -1;

    if (max_bytes > SIZE_MAX / 4) {
        max_bytes = SIZE_MAX / 4;
    }
    st = open_regular(path, kind, &fd, &size, err);
    if (st != PST_OK) {
        return st;
    }
    if (size > max_bytes) {
        st = fail_too_large(err, kind, path, max_bytes);
    } else {
        st = read_all(fd, path, max_bytes, (size_t)size, kind, ret_text, ret_length, err);
    }
    close(fd);
    return st;
}

static pst_status fail_write(struct pst_error *err, const char *path, const char *what, int code)
{
    return fail_file(err, "output.write", path, what, code);
}

/* "folder/" of path with its slash, "" where it has none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* The names of temporaries that are there; more at a time are not remembered. */
static char *_Atomic temporaries[16];

static void remember(char *name)
{
    for (size_t i = 0; i < sizeof temporaries / sizeof *temporaries; i++) {
        char *none = NULL;

        if (atomic_compare_exchange_strong(&temporaries[i], &none, name)) {
            return;
        }
    }
}

/* Frees the name, too. */
static void forget(char *name)
{
    for (size_t i = 0; i < sizeof temporaries / sizeof *temporaries; i++) {
        char *one = name;

        atomic_compare_exchange_strong(&temporaries[i], &one, NULL);
    }
    free(name);
}

void pst_file_abandon_writes(void)
{
    for (size_t i = 0; i < sizeof temporaries / sizeof *temporaries; i++) {
        const char *name = atomic_load(&temporaries[i]);

        if (name != NULL) {
            unlink(name);
        }
    }
}

static int create_temporary(const char *path, char **ret_name)
{
    static atomic_uint counter;
    int n_folder = (int)folder_length(path), fd = -1;

    for (int attempt = 0; attempt < 100; attempt++) {
        char *name = pst_printf("%.*s.penstock-%ld-%u-%llx.tmp", n_folder, path, (long)getpid(),
                                atomic_fetch_add(&counter, 1), (unsigned long long)pst_now_ns());

        remember(name);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0) {
            *ret_name = name;
            return fd;
        }
        forget(name);
        if (errno != EEXIST) {
            return -1;
        }
    }
    return -1;
}

/* The rename itself must survive a power cut. Some file systems cannot do it and say EINVAL. */
static bool sync_folder(const char *path)
{
    size_t n = folder_length(path);
    char *folder = n == 0 ? pst_strdup(".") : pst_strndup(path, n);
    bool ok = false;
    int fd;

    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        ok = fsync(fd) == 0 || errno == EINVAL;
        close(fd);
    }
    free(folder);
    return ok;
}

pst_status pst_file_begin(const char *path, struct pst_file_out *ret_out, struct pst_error *err)
{
    struct stat info;

    *ret_out = (struct pst_file_out){.fd = -1};
    /* rename would put a file in the place of /dev/null. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0,
                           "cannot write there: it exists and is not a regular file");
    }
    if (folder_length(path) == strlen(path)) {
        return pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0,
                           "cannot write there: not the name of a file");
    }
    ret_out->fd = create_temporary(path, &ret_out->temporary);
    if (ret_out->fd < 0) {
        return fail_write(err, path, "create a file there", errno);
    }
    ret_out->path = pst_strdup(path);
    return PST_OK;
}

static pst_status put(const struct pst_file_out *out, const char *data, size_t length,
                      uint64_t offset, struct pst_error *err)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = pwrite(out->fd, data + done, length - done, (off_t)(offset + done));

        if (n < 0 && errno != EINTR) {
            return fail_write(err, out->path, "write the file", errno);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return PST_OK;
}

/* Hands bytes to the disk; `wait`: until it has them, and they leave the page cache. A failure that
   is met here no fsync tells again. */
static pst_status push(const struct pst_file_out *out, uint64_t offset, size_t length, bool wait,
                       struct pst_error *err)
{
    const unsigned flags = SYNC_FILE_RANGE_WRITE |
                           (wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER : 0);

    if (sync_file_range(out->fd, (off_t)offset, (off_t)length, flags) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
        return fail_write(err, out->path, "write the file", errno);
    }
    if (wait) {
        posix_fadvise(out->fd, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
    }
    return PST_OK;
}

/* What is large goes to the disk part by part, while the next one is copied: the page cache holds
   two parts, not the file, and takes no memory from others. */
pst_status pst_file_put(const struct pst_file_out *out, const void *data, size_t length,
                        uint64_t offset, struct pst_error *err)
{
    enum { PART = 8 << 20 };
    const char *bytes = data;
    size_t before = 0, n; /* of the part before */
    pst_status st = PST_OK;

    if (length < PART) {
        return put(out, bytes, length, offset, err);
    }
    for (size_t done = 0; done < length && st == PST_OK; done += n) {
        n = PART - (offset + done) % PART; /* whole pages, but for the ends */
        n = n < length - done ? n : length - done;
        st = put(out, bytes + done, n, offset + done, err);
        if (st == PST_OK) {
            st = push(out, offset + done, n, false, err);
        }
        if (st == PST_OK && before > 0) {
            st = push(out, offset + done - before, before, true, err);
        }
        before = n;
    }
    return st;
}

static void finish_out(struct pst_file_out *out)
{
    forget(out->temporary);
    free(out->path);
    *out = (struct pst_file_out){.fd = -1};
}

void pst_file_abandon(struct pst_file_out *out)
{
    if (out->temporary != NULL) {
        if (out->fd >= 0) {
            close(out->fd);
        }
        unlink(out->temporary);
        finish_out(out);
    }
}

pst_status pst_file_end(struct pst_file_out *out, struct pst_error *err)
{
    pst_status st = PST_OK;

    if (fsync(out->fd) != 0) {
        st = fail_write(err, out->path, "write the file", errno);
    }
    if (close(out->fd) != 0 && st == PST_OK) {
        st = fail_write(err, out->path, "write the file", errno);
    }
    out->fd = -1;
    if (st == PST_OK && rename(out->temporary, out->path) != 0) {
        st = fail_write(err, out->path, "put the new file in place", errno);
    }
    if (st != PST_OK) {
        pst_file_abandon(out);
        return st;
    }
    if (!sync_folder(out->path)) {
        st = fail_write(err, out->path, "sync the folder", errno);
    }
    finish_out(out);
    return st;
}

pst_status pst_file_write(const char *path, const void *data, size_t length, struct pst_error *err)
{
    struct pst_file_out out;
    pst_status st = pst_file_begin(path, &out, err);

    if (st == PST_OK) {
        st = pst_file_put(&out, data, length, 0, err);
        if (st == PST_OK) {
            return pst_file_end(&out, err);
        }
        pst_file_abandon(&out);
    }
    return st;
}

pst_status pst_file_write_check(const char *path, struct pst_error *err)
{
    struct pst_file_out out;
    pst_status st = pst_file_begin(path, &out, err);

    if (st == PST_OK) {
        pst_file_abandon(&out);
    }
    return st;
}
