/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes between two processes that are the same program: numbers, texts, arrays. A plugin may have
 * written any of them, so what is read is held against what is there; after a first failure
 * everything is empty.
 */
#ifndef PST_HOST_WIRE_H
#define PST_HOST_WIRE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

#define PST_WIRE_MAX     ((uint64_t)1 << 30)    /* elements of an array */
#define PST_WIRE_SECONDS 1e9                    /* of a search */
#define PST_WIRE_COUNT   18446744073709551616.0 /* nanoseconds or bytes that were counted */

/* All zero: empty. */
struct pst_writer {
    char *bytes;
    size_t n, room;
    bool failed;
};

struct pst_reader {
    const char *at;
    size_t left;
    bool failed; /* there was less than promised, or something else */
    struct pst_arena *arena;
};

void pst_write(struct pst_writer *w, const void *from, size_t n);
void pst_write_number(struct pst_writer *w, uint64_t number);
void pst_write_text(struct pst_writer *w, const char *text); /* may be NULL */
/* free() *ret_bytes, which has a NUL behind it; PST_ERR_NOMEM if any write failed. */
pst_status pst_write_end(struct pst_writer *w, char **ret_bytes, size_t *ret_length,
                         struct pst_error *err);

void pst_read(struct pst_reader *r, void *to, size_t n);
uint64_t pst_read_number(struct pst_reader *r);
uint32_t pst_read_uint(struct pst_reader *r);              /* of 32 bits */
double pst_read_amount(struct pst_reader *r, double most); /* from 0 to that */
/* A text of exactly that size, its end included, without control characters. */
void pst_read_name(struct pst_reader *r, char *to, size_t size);
/* A number of elements of that size that can be there at all. */
uint32_t pst_read_count(struct pst_reader *r, size_t size);
/* In the reader's arena. */
void *pst_read_array(struct pst_reader *r, size_t n, size_t size);
const char *pst_read_text(struct pst_reader *r);

/* plugin.contract, exit code 3: what the plugin's process sent back is no answer to what was asked.
   Its id, or its file where that is NULL. */
pst_status pst_wire_refuse(const char *kind, const char *id, const char *path,
                           struct pst_error *err);

#endif
