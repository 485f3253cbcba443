/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the host, which does not run out for those who ask: where there is none, one handler
 * ends the program. So nobody checks. What a user's or a plugin's numbers ask for is held against a
 * limit before.
 */
#ifndef PST_BASE_MEMORY_H
#define PST_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed; free() it. A product that does not fit counts as memory that is not there. */
void *pst_alloc(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));
/* realloc: what is new is not zeroed. */
void *pst_resize(void *old, size_t count, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));
/* Makes room for one more element: *items is realloc'ed. Always true. */
bool pst_grow(void *items, size_t *capacity, size_t count, size_t element_size);

/* free() them. NULL gives NULL. */
char *pst_strdup(const char *text);
char *pst_strndup(const char *text, size_t n);
char *pst_printf(const char *format, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

/* Whoever gets no memory in another way calls this. The first thread to come runs the handler,
   others stop here. The exit code is 4. */
void pst_out_of_memory(void) __attribute__((noreturn));
/* The same after a call that failed, where errno says ENOMEM; nothing otherwise. */
void pst_heed_no_memory(void);
/* Around a library that goes on where it gets no memory: from begin to end a crash of a thread
   whose errno says ENOMEM, and an end with it, is pst_out_of_memory; a library whose later calls
   have set errno anew still crashes. One thread at a time. */
void pst_memory_watch_begin(void);
void pst_memory_watch_end(void);
/* The same of one that ends the program for another reason, as it would run out of memory. */
void pst_end_alone(void);
/* The handler tells whoever has to know, prints and leaves; it must not allocate, and runs on any
   thread. Without one a line goes to standard error. A module has a handler of its own, which
   whoever loads it sets to pst_out_of_memory. */
void pst_on_out_of_memory(void (*handler)(void)) __attribute__((visibility("default")));

#endif
