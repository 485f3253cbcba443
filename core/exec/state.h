/* SPDX-License-Identifier: Apache-2.0
 *
 * An executor. The creating thread reads the result of a step once all ranks are through with it,
 * and everything else only when no task is under way.
 */
#ifndef PST_EXEC_STATE_H
#define PST_EXEC_STATE_H

#include "exec/task_queue.h"
#include "exec/rank.h"

/* A step that was submitted and not yet collected. */
struct exec_flight {
    uint32_t generation; /* of the task that ends it, or so far of the last that belongs to it */
    bool closed;         /* the former */
    uint64_t submitted_ns;
    struct pst_batch batch;
    struct pst_update update;
};

enum { EXEC_WORDS = 2 }; /* in front of a table that goes round: a signal, wishes */

struct pst_exec {
    struct pst_exec_config config;
    uint32_t n_ranks, first_local, n_local;
    struct exec_rank *ranks;     /* of others than the local ones only the index is known */
    struct pst_device **devices; /* of the ranks of this process, by rank */
    struct pst_transport *transport;
    double *shared;  /* of a step: tables of all processes (processes.c); NULL: one has all ranks */
    int signal;      /* that told any of them to stop */
    uint64_t wishes; /* the most that any of them has heard */
    uint64_t stall_ns;
    struct exec_task_queue tasks;
    atomic_uint failed; /* 1 + the rank that failed first, 0: none */
    bool has_norm;      /* the training lists do */
    struct pst_arena memory;
    uint32_t n_trees; /* square sums that make the norm */
    struct pst_square_tree *trees;
    uint32_t n_sums;                 /* in a table: trees, losses */
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
static inline pst_status exec_exchange(const struct pst_exec *exec, const void *mine, void *all,
                                       uint64_t bytes, struct pst_error *err)
{
    return exec->config.transport->processes->exchange(mine, all, bytes, err);
}
/* Tables of a step, and whether to stop. On failure the run has ended. */
pst_status exec_share_step(struct pst_exec *exec, uint32_t slot, uint64_t *ret_ended_ns,
                           struct pst_error *err);
/* The table of a step of any rank. */
const double *exec_table_of(const struct pst_exec *exec, uint32_t rank, uint32_t slot);
/* Sums the loss of a finished evaluation over all processes; fills output unless it is NULL. */
pst_status exec_share_eval(struct pst_exec *exec, uint64_t t, double *ret_loss, float *output,
                           uint64_t n_values, struct pst_error *err);
/* Writes what a rank is doing, for a message (exec/transport.h). */
void exec_doing(void *context, uint32_t rank, char *ret_text, size_t size);

/* setup.c: what the arena of a rank takes. */
uint64_t exec_arena_bytes(const struct pst_exec *exec, uint32_t rank);

/* sums.c: the stage that makes the losses; NULL: none does. */
const struct pst_plan_stage *exec_loss_stage(const struct pst_plan *plan,
                                             const struct pst_graph *graph);
/* The sum of the losses of a finished evaluation, in sample order. */
double exec_eval_loss(const struct pst_exec *exec, uint64_t t);

/* transports.c: what a transport asks of devices with a clock, and of those that stand apart. */
struct pst_transport_times exec_clock_times(struct pst_exec *exec);
struct pst_transport_memory exec_async_memory(struct pst_exec *exec);
/* Returns the PST_MEETS_* of two ranks (exec/transport.h). */
uint32_t exec_meets(void *context, uint32_t rank, uint32_t other);

/* update.c: the sum of the losses in the table of a step, in sample order. */
double exec_loss_of(const struct pst_exec *exec, const double *table);
/* The norm of a table. */
double exec_norm_of(const struct pst_exec *exec, const double *table);

/* rank.c: of a list without parts, the section that reads the weights after t steps. */
uint32_t exec_newest_section(const struct pst_exec *exec, const struct pst_program *program,
                             uint64_t t);

/* A rank has this of the kept tensor: columns [first, first + n) of rows [row, row + n_rows);
   n_rows is 0 if the rank does not keep the tensor. */
struct exec_output {
    uint64_t row, n_rows, columns, first, n;
    uint64_t stride; /* from row to row where the rank has them */
};

/* inspect.c */
struct exec_output exec_output_of(const struct pst_exec *exec, uint32_t rank, uint32_t section);
/* Returns how many elements of a row of it are among the first n_values of all, and where. */
uint64_t exec_output_row(const struct exec_output *output, uint64_t row, uint64_t n_values,
                         uint64_t *ret_first);

#endif
