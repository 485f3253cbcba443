/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the executor. The creating thread puts tasks into a ring; every rank thread takes all
 * of them in order, at its own pace. A rank owns its device, its arena and everything in struct
 * exec_rank. The creating thread reads the result of a step once all ranks are through with it, and
 * everything else only when no task is under way.
 */
#ifndef PST_EXEC_INTERNAL_H
#define PST_EXEC_INTERNAL_H

#include <pthread.h>

#include "exec/copies.h"
#include "exec/graphs.h"

enum exec_command {
    EXEC_SETUP = 0,
    EXEC_STEP,
    EXEC_EVAL,
    EXEC_PEAK,
    EXEC_PARAMETER,
    EXEC_GRADIENT,
    EXEC_SETTLE,
    EXEC_QUIT
};

enum { EXEC_TASKS = 8 }; /* in the ring */

/* What the rank threads shall do next; written before, read after the hand-off. */
struct exec_task {
    uint32_t command;
    uint32_t part; /* enum pst_part */
    uint64_t t; /* the batch that the part closes (fill: that it begins); evaluation: updates made
                   so far */
    struct pst_batch batches[2]; /* that one and, in the body of an asynchronous plan, the next */
    struct pst_update update;    /* of the first */
    uint32_t slot;               /* of a step: where its result goes */
    uint64_t epoch;     /* of a step: counted up when a step that was not finite is collected */
    uint64_t posted_ns; /* when it was handed out */
    uint32_t parameter, of_rank; /* of_rank: whose; PST_NONE: its owner's */
    float *values;               /* parameter or gradient; output of an evaluation, or NULL */
    uint64_t n_values;
};

struct exec_handoff {
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    atomic_uint generation; /* tasks handed out; the last one is at [(generation - 1) % ring] */
    struct exec_task tasks[EXEC_TASKS];
    uint32_t n_running[EXEC_TASKS]; /* under the mutex */
    uint64_t ended_ns[EXEC_TASKS];  /* when the last rank was through; under the mutex */
    uint32_t spins;
};

struct exec_kernel {
    struct exec_kernel *next; /* of the same operator */
    uint32_t pass, samples;
    struct pst_kernel *kernel;
};

/* A program call with its pointers resolved. */
struct exec_call {
    uint8_t kind;
    uint8_t next;          /* of the task's batches: 0 or 1 */
    uint32_t first_sample; /* of that batch */
    union {
        struct {
            const struct pst_kernel *kernel;
            struct pst_call call;
        } kernel;
        struct {
            void *dst;
            uint64_t row_bytes, bytes;
            uint32_t input;
        } load;
        struct {
            void *dst;
            const void *a, *b;
            uint64_t elems;
            uint32_t dtype;
        } sum;
        struct {
            float *dst;
            const float *src;
            uint64_t elems;
        } accumulate;
        struct {
            const float *src;
            uint32_t samples;
        } loss;
    };
};

struct exec_part {
    void *data;
    uint64_t bytes, tag;
    pst_request request;
    uint8_t next; /* as in exec_call */
};

/* The sum over the users of a tied parameter, as the transport wants it. */
struct exec_tie {
    const uint32_t *members;
    uint32_t n_members, n_src, n_order;
    const float *const *src;
    const uint32_t (*order)[2];
    float *dst;
    uint64_t elems;
};

/* The sum of a stage's gradients over its replicas. */
struct exec_reduce {
    const uint32_t *members;
    uint32_t n_members, n_parts;
    const struct pst_reduce_part *parts;
};

/* One run of a section, as it is recorded: times of its instructions, 0 where none is known. */
struct exec_visit {
    uint64_t t;
    uint32_t section, first_instr, n_instrs;
    uint64_t *start, *end;
    uint64_t *stall; /* of passes: in which they stood still for copies */
};

