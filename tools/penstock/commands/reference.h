/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the reference, in Markdown, made of the tables from which help, checks and defaults
 * come: docs/reference. scripts/docs.py writes them.
 */
#ifndef PST_COMMANDS_REFERENCE_H
#define PST_COMMANDS_REFERENCE_H

#include "commands/manual.h"

/* Every page by name, ended by NULL: commands, config, models, plugins, json. */
extern const char *const pst_reference_pages[];

/* page: an index of pst_reference_pages. Plugins: those that came with penstock. */
pst_status pst_reference_page(const struct pst_manual *manual, uint32_t page, FILE *out,
                              struct pst_error *err);

#endif
