/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_MEMORY = 4 };

static void (*_Atomic on_exhaustion)(void);
static _Atomic uintptr_t ends_on; /* the thread that ends the program; 0: none does */

static pthread_mutex_t doing_mutex = PTHREAD_MUTEX_INITIALIZER;
static char doing[512]; /* "": not known */

void pst_doing(const char *what, const char *subject)
{
    pthread_mutex_lock(&doing_mutex);
    snprintf(doing, sizeof doing, " while %s %s", what, subject);
    pthread_mutex_unlock(&doing_mutex);
}

void pst_memory_message(char *ret_text, size_t size)
{
    pthread_mutex_lock(&doing_mutex);
    snprintf(ret_text, size, "out of host memory%s", doing);
    pthread_mutex_unlock(&doing_mutex);
}

void pst_on_out_of_memory(void (*handler)(void))
{
    atomic_store(&on_exhaustion, handler);
}

void pst_end_alone(void)
{
    const uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t other = 0;

    while (!atomic_compare_exchange_strong(&ends_on, &other, self) && other != self) {
        pause();
        other = 0;
    }
}

void pst_out_of_memory(void)
{
    void (*handler)(void);

    pst_end_alone();
    handler = atomic_exchange(&on_exhaustion, NULL); /* which may come back here */
    if (handler != NULL) {
        handler();
    }
    fputs("penstock: out of host memory\n", stderr);
    _exit(EXIT_MEMORY);
}

void pst_heed_no_memory(void)
{
    if (errno == ENOMEM) {
        pst_out_of_memory();
    }
}

/* --- asking for it -----------------------------------------------------------------------------*/

/* Returns at least 1, so that a request for 0 bytes gets memory to free. */
static size_t product(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX) {
        pst_out_of_memory();
    }
    return bytes > 0 ? bytes : 1;
}

void *pst_alloc(size_t count, size_t size)
{
    void *memory = calloc(product(count, size), 1);

    if (memory == NULL) {
        pst_out_of_memory();
    }
    return memory;
}

void *pst_resize(void *old, size_t count, size_t size)
{
    void *memory = realloc(old, product(count, size));

    if (memory == NULL) {
        pst_out_of_memory();
    }
    return memory;
}

bool pst_grow(void *items, size_t *capacity, size_t count, size_t element_size)
{
    size_t wanted;
    void *array;

    if (count < *capacity) {
        return true;
    }
    wanted = *capacity < 8 ? 16 : *capacity;
    if (__builtin_mul_overflow(wanted, (size_t)2, &wanted) || wanted <= count) {
        pst_out_of_memory();
    }
    memcpy(&array, items, sizeof array);
    array = pst_resize(array, wanted, element_size);
    memcpy(items, &array, sizeof array);
    *capacity = wanted;
    return true;
}

char *pst_strndup(const char *text, size_t n)
{
    char *copy = NULL;

    if (text != NULL) {
        n = strnlen(text, n);
        copy = pst_resize(NULL, n + 1, 1);
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

char *pst_strdup(const char *text)
{
    return text == NULL ? NULL : pst_strndup(text, strlen(text));
}

char *pst_printf(const char *format, ...)
{
    va_list args, again;
    char *text;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        pst_out_of_memory();
    }
    text = pst_resize(NULL, (size_t)n + 1, 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
