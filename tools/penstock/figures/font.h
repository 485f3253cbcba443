/* SPDX-License-Identifier: Apache-2.0
 *
 * The font of figures: the "sans-serif" of this machine.
 */
#ifndef PST_FIGURES_FONT_H
#define PST_FIGURES_FONT_H

#include <cairo.h>
#include <stdbool.h>

#include "base/error.h"

/* Finds and loads the font; after the first success it does nothing. Call it before anything is
   drawn or measured. */
pst_status pst_font_load(struct pst_error *err);
/* The face for the next text; the module keeps it. */
cairo_font_face_t *pst_font_face(bool bold);

#endif
