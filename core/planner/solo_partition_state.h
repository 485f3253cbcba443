/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to a partitioner's run on its own: the question, what came back, and who judges it: the
 * reference cost model, or a scheduler and a memory optimizer.
 */
#ifndef PST_PLANNER_SOLO_PARTITION_STATE_H
#define PST_PLANNER_SOLO_PARTITION_STATE_H

#include <penstock/ext/profile.h>

#include "graph/rcm.h"
#include "planner/costed_stage.h"
#include "planner/eval.h"
#include "planner/held.h"
#include "planner/questions.h"
#include "host/region.h"
#include "planner/solo.h"
#include "planner/solo_partition.h"

/* What a partitioner may fill: devices; or what the scheduler wants, several to a device. */
struct pst_partition_places {
    uint32_t n_places, n_stages; /* n_stages: wanted; 0: any */
    uint32_t shared;             /* most places on a device */
    const uint32_t *device_of;   /* [n_places]; NULL: each is the device of its number */
};

/* As the plugin gave it; arrays in the answer's arena. */
struct pst_partition_decl {
    uint32_t n_nodes, n_ranks, microbatch_size, k;
    const uint32_t *nodes, *ranks; /* ranks: places */
    /* By scheduler and memory optimizer. */
    uint32_t in_flight; /* micro-batches */
    double compute_ns, memory_bytes;
};

struct pst_partition_answer {
    struct pst_arena arena;
    char id[64], version[32];
    struct pst_partition_places places;
    uint32_t n_stages, n_remarks;
    size_t capacity;
    struct pst_partition_decl *stages; /* malloc'd */
    struct pst_partition_remark *remarks;
    double search_seconds;
    bool planned; /* figures by scheduler and memory optimizer are there */
    double step_ns;
};

/* A stage graph as edges by (from, to); bytes of a sample, one direction. */
struct pst_partition_edge {
    uint32_t from, to;
    double bytes;
};

/* The strategies of a problem with cost = "planned". */
struct pst_partition_planned {
    const struct pst_problem *problem;
    struct pst_instance *scheduler, *memopt; /* memopt NULL: everything is kept */
    struct pst_topology topology;
    struct pst_partition_places places;
    struct pst_costed_stage stage;
    struct pst_evaluator evaluator;
    struct pst_arena arena;
};

/* What the host's functions work on. */
struct pst_partition_host {
    const struct pst_problem *problem;
    struct pst_rcm rcm;
    struct pst_region figures; /* as a partitioner gets them */
    bool (*cancelled)(void);
    uint64_t deadline_ns; /* 0: none */
    struct pst_questions questions;
    struct pst_evaluator evaluator;
    struct pst_partition_planned *planned; /* NULL: the reference cost model answers */
    struct pst_error pending;              /* what a question failed with */
};

/* solo_partition_questions.c: the tables; `host` is kept. Without strategies yet. */
pst_status pst_partition_host_init(struct pst_partition_host *host,
                                   const struct pst_problem *problem, bool (*cancelled)(void),
                                   struct pst_host_context *ret_context, struct pst_error *err);
/* From here on the problem's strategies answer. */
void pst_partition_host_plan(struct pst_partition_host *host,
                             struct pst_partition_planned *planned);
void pst_partition_host_finish(struct pst_partition_host *host);

/* solo_partition_ask.c. The question's arrays live in `arena`; config.value where no allowed degree
   is small enough. */
pst_status pst_partition_question(const struct pst_problem *problem,
                                  const struct pst_partition_places *places,
                                  struct pst_arena *arena, struct pst_partition_in *ret_in,
                                  struct pst_cluster_view *ret_cluster, struct pst_error *err);
pst_status pst_partition_ask(const struct pst_problem_job *job, bool (*cancelled)(void),
                             struct pst_partition_answer *ret_answer, struct pst_error *err);
void pst_partition_answer_finish(struct pst_partition_answer *answer);
/* plan.illegal, exit code 3, in the words of rules that were broken. */
pst_status pst_partition_illegal(const char *id, const char *fault, struct pst_error *err);
/* An instance with parameters from an object (or NULL), `what` it stands under in the problem. */
pst_status pst_partition_create(const struct pst_plugin *plugin, const json_t *options,
                                const char *what, const struct pst_host_context *context,
                                struct pst_instance **ret_instance, struct pst_error *err);

/* solo_partition_planned.c: finds and opens the strategies, asks for the places. Finish in any
   case. Errors: of finding, matching, creating; config.value for no scheduler. */
