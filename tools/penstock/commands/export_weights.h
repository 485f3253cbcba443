/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of `penstock export` that is not a plan: weights.
 */
#ifndef PST_COMMANDS_EXPORT_WEIGHTS_H
#define PST_COMMANDS_EXPORT_WEIGHTS_H

#include "commands/commands.h"

/* Writes the weights of a checkpoint, or of the newest one in a folder, to a folder and reports
   them. dtype: f32 (also if NULL) or bf16. */
void pst_export_weights(struct pst_cli *cli, const char *checkpoint, const char *folder,
                        const char *dtype);

#endif
