/* SPDX-License-Identifier: Apache-2.0
 *
 * How a failure reaches the user: a line (and what belongs to it) on standard error, or one JSON
 * object on standard output.
 */
#ifndef PST_CLI_PRINT_ERROR_H
#define PST_CLI_PRINT_ERROR_H

#include "base/error.h"

/* Prints and returns the exit code. */
int pst_print_error(const struct pst_error *err, bool json);

#endif
