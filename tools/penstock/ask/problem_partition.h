/* SPDX-License-Identifier: Apache-2.0
 *
 * A problem file put to a partitioner, and its answer, checked and judged. For `penstock
 * partition` and for tests.
 */
#ifndef PST_ASK_PROBLEM_PARTITION_H
#define PST_ASK_PROBLEM_PARTITION_H

#include "ask/problem_job.h"
#include "host/plugin_host.h"
#include "planner/topology.h"

struct pst_partition_stage {
    /* As the plugin gave it. */
    uint32_t n_nodes, n_ranks, microbatch_size, k;
    const uint32_t *nodes, *ranks; /* ascending; in replica order: places, once judged devices */
    /* By the cost model, or by scheduler and memory optimizer. */
    uint32_t in_flight;  /* micro-batches */
    double compute_ns;   /* F + B + W of one micro-batch on one rank */
    double memory_bytes; /* of one rank */
    /* Judged. */
    uint32_t n_successors;
    const uint32_t *successors; /* ascending */
    uint32_t depth;             /* stages on the longest path to a sink, this one included */
    uint32_t in_flight_samples; /* over all replicas */
    double compute_per_sample_ns, p2p_per_sample_ns, sync_per_sample_ns, total_per_sample_ns;
    /* As the one who times a step sees it. */
    uint32_t device;
    double pass_ns[3]; /* F, B, W of a micro-batch */
    double reduce_ns;  /* after the last pass of a step */
    uint64_t kept_bytes;
};

struct pst_partition_result {
    struct pst_arena arena;
    char id[64], version[32];
    bool planned; /* figures are by scheduler and memory optimizer */
    struct pst_places places;
    uint32_t n_stages, n_remarks;
    struct pst_partition_stage *stages;
    struct pst_partition_remark *remarks;
    double search_seconds;
    double step_ns;       /* simulated */
    uint32_t n_devices;   /* that have a stage */
    double peak_bytes;    /* of a device */
    double least_bytes;   /* of a device, with which it is accepted */
    double bottleneck_ns; /* per sample, most over devices, by the problem's cost model */
};

/*
 * Opens the partitioner, asks it, checks its answer (every node in one stage, stages convex, their
 * graph acyclic, ranks taken once, sizes offered, degrees allowed), judges it. Errors: of opening
 * and of options; plan.infeasible in the plugin's words, or where a stage of the answer does not
 * fit a device; plan.illegal, exit code 3, for an answer that breaks a rule. limits: those of a
 * process of its own, by the rules of pst_worker_ask; NULL: in this one, where `cancelled` may be
 * NULL as well.
 */
pst_status pst_problem_partition(const struct pst_problem_job *job,
                                 const struct pst_worker_task *limits, bool (*cancelled)(void),
                                 struct pst_partition_result *ret_result, struct pst_error *err);

/* The question before anybody judges the answer. */
extern const struct pst_apart_kind pst_partition_kind;

/* plan.illegal, exit code 3: of an answer's stages, as given, one breaks a rule. */
pst_status pst_partition_check(const struct pst_problem *problem,
                               const struct pst_partition_result *answer, struct pst_error *err);
/* Judges an answer that keeps the rules, and stores the figures in it. */
pst_status pst_partition_judge(const struct pst_problem *problem,
                               struct pst_partition_result *answer, struct pst_error *err);
void pst_partition_result_finish(struct pst_partition_result *result);

#endif
