/* SPDX-License-Identifier: Apache-2.0
 *
 * Two actions of `penstock plugins`: checking a plugin, and making a project to start from.
 */
#ifndef PST_COMMANDS_PLUGINS_H
#define PST_COMMANDS_PLUGINS_H

#include "commands/options.h"

/* Values of the options of `plugins`, NULL where they are not given. */
struct pst_plugins_options {
    const char *config, *seed, *only, *time_limit, *language;
};

/* plugins check. Exit code 3 where a test fails. */
void pst_plugins_check(struct pst_cli *cli, const struct pst_plugins_options *options,
                       const char *file);

/* plugins new KIND ID [FOLDER] */
void pst_plugins_new(struct pst_cli *cli, const struct pst_plugins_options *options);

#endif
