/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that reports of partitions share: lists of ranks, limits, remarks.
 */
#ifndef PST_REPORTS_PARTITION_WORDS_H
#define PST_REPORTS_PARTITION_WORDS_H

#include <stdio.h>

#include "base/json.h"
#include "host/remark.h"

/* "0-3", "0,2,5" with that between; what does not fit is cut off. Returns text. */
const char *pst_report_ranks(const uint32_t *ranks, uint32_t n, const char *between, char *text,
                             size_t size);

/* Names the limit of a stage: memory if the stage uses a larger part of its memory than of the
   time; else the largest part of its time. */
const char *pst_report_limit(double memory_part, double time_part, double compute, double transfers,
                             double reduce);

/* One line each, "  key: value"; keys that `hides` (or NULL) says yes to are left out. */
void pst_report_remarks_print(const struct pst_partition_remark *remarks, uint32_t n,
                              bool (*hides)(const char *key), FILE *out);
/* A field each of the object that is open. */
void pst_report_remarks_json(const struct pst_partition_remark *remarks, uint32_t n,
                             bool (*hides)(const char *key), struct pst_json *json);

#endif
