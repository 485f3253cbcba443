/* SPDX-License-Identifier: Apache-2.0 */
#include "host/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

size_t pst_region_share(size_t bytes)
{
    return (bytes + 31) / 16 * 16;
}

void pst_region_init(struct pst_region *region, size_t room)
{
    region->room = room;
    region->used = 0;
    region->bytes = pst_alloc(2, room);
    region->copy = region->bytes + room;
}

void pst_region_finish(struct pst_region *region)
{
    free(region->bytes);
    memset(region, 0, sizeof *region);
}

void *pst_region_alloc(struct pst_region *region, size_t bytes)
{
    size_t share = pst_region_share(bytes);
    void *memory = region->bytes + region->used;

    if (share > region->room - region->used) {
        return NULL;
    }
    memset(memory, 0xA5, share);
    region->used += share;
    return memory;
}

void pst_region_seal(struct pst_region *region)
{
    memcpy(region->copy, region->bytes, region->used);
}

bool pst_region_intact(const struct pst_region *region)
{
    return memcmp(region->copy, region->bytes, region->used) == 0;
}
