/* SPDX-License-Identifier: Apache-2.0
 *
 * Combinations side by side: a table for people, records for tools, CSV.
 */
#ifndef PST_REPORTS_COMPARE_REPORT_H
#define PST_REPORTS_COMPARE_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "reports/table.h"
#include "tune/combine.h"
#include "tune/trial.h"

/* One combination and what came of it. Labels are the set's, which outlives it. */
struct pst_compare_record {
    const char *config; /* path of its config */
    const char *method; /* name of its triple of strategies, or NULL */
    const char *labels[PST_AXES];
    struct pst_trial trial;
};

struct pst_compare_result {
    uint32_t n; /* asked for; those behind a stop are open */
    struct pst_compare_record *records;
    uint32_t n_configs;
    bool run; /* rather than simulated alone */
};

void pst_compare_report_print(const struct pst_compare_result *result, bool color, FILE *out);
/* Members of the object that is open. */
void pst_compare_report_json(const struct pst_compare_result *result, struct pst_json *json);
/* One line a combination, in the order asked for, behind a line of titles. free() it. */
char *pst_compare_report_csv(const struct pst_compare_result *result);

/* Shared with the report of `tune`. What names a combination: config and method, then the first
   n_axes axes. */
struct pst_compare_columns {
    bool config, method; /* some record has such */
    uint32_t n_axes;
};

/* Begins a table with them. */
void pst_compare_name_columns(struct pst_table *table, const struct pst_compare_columns *columns);
void pst_compare_names(struct pst_table *table, const struct pst_compare_columns *columns,
                       const struct pst_compare_record *record);
/* A table of those of which there is nothing but a reason; none without a row. */
struct pst_compare_others {
    struct pst_table table;
    struct pst_compare_columns columns;
    uint32_t n;
};
void pst_compare_others_begin(struct pst_compare_others *others,
                              const struct pst_compare_columns *columns);
void pst_compare_others_add(struct pst_compare_others *others,
                            const struct pst_compare_record *record, const struct pst_error *why);
void pst_compare_others_end(struct pst_compare_others *others, const char *title, bool color,
                            FILE *out);

/* The largest size first; of equal ones the fastest; then in the order asked for. Frees ranks. */
struct pst_compare_rank {
    uint32_t size;
    double speed;
    uint32_t record;
};
void pst_compare_sort(struct pst_compare_rank *ranks, uint32_t n, uint32_t *ret_order);

/* Message and hint in one line, in PST_COMPARE_WHY bytes. */
#define PST_COMPARE_WHY (sizeof(struct pst_error) - sizeof(((struct pst_error *)0)->details))
const char *pst_compare_why(char *text, size_t size, const struct pst_error *why);
char *pst_compare_rate(char text[32], double samples_per_second);
void pst_compare_json_labels(struct pst_json *json, const struct pst_compare_record *record);
void pst_compare_json_trial(struct pst_json *json, const struct pst_trial *trial);

#endif
