/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files in and out. Reading refuses what is not a regular file; writing never leaves half a
 * file behind, and does not fill the page cache with large ones.
 */
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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
    pst_status status;

    if (fd < 0) {
        return fail_file(err, kind, path, "open the file", errno);
    }
    if (fstat(fd, &info) != 0) {
        status = fail_file(err, kind, path, "examine the file", errno);
        close(fd);
        return status;
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
        const size_t room = capacity - length;
        ssize_t n = read(fd, text + length, room < PST_FILE_PIECE ? room : PST_FILE_PIECE);

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
    pst_status status;
    int fd = -1;

    if (max_bytes > SIZE_MAX / 4) {
        max_bytes = SIZE_MAX / 4;
    }
    status = open_regular(path, kind, &fd, &size, err);
    if (status != PST_OK) {
        return status;
    }
    if (size > max_bytes) {
        status = fail_too_large(err, kind, path, max_bytes);
    } else {
        status = read_all(fd, path, max_bytes, (size_t)size, kind, ret_text, ret_length, err);
    }
    close(fd);
    return status;
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
static void forget_temporary(char *name)
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
        forget_temporary(name);
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

/* --- past the page cache ---------------------------------------------------------------------- */

/* The disk wants whole blocks, of memory that begins as those do, and several requests at a time.
   The caller fills a part while threads write others. Ends that are no whole blocks go through the
   page cache. */
enum { PART = 4 << 20, PARTS = 4, WRITERS = 2, BLOCK = 4096 };

struct pst_file_direct {
    int fd;             /* of the same file */
    int through;        /* the page cache */
    char *parts[PARTS]; /* at multiples of BLOCK; filled and taken in turn */
    uint32_t filled;
    uint64_t at; /* of the part that is filled in the file: a multiple of BLOCK */
    size_t n;    /* bytes of it that are there */
    pthread_t threads[WRITERS];
    uint32_t n_threads; /* 0: the caller writes */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under the mutex */
    bool quit;
    bool busy[PARTS]; /* given, and not yet written */
    uint64_t places[PARTS], n_given, n_taken;
    int code; /* errno of the first write that failed; after it nothing is written */
};

/* 0, or errno. */
static int write_to(int fd, const char *data, size_t length, uint64_t offset, size_t *ret_done)
{
    for (*ret_done = 0; *ret_done < length;) {
        const size_t rest = length - *ret_done;
        ssize_t n = pwrite(fd, data + *ret_done, rest < PST_FILE_PIECE ? rest : PST_FILE_PIECE,
                           (off_t)(offset + *ret_done));

        if (n < 0 && errno != EINTR) {
            return errno;
        }
        *ret_done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Whole blocks, but for a disk with larger ones, or one that stopped within: it says EINVAL. */
static int write_blocks(const struct pst_file_direct *direct, const char *data, size_t length,
                        uint64_t offset)
{
    size_t done;
    const int code = write_to(direct->fd, data, length, offset, &done);

    return code != EINVAL
               ? code
               : write_to(direct->through, data + done, length - done, offset + done, &done);
}

/* Writes the part that is next, with the mutex, which is let go meanwhile. */
static void write_next(struct pst_file_direct *direct)
{
    const uint32_t part = (uint32_t)(direct->n_taken++ % PARTS);
    int code = direct->code;

    if (code == 0) {
        pthread_mutex_unlock(&direct->mutex);
        code = write_blocks(direct, direct->parts[part], PART, direct->places[part]);
        pthread_mutex_lock(&direct->mutex);
    }
    direct->code = direct->code == 0 ? code : direct->code;
    direct->busy[part] = false;
    pthread_cond_broadcast(&direct->changed);
}

static void *write_parts(void *argument)
{
    struct pst_file_direct *direct = argument;

    pthread_mutex_lock(&direct->mutex);
    while (!direct->quit) {
        if (direct->n_taken == direct->n_given) {
            pthread_cond_wait(&direct->changed, &direct->mutex);
        } else {
            write_next(direct);
        }
    }
    pthread_mutex_unlock(&direct->mutex);
    return NULL;
}

/* Queues the filled part for writing and waits until the next is free. Returns 0, or errno. */
static int hand_over(struct pst_file_direct *direct)
{
    int code;

    pthread_mutex_lock(&direct->mutex);
    direct->busy[direct->filled] = true;
    direct->places[direct->filled] = direct->at;
    direct->n_given++;
    pthread_cond_broadcast(&direct->changed);
    direct->filled = (direct->filled + 1) % PARTS;
    direct->at += PART;
    direct->n = 0;
    if (direct->n_threads == 0) {
        write_next(direct);
    }
    while (direct->busy[direct->filled]) {
        pthread_cond_wait(&direct->changed, &direct->mutex);
    }
    code = direct->code;
    pthread_mutex_unlock(&direct->mutex);
    return code;
}

/* Waits until all queued parts are written. Returns 0, or errno. */
static int settle_parts(struct pst_file_direct *direct)
{
    int code;

    pthread_mutex_lock(&direct->mutex);
    for (uint32_t i = 0; i < PARTS; i++) {
        while (direct->busy[i]) {
            pthread_cond_wait(&direct->changed, &direct->mutex);
        }
    }
    code = direct->code;
    pthread_mutex_unlock(&direct->mutex);
    return code;
}

/* Writes the rest, which is in the part being filled. Returns 0, or errno. */
static int write_rest(struct pst_file_direct *direct)
{
    const char *part = direct->parts[direct->filled];
    const size_t whole = direct->n / BLOCK * BLOCK, n = direct->n;
    size_t done;
    int code = settle_parts(direct);

    direct->n = 0;
    if (code == 0) {
        code = write_blocks(direct, part, whole, direct->at);
    }
    return code != 0
               ? code
               : write_to(direct->through, part + whole, n - whole, direct->at + whole, &done);
}

/* Goes on at another place of the file, up to the next whole block through the page cache. */
static int seek_to(struct pst_file_direct *direct, const char *data, size_t length, uint64_t offset,
                   size_t *ret_done)
{
    const size_t head = (BLOCK - offset % BLOCK) % BLOCK;
    int code = write_rest(direct);

    *ret_done = 0;
    if (code == 0) {
        code = write_to(direct->through, data, head < length ? head : length, offset, ret_done);
    }
    direct->at = offset + head;
    return code;
}

/* 0, or errno. */
static int put_direct(struct pst_file_direct *direct, const char *data, size_t length,
                      uint64_t offset)
{
    size_t done = 0;
    int code = offset == direct->at + direct->n ? 0 : seek_to(direct, data, length, offset, &done);

    while (done < length && code == 0) {
        const size_t room = PART - direct->n, n = length - done < room ? length - done : room;

        memcpy(direct->parts[direct->filled] + direct->n, data + done, n);
        direct->n += n;
        done += n;
        if (direct->n == PART) {
            code = hand_over(direct);
        }
    }
    return code;
}

static void close_direct(struct pst_file_direct *direct)
{
    pthread_mutex_lock(&direct->mutex);
    direct->quit = true;
    pthread_cond_broadcast(&direct->changed);
    pthread_mutex_unlock(&direct->mutex);
    for (uint32_t i = 0; i < direct->n_threads; i++) {
        pthread_join(direct->threads[i], NULL);
    }
    pthread_mutex_destroy(&direct->mutex);
    pthread_cond_destroy(&direct->changed);
    close(direct->fd);
    free(direct->parts[0]);
    free(direct);
}

/* Signals are for others. */
static void start_threads(struct pst_file_direct *direct)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (direct->n_threads < WRITERS &&
           pthread_create(&direct->threads[direct->n_threads], NULL, write_parts, direct) == 0) {
        direct->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* NULL: the file system has no such way, or there is no memory. */
static struct pst_file_direct *open_direct(const struct pst_file_out *out)
{
    const int fd = open(out->temporary, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);
    struct pst_file_direct *direct;
    void *parts;

    if (fd < 0) {
        return NULL;
    }
    if (posix_memalign(&parts, BLOCK, PARTS * (size_t)PART) != 0) {
        close(fd);
        return NULL;
    }
    direct = pst_alloc(1, sizeof *direct);
    direct->fd = fd;
    direct->through = out->fd;
    for (uint32_t i = 0; i < PARTS; i++) {
        direct->parts[i] = (char *)parts + i * (size_t)PART;
    }
    pthread_mutex_init(&direct->mutex, NULL);
    pthread_cond_init(&direct->changed, NULL);
    start_threads(direct);
    return direct;
}

/* --- names -------------------------------------------------------------------------------------*/

/* Called by glob() for a folder that it cannot open, and which it then treats as empty. */
static int heed_folder(const char *path, int code)
{
    (void)path;
    if (code == ENOMEM) {
        pst_out_of_memory();
    }
    return 0;
}

int pst_glob(const char *pattern, int flags, glob_t *ret_found)
{
    const int code = glob(pattern, flags, heed_folder, ret_found);

    if (code == GLOB_NOSPACE) {
        pst_out_of_memory();
    }
    return code;
}

/* --- writing in pieces ------------------------------------------------------------------------ */

/* /dev/stdout, whose place rename would take, and the file that standard output goes to. */
static bool is_standard(const struct stat *info)
{
    struct stat stream;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &stream) == 0 && stream.st_dev == info->st_dev &&
            stream.st_ino == info->st_ino) {
            return true;
        }
    }
    return false;
}

pst_status pst_file_begin(const char *path, uint64_t bytes, struct pst_file_out *ret_out,
                          struct pst_error *err)
{
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    /* rename would put a file in the place of /dev/null. */
    const char *why = exists && !S_ISREG(info.st_mode)      ? "it exists and is not a regular file"
                      : folder_length(path) == strlen(path) ? "not the name of a file"
                      : exists && is_standard(&info)
                          ? "this file is a standard stream of the command, which still writes to "
                            "it; name another file"
                          : NULL;

    *ret_out = (struct pst_file_out){.fd = -1};
    if (why != NULL) {
        return pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0, "cannot write there: %s",
                           why);
    }
    ret_out->fd = create_temporary(path, &ret_out->temporary);
    if (ret_out->fd < 0) {
        return fail_write(err, path, "create a file there", errno);
    }
    ret_out->path = pst_strdup(path);
    if (bytes >= PARTS * PART) {
        ret_out->direct = open_direct(ret_out);
    }
    return PST_OK;
}

