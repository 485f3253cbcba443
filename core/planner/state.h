/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: one planning run. Everything hangs on this struct, so that a run could as
 * well take place in a process of its own.
 */
#ifndef PST_PLANNER_STATE_H
#define PST_PLANNER_STATE_H

#include <penstock/ext/profile.h>
#include <penstock/ext/trial.h>

#include "planner/answers.h"
#include "planner/blame.h"
#include "planner/schedule_intake.h"
#include "planner/eval_replays.h"
#include "planner/held.h"
#include "plan/layouts.h"
#include "planner/memo.h"
#include "planner/planner.h"
#include "planner/questions.h"
#include "planner/stage_rules.h"
#include "planner/topology.h"
#include "host/call.h"

#define PST_MAX_MEMOPT 8

/* Operators as nodes of a stage, but for their place there, for a number of samples on a device. */
struct pst_size_table {
    uint32_t samples;
    struct pst_cluster on;
    struct pst_stage_node *nodes; /* [n_ops] */
    struct pst_size_table *next;
};

/* Room for one stage view at a time; arrays are as large as the graph asks for. Made by
   pst_views_init; written by stage_view.c and charges.c with every view. */
struct pst_view_scratch {
    struct pst_size_table *tables; /* one for each number of samples, kept for the whole run */
    struct pst_stage_node *nodes;
    uint64_t *gathered; /* [2 * n_ops] bytes of the weights that passes gather, by position:
                           forward, then backward */
    uint32_t *producers;
    uint32_t *position;     /* [n_ops] in the stage */
    bool *keeps_result;     /* [n_edges] the backward of the reader reads what the edge carries */
    uint32_t *op_stamp;     /* [n_ops] the view that has the operator */
    uint32_t *tensor_stamp; /* [n_tensors] the view that counted it as input */
    uint32_t *param_stamp;  /* [n_params] the view that counted its weights */
    uint32_t stamp;
    uint32_t *late_stamp; /* [n_tensors] the view whose late W was charged for it */
    uint32_t late_round;
    uint64_t *late_bytes; /* [n_ops + 1] by position: what W reads of it; the last: of the input */
};

/* Written once, by who begins the run: planner.c, tools/penstock/ask/problem.c. */
struct pst_planner_in {
    const struct pst_job *job; /* of jobs only, as is the next one */
    struct pst_graph *graph;
    const struct pst_cluster *cluster; /* of a problem file: devices that are all alike */
    const struct pst_cost_model *cost;
    uint32_t n_nodes; /* of the view, also before there is one */
    uint32_t n_ranks;
    uint32_t optimizer_slots;
    uint64_t seed; /* of pst.rng/1 */
    bool (*cancelled)(void);
    pst_planner_clock *clock;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    /* Jobs alone have one, and pst_planner_open for another. */
    const struct pst_search *search;
    pst_status (*open)(struct pst_planner *planner, const struct pst_search *search,
                       struct pst_error *err);
    const uint32_t *tensors; /* degrees that a stage may have; devices are ranks */
    uint32_t n_tensors;      /* 0: only degree 1; a device may be a group of ranks */
};

/* Written by pst_planner_load, once; by pst_problem_open. */
struct pst_strategies {
    struct pst_instance *partitioner, *scheduler, *memopt[PST_MAX_MEMOPT];
    uint32_t turn_of[PST_MAX_MEMOPT]; /* of each [[memopt]]: where in `memopt` it is */
    struct pst_instance *hasty; /* the scheduler with its fast settings, for trials; or NULL */
    uint32_t n_memopt;
};

/* Ranks, and the logical devices and places that are made of them. Written by pst_planner_place,
   once; but `topology` again by pst_planner_chosen and `first_rank` by pst_planner_order, for every
   plan. */
struct pst_planner_devices {
    uint32_t *ranks;    /* [places.n * degree] of each place, copy by copy */
    uint32_t n_degrees; /* replica counts that a stage may have, offered if `chooses` */
    const uint32_t *degrees;
    bool replicates;      /* one of these counts is above 1, or the partitioner chooses degrees: a
                             stage may have several ranks */
    bool chooses;         /* the partitioner assigns ranks to stages; its places are ranks */
    uint32_t degree;      /* ranks of every stage, over all its copies; 1 if `chooses` */
    uint32_t width;       /* ranks of every logical device: degree / copies; 1 if `chooses` */
    uint32_t n_logical;   /* logical devices; ranks if `chooses` */
    uint32_t *first_rank; /* of each logical device of the finished partition; NULL: none yet */
    struct pst_topology topology;
    struct pst_places places; /* what the partitioner may fill; devices are logical ones */
};

