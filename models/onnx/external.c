/* SPDX-License-Identifier: Apache-2.0
 *
 * The one opener of files that a model names: large tensors lie beside it. A location is a plain
 * relative path beneath the model's folder; every part of it is opened by itself, and of links only
 * those of link.h are followed, at its end; what is opened is a regular file with one name. Opened
 * once, before the run; read at any place by any thread from then on.
 */
#include "onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/link.h"
#include "base/memory.h"
#include "base/text.h"

#define MAX_FILES 1024

struct opened {
    char *location;
    int fd;
    uint64_t size;
};

struct onnx_external {
    char *folder;
    const char *path; /* of the model file, for messages */
    struct opened files[MAX_FILES];
    uint32_t n_files;
};

/* Where a tensor says that its bytes are. */
struct place {
    const char *location;
    uint64_t offset, length; /* length: UINT64_MAX where it says none */
};

struct onnx_external *onnx_external_open(const char *path)
{
    struct onnx_external *external = pst_alloc(1, sizeof *external);

    external->folder = pst_link_folder(path);
    external->path = pst_strdup(path);
    return external;
}

void onnx_external_close(struct onnx_external *external)
{
    if (external == NULL) {
        return;
    }
    for (uint32_t i = 0; i < external->n_files; i++) {
        close(external->files[i].fd);
        free(external->files[i].location);
    }
    free((char *)external->path);
    free(external->folder);
    free(external);
}

#define BAD(kind, ...) pst_fail_at(err, PST_ERR_CONFIG, kind, external->path, 0, 0, __VA_ARGS__)

static bool parse_number(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *ret_number = number;
    return true;
}

static pst_status find_place(const struct onnx_external *external, const Onnx__TensorProto *tensor,
                             struct place *ret_place, struct pst_error *err)
{
    struct place place = {.length = UINT64_MAX};

    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = tensor->external_data[i]->key, *value = tensor->external_data[i]->value;
        bool ok = key != NULL && value != NULL;

        if (ok && strcmp(key, "location") == 0) {
            place.location = value;
        } else if (ok && strcmp(key, "offset") == 0) {
            ok = parse_number(value, &place.offset);
        } else if (ok && strcmp(key, "length") == 0) {
            ok = parse_number(value, &place.length);
        } else {
            ok = ok && strcmp(key, "checksum") == 0;
        }
        if (!ok) {
            return BAD("input.syntax",
                       "tensor \"%s\": external data with key \"%s\" and value "
                       "\"%s\"; location, offset, length and checksum are known",
                       tensor->name, key == NULL ? "" : key, value == NULL ? "" : value);
        }
    }
    if (place.location == NULL) {
        return BAD("input.syntax", "tensor \"%s\": external data without a location", tensor->name);
    }
    *ret_place = place;
    return PST_OK;
}

/* Relative, of plain parts. */
static bool is_plain(const char *location)
{
    if (*location == '/' || strchr(location, '\\') != NULL || !pst_text_is_plain(location)) {
        return false;
    }
    for (const char *part = location;;) {
        size_t n = strcspn(part, "/");

        if (n == 0 || (n <= 2 && strncmp(part, "..", n) == 0)) {
            return false;
        }
        if (part[n] == '\0') {
            return true;
        }
        part += n + 1;
    }
}

#define FLAGS (O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* The file, or -1 with errno; ELOOP: it is a link. Part by part: no folder is a link. */
static int open_beneath(const char *folder, const char *location)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (at >= 0) {
        const size_t n = strcspn(location, "/");
        const bool last = location[n] == '\0';
        char *part = pst_strndup(location, n);
        int next = openat(at, part, FLAGS | (last ? 0 : O_DIRECTORY));
        const int code = errno;

        free(part);
        close(at);
        errno = code;
        at = next;
        if (last) {
            break;
        }
        location += n + 1;
    }
    return at;
}

static pst_status open_link(const struct onnx_external *external, const char *location, int *ret_fd,
                            struct pst_error *err)
{
    char *path = pst_printf("%s/%s", external->folder, location), target[PATH_MAX];
    pst_status status = pst_link_follow(path, target, err);

    *ret_fd = status == PST_OK ? open(target, FLAGS) : -1;
    free(path);
    return status;
}

static pst_status open_file(struct onnx_external *external, const char *location,
                            struct pst_error *err)
{
    struct opened *file = &external->files[external->n_files];
    struct stat info;
    pst_status status;
    int fd;

    if (!is_plain(location)) {
        return BAD("input.path",
                   "external data at \"%s\": the location must be a relative path "
                   "beneath the model's folder, without \"..\"",
                   location);
    }
    if (external->n_files == MAX_FILES) {
        return BAD("input.limit", "external data in more than %d files", MAX_FILES);
    }
    fd = open_beneath(external->folder, location);
    if (fd < 0 && errno == ELOOP) {
        status = open_link(external, location, &fd, err);
        if (status != PST_OK) {
            return status;
        }
    }
    if (fd < 0) {
        return pst_fail_at(err, PST_ERR_IO, "input.path", external->path, 0, 0,
                           "external data: cannot open \"%s\" beneath the model's folder: %s",
                           location, strerror(errno));
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1) {
        close(fd);
        return BAD("input.path", "external data: \"%s\" is no regular file with one name",
                   location);
    }
    file->fd = fd;
    file->size = (uint64_t)info.st_size;
    file->location = pst_strdup(location);
    external->n_files++;
    return PST_OK;
}

static const struct opened *find_file(const struct onnx_external *external, const char *location)
{
    for (uint32_t i = 0; i < external->n_files; i++) {
        if (strcmp(external->files[i].location, location) == 0) {
            return &external->files[i];
        }
    }
    return NULL;
}

pst_status onnx_external_check(struct onnx_external *external, const Onnx__TensorProto *tensor,
                               uint64_t bytes, struct pst_error *err)
{
    const struct opened *file;
    struct place place;
    pst_status status = find_place(external, tensor, &place, err);

    if (status == PST_OK && find_file(external, place.location) == NULL) {
        status = open_file(external, place.location, err);
    }
    if (status != PST_OK) {
        return status;
    }
    file = find_file(external, place.location);
    if (place.offset > file->size ||
        (place.length == UINT64_MAX ? file->size - place.offset : place.length) != bytes ||
        bytes > file->size - place.offset) {
        return BAD("input.syntax",
                   "tensor \"%s\" has %llu bytes from byte %llu of \"%s\" on, which has %llu",
                   tensor->name, (unsigned long long)bytes, (unsigned long long)place.offset,
                   place.location, (unsigned long long)file->size);
    }
    return PST_OK;
}

pst_status onnx_external_read(const struct onnx_external *external, const Onnx__TensorProto *tensor,
                              uint64_t first, uint64_t n, void *ret_bytes, struct pst_error *err)
{
    const struct opened *file;
    struct place place;
    pst_status status = find_place(external, tensor, &place, err);
    uint64_t done = 0;

    if (status != PST_OK) {
        return status;
    }
    file = find_file(external, place.location);
    while (done < n) {
        ssize_t got = pread(file->fd, (char *)ret_bytes + done, n - done,
                            (off_t)(place.offset + first + done));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return pst_fail_at(err, PST_ERR_IO, "input.path", external->path, 0, 0,
                               "external data: cannot read \"%s\": %s", place.location,
                               got == 0 ? "it became shorter" : strerror(errno));
        }
        done += (uint64_t)got;
    }
    return PST_OK;
}