pst_status pst_file_put(const struct pst_file_out *out, const void *data, size_t length,
                        uint64_t offset, struct pst_error *err)
{
    size_t done;
    const int code = out->direct != NULL ? put_direct(out->direct, data, length, offset)
                                         : write_to(out->fd, data, length, offset, &done);

    return code == 0 ? PST_OK : fail_write(err, out->path, "write the file", code);
}

static void finish_out(struct pst_file_out *out)
{
    if (out->direct != NULL) {
        close_direct(out->direct);
    }
    forget_temporary(out->temporary);
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
    const int code = out->direct != NULL ? write_rest(out->direct) : 0;
    pst_status status = code == 0 ? PST_OK : fail_write(err, out->path, "write the file", code);

    if (status == PST_OK && fsync(out->fd) != 0) {
        status = fail_write(err, out->path, "write the file", errno);
    }
    if (close(out->fd) != 0 && status == PST_OK) {
        status = fail_write(err, out->path, "write the file", errno);
    }
    out->fd = -1;
    if (status == PST_OK && rename(out->temporary, out->path) != 0) {
        status = fail_write(err, out->path, "put the new file in place", errno);
    }
    if (status != PST_OK) {
        pst_file_abandon(out);
        return status;
    }
    if (!sync_folder(out->path)) {
        status = fail_write(err, out->path, "sync the folder", errno);
    }
    finish_out(out);
    return status;
}

