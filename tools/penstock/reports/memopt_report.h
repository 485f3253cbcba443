/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer's answer to a problem, for people and tools.
 */
#ifndef PST_REPORTS_MEMOPT_REPORT_H
#define PST_REPORTS_MEMOPT_REPORT_H

#include <stdio.h>

#include "ask/problem_memopt.h"
#include "base/json.h"

/* Nodes as a table (neighbours of one action together where there are many), what they come to, and
   the stage's memory over a forward and a backward. */
void pst_memopt_report_print(const struct pst_memopt_result *result, bool color, FILE *out);

/* Members of the object that is open; docs/commands.md names them. */
void pst_memopt_report_json(const struct pst_memopt_result *result, struct pst_json *json);

#endif
