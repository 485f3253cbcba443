/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that a partitioner's answer is held against, stage by stage as it comes. A stage may
 * read only itself and stages before it: that makes every stage convex and their graph acyclic.
 */
#ifndef PST_PLANNER_STAGE_RULES_H
#define PST_PLANNER_STAGE_RULES_H

#include <penstock/partitioner.h>

#include "host/plugin_host.h"

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

/* A partitioner's answer on its way in. All but `out` and `rules` is the caller's to fill. */
struct pst_stage_intake {
    struct pst_partition_out out;
    struct pst_stage_rules rules;
    struct pst_instance *partitioner;
    const struct pst_instance *scheduler; /* who wants a number of stages; NULL: the question */
    const struct pst_remarks *remarks;    /* that may say own_width; NULL: none may */
    uint32_t n_stages, multiples_of;      /* wanted, or 0; as in the rules */
    void (*take)(void *self, const struct pst_stage_decl *stage); /* one that keeps the rules */
    void *self;
};

/* Around stages that are given to out.stage. Errors: plan.illegal, naming the partitioner. */
void pst_stage_intake_begin(struct pst_stage_intake *intake, const struct pst_partition_in *in);
pst_status pst_stage_intake_end(struct pst_stage_intake *intake, struct pst_error *err);

/* The question, and its answer: both, and errors of the partitioner; pending: as in
   pst_instance_blame. */
pst_status pst_stage_intake_ask(struct pst_stage_intake *intake, const struct pst_partition_in *in,
                                struct pst_error *pending, struct pst_error *err);

#endif
