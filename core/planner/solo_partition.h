/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner on its own: a problem stated by a costed graph instead of a model, and its answer,
 * checked and judged. For `penstock partition` and for tests.
 */
#ifndef PST_PLANNER_SOLO_PARTITION_H
#define PST_PLANNER_SOLO_PARTITION_H

#include "graph/problem.h"
#include "host/plugin_host.h"
#include "host/remark.h"
#include "planner/solo_job.h"

struct pst_partition_stage {
    uint32_t n_nodes, n_ranks, n_successors, microbatch_size, k;
    const uint32_t *nodes, *ranks, *successors; /* ascending; ranks in replica order */
    uint32_t depth;             /* stages on the longest path to a sink, this one included */
    uint32_t in_flight_samples; /* over all replicas */
    double compute_ns;          /* F + B + W of one micro-batch on one rank */
    double compute_per_sample_ns, p2p_per_sample_ns, sync_per_sample_ns, total_per_sample_ns;
    double memory_bytes; /* of one rank */
};

struct pst_partition_result {
    struct pst_arena arena;
    char id[64], version[32];
    uint32_t n_stages, n_remarks;
    struct pst_partition_stage *stages;
    struct pst_partition_remark *remarks;
    uint32_t n_devices;   /* that have a stage */
    double peak_bytes;    /* of a device */
    double least_bytes;   /* of a device, with which it is accepted */
    double bottleneck_ns; /* per sample, most over devices, by the problem's cost model */
    double step_ns;       /* simulated */
    double search_seconds;
};

/*
 * Opens the partitioner, asks it, checks its answer (every node in one stage, stages convex, their
 * graph acyclic, ranks taken once, sizes offered, degrees allowed), judges it. Errors: of opening
 * and of options; plan.infeasible in the plugin's words, or where a stage of the answer does not
 * fit a device; plan.illegal, exit code 3, for an answer that breaks a rule. limits: those of a
 * process of its own, by the rules of pst_worker_run; NULL: in this one, where `cancelled` may be
 * NULL as well.
 */
pst_status pst_partition_solo_run(const struct pst_problem_job *job,
                                  const struct pst_solo_limits *limits, bool (*cancelled)(void),
                                  struct pst_partition_result *ret_result, struct pst_error *err);

extern const struct pst_worker_service pst_partition_service; /* of that process */

void pst_partition_result_finish(struct pst_partition_result *result);

#endif
