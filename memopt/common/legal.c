/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

/* Repairs what node i reads; true: something was kept. */
static bool repair(const struct pst_stage_view *view, uint8_t *actions, const uint32_t *run,
                   uint32_t i)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, i);
    bool changed = false;

    for (uint32_t j = 0; j < node->n_producers && actions[i] == PST_ACTION_RECOMPUTE; j++) {
        uint32_t u = view->producers[node->first_producer + j];
        bool fixed;

        if (actions[u] != PST_ACTION_RECOMPUTE || u >= run[i]) {
            continue;
        }
        fixed = pst_stage_node_at(view, u)->action != PST_ACTION_KEEP;
        if (fixed && node->action != PST_ACTION_KEEP) {
            continue; /* both fixed: not ours to judge */
        }
        actions[fixed ? i : u] = PST_ACTION_KEEP;
        changed = true;
    }
    return changed;
}

void mem_make_legal(const struct pst_stage_view *view, uint8_t *actions, uint32_t *run)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < view->n_nodes; i++) {
            if (actions[i] == PST_ACTION_RECOMPUTE) {
                run[i] = i > 0 && actions[i - 1] == PST_ACTION_RECOMPUTE ? run[i - 1] : i;
                changed = repair(view, actions, run, i) || changed;
            }
        }
    }
}
