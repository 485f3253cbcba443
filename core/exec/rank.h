/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank: it owns its device, its arena and everything in struct exec_rank. These functions are
 * called on the rank's thread unless they name another one.
 */
#ifndef PST_EXEC_RANK_H
#define PST_EXEC_RANK_H

#include <pthread.h>

#include "exec/async_device.h"
#include "exec/exec_copies.h"
#include "exec/graphs.h"
#include "exec/list.h"
#include "exec/events.h"

struct exec_task;
struct exec_update;

struct exec_param {
    uint32_t parameter, stage, dtype;
    bool owner;
    uint32_t kind; /* of its update: its rule, or without rules whether it decays */
    uint64_t elems, rows, columns;
    struct pst_shard shard; /* the elements that the rank updates */
    float factor;           /* Muon: of lr */
    float *room;            /* likewise; shared by the parameters of a stage */
    float *weights;         /* master of the shard; f32: NULL, it is one of the versions */
    uint32_t n_versions;
    void **versions;       /* that passes read, in turn (plan/program.h); f32: masters */
    float *grads[2];       /* of the shard, summed over all users, of even and odd batches */
    struct pst_shard kept; /* of each version */
    float *staging;        /* room for all elements while no step is in flight */
    float *slots[2];       /* of the shard */
};

/* A square sum that the rank computes. */
struct exec_square {
    uint32_t param;        /* row of params */
    uint32_t entry;        /* of the table; PST_NONE: another rank tells it */
    uint64_t first, elems; /* inside the parameter */
};

/* The result of a step on one rank. */
struct exec_result {
    double *table; /* square sums of the gradient (pst_square_tree); then the sum of the losses or,
                      where replicas have them, the loss of each sample. Sums over all ranks where
                      the lists hold NORM, else this rank's share */
    double norm;
    bool finite; /* set by NORM; true in lists without NORM */
    bool done;   /* the rank ran the list to its end */
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
    struct exec_async async;
    struct exec_times times;
    struct pst_mark *last; /* for exec_settle(); NULL: nothing is in queues then */
    struct exec_graphs graphs;
    uint32_t n_params;
    struct exec_param *params;
    uint32_t n_squared;
    struct exec_square *squared;
    double *squares;   /* [n_squared] their sums; pinned on a device that stands apart, */
    float *losses;     /* and this, too: per sample of two batches, even and odd */
    uint32_t n_losses; /* of one of them */
    struct exec_result results[PST_EXEC_IN_FLIGHT];
    struct exec_result *result; /* of the step in work */
    float grad_scale;
    uint64_t n_skipped; /* updates that the optimizer does not count, modulo 2^64: of steps whose
                           NORM was not finite; all ranks count alike */
    uint64_t halted;    /* steps of this epoch are passed over; 0: none */
    /* results of the last task */
    uint64_t peak;
    pst_status status;
    struct pst_error error;
};

/* rank.c: body of a rank thread; argument is its struct exec_rank. */
void *exec_rank_main(void *argument);

/* setup.c: device, arena, lists, first values. On the rank's thread. */
pst_status exec_setup(struct exec_rank *rank, struct pst_error *err);
void exec_teardown(struct exec_rank *rank);

/* persist.c: first values; what the rank answers for. */
pst_status exec_begin_state(struct exec_rank *rank, struct pst_error *err);
void exec_copy_state(struct exec_rank *rank, const struct exec_task *task);
/* After t steps: the newest weights as f32. */
float *exec_master(const struct exec_rank *rank, const struct exec_param *param, uint64_t t);

/* Where the shard begins in a version of a parameter. */
static inline void *exec_shard_of(const struct exec_param *param, void *version)
{
    const uint64_t begin = param->shard.first - param->kept.first;

    return (char *)version + begin * pst_dtype_bytes(param->dtype);
}

/* The buffer of a value, NULL for PST_NONE. */
static inline void *exec_value(const struct exec_rank *rank, const struct pst_program *program,
                               uint32_t value)
{
    return value == PST_NONE ? NULL : rank->base + program->values[value].offset;
}

