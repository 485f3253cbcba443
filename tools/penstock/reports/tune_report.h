/* SPDX-License-Identifier: Apache-2.0
 *
 * How far strategies can go: a table for people, records for tools.
 */
#ifndef PST_REPORTS_TUNE_REPORT_H
#define PST_REPORTS_TUNE_REPORT_H

#include "reports/compare_report.h"
#include "tune/tune.h"

struct pst_tune_record {
    struct pst_compare_record names; /* its trial is not used */
    bool tried;
    struct pst_tuned tuned;
};

struct pst_tune_result {
    uint32_t n;
    struct pst_tune_record *records;
    uint32_t n_configs;
    uint32_t common; /* size that all that can do anything can do; 0: there is none */
};

void pst_tune_report_print(const struct pst_tune_result *result, bool color, FILE *out);
/* Members of the object that is open. */
void pst_tune_report_json(const struct pst_tune_result *result, struct pst_json *json);

#endif
