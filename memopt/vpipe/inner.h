/* SPDX-License-Identifier: Apache-2.0
 *
 * vpipe: what of a stage's layers is swapped to the host and what is recomputed.
 */
#ifndef MEMOPT_VPIPE_INNER_H
#define MEMOPT_VPIPE_INNER_H

#include "optimizer.h"

struct vpipe_config {
    uint32_t mode;
    const char *ratio;
    double link_target;
    uint64_t min_swap_bytes;
    int64_t exact_layers;
};

struct vpipe_layer {
    uint32_t first, end; /* positions */
    bool drops;          /* has it a node that may be dropped? */
    uint64_t bytes, ns;  /* of those: saved, forward */
    uint64_t link_bytes; /* saved, of those that may be swapped */
};

struct vpipe {
    struct mem_opt opt;
    const struct vpipe_config *config;
    uint32_t n_layers;
    struct vpipe_layer *layers; /* of the call, as what follows */
    uint32_t *by_price;         /* layers, cheapest to recompute per byte first */
    uint8_t *letters;           /* PST_ACTION_* of a layer */
};

/* Layers of the stage, in proportion and, where they are few, all there are. */
void vpipe_inner(struct vpipe *self, const struct pst_stage_view *view);

#endif
