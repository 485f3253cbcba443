/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells that are about to become a table: the table of what is done, and the pivot of several
 * configs, a row for every method and a column for every config.
 */
#ifndef PST_REPORTS_COMPARE_PIVOT_H
#define PST_REPORTS_COMPARE_PIVOT_H

#include "reports/compare_columns.h"

struct pst_grid {
    struct pst_arena arena;
    uint32_t n_columns, n_rows;
    const char **titles, **units; /* [n_columns] */
    bool *right;                  /* [n_columns] numbers */
    char *order;                  /* [n_columns] as pst_table has it */
    const char **cells;           /* [n_rows][n_columns] */
};

/* bare: figures of a column have one unit, which is in `units`, and as many decimals; names that
   are the same for all have no column. */
void pst_grid_of_done(const struct pst_compare_result *result, bool bare,
                      struct pst_grid *ret_grid);
/* The fastest of each method with each config in samples per second. */
void pst_grid_of_pivot(const struct pst_compare_result *result, struct pst_grid *ret_grid);
void pst_grid_finish(struct pst_grid *grid);

#endif