struct exec_instr {
    uint8_t op;
    bool pending; /* SEND, RECV, REDUCE: posted and not yet waited for */
    uint32_t stage, peer;
    uint32_t first_call, n_calls, first_part, n_parts;
    uint32_t n_waits;
    const uint32_t *waits; /* transfers and sums of this list only */
    /* Transfers that a part of an asynchronous plan leaves open end by the next pass in their
       direction of the stage that has the buffer, REDUCE by the next TIE, NORM or STEP
       (plan/plan.h). */
    uint32_t bucket;    /* SEND, RECV, REDUCE: theirs; PST_NONE: none */
    uint32_t ends;      /* bucket that it ends; PST_NONE: none */
    uint32_t next_open; /* of the same bucket */
    const struct exec_tie *tie;
    const struct exec_reduce *reduce; /* NULL: the stage has one replica */
    pst_request request;              /* REDUCE */
    uint32_t n_behind;                /* passes: copies that are posted with it */
    bool ahead;                       /* copies: it was posted with the pass before */
    struct exec_visit *visit; /* of what is posted: that it was posted in; NULL: not recorded */
    uint32_t update;          /* STEP: counted from the first of the batch that the part closes */
};

/* One program bound to this rank's arena. */
struct exec_list {
    const struct pst_plan *plan;
    const struct pst_program *program;
    struct exec_instr *instrs; /* all sections, as in the program */
    struct exec_call *calls;
    struct exec_part *parts;
    struct exec_copy *copies; /* NULL: it has none */
    uint32_t *open;           /* [bucket] first instruction, PST_NONE: nothing is open */
    bool has_loss;
    uint64_t *workspace_end; /* [section] in the arena: of the highest workspace a kernel gets */
    const void **output;     /* [section] evaluation: the kept tensor, where it is here */
    uint32_t output_dtype;
};

struct exec_param {
    uint32_t parameter, stage, dtype;
    bool owner, decay;
    uint64_t elems;
    float *weights; /* master; f32 and several versions: that of versions[0] */
    uint32_t n_versions;
    void **versions; /* that passes read, in turn (plan/program.h); f32: masters */
    float *grads[2]; /* summed over all users, of even and odd batches */
    float *slots[2];
};

/* What a rank knows of a step. */
struct exec_result {
    double *table; /* per parameter: square sum of the gradient; then the sum of the losses or,
                      where replicas have them, the loss of each sample. Sums over all ranks where
                      the lists hold NORM, else this rank's share */
    double norm;
    bool finite; /* as NORM says; without it: true, the shares tell */
    bool done;   /* the rank ran the list to its end */
};

/* Between two timed marks that have been asked for. */
struct exec_timing {
    struct pst_mark *start, *end;
    bool ready;               /* both have been set */
    struct exec_visit *visit; /* NULL: not recorded */
    uint32_t instr;
    uint64_t *stall_ns; /* where the queue of kernels waited for a copy: the sum of that */
    struct pst_exec_copies *moved; /* of a copy: whose share it is; NULL: it is none */
    uint64_t bytes;
    uint32_t direction;
};

/* A ring; what is in it is read when it has ended. */
struct exec_times {
    struct exec_timing *ring;
    uint32_t n; /* 0: nothing is timed */
    uint64_t n_put, n_read;
    pst_status status; /* of the waits for room; exec_pace() and exec_join() fail with it */
    struct pst_error error;
};

/* Of a rank whose device stands apart. */
enum { EXEC_AHEAD = 64, EXEC_LOADS = 8, EXEC_NAME = 24 };

struct exec_apart {
    bool active;
    /* Marks behind passes and updates: the rank's thread is at most so many ahead of its device. */
    struct pst_mark *ahead[EXEC_AHEAD];
    uint64_t n_set, n_passed;
    /* Input rows on their way, in pinned memory. */
    struct pst_mark *loaded[EXEC_LOADS];
    char *loads;
    uint64_t load_bytes, n_loads;
    char (*names)[EXEC_NAME]; /* of the training list's instructions, as traces name them; NULL:
                                 nobody watches */
};

