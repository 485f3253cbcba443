/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of memory that end right in front of an inaccessible page, so that running over their end
 * is caught by hardware, filled with 0xFF (NaN in every float type), so that reading what nobody
 * wrote shows in the numbers. The fill also makes every page present.
 */
#ifndef PST_CPU_GUARD_PAGE_ARENA_H
#define PST_CPU_GUARD_PAGE_ARENA_H

#include "base/error.h"

#define PST_GUARDED_ALIGN 256u

struct pst_guarded {
    unsigned char *base; /* aligned; NULL: nothing is held */
    void *mapping;
    size_t mapped_bytes;
};

/* At least 1 byte; up to PST_GUARDED_ALIGN - 1 bytes lie between the end and the page. machine.
   memory: there is none, or not 32 MiB of address space beside it for what libraries map later. */
pst_status pst_guarded_init(struct pst_guarded *block, uint64_t bytes, struct pst_error *err);
void pst_guarded_finish(struct pst_guarded *block);

#endif
