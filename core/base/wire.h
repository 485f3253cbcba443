/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes between two processes of the same program: numbers, texts, arrays. One function per message
 * describes both directions: a wire that writes copies the variables, a wire that reads fills them.
 * A plugin may have written any of the bytes, so counts and indices are checked when they are read;
 * after the first failure all values are empty.
 */
#ifndef PST_BASE_WIRE_H
#define PST_BASE_WIRE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

#define PST_WIRE_MAX     ((uint64_t)1 << 30)    /* elements of an array */
#define PST_WIRE_SECONDS 1e9                    /* of a search */
#define PST_WIRE_COUNT   18446744073709551616.0 /* nanoseconds or bytes that were counted */

/* All zero: an empty one that writes. pst_wire_read makes one that reads. */
struct pst_wire {
    bool reads;
    bool failed; /* what was read is less than promised, or something else */
    char *bytes; /* written, with a final NUL; free() them */
    size_t n, room;
    const char *at; /* to be read */
    size_t left;
    struct pst_arena *arena; /* where texts and arrays that are read live */
};

struct pst_wire pst_wire_read(const char *bytes, size_t length, struct pst_arena *arena);
/* Returns true if everything has been read and was valid. */
bool pst_wire_is_read(const struct pst_wire *w);

void pst_wire_bytes(struct pst_wire *w, void *at, size_t n);
void pst_wire_word(struct pst_wire *w, const char *word); /* that, its NUL included, or it fails */
void pst_wire_number(struct pst_wire *w, uint64_t *number);
void pst_wire_uint(struct pst_wire *w, uint32_t *number); /* as 64 bits, of which 32 may count */
void pst_wire_flag(struct pst_wire *w, bool *flag);
void pst_wire_amount(struct pst_wire *w, double *amount, double most); /* from 0 to that */
/* A text of exactly that size, its end included, without control characters. */
void pst_wire_name(struct pst_wire *w, char *to, size_t size);
/* A number of elements, of at least that size each, that can be there at all. */
void pst_wire_count(struct pst_wire *w, uint32_t *n, size_t size);
/* n elements; returns where they are: `items`, or what was read; NULL where that failed. */
const void *pst_wire_array(struct pst_wire *w, const void *items, size_t n, size_t size);
/* A count and as many. */
void pst_wire_uints(struct pst_wire *w, const uint32_t **items, uint32_t *n);
void pst_wire_text(struct pst_wire *w, const char **text); /* may be NULL */

#endif
