/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

void pst_config_destroy(struct pst_config *config)
{
    if (config != NULL) {
        pst_arena_finish(&config->arena);
        free(config);
    }
}

struct pst_config_node *pst_config_get(struct pst_config_node *table, const char *key)
{
    if (table == NULL || table->kind != PST_CONFIG_TABLE) {
        return NULL;
    }
    for (uint32_t i = 0; i < table->n_children; i++) {
        if (strcmp(table->children[i]->key, key) == 0) {
            table->children[i]->used = true;
            return table->children[i];
        }
    }
    return NULL;
}
