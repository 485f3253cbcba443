/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to a partitioner's run on its own: the question, what came back, and who judges it.
 */
#ifndef PST_PLUGIN_SOLO_PARTITION_STATE_H
#define PST_PLUGIN_SOLO_PARTITION_STATE_H

#include <penstock/ext/profile.h>

#include "cost/rcm.h"
#include "plugin/solo_partition.h"

/* As the plugin gave it; arrays in the answer's arena. */
struct pst_partition_decl {
    uint32_t n_nodes, n_ranks, microbatch_size, k;
    const uint32_t *nodes, *ranks;
};

struct pst_partition_answer {
    struct pst_arena arena;
    char id[64], version[32];
    uint32_t n_stages, n_remarks;
    size_t capacity;
    struct pst_partition_decl *stages; /* malloc'd */
    struct pst_partition_remark *remarks;
    double search_seconds;
};

/* What the host's functions work on. */
struct pst_partition_host {
    const struct pst_problem *problem;
    struct pst_rcm rcm;
    struct pst_figures figures;
    bool (*cancelled)(void);
};

/* solo_partition_questions.c: the tables; `host` is kept. */
pst_status pst_partition_host_init(struct pst_partition_host *host,
                                   const struct pst_problem *problem, bool (*cancelled)(void),
                                   struct pst_host_context *ret_context, struct pst_error *err);
void pst_partition_host_finish(struct pst_partition_host *host);

/* solo_partition_ask.c. The question's arrays live in `arena`; config.value where no allowed degree
   is small enough. */
pst_status pst_partition_question(const struct pst_problem *problem, struct pst_arena *arena,
                                  struct pst_partition_in *ret_in,
                                  struct pst_cluster_view *ret_cluster, struct pst_error *err);
pst_status pst_partition_ask(const struct pst_partition_job *job, bool (*cancelled)(void),
                             struct pst_partition_answer *ret_answer, struct pst_error *err);
void pst_partition_answer_finish(struct pst_partition_answer *answer);
/* plan.illegal, exit code 3, in the words of rules that were broken. */
pst_status pst_partition_illegal(const char *id, const char *fault, struct pst_error *err);

/* solo_partition_judge.c: holds the answer against the rules, then says what it is worth. */
pst_status pst_partition_judge(const struct pst_partition_job *job,
                               const struct pst_partition_answer *answer,
                               struct pst_partition_result *ret_result, struct pst_error *err);

/* solo_partition_step.c: time of a step whose stages run their passes in kFkB order. edges: by
   (from, to), bytes per sample of one direction. */
struct pst_partition_edge {
    uint32_t from, to;
    double bytes;
};
pst_status pst_partition_step(const struct pst_problem *problem,
                              const struct pst_partition_result *result,
                              const struct pst_rcm_cost *costs,
                              const struct pst_partition_edge *edges, uint32_t n_edges,
                              double *ret_step_ns, struct pst_error *err);

/* solo_partition_wire.c: bytes for the way to the partitioner's process and back. */
pst_status pst_partition_job_pack(const struct pst_partition_job *job, char **ret_bytes,
                                  size_t *ret_length, struct pst_error *err);
/* The problem lives in `arena`; finish its graph by pst_costed_destroy. */
pst_status pst_partition_job_unpack(const char *bytes, size_t length, struct pst_arena *arena,
                                    struct pst_problem *ret_problem,
                                    struct pst_partition_job *ret_job, struct pst_error *err);
pst_status pst_partition_answer_pack(const struct pst_partition_answer *answer, char **ret_bytes,
                                     size_t *ret_length, struct pst_error *err);
pst_status pst_partition_answer_unpack(const char *bytes, size_t length,
                                       struct pst_partition_answer *ret_answer,
                                       struct pst_error *err);

#endif
