/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tree.h"

#include <string.h>

struct pst_config_node *pst_tree_node(struct pst_arena *arena, uint32_t kind, const char *key)
{
    struct pst_config_node *node = pst_arena_alloc(arena, sizeof *node, 0);

    node->kind = kind;
    node->file = "";
    if (key != NULL) {
        node->key = pst_arena_strdup(arena, key);
    }
    return node;
}

void pst_tree_append(struct pst_arena *arena, struct pst_config_node *parent,
                     struct pst_config_node *child)
{
    uint32_t n = parent->n_children;

    /* Full at 0 and at the powers of two from 4. */
    if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
        struct pst_config_node **grown =
            pst_arena_array(arena, n == 0 ? 4 : (size_t)n * 2, sizeof *grown);
        if (n > 0) {
            memcpy(grown, parent->children, n * sizeof *grown);
        }
        parent->children = grown;
    }
    parent->children[parent->n_children++] = child;
}

struct pst_config_node *pst_tree_find(const struct pst_config_node *table, const char *key)
{
    for (uint32_t i = 0; i < table->n_children; i++) {
        if (strcmp(table->children[i]->key, key) == 0) {
            return table->children[i];
        }
    }
    return NULL;
}

void pst_tree_merge(struct pst_arena *arena, struct pst_config_node *table,
                    struct pst_config_node *over)
{
    for (uint32_t i = 0; i < over->n_children; i++) {
        struct pst_config_node *mine = over->children[i];
        struct pst_config_node *old = pst_tree_find(table, mine->key);

        if (old == NULL) {
            pst_tree_append(arena, table, mine);
        } else if (old->kind == PST_CONFIG_TABLE && mine->kind == PST_CONFIG_TABLE) {
            pst_tree_merge(arena, old, mine);
            old->file = mine->file;
            old->line = mine->line;
            old->column = mine->column;
            old->key_line = mine->key_line;
            old->key_column = mine->key_column;
        } else {
            *old = *mine;
        }
    }
}
