/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by lifetime: everything allocated from an arena lives until the arena is finished.
 * Not thread-safe.
 */
#ifndef PST_BASE_ARENA_H
#define PST_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct pst_arena_block;

/* All zero is a valid empty arena. */
struct pst_arena {
    struct pst_arena_block *head;
    size_t used, total; /* bytes handed out; bytes held */
};

/* Frees everything; the arena is empty and usable again. Accepts an all-zero arena. */
void pst_arena_finish(struct pst_arena *arena);

/* Zeroed memory; align is a power of two up to 4096 (0: 16). If memory runs out, the program ends
   (base/memory.h). */
void *pst_arena_alloc(struct pst_arena *arena, size_t bytes, size_t align)
    __attribute__((returns_nonnull));
void *pst_arena_array(struct pst_arena *arena, size_t count, size_t size)
    __attribute__((returns_nonnull));

/* n numbers, all PST_NONE (UINT32_MAX). */
uint32_t *pst_arena_none(struct pst_arena *arena, size_t n) __attribute__((returns_nonnull));
/* A copy of so many items. */
void *pst_arena_copy(struct pst_arena *arena, const void *items, size_t count, size_t size)
    __attribute__((returns_nonnull));

/* Like pst_arena_alloc, for requests of plugins: NULL if there is no memory or align is invalid. */
void *pst_arena_try(struct pst_arena *arena, size_t bytes, size_t align);

/* A copy of text, or of n bytes of it with a NUL after. NULL gives NULL. */
char *pst_arena_strdup(struct pst_arena *arena, const char *text);
char *pst_arena_strndup(struct pst_arena *arena, const char *text, size_t n);
char *pst_arena_printf(struct pst_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));

#endif