struct exec_rank {
    struct pst_exec *exec;
    uint32_t index;
    pthread_t thread;
    bool started;
    atomic_uint at;          /* instruction in work, counted from 1; 0: none */
    atomic_bool evaluates;   /* it is one of the evaluation's list */
    struct pst_arena memory; /* of everything below */
    struct pst_device *device;
    char *base; /* the device arena */
    uint64_t arena_bytes;
    uint64_t handed_bytes;        /* end of the highest workspace that a kernel got so far */
    struct exec_kernel **kernels; /* per operator */
    struct exec_list train, eval;
    struct exec_copies copies;
    struct exec_apart apart;
    struct exec_times times;
    struct pst_mark *last; /* for exec_settle(); NULL: nothing is in queues then */
    struct exec_graphs graphs;
    uint32_t n_params;
    struct exec_param *params;
    double *squares;   /* per parameter of the rank; pinned on a device that stands apart, */
    float *losses;     /* and this, too: per sample of two batches, even and odd */
    uint32_t n_losses; /* of one of them */
    struct exec_result results[PST_EXEC_IN_FLIGHT];
    struct exec_result *result; /* of the step in work */
    float grad_scale;
    uint64_t n_skipped; /* steps whose NORM was not finite: all ranks count alike */
    uint64_t halted;    /* steps of this epoch are passed over; 0: none */
    /* results of the last task */
    uint64_t peak;
    pst_status status;
    struct pst_error error;
};

/* A step that was submitted and not yet collected. */
struct exec_flight {
    uint32_t generation; /* of the task that ends it, or so far of the last that belongs to it */
    bool closed;         /* the former */
    uint64_t submitted_ns;
    struct pst_batch batch;
    struct pst_update update;
};

struct pst_exec {
    struct pst_exec_config config;
    uint32_t n_ranks, first_local, n_local;
    struct exec_rank *ranks; /* of others than the local ones only the index is known */
    struct pst_device **devices; /* of the ranks of this process, by rank */
    struct pst_transport *transport;
    double *shared; /* of a step: tables of all processes (processes.c); NULL: one has all ranks */
    int signal;     /* that told any of them to stop */
    uint64_t stall_ns;
    struct exec_handoff handoff;
    atomic_uint failed;              /* 1 + the rank that failed first, 0: none */
    bool has_norm;                   /* the training lists do */
    uint32_t n_sums;                 /* in a table: parameters, losses */
    uint32_t n_updates, n_in_update; /* of a stage in a step; samples of one */
    double *table;                   /* n_sums: sums over all ranks */
    struct exec_flight flights[PST_EXEC_IN_FLIGHT];
    uint64_t n_submitted, n_collected; /* steps */
    bool open;          /* asynchronous: the part that closes the last one is not handed out yet */
    uint64_t epoch;     /* from 1 */
    uint64_t n_steps;   /* that ended */
    uint64_t ended_ns;  /* when the last collected step did */
    pst_status stopped; /* PST_OK, or why the creating thread ended the run */
    struct pst_error why;
    bool told;                  /* the caller knows that the run has ended */
    atomic_bool stuck;          /* a device of this process stands still: nothing is freed */
    struct pst_exec *next_left; /* of those that were left so */
};

/* handoff.c */
void exec_handoff_init(struct exec_handoff *handoff, uint32_t n_ranks);
void exec_handoff_finish(struct exec_handoff *handoff);
/* Puts a task for n ranks into the ring, where the task EXEC_TASKS before it has ended. Returns its
   generation. */
uint32_t exec_handoff_post(struct exec_handoff *handoff, const struct exec_task *task,
                           uint32_t n_ranks);
