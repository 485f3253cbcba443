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

/* Call this if memory from another allocator runs out. The first thread that calls it runs the
   handler, others block. The exit code is 4. */
void pst_out_of_memory(void) __attribute__((noreturn));
/* Call this after a library call failed: pst_out_of_memory() if errno is ENOMEM, else nothing. */
void pst_heed_no_memory(void);
/* Names what the program does from now on, for the message if memory runs out: "reading the plan",
   "a.json". The main thread calls it where a stage begins; the words are copied. */
void pst_doing(const char *what, const char *subject);
/* "out of host memory while reading the plan a.json" */
void pst_memory_message(char *ret_text, size_t size);
/* Call this before ending the program: the first thread returns, others block for good. */
void pst_end_alone(void);
/* The handler notifies other processes, prints and exits; it must not allocate, and runs on any
   thread. Without one a line goes to standard error. Each module has a separate handler; its loader
   sets that to pst_out_of_memory. */
void pst_on_out_of_memory(void (*handler)(void)) __attribute__((visibility("default")));

#endif
