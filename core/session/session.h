/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything between a config and a run: the model's graph, the cluster, the cost model with the
 * workspace sizes of the device that will run, the plan (searched or read from a file), its
 * programs, its simulated time.
 */
#ifndef PST_SESSION_SESSION_H
#define PST_SESSION_SESSION_H

#include "exec/device.h"
#include "exec/transport.h"
#include "plan/judge.h"
#include "planner/planner.h"
#include "session/parameter_groups.h"
#include "session/team.h"

struct pst_session;

/* Parts that the program supplies; core links to none of them by name. */
struct pst_session_parts {
    const struct pst_judge *judge; /* a plan is proven, or it is not run */
    /* The graph that [model] describes, of whole sequences; pst_graph_destroy it. */
    pst_status (*graph)(const struct pst_job *job, struct pst_graph **ret_graph,
                        struct pst_error *err);
    /* The file that the model is read from, and its checksum; NULL: nothing will ask for them. */
    pst_status (*model_file)(const struct pst_job *job, struct pst_arena *arena,
                             const char **ret_path, const char **ret_hash, struct pst_error *err);
    /* Gives the session the times of [profile] file: profile, cost.profile, cost.profile_nodes. */
    pst_status (*profile)(struct pst_session *session, struct pst_error *err);
    /* Gives the session the times that were measured on this machine, where there are any. */
    void (*calibrate)(struct pst_session *session);
};

/* Process-wide; call once, before there are sessions, which need all parts. */
void pst_session_set_parts(const struct pst_session_parts *parts);

struct pst_session {
    const struct pst_job *job; /* borrowed */
    struct pst_graph *graph;
    const char *model_file, *model_file_hash; /* for checkpoints (model_file.h) */
    struct pst_rules rules;                   /* of updates, per parameter of the graph */
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_costed *profile; /* [profile] file, or what was measured here, or NULL */
    bool calibrated;            /* that is what was measured here (parts->calibrate) */
    struct pst_arena arena;
    bool chooses; /* degrees of tensor parallelism come with the plan: until then the graph is the
                     whole one (degrees.h) */
    uint32_t n_groups; /* of ranks, for which a plan is searched where degrees differ */
    const struct pst_device_ops *device_ops;
    struct pst_device *device; /* answers questions about workspaces; runs nothing */
    struct pst_device_config device_config;
    const struct pst_transport_ops *transport_ops;
    struct pst_team team;       /* of one, unless the session was made in another */
    struct pst_planned planned; /* plan NULL until pst_session_plan */
    /*
     * From pst_session_plan on. A step has two figures where devices share the cores of this
     * machine: predicted_ns by the costs that the search compares plans with, and here_ns. The
     * first is what every command shows and ranks by. Where operators were measured, the search
     * counts the cores, and the two are the same.
     */
    uint64_t predicted_ns, here_ns;     /* 0 before */
    const struct pst_cost_model *shown; /* of predicted_ns: `cost` or `here` */
    struct pst_cost_model here;         /* of here_ns */
    struct pst_cluster here_cluster;
    struct pst_sim_result simulated; /* the step of predicted_ns */
    bool edges;                      /* with run.p2p = "auto": one queue was found to be too few */
    bool given;                      /* the plan is that of a file, whatever memory there is */
    bool judged;                     /* the plan is proven for these queues */
    const struct pst_exec_source *init; /* borrowed: what a run begins with; NULL: initial values
                                           by the seed */
    bool decodes;               /* samples of the graph are tokens of a text (pst_graph_decode) */
    bool saves;                 /* checkpoints, copies for which are in host memory */
    uint32_t threads, cores;    /* of all devices together; of this machine, where they run on it */
    struct pst_graph *whole;    /* of the sequences whose slices `graph` has; NULL: not asked for */
    struct pst_plan *eval_plan; /* forward only; NULL until pst_session_twin */
    struct pst_program **eval_programs;
};

/*
 * Model, cluster, device and transport modules. The job must outlive the session. team: of which
 * this process is one, that all make a session at a time; NULL: it is alone. Errors: those of the
 * builder and the modules; machine.missing (exit 4).
 */
pst_status pst_session_create(const struct pst_job *job, const struct pst_team *team,
                              struct pst_session **ret_session, struct pst_error *err);
/* Like pst_session_create, without the transport, which only a run needs. */
pst_status pst_session_create_for_planning(const struct pst_job *job,
                                           struct pst_session **ret_session, struct pst_error *err);
void pst_session_destroy(struct pst_session *session);

/* Can its operators be run and measured? config.value: its model is a costed graph. */
pst_status pst_session_check_runs(const struct pst_session *session, struct pst_error *err);

/* The graph that [model] describes, or a part's of it, alone; pst_graph_destroy it. */
pst_status pst_session_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                             struct pst_error *err);

/* Divides the session's graph, which is the whole one, before there is a plan: afterwards it is
   that of a part, with the rules and costs of that. degree_of: [operator] the devices that share
   it. Errors: those of pst_session_create that are about parts. */
pst_status pst_session_divide(struct pst_session *session, const uint16_t *degree_of,
                              struct pst_error *err);

