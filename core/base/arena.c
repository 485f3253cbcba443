/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define BLOCK_BYTES (64u * 1024u)

struct pst_arena_block {
    struct pst_arena_block *next;
    size_t size, used;                 /* of data */
    _Alignas(16) unsigned char data[]; /* as calloc aligns */
};

void pst_arena_finish(struct pst_arena *arena)
{
    while (arena->head != NULL) {
        struct pst_arena_block *next = arena->head->next;

        free(arena->head);
        arena->head = next;
    }
    arena->used = arena->total = 0;
}

static struct pst_arena_block *add_block(struct pst_arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct pst_arena_block *block;

    if (size > SIZE_MAX - sizeof *block - 64) {
        return NULL;
    }
    block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    block->next = arena->head;
    arena->head = block;
    arena->total += size;
    return block;
}

void *pst_arena_try(struct pst_arena *arena, size_t bytes, size_t align)
{
    struct pst_arena_block *block = arena->head;
    uintptr_t at;
    size_t skip;

    if (align == 0) {
        align = 16;
    }
    if (bytes > SIZE_MAX / 2 || align > 4096) {
        return NULL;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        if (block != NULL) {
            at = (uintptr_t)(block->data + block->used);
            skip = (size_t)(-at & (align - 1));
            if (skip + bytes <= block->size - block->used) {
                block->used += skip + bytes;
                arena->used += bytes;
                return (void *)(at + skip);
            }
        }
        block = add_block(arena, bytes + align);
        if (block == NULL) {
            return NULL;
        }
    }
    return NULL;
}

void *pst_arena_alloc(struct pst_arena *arena, size_t bytes, size_t align)
{
    void *memory = pst_arena_try(arena, bytes, align);

    if (memory == NULL) {
        pst_out_of_memory();
    }
    return memory;
}

void *pst_arena_array(struct pst_arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        pst_out_of_memory();
    }
    return pst_arena_alloc(arena, bytes, 0);
}

uint32_t *pst_arena_none(struct pst_arena *arena, size_t n)
{
    uint32_t *numbers = pst_arena_array(arena, n, sizeof *numbers);

    return memset(numbers, 0xFF, n * sizeof *numbers);
}

void *pst_arena_copy(struct pst_arena *arena, const void *items, size_t count, size_t size)
{
    void *copy = pst_arena_array(arena, count, size);

    return count > 0 ? memcpy(copy, items, count * size) : copy;
}

char *pst_arena_strndup(struct pst_arena *arena, const char *text, size_t n)
{
    char *copy = NULL;

    if (text != NULL) {
        copy = pst_arena_alloc(arena, n + 1, 1);
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

char *pst_arena_strdup(struct pst_arena *arena, const char *text)
{
    return text == NULL ? NULL : pst_arena_strndup(arena, text, strlen(text));
}

char *pst_arena_printf(struct pst_arena *arena, const char *format, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        pst_out_of_memory();
    }
    text = pst_arena_alloc(arena, (size_t)n + 1, 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}