/* Returns when all ranks are through with it; the time at which the last one was. */
uint64_t exec_handoff_wait(struct exec_handoff *handoff, uint32_t generation);
/* For ranks: the task after *seen, once it is there; and: this rank is through with it. */
const struct exec_task *exec_handoff_next(struct exec_handoff *handoff, uint32_t *seen);
void exec_handoff_done(struct exec_handoff *handoff, uint32_t seen);

/* exec.c: what ended the run, of ranks the one that failed first; PST_OK: nothing has. */
pst_status exec_failure(struct pst_exec *exec, struct pst_error *err);
/* Runs a task on all ranks while nothing else is under way. */
pst_status exec_run_all(struct pst_exec *exec, const struct exec_task *task, struct pst_error *err);

/* processes.c: are there ranks in other processes? */
static inline bool exec_is_shared(const struct pst_exec *exec)
{
    return exec->n_local < exec->n_ranks;
}
/* all[r * bytes] := what rank r brings; collective. One process is one rank. */
pst_status exec_exchange(const struct pst_exec *exec, const void *mine, void *all, uint64_t bytes,
                         struct pst_error *err);
/* Tables of a step, and whether to stop. On failure the run has ended. */
pst_status exec_share_step(struct pst_exec *exec, uint32_t slot, uint64_t *ret_ended_ns,
                           struct pst_error *err);
/* The table of a step of any rank. */
const double *exec_table_of(const struct pst_exec *exec, uint32_t rank, uint32_t slot);
/* Of an evaluation that has ended: the loss over all processes and, unless NULL, the output. */
pst_status exec_share_eval(struct pst_exec *exec, uint64_t t, double *ret_loss, float *output,
                           uint64_t n_values, struct pst_error *err);
/* What a rank is at, for a message (transport/transport.h). */
void exec_doing(void *context, uint32_t rank, char *ret_text, size_t size);

/* rank.c: body of a rank thread; argument is its struct exec_rank. */
void *exec_rank_main(void *argument);

/* room.c: whether devices have room for all arenas of this process, before they are opened; what
   the arena of a rank takes. */
pst_status exec_check_room(struct pst_exec *exec, struct pst_error *err);
uint64_t exec_arena_bytes(const struct pst_exec *exec, uint32_t rank);

/* setup.c: device, arena, lists, first values. On the rank's thread. */
pst_status exec_setup(struct exec_rank *rank, struct pst_error *err);
void exec_teardown(struct exec_rank *rank);

/* kernels.c: the kernel for this call, compiled at its first use. */
pst_status exec_kernel_get(struct exec_rank *rank, uint32_t op, uint32_t pass, uint32_t samples,
                           const struct pst_kernel **ret_kernel, struct pst_error *err);
void exec_kernels_destroy(struct exec_rank *rank);

/* bind.c */
pst_status exec_bind(struct exec_rank *rank, struct exec_list *list, const struct pst_plan *plan,
                     const struct pst_program *program, struct pst_error *err);
/* The buffer of a value, NULL for PST_NONE. */
static inline void *exec_value(const struct exec_rank *rank, const struct pst_program *program,
                               uint32_t value)
{
    return value == PST_NONE ? NULL : rank->base + program->values[value].offset;
}

/* bind_calls.c: calls of the whole list. */
pst_status exec_bind_calls(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);

/* tie.c */
pst_status exec_bind_tie(struct exec_rank *rank, const struct pst_plan *plan, uint32_t tie,
                         uint32_t parity, const struct exec_tie **ret_tie, struct pst_error *err);

/* reduce.c: the sum behind REDUCE of a stage with several replicas; posts it. */
const struct exec_reduce *exec_bind_reduce(struct exec_rank *rank, const struct pst_plan *plan,
                                           uint32_t stage, uint32_t parity);
pst_status exec_post_reduce(struct exec_rank *rank, struct exec_instr *instr,
                            struct pst_error *err);
/* Gives all replicas the running statistics of the first; all ranks call it, with nothing under
   way. */
