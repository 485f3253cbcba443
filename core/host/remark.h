/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins say through pst.remark/1, kept on their instances.
 */
#ifndef PST_HOST_REMARK_H
#define PST_HOST_REMARK_H

#include <penstock/ext/remark.h>

#include "base/arena.h"
#include "base/wire.h"

#define PST_REMARKS_MAX 64

enum { PST_REMARK_NUMBER = 0, PST_REMARK_TEXT = 1, PST_REMARK_FLAG = 2 };

/* One remark of a plugin through pst.remark/1. */
struct pst_partition_remark {
    const char *key;
    uint32_t type; /* PST_REMARK_* */
    double number; /* or flag */
    const char *text;
};

/* All zero: nothing said. Keys are unique, in the order in which they first came. */
struct pst_remarks {
    uint32_t n;
    struct pst_partition_remark items[PST_REMARKS_MAX];
};

extern const struct pst_remark pst_remark_functions;

/* The last word on a key; NULL: none of that type. */
const struct pst_partition_remark *pst_remarks_find(const struct pst_partition_remark *items,
                                                    uint32_t n, const char *key, uint32_t type);

bool pst_remarks_flag(const struct pst_partition_remark *items, uint32_t n, const char *key);

/* A copy in `arena`. */
void pst_remarks_copy(const struct pst_remarks *remarks, struct pst_arena *arena,
                      struct pst_partition_remark **ret_items);

/* From one process to another. What is read is in the wire's arena: keys sound, types known; none
   where the wire has failed. */
void pst_remarks_pass(struct pst_wire *w, struct pst_partition_remark **items, uint32_t *n);

#endif
