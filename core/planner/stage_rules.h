/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that a partitioner's answer is held against, stage by stage as it comes. A stage may
 * read only itself and stages before it: that makes every stage convex and their graph acyclic.
 */
#ifndef PST_PLANNER_STAGE_RULES_H
#define PST_PLANNER_STAGE_RULES_H

#include <penstock/partitioner.h>

struct pst_stage_rules {
    /* What is allowed; fill these before the first stage. */
    const struct pst_graph_view *graph;
    const uint32_t *sizes, *degrees;
    uint32_t n_sizes, n_degrees, n_ranks, batch;
    uint32_t multiples_of; /* 0, or the batch: multiples of the sizes that divide it will do, too */
    bool own_width;        /* what ext/remark.h says of this word */
    /* What came so far. */
    uint32_t n_stages;
    uint32_t *owner;  /* [n_nodes] stage, or PST_NONE */
    uint32_t *holder; /* [n_ranks] stage, or PST_NONE */
    char fault[512];  /* the first violation, in words */
};

void pst_stage_rules_init(struct pst_stage_rules *rules, const struct pst_partition_in *in);
void pst_stage_rules_finish(struct pst_stage_rules *rules);

/* Takes the next stage; false: it breaks a rule, and fault says which. */
bool pst_stage_rules_add(struct pst_stage_rules *rules, const struct pst_stage_decl *decl);
/* All stages came: is every node in one? */
bool pst_stage_rules_end(struct pst_stage_rules *rules);

#endif
