/* SPDX-License-Identifier: Apache-2.0
 *
 * A config on its way to another process of this program, with the place of every key and value:
 * mistakes are reported there as they are here.
 */
#include "base/memory.h"
#include "base/wire.h"
#include "config/tree.h"

static void pass_node(struct pst_wire *w, struct pst_config_node **at)
{
    struct pst_config_node *node = w->reads ? pst_tree_node(w->arena, 0, NULL) : *at;
    uint32_t n = node->n_children;

    pst_wire_uint(w, &node->kind);
    pst_wire_text(w, &node->key);
    pst_wire_text(w, &node->file);
    pst_wire_uint(w, &node->line);
    pst_wire_uint(w, &node->column);
    pst_wire_uint(w, &node->key_line);
    pst_wire_uint(w, &node->key_column);
    pst_wire_flag(w, &node->resolved);
    if (node->kind == PST_CONFIG_STRING) {
        pst_wire_text(w, &node->value.string);
    } else {
        pst_wire_bytes(w, &node->value, sizeof node->value);
    }
    pst_wire_count(w, &n, sizeof(uint64_t));
    for (uint32_t i = 0; !w->failed && i < n; i++) {
        struct pst_config_node *child = w->reads ? NULL : node->children[i];

        pass_node(w, &child);
        if (w->reads) {
            pst_tree_append(w->arena, node, child);
        }
    }
    *at = node;
}

void pst_config_pass(struct pst_wire *w, struct pst_config **config)
{
    if (w->reads) {
        *config = pst_alloc(1, sizeof **config);
    }
    pst_wire_text(w, &(*config)->path);
    pass_node(w, &(*config)->root);
}
