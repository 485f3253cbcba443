/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: one planning run. Everything hangs on this struct, so that a run could as
 * well take place in a process of its own.
 */
#ifndef PST_PLUGIN_STATE_H
#define PST_PLUGIN_STATE_H

#include <penstock/ext/profile.h>
#include <penstock/ext/trial.h>

#include "plugin/eval_replays.h"
#include "plugin/memo.h"
#include "plugin/planner.h"
#include "plugin/plugin_host.h"

#define PST_MAX_MEMOPT 8

/* What operators cost for one number of samples. */
struct pst_op_cost {
    uint64_t forward_ns, backward_ns;
    uint64_t own_saved_bytes; /* results that its own backward reads */
    uint64_t outputs_bytes;   /* all results */
    uint64_t output_bytes;    /* the first result, which other operators read */
    bool reads_output;        /* its own backward reads that */
    uint64_t forward_workspace_bytes;
    uint64_t backward_work_bytes; /* workspace, and gradients that live during the call */
};

struct pst_size_table {
    uint32_t samples;
    struct pst_op_cost *ops; /* [n_ops] */
    struct pst_size_table *next;
};

/* Room for one stage view at a time; arrays are as large as the graph asks for. */
struct pst_view_scratch {
    struct pst_stage_node *nodes;
    uint32_t *producers;
    uint32_t *position;     /* [n_ops] in the stage */
    bool *keeps_result;     /* [n_edges] the backward of the reader reads what the edge carries */
    uint32_t *op_stamp;     /* [n_ops] the view that has the operator */
    uint32_t *tensor_stamp; /* [n_tensors] the view that counted it as input */
    uint32_t *param_stamp;  /* [n_params] the view that counted its weights */
    uint32_t stamp;
    uint8_t *actions; /* [n_ops] */
};

struct pst_planner {
    const struct pst_job *job;
    struct pst_graph *graph;
    const struct pst_cluster *cluster;
    const struct pst_cost_model *cost;
    bool (*cancelled)(void);
    pst_planner_clock *clock;
    bool tight;           /* memory did not suffice with what only saves time */
    bool brief;           /* fewer rounds */
    uint64_t deadline_ns; /* UINT64_MAX: none */
    struct pst_arena arena;

    struct pst_instance *partitioner, *scheduler, *memopt[PST_MAX_MEMOPT];
    const struct pst_partitioner *partitioner_if;
    const struct pst_scheduler *scheduler_if;
    const struct pst_memopt *memopt_if[PST_MAX_MEMOPT];
    uint32_t n_memopt;

    struct pst_graph_view *view;
    uint32_t n_ranks;
    uint32_t degrees[PST_MAX_DEGREES], n_degrees; /* replica counts that a stage may have */
    bool replicates;                              /* some of them is above 1 */
    bool chooses;         /* the partitioner says which ranks a stage has; to it places are ranks */
    uint32_t degree;      /* else ranks of every logical device */
    uint32_t n_devices;   /* logical devices; where the partitioner chooses: ranks */
    uint32_t *first_rank; /* of each logical device of the finished partition; NULL: none yet */
    uint32_t batch, microbatch, n_microbatches, optimizer_slots;
    uint32_t n_candidates;
    uint32_t *candidates; /* micro-batch sizes offered to the partitioner; the job's own first */
    struct pst_topology topology;
    uint32_t n_places;       /* what the partitioner may fill: stages wanted, or devices */
    uint32_t *device_of;     /* [n_places] logical device */
    uint64_t capacity_bytes; /* that this attempt plans for; UINT64_MAX: no limit */
    bool undivided;          /* a stage may ask for all of a device that it shares */
    uint64_t *estimated; /* [n_ops] by stage: peak of the last plan as the evaluator charges it */
    int64_t *bias; /* [n_ops] by stage: what its layout took beyond that; charged from then on */
    uint32_t *counted; /* [n_ops] in-flight counts of earlier attempts by stage, at least so many */

    struct pst_size_table *sizes;
    struct pst_view_scratch scratch;
    struct pst_evaluator evaluator;
    struct pst_replay_list replays; /* that the last memory optimizer listed for a stage */
    struct pst_memo memo;
    struct pst_figures figures;           /* of pst.profile/1 */
    const struct pst_partition_in *asked; /* while the partitioner is asked */
    struct pst_error pending;             /* what a callback failed with, inside a plugin's call */
};

/* strategies.c: finds and instantiates what the job names; caller runs pst_planner_finish anyway.
 */
pst_status pst_planner_load(struct pst_planner *planner, struct pst_error *err);
/* degrees.c: logical devices, and what the scheduler says to that many. */
pst_status pst_planner_devices(struct pst_planner *planner, struct pst_error *err);
/* The same once the partitioner has chosen: a logical device for each stage. */
pst_status pst_planner_chosen(struct pst_planner *planner, const struct pst_plan *plan,
                              struct pst_error *err);
/* strategies.c: are there as many micro-batches as the scheduler wants? */
pst_status pst_planner_microbatches(const struct pst_planner *planner, struct pst_error *err);
/* Number of micro-batches; places. */
pst_status pst_planner_place(struct pst_planner *planner, struct pst_error *err);
/* Does the optimizer step need something of all devices: the norm of all gradients, or a common
   verdict that they are finite? */
bool pst_planner_barrier(const struct pst_job *job);
/* What a call into `instance` came to: an error that a callback met inside goes first. */
pst_status pst_planner_blame(struct pst_planner *planner, struct pst_instance *instance,
                             pst_status status, const char *function, struct pst_error *err);
