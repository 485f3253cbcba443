/* SPDX-License-Identifier: Apache-2.0
 *
 * What `plugins` offers to authors: a check of a plugin, and a project to start from.
 */
#ifndef PST_CLI_PLUGINS_KIT_H
#define PST_CLI_PLUGINS_KIT_H

#include "cli/options.h"

/* plugins check FILE. seed: text of --seed or NULL. ret_code: 3 where a test fails, else 0. */
pst_status pst_plugins_check(const struct pst_cli *cli, const char *seed, int *ret_code,
                             struct pst_error *err);

/* plugins new KIND ID [FOLDER] */
pst_status pst_plugins_new(const struct pst_cli *cli, struct pst_error *err);

#endif