/* Samples of a step and of a micro-batch. Written with the input; pst_planner_place adapts them to
   copies and lists the candidates. */
struct pst_planner_sizes {
    uint32_t batch, microbatch, n_microbatches;
    uint32_t n_candidates;
    const uint32_t *candidates; /* micro-batch sizes offered; a job's own first */
};

/* One attempt at a plan assumes these values, which earlier attempts taught. Written between plans
   by attempts.c, or by a program's own way (attempts.h); but `charged` by charges.c. */
struct pst_attempt_state {
    uint64_t capacity_bytes; /* of the largest device; UINT64_MAX: no limit */
    /* A layout with plan->spread_sends exceeded memory: from then on pst_planner_empty() makes
       plans without those send buffers, which only save time. */
    bool tight;
    /* A layout without them exceeded memory: from then on order.c charges the buffers of transfers
       when it asks schedulers that provide "within-memory". */
    bool exceeded;
    bool undivided; /* partition.c offers a stage all of a device that it shares, not its part */
    bool least;     /* stage_memory.c plans stages for the least memory, whatever their capacity */
    /* charged: charges.c has charged a stage for micro-batches between B and W. uncharged: it
       leaves that charge out. */
    bool charged, uncharged;
    /* [n_ops] by stage: bytes that layouts took beyond its estimates, negative if fewer; charges.c
       adds them to the stage's static bytes. */
    int64_t *bias;
    /* [n_ops] by stage: the most micro-batches in flight that schedules of earlier attempts held;
       pst_planner_held() returns at least as many. */
    uint32_t *counted;
};

/* Answers of strategies that are remembered, written by who asked. */
struct pst_planner_memos {
    struct pst_memo attempt;            /* for one attempt, whose begin empties it */
    struct pst_memo alike;              /* prices of stages of the same figures */
    struct pst_scheduler_count *counts; /* of held.c */
    struct pst_layouts layouts;
};

/* Wrong statements of strategies, for messages at the end of the run. */
struct pst_planner_faults {
    struct pst_held_fault held; /* written by pst_planner_order: of the last schedule */
    /* Written by stage_memory.c: the first price that said "does not fit" and named no more than
       the capacity; of a memory optimizer. */
    struct pst_price_fault {
        const struct pst_instance *memopt; /* NULL: there was none */
        uint32_t stage;
        uint64_t peak_bytes, capacity_bytes;
    } price;
};

struct pst_planner {
    const struct pst_answers *answers; /* to the questions of strategies */
    struct pst_planner_in in;
    struct pst_strategies strategies;
    struct pst_planner_devices devices;
    struct pst_planner_sizes sizes;
    struct pst_attempt_state attempt;
    struct pst_planner_memos memos;
    struct pst_planner_faults faults;

    struct pst_graph_view *view; /* as strategies see the graph; by pst_views_init, once */
    struct pst_view_scratch scratch;
    struct pst_evaluator evaluator;
    struct pst_replay_list replays;       /* that the last memory optimizer listed for a stage */
    struct pst_region figures;            /* of pst.profile/1, as the partitioner gets them */
    const struct pst_partition_in *asked; /* while the partitioner is asked */
    struct pst_divided *divided;          /* who answers about stages with parts (divided.c) */
    struct pst_error pending;             /* what a callback failed with, inside a plugin's call */
    uint64_t work;                        /* struct pst_search */
    struct pst_arena arena;
};

/* Who answers about stages with so many parts. */
struct pst_divided {
    struct pst_divided *next;
    uint32_t tensor;
    pst_status status; /* of making the planner */
    struct pst_error why;
    struct pst_planner planner;
};

/* strategies.c: the plugin that "use" and "path" of a strategy's table name; table: NULL where the
   job has none. Errors: config.key, config.value, and those of pst_plugin_find, with the place. */
pst_status pst_job_plugin(const struct pst_job *job, struct pst_config_node *table,
                          const char *kind, const struct pst_plugin **ret_plugin,
                          struct pst_error *err);
/* Sets *ret_foreign where the strategy of this table comes from elsewhere than the program itself.
   A table that names none, or none that there is, is left to whoever opens it. */