pst_status pst_partition_planned_init(struct pst_partition_planned *planned,
                                      const struct pst_problem *problem,
                                      const struct pst_plugin *partitioner,
                                      const struct pst_host_context *context,
                                      struct pst_error *err);
void pst_partition_planned_finish(struct pst_partition_planned *planned);
/* Logical devices under so many stages: with replicas one a stage. */
uint32_t pst_partition_planned_devices(const struct pst_partition_planned *planned,
                                       uint32_t n_stages);
extern const struct pst_strategist pst_partition_strategies; /* they answer */
/* What the memory optimizer makes of a stage in the end: its actions, held against the rules and
   its own price. *ret_kept_bytes: of one micro-batch, input included. plan.infeasible. */
pst_status pst_partition_planned_decide(struct pst_partition_planned *planned,
                                        const struct pst_stage_question *question,
                                        struct pst_stage_value *ret_value, uint64_t *ret_kept_bytes,
                                        struct pst_error *err);

/* solo_partition_arrange.c: has the strategies plan the answer's stages; fills its figures. */
pst_status pst_partition_arrange(struct pst_partition_host *host,
                                 struct pst_partition_answer *answer, const uint32_t *owner,
                                 struct pst_error *err);

/* solo_partition_judge.c: holds the answer against the rules, then says what it is worth. */
pst_status pst_partition_judge(const struct pst_problem_job *job,
                               const struct pst_partition_answer *answer,
                               struct pst_partition_result *ret_result, struct pst_error *err);
/* owner[v]: stage of node v. free() *ret_edges. PST_ERR_NOMEM. */
pst_status pst_partition_connect(const struct pst_costed *graph, const uint32_t *owner,
                                 struct pst_partition_edge **ret_edges, uint32_t *ret_n_edges,
                                 struct pst_error *err);

/*
 * solo_partition_step.c: stages as a question to schedulers, and the time that an order takes.
 */
struct pst_partition_line {
    uint32_t device, microbatch_size, k, n_ranks, in_flight;
    double ns[3];     /* F, B, W of a micro-batch */
    double reduce_ns; /* after the last pass of a step */
    uint64_t kept_bytes, input_bytes;
};

struct pst_partition_run {
    const struct pst_problem *problem;
    uint32_t n_devices, n_stages, n_edges;
    const struct pst_partition_line *lines;
    const struct pst_partition_edge *edges;
};

/* Times are multiplied and rounded. Finish the question in any case; it was all zero. */
pst_status pst_partition_run_state(const struct pst_partition_run *run, double scale,
                                   struct pst_solo *solo, struct pst_error *err);
/* kFkB; lists in solo's arena. */
pst_status pst_partition_run_order(const struct pst_partition_run *run, struct pst_solo *solo,
                                   struct pst_pass ***ret_passes, uint32_t **ret_n_passes,
                                   struct pst_error *err);
/* Nanoseconds of `in`, stated at that scale, in this order, the all-reduces at its end included.
   plan.illegal where the order cannot be kept. */
pst_status pst_partition_run_time(const struct pst_partition_run *run,
                                  const struct pst_schedule_in *in, double scale,
                                  struct pst_pass *const *passes, const uint32_t *n_passes,
                                  double *ret_ns, struct pst_error *err);
/* The finest scale at which n_steps steps are counted exactly in 62 bits. */
double pst_partition_run_scale(const struct pst_partition_run *run, uint32_t n_steps);

/* solo_partition_wire.c: a question of a problem file, behind a service's word, to a process of its
   own; and there: taken off the wire, with `problem` as room for its problem; time counts from then
   on. */
pst_status pst_problem_ask_apart(const char *word, const struct pst_problem_job *job,
                                 const struct pst_solo_limits *limits, char **ret_reply,
                                 size_t *ret_length, struct pst_error *err);
pst_status pst_problem_take(struct pst_wire *question, struct pst_problem *problem,
                            struct pst_problem_job *ret_job, struct pst_error *err);
/* pst_partition_ask in a process of its own, and what that sends back. */
pst_status pst_partition_ask_apart(const struct pst_problem_job *job,
                                   const struct pst_solo_limits *limits,
                                   struct pst_partition_answer *ret_answer, struct pst_error *err);
void pst_partition_answer_put(struct pst_wire *w, const struct pst_partition_answer *answer);
/* plugin.contract, exit code 3, where the bytes are no answer to that job. */
pst_status pst_partition_answer_take(const char *bytes, size_t length,
                                     const struct pst_problem_job *job,
                                     struct pst_partition_answer *ret_answer,
                                     struct pst_error *err);

#endif