pst_status pst_file_write(const char *path, const void *data, size_t length, struct pst_error *err)
{
    struct pst_file_out out;
    pst_status status = pst_file_begin(path, length, &out, err);

    if (status == PST_OK) {
        status = pst_file_put(&out, data, length, 0, err);
        if (status == PST_OK) {
            return pst_file_end(&out, err);
        }
        pst_file_abandon(&out);
    }
    return status;
}

pst_status pst_file_write_check(const char *path, struct pst_error *err)
{
    struct pst_file_out out;
    pst_status status = pst_file_begin(path, 0, &out, err);

    if (status == PST_OK) {
        pst_file_abandon(&out);
    }
    return status;
}

pst_status pst_folder_make(const char *path, const char *what, struct pst_error *err)
{
    char *part = pst_strdup(path);
    pst_status status = PST_OK;
    struct stat info;

    for (size_t n = 1; status == PST_OK && path[n - 1] != '\0'; n++) {
        if (path[n] != '/' && path[n] != '\0') {
            continue;
        }
        part[n] = '\0';
        if (stat(part, &info) != 0 && mkdir(part, 0777) != 0 && errno != EEXIST) {
            status = pst_fail_at(err, PST_ERR_IO, "output.write", part, 0, 0, "cannot make %s: %s",
                                 what, strerror(errno));
        } else if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
            status = pst_fail_at(err, PST_ERR_IO, "output.write", part, 0, 0,
                                 "cannot make %s: it is not a folder", what);
        }
        part[n] = path[n];
    }
    free(part);
    return status;
}
