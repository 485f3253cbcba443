/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/sha.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

struct pst_hasher {
    XXH3_state_t *state;
};

static struct pst_hash make_hash(XXH128_hash_t hash)
{
    return (struct pst_hash){.high = hash.high64, .low = hash.low64};
}

struct pst_hash pst_hash_of(const void *data, size_t length)
{
    return make_hash(XXH3_128bits(data, length));
}

bool pst_hash_file(int folder, const char *path, int flags, struct pst_hash *ret_hash)
{
    const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    XXH3_state_t state;
    char bytes[65536];
    off_t at = 0;
    ssize_t n;
    int code;

    if (fd < 0) {
        return false;
    }
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    while ((n = pread(fd, bytes, sizeof bytes, at)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0) {
            XXH3_128bits_update(&state, bytes, (size_t)n);
            at += n;
        }
    }
    *ret_hash = make_hash(XXH3_128bits_digest(&state));
    code = errno;
    close(fd);
    errno = code;
    return n == 0;
}

struct pst_hasher *pst_hasher_create(void)
{
    struct pst_hasher *hasher = pst_alloc(1, sizeof *hasher);

    hasher->state = XXH3_createState();
    if (hasher->state == NULL) {
        pst_out_of_memory();
    }
    XXH3_128bits_reset(hasher->state);
    return hasher;
}

void pst_hasher_destroy(struct pst_hasher *hasher)
{
    if (hasher != NULL) {
        XXH3_freeState(hasher->state);
        free(hasher);
    }
}

void pst_hasher_add(struct pst_hasher *hasher, const void *data, size_t length)
{
    XXH3_128bits_update(hasher->state, data, length);
}

struct pst_hash pst_hasher_end(struct pst_hasher *hasher)
{
    struct pst_hash hash = make_hash(XXH3_128bits_digest(hasher->state));

    XXH3_128bits_reset(hasher->state);
    return hash;
}

char *pst_hash_text(const struct pst_hash *hash, char text[PST_HASH_TEXT])
{
    snprintf(text, PST_HASH_TEXT, "%016llx%016llx", (unsigned long long)hash->high,
             (unsigned long long)hash->low);
    return text;
}

bool pst_hash_parse(const char *text, struct pst_hash *ret_hash)
{
    uint64_t words[2] = {0};

    for (uint32_t i = 0; i < PST_HASH_TEXT - 1; i++) {
        const char *digits = "0123456789abcdef",
                   *digit = text[i] == '\0' ? NULL : strchr(digits, text[i]);

        if (digit == NULL) {
            return false;
        }
        words[i / 16] = words[i / 16] << 4 | (uint64_t)(digit - digits);
    }
    *ret_hash = (struct pst_hash){.high = words[0], .low = words[1]};
    return text[PST_HASH_TEXT - 1] == '\0';
}

char *pst_sha256(const void *data, size_t length, char text[PST_SHA256_TEXT])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256(data, length, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    return text;
}