/* A plan that breaks a rule: plan.illegal, exit code 3, naming the plugin. Returns PST_ERR_BUG. */
pst_status pst_planner_illegal(struct pst_error *err, const struct pst_instance *instance,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

/* planner.c: an illegal plan whose stages and actions were checked as they came. Returns st. */
pst_status pst_planner_blame_scheduler(const struct pst_planner *planner, pst_status st,
                                       struct pst_error *err);

/* partition.c: fills the plan's stages and derives its edges. */
pst_status pst_planner_partition(struct pst_planner *planner, struct pst_plan *plan,
                                 struct pst_error *err);
/* Do stages share devices, as far as the scheduler places them? */
bool pst_planner_shares_devices(const struct pst_planner *planner);
/* The same as pst_planner_partition with stages that the partitioner, in the middle of its search,
 * asks about. */
pst_status pst_planner_suppose(struct pst_planner *planner, const struct pst_stage_decl *stages,
                               uint32_t n_stages, struct pst_plan *plan, struct pst_error *err);

/* stage_view.c. A view stays valid until the next one is built. */
pst_status pst_views_init(struct pst_planner *planner, struct pst_error *err);
const struct pst_size_table *pst_views_sizes(struct pst_planner *planner, uint32_t samples);
struct pst_stage_node *pst_view_build(struct pst_planner *planner, const uint32_t *nodes,
                                      uint32_t n_nodes, uint32_t samples, uint32_t versions,
                                      struct pst_stage_view *ret_view);

/* memory.c: price by the list of memory optimizers; actions of all stages of a plan. */
/* Of each stage of a finished plan: the bytes that the memory optimizers could do with, if they had
   none to spare. ret_bytes has room for the plan's stages. */
pst_status pst_planner_least(struct pst_planner *planner, const struct pst_plan *plan,
                             uint64_t *ret_bytes, struct pst_error *err);
pst_status pst_planner_price(struct pst_planner *planner, const struct pst_stage_question *question,
                             struct pst_stage_price *ret_price, struct pst_error *err);
/* What a finished stage costs, with no memory to spare; points into the plan. */
struct pst_stage_question pst_planner_question(const struct pst_plan *plan, uint32_t s);
/* divide.c: of each stage of a plan the bytes that are kept for it on a device that it shares; 0:
   none are. ret_share has room for the plan's stages. */
pst_status pst_planner_divide(struct pst_planner *planner, const struct pst_plan *plan,
                              uint64_t *ret_share, struct pst_error *err);
pst_status pst_planner_actions(struct pst_planner *planner, struct pst_plan *plan,
                               struct pst_error *err);

/* Logical devices under a number of stages, as far as it can be known before they are placed. */
static inline uint32_t pst_planner_logical(const struct pst_planner *planner, uint32_t n_stages)
{
    return planner->chooses && planner->replicates ? n_stages : planner->n_devices;
}

/* inflight.c: what the scheduler says a stage holds; without its word, counted on a unit chain. */
pst_status pst_planner_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held, struct pst_error *err);
/* The same for every stage of a plan, into its in_flight. */
pst_status pst_planner_hold(struct pst_planner *planner, struct pst_plan *plan,
                            struct pst_error *err);

/* questions.c: the tables behind the host's extensions. */
void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context);
void pst_questions_finish(struct pst_planner *planner);
struct pst_planner *pst_questions_planner(const struct pst_host *host);

/* profile.c: the table of pst.profile/1; its figures, which need the view. */
pst_status pst_planner_figures(struct pst_planner *planner, struct pst_error *err);
extern const struct pst_profile pst_planner_profile;

/* order.c: passes of every device, as the scheduler orders them; in_flight as counted. */
struct pst_orders {
    struct pst_arena arena;
    struct pst_pass **passes[PST_PARTS]; /* [part][rank]; synchronous: body alone */
    uint32_t *n_passes[PST_PARTS];
};

pst_status pst_planner_order(struct pst_planner *planner, struct pst_plan *plan,
                             struct pst_orders *ret_orders, struct pst_error *err);
void pst_orders_finish(struct pst_orders *orders);

/* global.c: asks the memory optimizers that decide about all devices at once; their guests and
   actions into the plan, whose lists it uses for itself. */
pst_status pst_planner_global(struct pst_planner *planner, struct pst_plan *plan,
                              const struct pst_orders *orders, struct pst_error *err);

/* attempts.c: plans until one fits; *ret_best, zeroed before: that one, or the one that needs
   least. PST_ERR_INFEASIBLE: there is none at all. */
pst_status pst_planner_attempts(struct pst_planner *planner, struct pst_planned *ret_best,
                                struct pst_error *err);

/* planner.c: a plan without stages; in-flight counts, actions, passes and lists of one with stages.
 */
pst_status pst_planner_empty(const struct pst_planner *planner, struct pst_plan **ret_plan,
                             struct pst_error *err);
pst_status pst_planner_complete(struct pst_planner *planner, struct pst_plan *plan,
                                struct pst_error *err);

/* trial.c: the table of pst.trial/1. */
extern const struct pst_trial pst_planner_trial;

/* fit.c */
uint64_t pst_planned_need(const struct pst_planned *planned);
/* What takes the space, as details: every device, then the one that needs most by kinds of data. */
void pst_planned_table(const struct pst_planned *planned, const struct pst_graph *graph,
                       struct pst_error *err);
pst_status pst_planned_too_large(const struct pst_planner *planner,
                                 const struct pst_planned *planned, uint64_t capacity_bytes,
                                 struct pst_error *err);

#endif
