/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a plan: one thread per local rank, which runs its instruction list over its own arena.
 *
 *   caller          submit(step 0)  submit(step 1)          collect(step 0)
 *                        |               |                       ^
 *   rank 0 thread        +-> F F F B B B STEP F F F ...          |
 *   rank 1 thread        +->   F B F B F B STEP F B ... results -+
 *                              ^
 *                              +-- transport: SEND and RECV; device: calls of the program
 *
 * If ranks are processes, each process has an executor for its own ranks. All of them are created,
 * used and destroyed by the same calls in the same order, and return the same results and errors.
 * The step loop allocates nothing. Losses are the same bits for every synchronous plan, and for
 * every plan of the delayed version rule those of the sequential reference: the gradient of batch t
 * is taken at W(max(t - 1, 0)) and makes W(t + 1) of W(t). By the stashed rule each stage does so
 * for every micro-batch j of the run, with the mean over its samples: the gradient is taken at
 * W(max(j - (V - 1), 0)), V being the stage's number of versions. Evaluation and parameters are of
 * the newest version.
 *
 * Replicas of a stage hold the same weights, bit for bit, after every step. If a replica is several
 * parts (graph/split.h), these meet inside passes; the graph is that of a part. Batch norm takes
 * its statistics over the samples that a rank has of a micro-batch; the running ones of the model
 * are those of the first replica, and an evaluation uses them on all.
 *
 * Steps are submitted and collected; several may be in flight. A rank that has finished its list
 * begins the next step at once: only the plan makes ranks wait for each other.
 * All functions are for one thread, the one that created the executor.
 */
#ifndef PST_EXEC_EXEC_H
#define PST_EXEC_EXEC_H

#include <stdatomic.h>

#include "exec/device.h"
#include "plan/program.h"
#include "exec/transport.h"

struct pst_exec;
struct pst_recorder;

/* Links of a described machine, in the time of this one. Pure; asked by any thread. */
struct pst_exec_links {
    void *context;
    uint64_t (*transfer_ns)(void *context, uint64_t bytes, uint32_t from, uint32_t to);
    uint64_t (*meeting_ns)(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks);
    uint32_t (*node)(void *context, uint32_t rank);    /* below the number of ranks */
    uint64_t (*post_ns)(void *context, uint32_t rank); /* in which a host posts a transfer;
                                                          NULL: none */
};

/* Copies to and from host memory. */
struct pst_exec_copy_config {
    uint64_t bytes_per_s; /* of the host link, each direction; 0: no limit. Clocks: not read */
    bool shared_link;     /* one queue for both directions */
    bool check;           /* checksums of offloaded bytes are compared with those of fetched bytes;
                             clocks: nothing is moved */
    bool serial;          /* a baseline: the copies of a pass run after it, and no pass overlaps
                             with them */
    /* Tests: called after each copy to the host, by a thread of the host, with its place there.
       NULL: not called. */
    void (*hook)(void *context, uint32_t rank, void *host, uint64_t bytes);
    void *context;
};

/* Totals of a rank's copies so far; [0] to host memory, [1] from there. */
struct pst_exec_copies {
    uint64_t bytes[2], ns[2]; /* ns: time in which the link was busy */
    uint64_t stall_ns;        /* time that passes waited for copies */
};

/* One value that outlives a step: f32, of the parameter's or the operator's canonical index. */
enum pst_state_kind {
    PST_STATE_PARAMETER = 0, /* the newest weights */
    PST_STATE_SLOT,          /* of the optimizer */
    PST_STATE_VERSION, /* older weights, which passes still read by the delayed or stashed rule */
    PST_STATE_OPERATOR /* running statistics */
};

struct pst_state_key {
    uint32_t kind;
    uint32_t index;  /* parameter, or operator */
    uint32_t number; /* slot; age of the version in updates, from 1; state of the operator;
                        0 for a parameter */
};

/* Values with which a run begins, instead of initial values by the seed. */
struct pst_exec_source {
    void *context;
    /* Fills values. *ret_found false leaves what the executor begins with by itself: initial
       weights, zeros in slots, for a version the newest weights, statistics of a unit normal.
       Called while the executor is made, by several threads: each asks for what its rank holds, so
       replicas ask alike. */
    pst_status (*load)(void *context, const struct pst_state_key *key, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err);
};

/* Calls the visitor for each value that the rank saves, always in the same order, with the elements
   that it saves, `elems` from `first` on. Elements that several ranks hold are saved by the first
   of them, or by the one that updates them. */
