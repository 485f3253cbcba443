/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of `penstock export` that is no plan: weights.
 */
#ifndef PST_COMMANDS_EXPORT_WEIGHTS_H
#define PST_COMMANDS_EXPORT_WEIGHTS_H

#include "commands/commands.h"

/* Of a checkpoint, or the newest of a folder of them, into a folder; tells about it. dtype: f32
   (NULL, too) or bf16. */
void pst_export_weights(struct pst_cli *cli, const char *checkpoint, const char *folder,
                        const char *dtype);

#endif
