/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's interface to a plugin. A plugin imports no penstock symbol: everything comes through
 * this table, and through the extensions that its get_extension returns (see ext/).
 */
#ifndef PENSTOCK_HOST_H
#define PENSTOCK_HOST_H

#include <stdarg.h>
#include <stdio.h>

#include "abi.h"

enum { PST_LOG_ERROR = 0, PST_LOG_WARN = 1, PST_LOG_INFO = 2, PST_LOG_DEBUG = 3 };

/* Valid from create() until destroy() returns. */
struct pst_host {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    void *impl;
    /* Zeroed memory that lives as long as the instance; NULL when there is none. [plan] */
    void *(*alloc)(const struct pst_host *host, size_t bytes, size_t align);
    /* Explains the failure that the caller is about to return; copies msg; returns code. [plan] */
    pst_status (*fail)(const struct pst_host *host, pst_status code, const char *msg);
    /* Copies msg, one line, lower case, no newline. level is PST_LOG_*. [any] */
    void (*log)(const struct pst_host *host, uint32_t level, const char *msg);
    /* True once the search should end; ask at least every 10 ms. [any] */
    bool (*cancelled)(const struct pst_host *host);
    /* The interface with this id ("pst.cost/1"), or NULL. Lives as long as the host. [any] */
    const void *(*get_extension)(const struct pst_host *host, const char *id);
};

/* Formats, then host->fail: no varargs cross the boundary. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline pst_status
pst_failf(const struct pst_host *host, pst_status code, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return (host->fail)(host, code, text); /* parentheses: test libraries have a macro fail() */
}

#endif
