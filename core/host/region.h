/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a plugin may read and must not write: a bump allocator in one block, compared with a
 * copy of itself.
 */
#ifndef PST_HOST_REGION_H
#define PST_HOST_REGION_H

#include <stdbool.h>
#include <stddef.h>

struct pst_region {
    char *bytes, *copy;
    size_t used, room;
};

/* Bytes of a region that an allocation takes. */
size_t pst_region_share(size_t bytes);

void pst_region_init(struct pst_region *region, size_t room);
void pst_region_finish(struct pst_region *region);
/* Filled with a pattern: what a plugin reads beyond its elements is no friendly zero. NULL: there
   is no room left. */
void *pst_region_alloc(struct pst_region *region, size_t bytes);
void pst_region_seal(struct pst_region *region); /* from here on nothing may change */
bool pst_region_intact(const struct pst_region *region);

#endif
