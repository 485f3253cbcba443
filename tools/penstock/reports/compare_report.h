/* SPDX-License-Identifier: Apache-2.0
 *
 * Combinations side by side, by their speed or by how far they go: tables for people and for
 * papers, records for tools, CSV.
 */
#ifndef PST_REPORTS_COMPARE_REPORT_H
#define PST_REPORTS_COMPARE_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "tune/joint.h"
#include "tune/objective.h"
#include "tune/provenance.h"
#include "tune/tune.h"

struct pst_compare_result {
    uint32_t n; /* asked for; those after a stop are open */
    struct pst_record *records;
    uint32_t n_configs;
    bool run;             /* rather than simulated alone */
    struct pst_goal goal; /* what was sought: the best comes first */
    uint32_t n_rows;      /* of tables for people; 0: all. Of the others numbers alone are shown */
    bool wide;            /* these tables have what partitioners remark, too */
    const struct pst_joint_found *searched; /* of a search: how far it went; else NULL */
    uint32_t common; /* micro-batch that all that can do anything can do; 0: there is none */
    struct pst_provenance provenance; /* of compare */
};

/* Was the largest batch of each sought? */
static inline bool pst_compare_seeks_batch(const struct pst_compare_result *result)
{
    return result->goal.objective == PST_MAX_BATCH;
}

void pst_compare_report_print(const struct pst_compare_result *result, bool color, FILE *out);
/* Members of the object that is open. */
void pst_compare_report_json(const struct pst_compare_result *result, struct pst_json *json);
/* One line a combination, in the order asked for, after a line of titles. free() it. */
char *pst_compare_report_csv(const struct pst_compare_result *result);

/* The fastest of every method, a line each, with every config, a column each. free() it. */
char *pst_compare_report_pivot_csv(const struct pst_compare_result *result);

enum pst_compare_form { PST_COMPARE_MARKDOWN = 0, PST_COMPARE_LATEX /* with booktabs */ };
/* The table of what is done, the fastest first, and of several configs the pivot. free() it. */
char *pst_compare_report_table(const struct pst_compare_result *result, enum pst_compare_form form);

#endif
