/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion on the draft, before anything is partitioned, so that every plan runs the same kernels.
 * A pair merges only where the first result has that one reader and is not asked for by name.
 */
#include "base/memory.h"
#include "graph/op_rules.h"

#include <stdlib.h>

void pst_graph_fuse(struct pst_graph_builder *builder, const uint32_t *keep, uint32_t n_keep)
{
    struct pst_fusion fusion = {.builder = builder};

    fusion.uses = pst_alloc((size_t)builder->n_tensors + 1, sizeof *fusion.uses);
    for (uint32_t i = 0; i < builder->n_ops; i++) {
        for (uint32_t k = 0; k < builder->ops[i].n_in; k++) {
            fusion.uses[builder->ops[i].in[k]]++;
        }
    }
    for (uint32_t i = 0; i < n_keep; i++) {
        if (keep[i] != PST_NONE) {
            fusion.uses[keep[i]] += 2;
        }
    }
    for (uint32_t i = 0; i < builder->n_ops; i++) {
        const struct pst_op_rules *rules = pst_op_rules_of(builder->ops[i].kind);

        if (rules != NULL && rules->fuse != NULL) {
            rules->fuse(&fusion, &builder->ops[i]);
        }
    }
    free(fusion.uses);
}
