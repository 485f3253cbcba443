/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that a child of the plugin checker shares with its parent. It holds the verdict, and the
 * breadcrumbs of plugin calls, so that the end of the child can be blamed on a call.
 */
#ifndef PST_CONFORMANCE_VERDICT_H
#define PST_CONFORMANCE_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "conformance/conformance.h"
#include "host/breadcrumb.h"

/* Besides PST_CONFORMANCE_*: the parameters that were given make no sense; nothing was tested. */
enum { PST_VERDICT_REFUSED = 4 };

struct pst_verdict {
    uint32_t outcome; /* PST_CONFORMANCE_*, 0 while there is none */
    uint32_t ended;   /* 1: the plugin's process has ended, with wait_status */
    int32_t wait_status;
    uint64_t digest; /* of all answers, where the parent compares two runs; else 0 */
    char text[1024];
    struct pst_breadcrumb_page crumbs;
};

/* Maps the page of this process; NULL: there is none. */
struct pst_verdict *pst_verdict_open(void);

void pst_verdict_digest(const void *bytes, size_t n);
void pst_verdict_ended(int wait_status);

/* Nanoseconds that pass for this thread: the clock, less what it waited for a processor, so that a
   busy machine is not held against a plugin. */
uint64_t pst_verdict_clock_ns(void);

/* Ends the process. */
void pst_verdict_end(uint32_t outcome, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
#define pst_verdict_pass()      pst_verdict_end(PST_CONFORMANCE_PASS, "%s", "")
#define pst_verdict_fail(...)   pst_verdict_end(PST_CONFORMANCE_FAIL, __VA_ARGS__)
#define pst_verdict_skip(...)   pst_verdict_end(PST_CONFORMANCE_SKIP, __VA_ARGS__)
#define pst_verdict_refuse(...) pst_verdict_end(PST_VERDICT_REFUSED, __VA_ARGS__)

/* How much longer things take in this build: sanitizers slow a program down. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PST_CONFORMANCE_SLOWDOWN 20u
#else
#define PST_CONFORMANCE_SLOWDOWN 1u
#endif

#endif
