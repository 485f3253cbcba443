/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline in a terminal: a row a rank, as wide as there is room.
 */
#ifndef PST_REPORTS_TIMELINE_TEXT_H
#define PST_REPORTS_TIMELINE_TEXT_H

#include <stdio.h>

#include "sim/timeline.h"

/*
 * Prints the passes of every rank, an axis and a legend; `width` columns at most, but never less
 * than 48. Where all times are multiples of one that is wide enough, the picture is exact; else it
 * is scaled. utf8: may use characters beyond ASCII.
 */
/* Which of its rank's stages every stage is, in ascending order: [n_stages], zeroed before. Returns
   the most that a rank has, at least 1. */
uint32_t pst_report_chunks(const struct pst_timeline *timeline, uint32_t *ret_chunk_of);
/* Returns the chunk of a pass: that of its stage or, if there are copies, the copy's number. */
uint32_t pst_report_chunk(const struct pst_timeline *timeline, const uint32_t *chunk_of,
                          const struct pst_span *span);

void pst_report_timeline(FILE *out, const struct pst_timeline *timeline, uint32_t width,
                         bool colour, bool utf8);

#endif
