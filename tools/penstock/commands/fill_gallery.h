/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of a comparison put into a gallery, for its page and figures.
 */
#ifndef PST_COMMANDS_FILL_GALLERY_H
#define PST_COMMANDS_FILL_GALLERY_H

#include "commands/combinations.h"
#include "page/gallery.h"

/* Adds the plans that were kept and that a page has room for, the best first. */
void pst_cli_fill_gallery(struct pst_cli *cli, const struct pst_cli_sets *sets,
                          const struct pst_compare_result *result, struct pst_gallery *gallery);

#endif
