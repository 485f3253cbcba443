/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_wrap.h"

/* clang-format off */
WRAP("alloc", ENOMEM, NULL, void *, malloc, (size_t size), (size))
WRAP("alloc", ENOMEM, NULL, void *, calloc, (size_t count, size_t size), (count, size))
WRAP("alloc", ENOMEM, NULL, void *, realloc, (void *old, size_t size), (old, size))
WRAP("alloc", ENOMEM, NULL, void *, aligned_alloc, (size_t align, size_t size), (align, size))
WRAP("alloc", ENOMEM, NULL, char *, strdup, (const char *text), (text))
WRAP("alloc", ENOMEM, NULL, char *, strndup, (const char *text, size_t n), (text, n))
WRAP("alloc", ENOMEM, NULL, FILE *, open_memstream, (char **text, size_t *size), (text, size))
/* clang-format on */

/* asprintf, as it is called where the compiler checks sizes. */
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...);

int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
{
    va_list args;
    int n;

    (void)flag;
    if (fails_at("alloc", ENOMEM, NULL)) {
        *text = NULL;
        return -1;
    }
    va_start(args, format);
    n = vasprintf(text, format, args);
    va_end(args);
    return n;
}

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list args;
    int n;

    if (fails_at("alloc", ENOMEM, NULL)) {
        *text = NULL;
        return -1;
    }
    va_start(args, format);
    n = vasprintf(text, format, args);
    va_end(args);
    return n;
}
