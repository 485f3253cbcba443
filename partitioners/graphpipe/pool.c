/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "plugin_call.h"
#include "pool.h"

#define CHUNK ((size_t)1 << 18)

struct gp_chunk {
    struct gp_chunk *next;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
};

static struct gp_chunk *add_chunk(struct gp_pool *pool, size_t bytes)
{
    size_t size = bytes > CHUNK ? bytes : CHUNK;
    struct gp_chunk *chunk = call_alloc(sizeof *chunk + size, 1);

    chunk->size = size;
    chunk->used = 0;
    if (pool->now == NULL) {
        chunk->next = pool->first;
        pool->first = chunk;
    } else {
        chunk->next = pool->now->next;
        pool->now->next = chunk;
    }
    return chunk;
}

void *gp_pool_take(struct gp_pool *pool, size_t count, size_t size)
{
    size_t bytes;
    struct gp_chunk *chunk = pool->now;
    void *memory;

    if (size != 0 && count > (SIZE_MAX / 2) / size) {
        call_end(PST_ERR_NOMEM);
    }
    bytes = (count * size + 15) / 16 * 16;
    if (chunk == NULL || chunk->used + bytes > chunk->size) {
        chunk = chunk == NULL ? pool->first : chunk->next;
        if (chunk == NULL || bytes > chunk->size) {
            chunk = add_chunk(pool, bytes);
        }
        chunk->used = 0;
        pool->now = chunk;
    }
    memory = chunk->bytes + chunk->used;
    chunk->used += bytes;
    pool->used += bytes;
    return memory;
}

void gp_pool_reset(struct gp_pool *pool)
{
    pool->now = NULL;
    pool->used = 0;
}
