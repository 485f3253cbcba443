/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: what is known by number. Open addressing; keys are never 0.
 */
#ifndef PARTITIONERS_COMMON_MAP_H
#define PARTITIONERS_COMMON_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin_call.h"

/* All zero but for value_size: empty. */
struct part_map {
    size_t value_size; /* bytes of a value */
    size_t size, used; /* size: a power of two; used: keys that are there */
    uint64_t *keys;
    char *values;
};

/* The value of a key; NULL: it is not there. Valid until the next put. */
void *part_map_find(const struct part_map *map, uint64_t key);
/* part_map_find that adds the value (zeroed) if it is missing. */
void *part_map_put(struct part_map *map, uint64_t key);
void part_map_clear(struct part_map *map);
void part_map_finish(struct part_map *map);

/* Room for `need` items at *(T **)array, of which there is room for *room; more than
   asked for, so that growing one by one is cheap. */
void part_grow(void *array, size_t item, size_t need, size_t *room);

#endif
