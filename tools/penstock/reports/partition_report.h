/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner's answer to a problem, for people and tools.
 */
#ifndef PST_REPORTS_PARTITION_REPORT_H
#define PST_REPORTS_PARTITION_REPORT_H

#include <stdio.h>

#include "ask/problem_partition.h"
#include "base/json.h"

/* Stages as a table, what they come to, remarks. */
void pst_partition_report_print(const struct pst_problem *problem,
                                const struct pst_partition_result *result, bool color, FILE *out);

/* Members of the object that is open; docs/commands.md names them. */
void pst_partition_report_json(const struct pst_problem *problem,
                               const struct pst_partition_result *result, struct pst_json *json);

#endif
