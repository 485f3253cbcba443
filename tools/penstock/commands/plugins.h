/* SPDX-License-Identifier: Apache-2.0
 *
 * What `penstock plugins` does: shows which plugins there are and all that one says about itself,
 * as tables and as members of a JSON object; checks one; makes a project to start from.
 */
#ifndef PST_COMMANDS_PLUGINS_H
#define PST_COMMANDS_PLUGINS_H

#include <stdio.h>

#include "commands/options.h"
#include "host/plugin_host.h"

#define PST_PLUGINS_SHOWN 8

struct pst_plugins_shown {
    uint32_t n;
    const struct pst_plugin_file *items[PST_PLUGINS_SHOWN];
};

void pst_plugins_list_print(const struct pst_plugin_list *plugins, bool color, FILE *out);
void pst_plugins_list_json(const struct pst_plugin_list *plugins, struct pst_json *json);

void pst_plugins_info_print(const struct pst_plugins_shown *shown, bool color, FILE *out);
void pst_plugins_info_json(const struct pst_plugins_shown *shown, struct pst_json *json);

/* Values of the options of `plugins check`, NULL where they are not given. */
struct pst_plugins_options {
    const char *seed, *only, *time_limit;
};

/* plugins check FILE. Exit code 3 where a test fails. */
void pst_plugins_check(struct pst_cli *cli, const struct pst_plugins_options *options);

/* plugins new KIND ID [FOLDER] */
void pst_plugins_new(struct pst_cli *cli, const struct pst_plugins_options *options);

#endif
