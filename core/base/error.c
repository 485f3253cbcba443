/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Says of a text of that length that it is not whole. */
static void mark_cut(char *text, size_t size, int length)
{
    if (length >= (int)size) {
        memcpy(text + size - 4, "...", 4);
    }
}

pst_status pst_fail_at(struct pst_error *err, pst_status status, const char *kind, const char *file,
                       uint32_t line, uint32_t column, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return status;
    }
    memset(err, 0, sizeof *err);
    err->status = status;
    err->line = line;
    err->column = column;
    snprintf(err->kind, sizeof err->kind, "%s", kind);
    mark_cut(err->file, sizeof err->file,
             snprintf(err->file, sizeof err->file, "%s", file == NULL ? "" : file));
    va_start(args, format);
    mark_cut(err->message, sizeof err->message,
             vsnprintf(err->message, sizeof err->message, format, args));
    va_end(args);
    return status;
}

pst_status pst_fail_nomem(struct pst_error *err)
{
    char text[640];

    pst_memory_message(text, sizeof text);
    return pst_fail(err, PST_ERR_NOMEM, "machine.memory", "%s", text);
}

static void append_text(char *text, size_t size, const char *format, va_list args)
{
    size_t used = strlen(text);

    if (used + 1 < size) {
        vsnprintf(text + used, size - used, format, args);
    }
}

void pst_error_hint(struct pst_error *err, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return;
    }
    err->hint[0] = '\0';
    va_start(args, format);
    append_text(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

void pst_error_hint_words(struct pst_error *err, const char *lead, const char *const *words,
                          uint32_t n)
{
    pst_error_hint(err, "%s ", lead);
    for (uint32_t i = 0; err != NULL && i < n; i++) {
        size_t used = strlen(err->hint);

        snprintf(err->hint + used, sizeof err->hint - used, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
}

void pst_error_detail(struct pst_error *err, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return;
    }
    va_start(args, format);
    append_text(err->details, sizeof err->details, format, args);
    va_end(args);
}

void pst_error_prefix(struct pst_error *err, const char *format, ...)
{
    char old[sizeof err->message];
    va_list args;
    size_t used;

    if (err == NULL) {
        return;
    }
    memcpy(old, err->message, sizeof old);
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", old);
}

pst_status pst_error_pass(struct pst_error *err, const struct pst_error *why)
{
    if (err != NULL && why->status != PST_OK) {
        *err = *why;
    }
    return why->status;
}

void pst_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "penstock: internal error at %s:%d: %s\n", file, line, condition);
    fflush(NULL);
    _Exit(PST_EXIT_BUG);
}

void pst_error_enough(struct pst_error *err, const char *key, uint64_t bytes, const char *rest)
{
    pst_error_hint(err, "%s = %llu would do%s%s", key, (unsigned long long)bytes,
                   rest[0] == '\0' ? "" : "; ", rest);
    if (err != NULL) {
        err->enough_bytes = bytes;
    }
}