pst_status exec_share_state(struct exec_rank *rank, struct pst_error *err);
/* No edge has this number: operators may be named in its place. */
#define EXEC_NO_EDGE ((1u << 24) - 1)
#define EXEC_GUEST   ((uint64_t)EXEC_NO_EDGE - 1) /* in place of an edge: of a guest */
/* Which tensor of its message a tag of bind.c is for. */
static inline uint32_t exec_tag_part(uint64_t tag)
{
    return tag >> 40 == EXEC_GUEST ? (uint32_t)(tag >> 24) & 0x7fff : (uint32_t)(tag >> 32) & 0x7f;
}
static inline uint64_t exec_state_tag(uint32_t op, uint32_t i)
{
    return (uint64_t)EXEC_NO_EDGE << 40 | (uint64_t)i << 39 | op;
}
/* The stage that makes the losses; NULL: none does. */
const struct pst_plan_stage *exec_loss_stage(const struct pst_plan *plan,
                                             const struct pst_graph *graph);
/* Of an evaluation that has ended, in sample order. */
double exec_eval_loss(const struct pst_exec *exec, uint64_t t);

/* run.c: walks a section once; flags go to every kernel. */
pst_status exec_run(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                    const struct exec_task *task, uint32_t flags, struct pst_error *err);

pst_status exec_run_call(struct exec_rank *rank, struct exec_call *call,
                         const struct exec_task *task, uint32_t flags, struct pst_error *err);

/* clock.c: for a device with a clock. What the transport asks of it. */
struct pst_transport_times exec_clock_times(struct pst_exec *exec);
/* The rank has nothing to do before this task. */
void exec_clock_begin(struct exec_rank *rank, const struct exec_task *task);
/* Behind a pass or update. */
void exec_clock_finish(struct exec_rank *rank);
void exec_clock_touch(struct exec_rank *rank, const void *data, uint64_t bytes);

/* links.c: what two ranks have to do with each other (transport/transport.h). */
uint32_t exec_meets(void *context, uint32_t rank, uint32_t other);
/* The transfers that were posted last are a group, and complete. */
pst_status exec_flush(struct exec_rank *rank, struct pst_error *err);
/* Of an ordered transport, behind a join: whether what it moved is what came. */
pst_status exec_check(struct exec_rank *rank, struct pst_error *err);
/* The transport lets go of what is the rank's device's. False: the device cannot be closed. */
bool exec_detach(struct exec_rank *rank);
/* What a post that failed is told as: "cannot post `what` `whose`". */
pst_status exec_fail_post(const struct exec_rank *rank, pst_status status, const char *what,
                          uint32_t whose, struct pst_error *err);

/* needs.c: of a rank whose lists are bound (transport/transport.h). On the rank's thread. */
struct pst_transport_needs exec_needs(void *context, uint32_t rank);

/* apart.c: for a device with memory of its own; what follows does on others what comes of itself.
   What the transport asks of it. */
struct pst_transport_memory exec_apart_memory(struct pst_exec *exec);
/* The rank's device is open and its lists are bound: makes what is below, tells the transport. */
pst_status exec_apart_init(struct exec_rank *rank, struct pst_error *err);
/* Rows of a batch to the device; they are the caller's again. */
pst_status exec_load(struct exec_rank *rank, void *dst, const void *src, uint64_t bytes,
                     struct pst_error *err);
/* Behind a pass or update: waits where the device is too far behind. */
pst_status exec_pace(struct exec_rank *rank, struct pst_error *err);
/* rank->squares[i] := square sum of the gradient of parameter i of the rank, of those of a stage
   (PST_NONE: of those that it owns). */
pst_status exec_squares(struct exec_rank *rank, uint64_t t, uint32_t stage, struct pst_error *err);
/* What is asked for from here on belongs to an instruction, for who watches the device; and: it
   does not any more. */
