/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that several layers need: clock, files, units for people.
 */
#ifndef PST_BASE_UTIL_H
#define PST_BASE_UTIL_H

#include <glob.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"

/* The greatest common divisor; of 0 and a number that number. */
uint64_t pst_gcd(uint64_t a, uint64_t b);

/* The first i of 0 ... n - 1 where the test holds, as it does from there on; n: nowhere. */
#define PST_FIRST(i, n, test)                                                                      \
    ({                                                                                             \
        uint32_t low_ = 0, high_ = (n);                                                            \
                                                                                                   \
        while (low_ < high_) {                                                                     \
            const uint32_t i = low_ + (high_ - low_) / 2;                                          \
                                                                                                   \
            if (test) {                                                                            \
                high_ = i;                                                                         \
            } else {                                                                               \
                low_ = i + 1;                                                                      \
            }                                                                                      \
        }                                                                                          \
        low_;                                                                                      \
    })

/* Place of the first of n ascending numbers that is not below `number`; n: all are. */
static inline uint32_t pst_first_from(const uint32_t *numbers, uint32_t n, uint32_t number)
{
    return PST_FIRST(i, n, numbers[i] >= number);
}

/* For qsort: how the first two keys that differ compare; 0: none do. */
static inline int pst_compare_keys(const uint64_t (*keys)[2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}
#define PST_COMPARE_KEYS(...)                                                                      \
    pst_compare_keys((const uint64_t[][2]){__VA_ARGS__},                                           \
                     sizeof((const uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]))

/* For qsort: uint64_t, the smallest first. */
int pst_by_number(const void *a, const void *b);
int pst_by_text(const void *a, const void *b); /* of const char * */

/* Bytes of one call that reads or writes: no signal is handled before it has ended. */
#define PST_FILE_PIECE ((size_t)16 << 20)

/* Whole file as bytes with a final NUL; free() it. PST_ERR_IO with `kind` ("config.file",
   "input.path") when it cannot be read or is not a regular file; when it is larger than max_bytes,
   the kind's first word with ".limit": "config.limit", "input.limit". */
pst_status pst_file_read(const char *path, size_t max_bytes, const char *kind, char **ret_text,
                         size_t *ret_length, struct pst_error *err);

/* glob(), but memory that runs out is pst_out_of_memory: glob() takes a folder that it could not
   open for an empty one. */
int pst_glob(const char *pattern, int flags, glob_t *ret_found);

/* Writes a sibling temporary, fsync, rename, fsync of the folder: the old file stays until then.
   A symbolic link to a file is replaced by the file. Errors: PST_ERR_IO, output.write. */
pst_status pst_file_write(const char *path, const void *data, size_t length, struct pst_error *err);

/* A file that is written in pieces, to a temporary beside it until the end. Separate threads write
   large files to the disk, past the page cache. */
struct pst_file_out {
    char *path, *temporary; /* owned */
    int fd;
    struct pst_file_direct *direct; /* NULL: through the page cache */
};

/* Errors of all: PST_ERR_IO, output.write. After one that fails, pst_file_abandon is due. */
pst_status pst_file_begin(const char *path, uint64_t bytes, struct pst_file_out *ret_out,
                          struct pst_error *err);
/* One thread at a time. Pieces may come in any order; file order is fastest. A later call may
   report that a piece could not be written. */
pst_status pst_file_put(const struct pst_file_out *out, const void *data, size_t length,
                        uint64_t offset, struct pst_error *err);
/* Fsync, rename, fsync of the folder. Finishes *out, even if it fails. */
pst_status pst_file_end(struct pst_file_out *out, struct pst_error *err);
/* Keeps the old file, if any. *out may be finished or all zero. */
void pst_file_abandon(struct pst_file_out *out);

/* For a process that ends at once: no temporary of pst_file_write stays behind. Any thread. */
void pst_file_abandon_writes(void);

/* Makes a folder and those above it; `what` names it in the message. Errors: PST_ERR_IO,
   output.write. */
pst_status pst_folder_make(const char *path, const char *what, struct pst_error *err);

/* Fails if pst_file_write could not begin now. Call it before long work whose result is written. */
pst_status pst_file_write_check(const char *path, struct pst_error *err);

/* "812 us", "1.42 ms", "3.10 s"; "15.2 MiB". text must hold 32 bytes; returns it. */
char *pst_format_ns(char *text, uint64_t ns);
char *pst_format_bytes(char *text, uint64_t bytes);

/*
 * "16 GiB", "900 MB/s", "5 us", "1e9": a number from 0 with a unit, rounded to a whole byte, byte/s
 * or nanosecond; without a unit: bytes, bytes/s, seconds. Units: B kB MB GB TB KiB MiB GiB TiB, the
 * same with /s, Mbit/s Gbit/s Tbit/s; ns us ms s min h. False when it is not one or passes 64 bits.
 */
bool pst_parse_bytes(const char *text, uint64_t *ret_bytes);
bool pst_parse_rate(const char *text, uint64_t *ret_bytes_per_s);
bool pst_parse_time(const char *text, uint64_t *ret_ns);

/* Bytes that can be had without swapping, as the kernel estimates; UINT64_MAX where it does not. */
uint64_t pst_host_available_bytes(void);

/* The value after "key" in a file of "key : value" lines, such as those in /proc; false, and
   ret_text as it was: there is none. */
bool pst_file_field(const char *path, const char *key, char *ret_text, size_t size);
/* Name of this machine's processor, "unknown" where it has none. */
void pst_machine_processor(char *ret_text, size_t size);

#endif
