/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that a partitioner's answer is held against, stage by stage as it comes. A stage may
 * read only itself and stages before it: that makes every stage convex and their graph acyclic.
 */
#ifndef PST_PLANNER_STAGE_RULES_H
#define PST_PLANNER_STAGE_RULES_H

#include <penstock/partitioner.h>

#include "host/plugin_host.h"

/* A partitioner's answer on its way in. The first part is the caller's to fill. */
struct pst_stage_intake {
    const char *partitioner,
        *scheduler;                    /* id; of who wants a number of stages, NULL: the question */
    const struct pst_remarks *remarks; /* that may say own_width; NULL: none may */
    uint32_t multiples_of; /* 0, or the batch: multiples of sizes that divide it will do, too */
    void (*take)(void *self, const struct pst_stage_decl *stage); /* one that keeps the rules */
    void *self;
    /* The answer so far. */
    struct pst_partition_out out;
    const struct pst_partition_in *in;
    uint32_t n_stages;
    uint32_t *owner;  /* [n_nodes] stage, or PST_NONE */
    uint32_t *holder; /* [n_devices] stage, or PST_NONE */
    char fault[512];  /* the first violation, in words */
    bool unoffered;   /* it is a degree that was not offered */
};

/* Devices that share each operator of a stage. */
static inline uint32_t pst_stage_tensor(const struct pst_stage_decl *decl)
{
    return PST_HAS(decl, tensor) && decl->tensor > 0 ? decl->tensor : 1;
}

/* Around stages that are given to out.stage; `in` is kept until the end. Errors: plan.illegal,
   naming the partitioner; plugin.contract where `unoffered`. */
void pst_stage_intake_begin(struct pst_stage_intake *intake, const struct pst_partition_in *in);
pst_status pst_stage_intake_end(struct pst_stage_intake *intake, struct pst_error *err);

/* The question, and its answer: both, and errors of the partitioner; pending: as in
   pst_instance_blame. */
pst_status pst_stage_intake_ask(struct pst_stage_intake *intake, struct pst_instance *partitioner,
                                const struct pst_partition_in *in, struct pst_error *pending,
                                struct pst_error *err);

#endif
