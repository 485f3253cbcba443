/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the parts of a page share. Private to page*.c.
 */
#ifndef PST_PAGE_PAGE_IMPL_H
#define PST_PAGE_PAGE_IMPL_H

#include <stdio.h>

#include "figures/pen.h"
#include "page/page.h"

struct pst_sheet {
    const struct pst_page *page;
    FILE *out;
    struct pst_arena arena;
    uint32_t *order, n; /* records that are done, the best first */
    const char **names; /* of all records: what tells them apart */
    const char **series;
    bool vary[PST_AXES]; /* axes of which records have several values */
    bool *is_baseline;   /* of all records */
};

void pst_sheet_open(const struct pst_page *page, FILE *out, struct pst_sheet *ret_sheet);
void pst_sheet_close(struct pst_sheet *sheet);

/* Text with mark-up escaped, and what cannot be shown replaced. */
void pst_sheet_text(const struct pst_sheet *sheet, const char *text);
/* "1,234.5" of a rate. */
const char *pst_sheet_rate(const struct pst_trial *trial, char text[32]);
const struct pst_exhibit *pst_sheet_exhibit(const struct pst_sheet *sheet, uint32_t record);

/* page_tables.c */
void pst_sheet_results(struct pst_sheet *sheet);
void pst_sheet_pivot(struct pst_sheet *sheet);
void pst_sheet_shares(const struct pst_sheet *sheet);
void pst_sheet_measured(const struct pst_sheet *sheet);
void pst_sheet_refused(struct pst_sheet *sheet);
/* page_figures.c */
void pst_sheet_scatter(struct pst_sheet *sheet, struct pst_pen *pen);
void pst_sheet_timelines(struct pst_sheet *sheet, struct pst_pen *pen);
/* page_origin.c */
void pst_sheet_origin(struct pst_sheet *sheet);

#endif
