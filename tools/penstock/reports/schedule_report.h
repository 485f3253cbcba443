/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler's answer for people and tools.
 */
#ifndef PST_REPORTS_SCHEDULE_REPORT_H
#define PST_REPORTS_SCHEDULE_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "reports/schedule_figures.h"

struct pst_schedule_page {
    uint32_t width; /* columns of the timeline */
    bool color, utf8;
    bool in_samples; /* micro-batches have sizes: tell in-flight samples */
};

/* Summary, peaks, timeline. */
void pst_schedule_report_print(const struct pst_schedule_figures *figures,
                               const struct pst_schedule_page *page, FILE *out);

/* Members of the object that is open; docs/commands.md names them. */
void pst_schedule_report_json(const struct pst_schedule_figures *figures, bool in_samples,
                              struct pst_json *json);

#endif
