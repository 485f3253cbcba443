/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include <string.h>

static size_t slot_of(const struct part_map *map, uint64_t key)
{
    size_t i = (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (map->size - 1);

    while (map->keys[i] != 0 && map->keys[i] != key) {
        i = (i + 1) & (map->size - 1);
    }
    return i;
}

void *part_map_find(const struct part_map *map, uint64_t key)
{
    size_t i;

    if (map->size == 0) {
        return NULL;
    }
    i = slot_of(map, key);
    return map->keys[i] == 0 ? NULL : map->values + i * map->value_size;
}

static void *add(struct part_map *map, uint64_t key)
{
    size_t i = slot_of(map, key);

    map->used += map->keys[i] == 0;
    map->keys[i] = key;
    return map->values + i * map->value_size;
}

static void grow(struct part_map *map)
{
    struct part_map larger = {.value_size = map->value_size,
                              .size = map->size == 0 ? 1024 : 2 * map->size};
    size_t i;

    CALL_TAKE(larger.keys, larger.size);
    larger.values = call_alloc(larger.size, larger.value_size);
    for (i = 0; i < map->size; i++) {
        if (map->keys[i] != 0) {
            memcpy(add(&larger, map->keys[i]), map->values + i * map->value_size, map->value_size);
        }
    }
    part_map_finish(map);
    *map = larger;
}

void *part_map_put(struct part_map *map, uint64_t key)
{
    if (2 * map->used >= map->size) {
        grow(map);
    }
    return add(map, key);
}

void part_map_clear(struct part_map *map)
{
    if (map->size > 0) {
        memset(map->keys, 0, map->size * sizeof *map->keys);
        memset(map->values, 0, map->size * map->value_size);
    }
    map->used = 0;
}

void part_map_finish(struct part_map *map)
{
    call_free(map->keys);
    call_free(map->values);
    map->keys = NULL;
    map->values = NULL;
    map->size = map->used = 0;
}

void part_grow(void *array, size_t item, size_t need, size_t *room)
{
    void **at = array;
    size_t size = *room;

    if (need <= size) {
        return;
    }
    while (size < need) {
        size = size * 2 + 256;
    }
    *at = call_resize(*at, size, item);
    *room = size;
}
