/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer's answer to a problem, for people and tools.
 */
#ifndef PST_REPORTS_MEMOPT_REPORT_H
#define PST_REPORTS_MEMOPT_REPORT_H

#include <stdio.h>

#include "planner/problem_memopt.h"

/* Nodes as a table (neighbours of one action together where there are many), what they come to, and
   the stage's memory over a forward and a backward. */
void pst_memopt_report_print(const struct pst_memopt_result *result, bool color, FILE *out);

/* One JSON object; free() it. docs/commands.md names the fields. */
char *pst_memopt_report_json(const struct pst_memopt_result *result);

#endif
