/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the executor. The creating thread hands one task at a time to all rank threads and
 * waits for the last of them; a rank owns its device, its arena and everything in struct exec_rank,
 * and the creating thread looks at it only between tasks.
 */
#ifndef PST_EXEC_INTERNAL_H
#define PST_EXEC_INTERNAL_H

#include <pthread.h>

#include "exec/exec.h"

enum exec_command {
    EXEC_SETUP = 0,
    EXEC_STEP,
    EXEC_EVAL,
    EXEC_PEAK,
    EXEC_PARAMETER,
    EXEC_GRADIENT,
    EXEC_QUIT
};

/* What the rank threads shall do next; written before, read after the hand-off. */
struct exec_task {
    uint32_t command;
    const struct pst_batch *batch;
    const struct pst_update *update;
    uint32_t parameter;
    float *values; /* parameter or gradient; output of an evaluation, or NULL */
    uint64_t n_values;
};

struct exec_handoff {
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    atomic_uint generation; /* tasks handed out */
    uint32_t n_running;     /* under the mutex */
    uint32_t spins;
    bool ready;
};

struct exec_kernel {
    struct exec_kernel *next; /* of the same operator */
    uint32_t pass, samples;
    struct pst_kernel *kernel;
};

/* A program call with its pointers resolved. */
struct exec_call {
    uint8_t kind;
    uint32_t first_sample; /* of the step */
    union {
        struct {
            const struct pst_kernel *kernel;
            struct pst_call call;
        } kernel;
        struct {
            void *dst;
            uint64_t row_bytes, bytes;
            uint32_t field;
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

struct exec_instr {
    uint8_t op;
    bool pending; /* SEND, RECV: posted and not yet waited for */
    uint32_t stage, peer;
    uint32_t first_call, n_calls, first_part, n_parts;
    uint32_t n_waits;
    const uint32_t *waits; /* transfers of this list only */
    const struct exec_tie *tie;
};

/* One program bound to this rank's arena. */
struct exec_list {
    const struct pst_plan *plan;
    const struct pst_program *program;
    uint32_t n_instrs;
    struct exec_instr *instrs;
    struct exec_call *calls;
    struct exec_part *parts;
    bool has_loss;
    uint64_t workspace_end; /* in the arena: of the highest workspace that a kernel gets */
    const void *output;     /* evaluation: the kept tensor, where it is here */
    uint64_t output_elems;
    uint32_t output_dtype;
};

struct exec_param {
    uint32_t parameter, stage, dtype;
    bool owner, decay;
    uint64_t elems;
    float *weights, *grad; /* grad: summed over all users */
    float *slots[2];
    void *working; /* equals weights for f32 */
};

struct exec_rank {
    struct pst_exec *exec;
    uint32_t index;
    pthread_t thread;
    bool started;
    struct pst_arena memory; /* of everything below */
    struct pst_device *device;
    char *base; /* the device arena */
    uint64_t arena_bytes;
    uint64_t handed_bytes;        /* end of the highest workspace that a kernel got so far */
    struct exec_kernel **kernels; /* per operator */
    struct exec_list train, eval;
    uint32_t n_params;
    struct exec_param *params;
    float *losses;    /* per sample of the step */
    double *table;    /* per parameter: square sum; then the loss sum */
    uint64_t n_steps; /* posted so far, in either list: part of the tags */
    /* results of the last task */
    double loss_sum, norm;
    bool finite;
    float grad_scale;
    uint64_t peak;
    pst_status status;
    struct pst_error error;
};

struct pst_exec {
    struct pst_exec_config config;
    uint32_t n_ranks;
    struct exec_rank *ranks;
    struct pst_transport *transport;
    struct exec_handoff handoff;
    struct exec_task task;
    atomic_uint failed; /* 1 + the rank that failed first, 0: none */
    uint64_t n_steps;   /* that ended */
};

/* handoff.c */
bool exec_handoff_init(struct exec_handoff *handoff, uint32_t n_ranks);
void exec_handoff_finish(struct exec_handoff *handoff);
/* Gives the task to n ranks and returns when all of them are through. */
void exec_handoff_run(struct exec_handoff *handoff, uint32_t n_ranks);
/* For ranks: returns when a task after *seen is there; and: this rank is through with it. */
void exec_handoff_next(struct exec_handoff *handoff, uint32_t *seen);
void exec_handoff_done(struct exec_handoff *handoff);

/* rank.c: body of a rank thread; argument is its struct exec_rank. */
void *exec_rank_main(void *argument);

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
void *exec_value(const struct exec_rank *rank, const struct pst_program *program, uint32_t value);

/* bind_calls.c: calls of the whole list. */
pst_status exec_bind_calls(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);

/* tie.c */
pst_status exec_bind_tie(struct exec_rank *rank, const struct pst_plan *plan, uint32_t tie,
                         const struct exec_tie **ret_tie, struct pst_error *err);

/* run.c: walks the list once; flags go to every kernel. */
pst_status exec_run(struct exec_rank *rank, struct exec_list *list, const struct exec_task *task,
                    uint32_t flags, struct pst_error *err);

/* step.c: NORM; STEP of a stage; the sum of the losses in sample order. */
pst_status exec_norm(struct exec_rank *rank, const struct exec_list *list, struct pst_error *err);
void exec_update(struct exec_rank *rank, uint32_t stage, const struct pst_update *update);
double exec_loss_sum(const struct exec_rank *rank, const struct exec_list *list);

/* evaluate.c: finds the kept tensor; copies it out as f32. */
pst_status exec_bind_output(struct exec_rank *rank, struct exec_list *list, struct pst_error *err);
void exec_copy_output(struct exec_rank *rank, const struct exec_list *list, float *values,
                      uint64_t n_values);

/* inspect.c */
uint64_t exec_scan_peak(struct exec_rank *rank);
void exec_copy_parameter(struct exec_rank *rank, uint32_t parameter, bool gradient, float *values);

#endif