void exec_range_begin(const struct exec_rank *rank, const struct exec_list *list, uint32_t instr);
void exec_range_end(const struct exec_rank *rank, const struct exec_list *list);
/* Nothing that any queue of the rank's device was asked for is left; or it stands still, and
   exec->stuck says so. */
void exec_settle(struct exec_rank *rank);
/* Joins the device where the transport does not work in the order of devices. */
pst_status exec_before_post(struct exec_rank *rank, struct pst_error *err);
/* What the rank asked its device for so far has ended; what went wrong there. On its thread. */
pst_status exec_join(struct exec_rank *rank, struct pst_error *err);

/* ranges.c: names of instructions, where the device has ranges. */
void exec_ranges_init(struct exec_rank *rank);

/* marks.c: waits until all before a mark has ended; what for, in words, NULL: for the device. A
   copy that was found to be changed ends it, too. */
pst_status exec_await(struct exec_rank *rank, struct pst_mark *mark, const char *what,
                      struct pst_error *err);
/* Room for what is timed, where anything is. */
pst_status exec_times_init(struct exec_rank *rank, struct pst_error *err);
/* The next place, whose marks are to be set; waits for the oldest where none is free. NULL: nothing
   is timed, or the wait has failed, which the next exec_pace() or exec_join() tells. */
struct exec_timing *exec_times_take(struct exec_rank *rank, struct exec_visit *visit,
                                    uint32_t instr);
/* Its marks have been set. */
void exec_times_put(struct exec_timing *timing);
/* Notes what has ended. */
void exec_times_read(struct exec_rank *rank);
/* The last wait or collective of the rank, as the transport tells; further pieces widen it. */
void exec_times_moved(struct exec_rank *rank, struct exec_visit *visit, uint32_t instr);

/* record.c: NULL where nothing is recorded; NULL visits are accepted. */
struct exec_visit *exec_record_enter(struct exec_rank *rank, const struct exec_list *list,
                                     uint32_t section, const struct exec_task *task);
/* It took place; further pieces widen it. */
void exec_record_copied(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end);
/* A pass stood still, once more. */
void exec_record_stall(struct exec_visit *visit, uint32_t instr, uint64_t ns);

/* update.c: begin and end of a step; NORM; STEP of a stage. */
void exec_begin_step(struct exec_rank *rank, const struct exec_task *task);
void exec_end_step(struct exec_rank *rank, const struct exec_task *task);
pst_status exec_norm(struct exec_rank *rank, const struct exec_task *task, struct pst_error *err);
pst_status exec_step_stage(struct exec_rank *rank, const struct exec_instr *instr,
                           const struct exec_task *task, struct pst_error *err);
/* Asks the device for it, parameter by parameter. */
void exec_update_params(const struct exec_update *update);
/* What a parameter's update is made with, with weight decay where that applies. */
struct pst_update exec_own_update(const struct exec_update *update, bool decay);
/* What a table of a step says: the sum of the losses, in sample order. */
double exec_loss_of(const struct pst_exec *exec, const double *table);
/* The norm of a table of square sums. */
double exec_norm_of(const double *table, uint32_t n_params);

/* rank.c: of a list without parts, the section that reads the weights after t steps. */
uint32_t exec_newest_section(const struct pst_exec *exec, const struct pst_program *program,
                             uint64_t t);
/* evaluate.c: which elements of the kept tensor a rank has; none: where it is elsewhere. */
void exec_output_range(const struct pst_exec *exec, uint32_t rank, uint32_t section,
                       uint64_t *ret_first, uint64_t *ret_elems);
/* Finds the kept tensor; copies it out as f32. */
pst_status exec_bind_output(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);
void exec_copy_output(struct exec_rank *rank, const struct exec_list *list, uint32_t section,
                      float *values, uint64_t n_values);

/* inspect.c */
uint64_t exec_scan_peak(struct exec_rank *rank);
void exec_copy_parameter(struct exec_rank *rank, const struct exec_task *task);

#endif
