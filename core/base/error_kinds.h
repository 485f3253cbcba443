/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of errors: stable words for scripts, each with the exit code that it brings.
 * docs/commands.md says when each comes up; a test holds the two together, and the sources to them.
 */
#ifndef PST_BASE_ERROR_KINDS_H
#define PST_BASE_ERROR_KINDS_H

#include <stddef.h>

#include "base/error.h"

struct pst_kind {
    const char *kind;  /* NULL: any that has no row */
    pst_status status; /* PST_OK: any */
    int exit_code;     /* unless whoever fails knows better: struct pst_error */
};

/* The first row that matches counts. */
extern const struct pst_kind pst_kinds[];
extern const size_t pst_n_kinds;

#endif