typedef void pst_state_visit(void *context, const struct pst_state_key *key, uint64_t first,
                             uint64_t elems);
void pst_exec_state_of(const struct pst_plan *plan, const struct pst_program *program,
                       pst_state_visit *visit, void *context);

/* How the parameters of one rule are updated; the update of a step has the rest. */
struct pst_exec_rule {
    uint32_t optimizer;
    float lr_scale, weight_decay;
};

/* Everything pointed to stays the caller's and lives longer than the executor. */
struct pst_exec_config {
    const struct pst_graph *graph;
    const struct pst_plan *plan;               /* training */
    const struct pst_program *const *programs; /* one per rank */
    const struct pst_plan *eval_plan;          /* forward only; NULL: no evaluation */
    const struct pst_graph *eval_graph; /* NULL: the same; else it differs in tensors alone */
    const struct pst_program *const *eval_programs;
    const struct pst_device_ops *device;
    struct pst_device_config device_config;
    const struct pst_transport_ops *transport;
    uint32_t first_local, n_local; /* ranks of this process; n_local 0: all. Programs and plans are
                                      those of all ranks */
    int (*stop)(void); /* the signal that tells this process to stop, or 0; NULL: none does */
    uint64_t (*wishes)(void); /* how often this process was asked for a checkpoint; NULL: never */
    uint64_t stall_ns;
    bool edges;    /* of the transport: transfers of an edge wait for no others */
    uint64_t seed; /* of initial weights and dropout */
    const struct pst_exec_source
        *source;           /* NULL: initial values by the seed; needed by create only */
    uint64_t first_step;   /* steps before this run: versions and batches are counted from there */
    uint64_t first_update; /* updates before this run, as the optimizer counts them */
    double clip;           /* global norm; 0: none */
    bool skip_non_finite;
    const struct pst_exec_rule *rules;  /* struct pst_parameter has which; NULL: as the update says,
                                           and weight decay where it is marked */
    uint32_t n_rules;                   /* at most PST_UPDATE_KINDS */
    const struct pst_exec_links *links; /* for a device that keeps a clock; others: not read */
    struct pst_recorder *recorder;      /* exec/record.h; NULL: nothing is recorded */
    struct pst_exec_copy_config copies;
    uint32_t graphs; /* enum pst_exec_graphs; no device but those with captures reads it */
    const struct pst_device_times *predicted; /* what PST_GRAPHS_AUTO goes by; NULL: it makes none.
                                                 Called by several threads */
};

/* When the calls of a pass or an update are captured and replayed together (exec/device.h). */
enum pst_exec_graphs {
    PST_GRAPHS_OFF = 0,
    PST_GRAPHS_AUTO, /* if kernels are predicted to take less than 20 us on average; calls that
                        cannot be captured run one by one, with a warning */
    PST_GRAPHS_ON    /* always; a capture that fails ends the run (run.graph, exit code 1) */
};

/*
 * Data of one step: for each input tensor of the graph (they are the first of its tensors) the rows
 * of all samples of the step, row-major. Owned by the caller, unchanged during the step.
 */
struct pst_batch {
    const void *inputs[PST_MAX_INPUTS];
    uint64_t first_sample; /* global index, counted from the start of the run */
};

struct pst_step_result {
    double loss;      /* mean over the samples of the step */
    double grad_norm; /* before clipping */
    bool skipped;     /* non-finite: no update was made */
    uint64_t ns;      /* wall time since the step before it ended or, if that is later, since it was
                         submitted */
};

/* Opens devices, allocates arenas, initialises weights, compiles all kernels; threads then wait. */
pst_status pst_exec_create(const struct pst_exec_config *config, struct pst_exec **ret_exec,
                           struct pst_error *err);
/* If a device of this process does not finish its work within stall_ns, destroy frees no device, no
   transport and no memory. The caller may still free the plan and its other inputs. */
void pst_exec_destroy(struct pst_exec *exec);
/* Returns true if that has happened. Closing a device or calling exit() may then block forever:
   report the error, then call _exit(). Any thread. */
bool pst_exec_is_stuck(void);

/* Most steps in flight. */
#define PST_EXEC_IN_FLIGHT 4

/*
 * Hands out a training step and returns. batch and update are copied, the rows they point to stay
 * valid and unchanged until the step has been collected. update->grad_scale is not read: clipping
 * sets it; update->step counts steps, of which those that were skipped are taken off again for the
 * bias correction of Adam. Weight decay reaches only parameters marked for it, or as rules say, and
 * none with PST_ADAM.
 *
 * PST_ERR_BUG: PST_EXEC_IN_FLIGHT steps are in flight already. After any error of a run (below) but
 * a run.non-finite after which it continues, all further calls return that error.
 */
