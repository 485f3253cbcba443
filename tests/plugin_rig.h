/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of the tree, loaded as the program loads it, with the host that a test wants.
 */
#ifndef TEST_PLUGIN_RIG_H
#define TEST_PLUGIN_RIG_H

#include <string.h>

#include "host/plugin_host.h"

/* options: the lines of the strategy's table, "split = true"; may be "". */
static inline pst_status plugin_rig_open(const char *kind, const char *id, const char *options,
                                         const struct pst_host_context *context,
                                         struct pst_instance **ret_instance, struct pst_error *err)
{
    const struct pst_plugin *plugin;
    struct pst_config *config = NULL;
    pst_status st = pst_plugin_find(kind, id, NULL, NULL, &plugin, err);

    if (st == PST_OK) {
        st = pst_config_parse(options, strlen(options), "test.toml", &config, err);
    }
    if (st == PST_OK) {
        st = pst_instance_create(plugin, config->root, context, ret_instance, err);
    }
    pst_config_destroy(config); /* strings were copied */
    return st;
}

#endif
