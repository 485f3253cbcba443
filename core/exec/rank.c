/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a rank: takes tasks until it is told to leave. The first rank that fails is kept
 * and pulls the others out of whatever they wait for.
 */
#include "exec/internal.h"

static void report(struct exec_rank *rank)
{
    struct pst_exec *exec = rank->exec;
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&exec->failed, &none, rank->index + 1)) {
        exec->config.transport->abort(exec->transport, rank->index, rank->error.message);
    }
}

static pst_status run_task(struct exec_rank *rank, const struct exec_task *task)
{
    pst_status status = PST_OK;

    switch (task->command) {
    case EXEC_SETUP:
        status = exec_setup(rank, &rank->error);
        break;
    case EXEC_STEP:
        rank->finite = false;
        status = exec_run(rank, &rank->train, task, PST_CALL_TRAINING, &rank->error);
        break;
    case EXEC_EVAL:
        status = exec_run(rank, &rank->eval, task, 0, &rank->error);
        if (status == PST_OK) {
            rank->loss_sum = exec_loss_sum(rank, &rank->eval);
            if (task->values != NULL && rank->eval.output != NULL) {
                exec_copy_output(rank, &rank->eval, task->values, task->n_values);
            }
        }
        break;
    case EXEC_PEAK:
        rank->peak = exec_scan_peak(rank);
        break;
    default:
        exec_copy_parameter(rank, task->parameter, task->command == EXEC_GRADIENT, task->values);
        break;
    }
    return status;
}

void *exec_rank_main(void *argument)
{
    struct exec_rank *rank = argument;
    struct pst_exec *exec = rank->exec;
    uint32_t seen = 0;

    for (;;) {
        exec_handoff_next(&exec->handoff, &seen);
        if (exec->task.command == EXEC_QUIT) {
            exec_teardown(rank);
            exec_handoff_done(&exec->handoff);
            return NULL;
        }
        rank->status = run_task(rank, &exec->task);
        if (rank->status != PST_OK) {
            report(rank);
        }
        exec_handoff_done(&exec->handoff);
    }
}