pst_status pst_exec_submit(struct pst_exec *exec, const struct pst_batch *batch,
                           const struct pst_update *update, struct pst_error *err);

/*
 * Waits for the oldest step in flight. Errors leave nothing in flight:
 *
 * run.non-finite (exit code 1)  loss or norm is not finite. In lists with NORM nothing was updated,
 *     the steps after it were skipped, and the executor continues. In lists without NORM, the
 *     error names the stage and the run has ended: other stages may have been updated.
 * run.stalled  a rank waited longer than stall_ns
 * run.copy (exit code 1)  copies are checked, and what was copied has changed
 * PST_ERR_BUG  nothing is in flight, or an asynchronous plan has not been given the next step and
 *     was not drained
 */
pst_status pst_exec_collect(struct pst_exec *exec, struct pst_step_result *ret_result,
                            struct pst_error *err);

/*
 * An asynchronous plan completes a step during the passes of the step submitted after it. This
 * completes the last step without one: the pipeline drains, and the next step fills it again. No
 * bit depends on it. Does nothing in synchronous plans, and if no step was submitted since.
 */
void pst_exec_drain(struct pst_exec *exec);

/* Copies the state that each local rank saves, as f32, one value after the other in the order of
   pst_exec_state_of, to buffers with room for all of it. Nothing may be in flight. Devices that
   hold no values leave the buffers unchanged. */
pst_status pst_exec_copy_state(struct pst_exec *exec, float *const *ret_values,
                               struct pst_error *err);
/* Updates that the optimizer has counted so far. Nothing may be in flight. */
uint64_t pst_exec_updates(const struct pst_exec *exec);
/* Updates in one step. */
uint32_t pst_exec_updates_of_step(const struct pst_plan *plan);

/* Returns when all processes are ready for the first step, so that the limit on stalls does not
   count the time in which they prepare. Collective. */
pst_status pst_exec_meet(struct pst_exec *exec, struct pst_error *err);

/* The signal that asked this process to stop, or 0. If ranks are processes: one that any of them
   had received when the last step or evaluation ended, the same for all. */
int pst_exec_told(const struct pst_exec *exec);

/* How often it was asked for a checkpoint. If ranks are processes: the maximum over them when the
   last step ended, the same for all. */
uint64_t pst_exec_wishes(const struct pst_exec *exec);

/* Steps that were submitted and not yet collected. */
uint32_t pst_exec_in_flight(const struct pst_exec *exec);

/* Submits, drains and collects one step. Nothing may be in flight, here and in all calls below. */
pst_status pst_exec_step(struct pst_exec *exec, const struct pst_batch *batch,
                         const struct pst_update *update, struct pst_step_result *ret_result,
                         struct pst_error *err);

/* Forward only, dropout off. ret_output (may be NULL): the first output_elems elements of the kept
   tensor of the last micro-batch, as f32. */
pst_status pst_exec_eval(struct pst_exec *exec, const struct pst_batch *batch, double *ret_loss,
                         float *ret_output, uint64_t output_elems, struct pst_error *err);

/* Highest byte of each rank's arena that was ever written, plus one: what the run reached.
   If ranks are processes, this and the next function are collective, and fail without a result if
   one has ended. */
pst_status pst_exec_measured_peaks(struct pst_exec *exec, uint64_t *ret_bytes,
                                   struct pst_error *err);

/* Reports the copies of a rank to and from host memory. */
pst_status pst_exec_copied(const struct pst_exec *exec, uint32_t rank,
                           struct pst_exec_copies *ret_copies, struct pst_error *err);

/* Copies a parameter (f32, by its canonical index) or its summed gradient of the last step out,
   before clipping. PST_ERR_BUG: no such parameter in the plan, or no step was made yet; it is
   split over the parts of a replica. */
pst_status pst_exec_get_parameter(struct pst_exec *exec, uint32_t parameter, float *ret_values);
/* Like pst_exec_get_parameter, but copies from one rank: replicas and members of a tie have a copy
   each, and parts of a replica what is theirs of a split one. Of a parameter in pieces that is not
   f32, or of which ranks keep no more (ZeRO 3), the master weights of the rank's piece alone:
   nothing else of ret_values is written. */
pst_status pst_exec_get_copy(struct pst_exec *exec, uint32_t parameter, uint32_t rank,
                             float *ret_values);
pst_status pst_exec_get_gradient(struct pst_exec *exec, uint32_t parameter, float *ret_values);

#endif
