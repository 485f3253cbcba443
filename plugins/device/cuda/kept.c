/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/util.h"
#include "base/hash.h"

#define MOST_BYTES (16u << 20)
#define HEAD       "penstock products 1 "

enum { WORDS = sizeof((cublasLtMatmulAlgo_t *)NULL)->data / sizeof(uint64_t), DIGITS = 16 };

struct entry {
    cublasLtMatmulAlgo_t algo;
    char key[PST_CUDA_KEY];
};

struct pst_cuda_kept {
    struct entry *entries;
    size_t n, capacity;
    char *path, *lock; /* NULL: there is no file */
    void (*note)(const char *text);
};

static const cublasLtMatmulAlgo_t *lookup(const struct pst_cuda_kept *kept, const char *key)
{
    for (size_t i = 0; i < kept->n; i++) {
        if (strcmp(kept->entries[i].key, key) == 0) {
            return &kept->entries[i].algo;
        }
    }
    return NULL;
}

static void add(struct pst_cuda_kept *kept, const char *key, const cublasLtMatmulAlgo_t *algo)
{
    struct entry *entry;

    pst_grow(&kept->entries, &kept->capacity, kept->n, sizeof *entry);
    entry = &kept->entries[kept->n++];
    entry->algo = *algo;
    snprintf(entry->key, sizeof entry->key, "%s", key);
}

/* --- the file: a line with a sum of the rest, then a line for each key ------------------------ */

static const char *read_word(const char *at, uint64_t *ret_word)
{
    char digits[DIGITS + 1] = "", *end;

    strncpy(digits, at, DIGITS);
    *ret_word = strtoull(digits, &end, 16);
    return end == digits + DIGITS ? at + DIGITS : NULL;
}

/* Adds what is not known yet. False: this is no such file, or no longer. */
static bool parse(struct pst_cuda_kept *kept, char *text, size_t length)
{
    uint64_t sum = 0;
    char *at = strchr(text, '\n');

    if (strlen(text) != length || at == NULL || strncmp(text, HEAD, strlen(HEAD)) != 0 ||
        read_word(text + strlen(HEAD), &sum) != at ||
        sum != pst_fnv1a_bytes(PST_FNV1A, at + 1, strlen(at + 1))) {
        return false;
    }
    for (char *line = at + 1, *end; *line != '\0'; line = end + 1) {
        const char *key = line;
        cublasLtMatmulAlgo_t algo;

        end = strchr(line, '\n');
        for (int i = 0; i < WORDS && key != NULL; i++) {
            key = read_word(key, &algo.data[i]);
        }
        if (end == NULL || key == NULL || key >= end || *key != ' ') {
            return false;
        }
        *end = '\0';
        if (lookup(kept, key + 1) == NULL) {
            add(kept, key + 1, &algo);
        }
    }
    return true;
}

static void read_file(struct pst_cuda_kept *kept)
{
    struct pst_error why = {0};
    size_t length = 0;
    char *text = NULL, *told;

    if (access(kept->path, F_OK) != 0) {
        return;
    }
    if (pst_file_read(kept->path, MOST_BYTES, "input.path", &text, &length, &why) != PST_OK ||
        !parse(kept, text, length)) {
        told = pst_printf("%s is ignored: %s; products are timed again", kept->path,
                          why.message[0] != '\0' ? why.message : "it is damaged");
        if (kept->note != NULL) {
            kept->note(told);
        }
        free(told);
    }
    free(text);
}

static pst_status write_file(const struct pst_cuda_kept *kept, struct pst_error *err)
{
    const size_t line = WORDS * DIGITS + 1 + PST_CUDA_KEY;
    char *rest = pst_alloc(kept->n * line + 1, 1), *at = rest, *text;
    pst_status status;

    for (size_t i = 0; i < kept->n; i++) {
        for (int w = 0; w < WORDS; w++) {
            at += sprintf(at, "%016llx", (unsigned long long)kept->entries[i].algo.data[w]);
        }
        at += sprintf(at, " %s\n", kept->entries[i].key);
    }
    text = pst_printf(HEAD "%016llx\n%s",
                      (unsigned long long)pst_fnv1a_bytes(PST_FNV1A, rest, strlen(rest)), rest);
    status = pst_file_write(kept->path, text, strlen(text), err);
    free(text);
    free(rest);
    return status;
}

/* --- where it is ------------------------------------------------------------------------------ */

#define WHO "run.kernels timed keeps its choices"

static pst_status place(struct pst_cuda_kept *kept, const struct pst_device *device,
                        struct pst_error *err)
{
    struct cudaDeviceProp prop;
    const cudaError_t error = cudaGetDeviceProperties(&prop, device->ordinal);
    char *name;

    if (error != cudaSuccess) {
        return pst_cuda_fail(err, "asking for the name of the GPU", error);
    }
    for (char *at = prop.name; *at != '\0'; at++) {
        *at = isalnum((unsigned char)*at) ? *at : '-';
    }
    name = pst_printf("products-%s-%zu", prop.name, cublasLtGetVersion());
    kept->path = pst_cache_path(name);
    kept->lock = kept->path == NULL ? NULL : pst_printf("%s.lock", kept->path);
    free(name);
    return pst_cache_make(kept->path, WHO, err);
}

pst_status pst_cuda_kept_open(struct pst_device *device, struct pst_error *err)
{
    pst_status status;

    device->kept = pst_alloc(1, sizeof *device->kept);
    device->kept->note = device->note;
    if (!device->choices.timed) {
        return PST_OK;
    }
    status = place(device->kept, device, err);
    if (status == PST_OK) {
        read_file(device->kept);
    }
    return status;
}

void pst_cuda_kept_close(struct pst_cuda_kept *kept)
{
    if (kept != NULL) {
        free(kept->entries);
        free(kept->path);
        free(kept->lock);
        free(kept);
    }
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Whoever closes it lets others in. */
static pst_status lock_file(const struct pst_cuda_kept *kept, int *ret_fd, struct pst_error *err)
{
    const int fd = open(kept->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int locked = -1;

    while (fd >= 0 && (locked = flock(fd, LOCK_EX)) != 0 && errno == EINTR) {
    }
    if (locked != 0) {
        const pst_status status = pst_fail(err, PST_ERR_IO, "output.write",
                                           WHO " in %s: %s; set XDG_CACHE_HOME to a folder for it",
                                           kept->lock, strerror(errno));

        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *ret_fd = fd;
    return PST_OK;
}

pst_status pst_cuda_keep(struct pst_cuda_kept *kept, const char *key, pst_cuda_find *find,
                         void *context, cublasLtMatmulAlgo_t *ret_algo, struct pst_error *err)
{
    const bool filed = kept->path != NULL;
    const cublasLtMatmulAlgo_t *found = lookup(kept, key);
    pst_status status = PST_OK;
    int fd = -1;

    if (found == NULL && filed) {
        status = lock_file(kept, &fd, err);
        if (status != PST_OK) {
            return status;
        }
        read_file(kept); /* others have written since */
        found = lookup(kept, key);
    }
    if (found != NULL) {
        *ret_algo = *found;
    } else {
        status = find(context, ret_algo, err);
    }
    if (found == NULL && status == PST_OK) {
        add(kept, key, ret_algo);
        status = filed ? write_file(kept, err) : PST_OK;
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}
