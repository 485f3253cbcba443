/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way in which a failure travels: a status, plus a struct pst_error filled once by whoever
 * decided that it is an error. Callers may put context in front of the message, never replace it.
 */
#ifndef PST_BASE_ERROR_H
#define PST_BASE_ERROR_H

#include <stdarg.h>

#include <penstock/abi.h>

struct pst_error {
    pst_status status;
    int exit_code;              /* 0: derived from status and kind by pst_error_exit_code */
    char kind[32];              /* stable word for tools: "config.key", "plan.infeasible", ... */
    char message[1024];         /* what happened and what next; one line, without the position */
    char file[4096];            /* "" where there is none; PATH_MAX: a longer one opens nowhere */
    uint32_t line, column;      /* 1-based; 0 where there is none */
    char hint[256];             /* what to do next, where it is not part of the message; or "" */
    char details[6144];         /* several lines: a table, a list of violations; or "" */
    uint64_t enough_bytes;      /* the memory that the hint says would do; 0: it says none */
    double enough_memory_limit; /* the value of --memory-limit that would do, in its unit */
};

/* Fills *err (which may be NULL), with a position, and returns status, so that one can
   `return pst_fail_at(...)`. file may be NULL. */
pst_status pst_fail_at(struct pst_error *err, pst_status status, const char *kind, const char *file,
                       uint32_t line, uint32_t column, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* Fails without a position. */
#define pst_fail(err, status, kind, ...) pst_fail_at(err, status, kind, NULL, 0, 0, __VA_ARGS__)

/* Out of host memory. */
pst_status pst_fail_nomem(struct pst_error *err);

/* Sets err->hint, appends to err->details; both accept NULL and truncate. */
void pst_error_hint(struct pst_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "LEAD a, b, c" as the hint. */
void pst_error_hint_words(struct pst_error *err, const char *lead, const char *const *words,
                          uint32_t n);
/* "KEY = BYTES would do; REST" as the hint of a refusal, and enough_bytes. */
void pst_error_enough(struct pst_error *err, const char *key, uint64_t bytes, const char *rest);
void pst_error_detail(struct pst_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Hands on an error that was kept: err, which may be NULL, becomes *why, unless why->status is
   PST_OK. Returns why->status. */
pst_status pst_error_pass(struct pst_error *err, const struct pst_error *why);

/* "context: " in front of the message. */
void pst_error_prefix(struct pst_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One call of a straight sequence: it runs only if all calls before it succeeded. Returns nothing
   and jumps nowhere; what follows the sequence cleans up. */
#define PST_TRY(status, call)                                                                      \
    do {                                                                                           \
        if ((status) == PST_OK) {                                                                  \
            (status) = (call);                                                                     \
        }                                                                                          \
    } while (0)

#define PST_EXIT_BUG 70

/* Exit code of the process for this error: docs/commands.md has the table. */
int pst_error_exit_code(const struct pst_error *err);

/* A bug of penstock: prints and leaves with 70. Stays on in release; no side effects inside. */
#define PST_ASSERT(condition)                                                                      \
    ((condition) ? (void)0 : pst_assert_failed(#condition, __FILE__, __LINE__))
void pst_assert_failed(const char *condition, const char *file, int line) __attribute__((noreturn));

#endif