/* run.c: walks a section once; flags go to every kernel. */
pst_status exec_run(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                    const struct exec_task *task, uint32_t flags, struct pst_error *err);

/* This call and the next one of a pass at once, where the device does so; false: nothing was done.
 */
bool exec_run_both(const struct exec_list *list, uint32_t index, const struct exec_task *task,
                   uint32_t flags);
pst_status exec_run_call(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                         const struct exec_task *task, uint32_t flags, struct pst_error *err);

/* Fails where the rank is told to, at a point of PENSTOCK_FAULT. */
pst_status exec_fault(const struct exec_rank *rank, const char *point, struct pst_error *err);

/* sums.c: the parts of a replica, or replicas, meet in a call. */
pst_status exec_meet_parts(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                           struct pst_error *err);
/* Posts the meeting of TIE, REDUCE or GATHER. */
pst_status exec_post_meeting(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                             struct pst_error *err);
/* Gives all replicas the running statistics of the first; all ranks call it, with nothing under
   way. */
pst_status exec_share_state(struct exec_rank *rank, struct pst_error *err);

/* transports.c: the rank has nothing to do before this task. */
void exec_clock_begin(struct exec_rank *rank, const struct exec_task *task);
/* Called after a pass or update. */
void exec_clock_finish(struct exec_rank *rank);
/* The host takes its time to post a transfer. */
void exec_clock_post(struct exec_rank *rank);
void exec_clock_touch(struct exec_rank *rank, const void *data, uint64_t bytes);
/* The transfers that were posted last are a group, and complete. */
pst_status exec_flush(struct exec_rank *rank, struct pst_error *err);
/* Called after a join with an ordered transport: fails if the data that it moved are not valid. */
pst_status exec_check(struct exec_rank *rank, struct pst_error *err);
/* Makes the transport release the rank's device. False: the device cannot be closed. */
bool exec_detach(struct exec_rank *rank);
/* Fails with "cannot post `what` `whose`", or with run.aborted if another rank stopped the run. */
pst_status exec_fail_post(const struct exec_rank *rank, pst_status status, const char *what,
                          uint32_t whose, struct pst_error *err);

/* update.c: begin and end of a step; NORM; STEP of a stage. */
void exec_begin_step(struct exec_rank *rank, const struct exec_task *task);
void exec_end_step(struct exec_rank *rank, const struct exec_task *task);
pst_status exec_norm(struct exec_rank *rank, const struct exec_task *task, struct pst_error *err);
pst_status exec_step_stage(struct exec_rank *rank, const struct exec_list *list, uint32_t index,
                           const struct exec_task *task, struct pst_error *err);
/* Asks the device for the update, parameter by parameter. */
void exec_update_params(const struct exec_update *update);
/* Returns the update for parameters of one kind; kinds are counted from 0. */
struct pst_update exec_own_update(const struct exec_update *update, uint32_t kind);
uint32_t exec_update_kinds(const struct exec_rank *rank);

/* record.c: begins a visit of a section. Returns NULL if it is not recorded. */
struct exec_visit *exec_record_enter(struct exec_rank *rank, const struct exec_list *list,
                                     uint32_t section, const struct exec_task *task);
/* Records when an instruction ran; further pieces widen that time. visit may be NULL. */
void exec_record_copied(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end);
/* Adds to the time that a pass waited for copies. visit may be NULL. */
void exec_record_stall(struct exec_visit *visit, uint32_t instr, uint64_t ns);

/* inspect.c: finds the kept tensor of an evaluation; copies it out as f32. */
pst_status exec_bind_output(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);
void exec_copy_output(struct exec_rank *rank, const struct exec_list *list, uint32_t section,
                      float *values, uint64_t n_values);
uint64_t exec_scan_peak(const struct exec_rank *rank);
void exec_copy_floats(const struct exec_rank *rank, float *values, const void *src, uint32_t dtype,
                      uint64_t n);
void exec_copy_parameter(struct exec_rank *rank, const struct exec_task *task);

#endif
