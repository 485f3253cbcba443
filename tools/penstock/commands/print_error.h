/* SPDX-License-Identifier: Apache-2.0
 *
 * How a failure reaches the user: a line (and what belongs to it) on standard error, or one JSON
 * object on standard output.
 */
#ifndef PST_COMMANDS_PRINT_ERROR_H
#define PST_COMMANDS_PRINT_ERROR_H

#include "base/error.h"
#include "base/json.h"

/* The command line's overrides, which messages quote instead of "--set:LINE:COLUMN". They must
 * stay. */
void pst_print_error_quote(const char *const *sets, uint32_t n_sets);
/* Prints and returns the exit code. */
int pst_print_error(const struct pst_error *err, bool json);
/* "error": the object that --json prints, inside an object that is open. */
void pst_error_add_json(struct pst_json *json, const struct pst_error *err);

#endif
