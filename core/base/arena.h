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

/* Zeroed memory; align is a power of two (0: 16). NULL when there is none. */
void *pst_arena_alloc(struct pst_arena *arena, size_t bytes, size_t align);

/* count x size with overflow check. */
void *pst_arena_array(struct pst_arena *arena, size_t count, size_t size);

/* A copy of text, or of n bytes of it with a NUL behind. NULL gives NULL. */
char *pst_arena_strdup(struct pst_arena *arena, const char *text);
char *pst_arena_strndup(struct pst_arena *arena, const char *text, size_t n);
char *pst_arena_printf(struct pst_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
