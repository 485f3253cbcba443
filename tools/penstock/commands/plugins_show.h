/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins as tables and as members of a JSON object: which there are, and all that one says about
 * itself.
 */
#ifndef PST_COMMANDS_PLUGINS_SHOW_H
#define PST_COMMANDS_PLUGINS_SHOW_H

#include <stdio.h>

#include "base/json.h"
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

#endif
