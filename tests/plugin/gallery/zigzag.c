/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner that deals nodes out like cards, so that its stages are not convex.
 */
#include "gallery.h"

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status partition(void *self, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct pst_host *host = self;
    uint32_t n = in->graph->n_nodes, n_stages = in->n_devices < n ? in->n_devices : n, s, i;
    uint32_t *nodes = host->alloc(host, (size_t)n * sizeof *nodes, _Alignof(uint32_t));

    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (s = 0; s < n_stages; s++) {
        struct pst_stage_decl stage = {.size = sizeof stage,
                                       .nodes = nodes,
                                       .ranks = &s,
                                       .n_ranks = 1,
                                       .microbatch_size = in->micro_batches[0],
                                       .k = 1};
        pst_status st;

        for (i = s; i < n; i += n_stages) {
            nodes[stage.n_nodes++] = i;
        }
        st = out->stage(out, &stage);
        if (st != PST_OK) {
            return st;
        }
    }
    return PST_OK;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

GALLERY_PLUGIN("partitioner", "zigzag", "0", "Deals nodes out like cards.", PST_PLUGIN_NO_PARAMS,
               "chain")
