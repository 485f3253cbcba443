/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison as one HTML file, for colleagues and for the record: tables, figures, timelines, and
 * where all of it comes from. It needs no network, and reads without JavaScript and on paper; a
 * script adds sorting, what is under the pointer, and enlarging. The same input gives the same
 * bytes.
 */
#ifndef PST_PAGE_PAGE_H
#define PST_PAGE_PAGE_H

#include "page/gallery.h"

#define PST_PAGE_TIMELINES 20u   /* of the fastest plans */
#define PST_PAGE_LOOKS     200u  /* of which it is said where the time goes */
#define PST_PAGE_ROWS      1000u /* of a table; more are counted, not shown */

struct pst_page {
    const char *command; /* "compare" */
    const char *title;
    const struct pst_compare_result *result;
    const struct pst_gallery *gallery;
};

/* Writes the file, whole or not at all. output.write. */
pst_status pst_page_write(const struct pst_page *page, const char *path, struct pst_error *err);
/* Writes the page of one plan. Also plan.illegal: it cannot be simulated. */
pst_status pst_page_write_plan(const struct pst_session *session, const char *command,
                               const char *title, const char *path, struct pst_error *err);
/* Returns the page's text; free() it. */
char *pst_page_text(const struct pst_page *page, size_t *ret_length);

/* Write figures for papers. options as of figures; timelines: of the `most` fastest plans that have
   one. Errors as of pst_figure_write. They write nothing if no plan is done. */
pst_status pst_page_write_scatter(const struct pst_page *page, const char *path,
                                  enum pst_figure_format format,
                                  const struct pst_figure_options *options, struct pst_error *err);
pst_status pst_page_write_timelines(const struct pst_page *page, uint32_t most, const char *path,
                                    enum pst_figure_format format,
                                    const struct pst_figure_options *options,
                                    struct pst_error *err);

#endif
