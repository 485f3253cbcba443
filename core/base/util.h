/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that several layers need: clock, files, growing arrays, units for people.
 */
#ifndef PST_BASE_UTIL_H
#define PST_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Monotonic nanoseconds. */
uint64_t pst_now_ns(void);

/* Whole file as bytes with a NUL behind; at most max_bytes (config.limit / input.limit kind given by
   the caller). PST_ERR_IO with kind when it cannot be read; regular files only. free() it. */
pst_status pst_file_read(const char *path, size_t max_bytes, const char *kind, char **ret_text,
                         size_t *ret_length, struct pst_error *err);

/* Writes a sibling temporary, fsync, rename, fsync of the folder: the old file stays until then. */
pst_status pst_file_write(const char *path, const void *data, size_t length, struct pst_error *err);

/* Makes room for one more element: *items is realloc'ed. False when there is no memory. */
bool pst_grow(void *items, size_t *capacity, size_t count, size_t element_size);

/* "812 us", "1.42 ms", "3.10 s"; "15.2 MiB". text must hold 32 bytes; returns it. */
char *pst_format_ns(char *text, uint64_t ns);
char *pst_format_bytes(char *text, uint64_t bytes);

/* "16 GiB", "900 MB", "5 us", "1e9": value with a unit. False when it is not one. */
bool pst_parse_bytes(const char *text, uint64_t *ret_bytes);
bool pst_parse_rate(const char *text, uint64_t *ret_bytes_per_s);
bool pst_parse_time(const char *text, uint64_t *ret_ns);

#endif
