/* SPDX-License-Identifier: Apache-2.0 */
#include "check/problem.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 4 << 20 };

bool pst_region_init(struct pst_region *region)
{
    region->room = ROOM;
    region->used = 0;
    region->bytes = calloc(2, ROOM);
    region->copy = region->bytes != NULL ? region->bytes + ROOM : NULL;
    return region->bytes != NULL;
}

void pst_region_finish(struct pst_region *region)
{
    free(region->bytes);
    memset(region, 0, sizeof *region);
}

/* Filled with a pattern: what a plugin reads beyond its elements is no friendly zero. */
void *pst_region_alloc(struct pst_region *region, size_t bytes)
{
    size_t rounded = (bytes + 31) / 16 * 16;
    void *memory = region->bytes + region->used;

    if (rounded > region->room - region->used) {
        return NULL;
    }
    memset(memory, 0xA5, rounded);
    region->used += rounded;
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

uint64_t pst_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t pst_random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + pst_random(state) % (high - low + 1);
}
