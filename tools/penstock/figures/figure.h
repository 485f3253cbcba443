/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline as a figure for papers and talks: a row per rank, a box per pass with its micro-batch,
 * the memory of the devices below. SVG and PDF are vector files without dates, so the same timeline
 * gives the same bytes; PNG has two pixels a point.
 */
#ifndef PST_FIGURES_FIGURE_H
#define PST_FIGURES_FIGURE_H

#include "sim/timeline.h"

enum pst_figure_format { PST_FIGURE_SVG, PST_FIGURE_PNG, PST_FIGURE_PDF };

struct pst_figure_options {
    double width_pt, height_pt; /* 0: as the content asks for; else 200 and 100 to 14000 */
    bool show_memory, show_title;
};

/* config.value: out of range. */
pst_status pst_figure_check_size(const struct pst_figure_options *options, struct pst_error *err);

/*
 * Writes the figure, whole or not at all. options may be NULL: memory and title are shown. Errors:
 * config.value for sizes out of range or too small for what must be on the figure; output.write.
 */
pst_status pst_figure_write(const struct pst_timeline *timeline, const char *path,
                            enum pst_figure_format format, const struct pst_figure_options *options,
                            struct pst_error *err);

/* The bytes that pst_figure_write would write; free() them. */
pst_status pst_figure_render(const struct pst_timeline *timeline, enum pst_figure_format format,
                             const struct pst_figure_options *options, unsigned char **ret_bytes,
                             size_t *ret_length, struct pst_error *err);

#endif
