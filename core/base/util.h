/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that several layers need: clock, files, units for people.
 */
#ifndef PST_BASE_UTIL_H
#define PST_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"

/* Monotonic nanoseconds. */
uint64_t pst_now_ns(void);

/* The greatest common divisor; of 0 and a number that number. */
uint64_t pst_gcd(uint64_t a, uint64_t b);

/* For qsort: uint64_t, the smallest first. */
int pst_by_number(const void *a, const void *b);

/* Cores that this process may use; at least 1. */
uint32_t pst_usable_cores(void);

/* Whole file as bytes with a NUL behind; free() it. PST_ERR_IO with `kind` ("config.file",
   "input.path") when it cannot be read or is not a regular file; when it is larger than max_bytes,
   the kind's first word with ".limit": "config.limit", "input.limit". */
pst_status pst_file_read(const char *path, size_t max_bytes, const char *kind, char **ret_text,
                         size_t *ret_length, struct pst_error *err);

/* Writes a sibling temporary, fsync, rename, fsync of the folder: the old file stays until then.
   A symbolic link to a file is replaced by the file. Errors: PST_ERR_IO, output.write. */
pst_status pst_file_write(const char *path, const void *data, size_t length, struct pst_error *err);

/* For a process that ends at once: no temporary of pst_file_write stays behind. Any thread. */
void pst_file_abandon_writes(void);

/* For what is written at the end of long work: whether pst_file_write could begin now. */
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

#endif
