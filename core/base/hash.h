/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of files, which find damage, not forgery: XXH3 with 128 bits, at the speed of memory;
 * SHA-256 where people may want to compute it themselves.
 */
#ifndef PST_BASE_HASH_H
#define PST_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pst_hash {
    uint64_t high, low;
};

enum { PST_HASH_TEXT = 33, PST_SHA256_TEXT = 65 }; /* room for hexadecimal digits and a NUL */

struct pst_hash pst_hash_of(const void *data, size_t length);
/* Hashes all bytes of the file that `path` names in a folder, or AT_FDCWD; flags: O_NOFOLLOW or 0.
   False with errno where it cannot be read. */
bool pst_hash_file(int folder, const char *path, int flags, struct pst_hash *ret_hash);

/* Hashes data that comes in pieces. */
struct pst_hasher;
struct pst_hasher *pst_hasher_create(void); /* without data so far */
void pst_hasher_destroy(struct pst_hasher *hasher);
void pst_hasher_add(struct pst_hasher *hasher, const void *data, size_t length);
/* Returns the hash of all data added since the last end, and starts again. */
struct pst_hash pst_hasher_end(struct pst_hasher *hasher);

/* 32 digits; returns text. */
char *pst_hash_text(const struct pst_hash *hash, char text[PST_HASH_TEXT]);
/* Returns false if text is not such a text. */
bool pst_hash_parse(const char *text, struct pst_hash *ret_hash);
static inline bool pst_hash_equal(const struct pst_hash *a, const struct pst_hash *b)
{
    return a->high == b->high && a->low == b->low;
}

/* FNV-1a, which begins with PST_FNV1A: equal words or bytes are all that it must tell. */
#define PST_FNV1A 14695981039346656037u
static inline uint64_t pst_fnv1a(uint64_t digest, uint64_t word)
{
    return (digest ^ word) * 1099511628211u;
}
static inline uint64_t pst_fnv1a_bytes(uint64_t digest, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        digest = pst_fnv1a(digest, ((const unsigned char *)bytes)[i]);
    }
    return digest;
}

/* 64 digits; returns text. */
char *pst_sha256(const void *data, size_t length, char text[PST_SHA256_TEXT]);

#endif