pst_status pst_job_plugin_is_foreign(const struct pst_job *job, struct pst_config_node *table,
                                     const char *kind, bool *ret_foreign, struct pst_error *err);
/* strategies.c: finds and instantiates what the job names; call pst_planner_finish in any case. */
pst_status pst_planner_load(struct pst_planner *planner, struct pst_error *err);
/* topology.c: a logical device for each stage, once the partitioner has chosen. */
pst_status pst_planner_chosen(struct pst_planner *planner, const struct pst_plan *plan,
                              struct pst_error *err);
/* topology.c: number of micro-batches; places. */
pst_status pst_planner_place(struct pst_planner *planner, struct pst_error *err);
/* Returns true if the optimizer step needs the norm of all gradients, or a common verdict that they
   are finite, from all devices. */
bool pst_planner_barrier(const struct pst_job *job);

/* topology.c: host memory that one stage may fill: equal parts of run.host_memory for all devices,
   and for all stages of one. UINT64_MAX: no limit. */
uint64_t pst_planner_host_share(const struct pst_planner *planner);

/* partition.c: the question to a partitioner, in `arena`. */
void pst_planner_state(const struct pst_planner *planner, struct pst_arena *arena,
                       struct pst_partition_in *ret_in);
/* partition.c: asks it; stages go into the intake. Errors: also those of pst_stage_intake_ask. */
pst_status pst_planner_ask(struct pst_planner *planner, struct pst_instance *partitioner,
                           struct pst_stage_intake *intake, struct pst_error *err);
/* partition.c: fills the plan's stages, with those of job->cuts if there are any, and derives its
   edges. */
pst_status pst_planner_partition(struct pst_planner *planner, struct pst_plan *plan,
                                 struct pst_error *err);
/* partition.c: the stages of the partitioner's answer, in `arena`. */
pst_status pst_planner_cut(struct pst_planner *planner, struct pst_arena *arena,
                           struct pst_cuts *ret_cuts, struct pst_error *err);
/* Like pst_planner_partition, for stages that the partitioner asks about during its search. */
pst_status pst_planner_suppose(struct pst_planner *planner, const struct pst_stage_decl *stages,
                               uint32_t n_stages, struct pst_plan *plan, struct pst_error *err);

/* stage_view.c. A view stays valid until the next one is built. */
void pst_views_init(struct pst_planner *planner);
struct pst_stage_node *pst_view_build(struct pst_planner *planner,
                                      const struct pst_stage_question *question,
                                      struct pst_stage_view *ret_view);

/* charges.c: the view of the stage that is asked about, charged for all that is known to come
   beside it; its nodes may be given actions. */
pst_status pst_view_charge(struct pst_planner *planner, const struct pst_stage_question *question,
                           struct pst_stage_node **ret_nodes, struct pst_stage_view *ret_view,
                           struct pst_error *err);
/* Charges the view that was built last, whose stage and in_flight are set, for the next input and
   for what was sent last. */
void pst_view_transfers(const struct pst_planner *planner, uint32_t samples,
                        uint32_t n_microbatches, struct pst_stage_view *view);
/* Bytes that W reads of a micro-batch of the last built view, each tensor once: activations,
   gradients and what B computes for it. */
uint64_t pst_view_late_bytes(struct pst_planner *planner, uint32_t n_nodes, uint32_t samples);
/* *ret_splits: true if the scheduler splits backward passes on a chain of so many stages. */
pst_status pst_planner_splits(struct pst_planner *planner, uint32_t n_stages,
                              uint32_t n_microbatches, bool *ret_splits, struct pst_error *err);

/* stage_memory.c. Sets ret_bytes[s] to the least bytes that the memory optimizers need for stage s
   of a finished plan; 0: one of them does not support that. */
pst_status pst_planner_least(struct pst_planner *planner, const struct pst_plan *plan,
                             uint64_t *ret_bytes, struct pst_error *err);
pst_status pst_planner_price(struct pst_planner *planner, const struct pst_stage_question *question,
                             struct pst_stage_price *ret_price, struct pst_error *err);
/* The question about a finished stage, with a capacity of 0 bytes; points into the plan. */
struct pst_stage_question pst_planner_question(const struct pst_plan *plan, uint32_t s);
/* share_memory.c: sets ret_share[s] to the bytes reserved for stage s on a device that it shares;
   or 0. */
pst_status pst_planner_divide(struct pst_planner *planner, const struct pst_plan *plan,
                              uint64_t *ret_share, struct pst_error *err);