/*
 * A plan for the job. plan_file NULL or "": searches. Otherwise reads the file, which must be for
 * this model, batch and optimizer, and checks it: plan.illegal, exit 2. Then simulates, and refuses
 * what does not fit: plan.infeasible with a table. `cancelled` may be NULL.
 */
pst_status pst_session_plan(struct pst_session *session, const char *plan_file,
                            bool (*cancelled)(void), struct pst_error *err);

/* Reads a plan for the session, which becomes its own, not checked: errors of pst_plan_read; and
   config.value, where it has other degrees than the job. */
pst_status pst_session_read(struct pst_session *session, const char *plan_file,
                            struct pst_error *err);

/* The plan that rank 0 made or read: proven here, too, timed, and held against the memory. */
pst_status pst_session_adopt(struct pst_session *session, const char *text, struct pst_error *err);

/* Loads the module of the job's transport; machine.missing (exit 4). */
pst_status pst_session_load_transport(const struct pst_job *job,
                                      const struct pst_transport_ops **ret_ops,
                                      struct pst_error *err);

/* Returns true if the session's devices emulate others, without data. */
static inline bool pst_session_has_no_data(const struct pst_session *session)
{
    return (session->device_ops->flags & PST_DEVICE_NO_DATA) != 0;
}

/* How ranks share a device, in one line written to `text`; NULL: they do not. */
const char *pst_session_sharing(const struct pst_session *session, char *text, size_t size);

/* Devices that can compute at a time where they are threads of this machine, else 0. */
uint32_t pst_session_side_by_side(const struct pst_session *session);
/* Do they move the bytes of meetings while they wait for these, not beside kernels? */
bool pst_session_meets_in_waits(const struct pst_session *session);
/* Sets what else costs mean with measured times, or without. After the session gets any. */
void pst_session_times_taken(struct pst_session *session);
/* Simulates a step of session->planned: the time of devices side by side goes into the plan, the
   two figures of the session into the session. */
pst_status pst_session_predict(struct pst_session *session, struct pst_error *err);

/* Proves a plan for the session, and makes its programs once the rest holds. PST_ERR_BUG
   plan.illegal and a report that is not empty: it is illegal. ret_report may be NULL. */
pst_status pst_session_judge(struct pst_session *session, struct pst_planned *planned,
                             struct pst_check_report *ret_report, struct pst_error *err);

/* plan_statements.c. Of a legal plan with the config that is in it: adds to the report what it
   states of that config and what this does not say (STAT2). */
pst_status pst_session_compare_stated(struct pst_session *session, struct pst_check_report *report,
                                      struct pst_error *err);
/* The source of predicted times: "described", "file", "measured". */
const char *pst_session_times_name(const struct pst_session *session);

/* transport_queues.c. Limits for the checker, by the job's transport. */
struct pst_check_limits pst_session_limits(const struct pst_session *session);
/* Returns true if each edge has its own queue of transfers. Only with transport nccl. */
bool pst_session_edges(const struct pst_session *session);
/* With transport nccl and run.p2p = "auto": gives each edge its own queue from now on where one
   queue is not proven to suffice for these lists. All processes decide alike. Returns true if the
   lists run to their end in one queue, and break no other rule. */
bool pst_session_choose_queues(struct pst_session *session, const struct pst_plan *plan,
                               bool forward_only);
/* Also refuses lists that the queues cannot run: plan.illegal, plan.mismatch; exit 2. */
#define PST_QUEUE_HINT "omit run.p2p, or set run.transport to \"threads\" or \"mpi\""
pst_status pst_session_fits_queues(struct pst_session *session, const struct pst_plan *plan,
                                   bool forward_only, struct pst_error *err);

/* Memory of a device for plans, in words: "15.0 GiB of 16.0 GiB, 1.0 GiB are reserved". */
const char *pst_session_capacity_text(const struct pst_session *session, uint32_t rank, char *text,
                                      size_t size);

/* Where graph, device and plan allow: tokens of a text take the place of texts, for text is all
   that will be asked of the session. Call after pst_session_plan; session->decodes tells. */
pst_status pst_session_decode(struct pst_session *session, struct pst_error *err);

/* The forward-only twin for `batch` samples, with the logits kept; where the session decodes they
   are one micro-batch. whole: samples are sequences, though the session's are slices of these.
   Call after pst_session_plan. */
pst_status pst_session_twin(struct pst_session *session, uint32_t batch, bool whole,
                            struct pst_error *err);
/* The graph that the twin runs. */
static inline const struct pst_graph *pst_session_eval_graph(const struct pst_session *session)
{
    return session->whole != NULL ? session->whole : session->graph;
}
/* Makes session->whole, and what costs it has. */
pst_status pst_session_make_whole(struct pst_session *session, struct pst_cost_model *ret_cost,
                                  struct pst_error *err);

/* Do the devices' arenas together fit the machine's free memory, where devices are in the host's?
   machine.memory, exit 4. */
pst_status pst_session_check_host(const struct pst_session *session, struct pst_error *err);

/* Bytes that the run takes on a rank: the larger of its two arenas. */
uint64_t pst_session_peak(const struct pst_session *session, uint32_t rank);

#endif
