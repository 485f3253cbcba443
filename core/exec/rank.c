/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a rank: takes tasks until it is told to leave. The first rank that fails is kept
 * and pulls the others out of whatever they wait for.
 */
#include "exec/state.h"

static void report_failure(struct exec_rank *rank)
{
    struct pst_exec *exec = rank->exec;
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&exec->failed, &none, rank->index + 1)) {
        exec->config.transport->abort(exec->transport, rank->index, &rank->error);
    }
}

uint32_t exec_newest_section(const struct pst_exec *exec, const struct pst_program *program,
                             uint64_t t)
{
    return (uint32_t)(t * exec->n_updates % program->n_phases);
}

/* Sections are sorted by phase, then part. */
static uint32_t section_of(const struct pst_exec *exec, const struct exec_list *list,
                           const struct exec_task *task)
{
    return list->plan->asynchronous
               ? (uint32_t)(task->t % list->program->n_phases) * PST_PARTS + task->part
               : exec_newest_section(exec, list->program, task->t);
}

static pst_status run_eval(struct exec_rank *rank, const struct exec_task *task)
{
    uint32_t section = section_of(rank->exec, &rank->eval, task);
    bool hollow = (rank->exec->config.device->flags & PST_DEVICE_NO_DATA) != 0;
    pst_status status = hollow ? PST_OK : exec_share_state(rank, &rank->error);

    PST_TRY(status, exec_run(rank, &rank->eval, section, task, 0, &rank->error));
    if (status == PST_OK && task->values != NULL && rank->eval.output[section] != NULL) {
        exec_copy_output(rank, &rank->eval, section, task->values, task->n_values);
    }
    return status;
}

static pst_status run_step(struct exec_rank *rank, const struct exec_task *task)
{
    pst_status status;

    bool closes = task->part != PST_FILL;

    if (closes) {
        exec_begin_step(rank, task);
    }
    if (task->epoch == rank->halted) {
        return PST_OK;
    }
    status = exec_run(rank, &rank->train, section_of(rank->exec, &rank->train, task), task,
                      PST_CALL_TRAINING, &rank->error);
    if (status == PST_OK && closes) {
        status = exec_join(rank, &rank->error); /* the host reads the losses */
    }
    if (status == PST_OK && closes) {
        exec_end_step(rank, task);
        rank->halted = rank->result->finite || rank->exec->config.skip_non_finite ? 0 : task->epoch;
    }
    return status;
}

static pst_status run_task(struct exec_rank *rank, const struct exec_task *task)
{
    pst_status status = PST_OK;

    exec_clock_begin(rank, task);
    switch (task->command) {
    case EXEC_SETUP:
        status = exec_setup(rank, &rank->error);
        break;
    case EXEC_STEP:
        return run_step(rank, task); /* what it leaves open goes on */
    case EXEC_SETTLE:
        exec_settle(rank);
        return PST_OK;
    case EXEC_EVAL:
        status = run_eval(rank, task);
        break;
    case EXEC_PEAK:
        rank->peak = exec_scan_peak(rank);
        break;
    case EXEC_STATE:
        exec_copy_state(rank, task);
        break;
    default:
        exec_copy_parameter(rank, task);
        break;
    }
    return status == PST_OK ? exec_join(rank, &rank->error) : status;
}

/* Once a rank has failed only what looks at memory is still of use. */
static bool still_runs(const struct exec_rank *rank, uint32_t command)
{
    return atomic_load(&rank->exec->failed) == 0 || command == EXEC_PEAK || command == EXEC_SETTLE;
}

void *exec_rank_main(void *argument)
{
    struct exec_rank *rank = argument;
    struct exec_task_queue *tasks = &rank->exec->tasks;
    uint32_t seen = 0;

    for (;;) {
        const struct exec_task *task = exec_tasks_next(tasks, &seen);
        bool quit = task->command == EXEC_QUIT;

        if (quit && !atomic_load(&rank->exec->stuck)) {
            exec_teardown(rank);
        } else if (!quit && still_runs(rank, task->command)) {
            rank->status = run_task(rank, task);
            if (rank->status != PST_OK) {
                report_failure(rank);
            }
        }
        exec_tasks_done(tasks, seen);
        if (quit) {
            return NULL;
        }
    }
}