/* After an infeasible search: adds planner->faults.price, which may be its reason, to the details.
 */
void pst_planner_explain_price(const struct pst_planner *planner, struct pst_error *err);
/* Decides the actions of a stage, in its view, and its replays, in planner->replays; checks them
   against the rules and the price. plan.infeasible. */
pst_status pst_planner_settle(struct pst_planner *planner,
                              const struct pst_stage_question *question,
                              struct pst_stage_view *ret_view, struct pst_stage_value *ret_value,
                              struct pst_error *err);
pst_status pst_planner_actions(struct pst_planner *planner, struct pst_plan *plan,
                               struct pst_error *err);

/* Logical devices under a number of stages, as far as it can be known before they are placed. */
static inline uint32_t pst_devices_under(const struct pst_planner_devices *devices,
                                         uint32_t n_stages)
{
    return devices->chooses && devices->replicates ? n_stages : devices->n_logical;
}

/* Ranks of the logical devices that a place is on, copy by copy; for jobs only. */
static inline const uint32_t *pst_place_ranks(const struct pst_planner_devices *devices,
                                              uint32_t place)
{
    return &devices->ranks[place * devices->degree];
}

/* Bytes that this attempt may use on the smallest of these ranks. */
static inline uint64_t pst_planner_capacity(const struct pst_planner *planner,
                                            const uint32_t *ranks, uint32_t n_ranks)
{
    uint64_t lacks = 0;

    for (uint32_t r = 0; r < n_ranks; r++) {
        uint64_t of = pst_cluster_lacks(planner->in.cluster, ranks[r]);

        lacks = of > lacks ? of : lacks;
    }
    return pst_sat_left(planner->attempt.capacity_bytes, lacks);
}

/* fast_scheduler.c: a copy of the scheduler's table with the setting that avoids a long search; the
   table itself where the plugin has no such setting or the table has that key. */
struct pst_config_node *pst_hastened(struct pst_arena *arena, struct pst_config_node *table,
                                     const struct pst_plugin *plugin);

/* order.c: passes of every rank, as the scheduler orders them; in_flight as counted. */
pst_status pst_planner_order(struct pst_planner *planner, struct pst_plan *plan,
                             struct pst_orders *ret_orders, struct pst_error *err);

/* global.c: asks the memory optimizers that decide about all devices at once; their guests and
   actions into the plan, whose lists it uses for itself. */
pst_status pst_planner_global(struct pst_planner *planner, struct pst_plan *plan,
                              const struct pst_orders *orders, struct pst_error *err);

/* attempts.c: the programs of a plan that is complete, and what they take. */
pst_status pst_planned_lay_out(struct pst_planner *planner, struct pst_planned *planned,
                               struct pst_error *err);

/* divided.c: who answers a question about a stage, in whose operators it is put then; NULL: the
   model cannot have so many parts. Of the usual number that is an error, in planner->pending. */
pst_status pst_divided_find(struct pst_planner *planner, struct pst_stage_question *question,
                            struct pst_arena *arena, struct pst_planner **ret_who);
/* The price of a stage whose neighbours may have other degrees: with what its borders add. It fits
   only if nothing but whole tensors and tokens cross these, and one of its operators has a part of
   its parameters. */
void pst_divided_border(const struct pst_planner *part, const struct pst_stage_question *question,
                        struct pst_stage_price *io_price);

/* planner.c: the strategies, and what they are asked about; pst_planner_finish in any case. */
pst_status pst_planner_open(struct pst_planner *planner, const struct pst_search *search,
                            struct pst_error *err);
void pst_planner_finish(struct pst_planner *planner);
/* planner.c: makes a plan without stages; completes one with stages: actions, passes, lists. */
struct pst_plan *pst_planner_empty(const struct pst_planner *planner);
pst_status pst_planner_complete(struct pst_planner *planner, struct pst_plan *plan,
                                struct pst_error *err);

/* trial.c: the table of pst.trial/1. */
extern const struct pst_trial pst_planner_trial;

/* refusal_table.c. Adds details of memory use: every device, then the kinds of data on the fullest
 * one. */
void pst_planned_table(const struct pst_planned *planned, const struct pst_graph *graph,
                       struct pst_error *err);
pst_status pst_planned_too_large(const struct pst_planner *planner,
                                 const struct pst_planned *planned, uint64_t capacity_bytes,
                                 struct pst_error *err);

#endif
