/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that look at an executor while no step is in flight: evaluation, peaks, parameters.
 */
#include "base/memory.h"
#include "exec/state.h"

#include <stdlib.h>
#include <string.h>

#include "graph/split.h"

pst_status pst_exec_eval(struct pst_exec *exec, const struct pst_batch *batch, double *ret_loss,
                         float *ret_output, uint64_t output_elems, struct pst_error *err)
{
    const struct pst_plan *plan = exec->config.eval_plan;
    uint64_t kept = 0;
    double loss;
    pst_status status;

    if (plan == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "evaluation has no plan");
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        /* of the same size in all sections; replicas have some rows each */
        const struct exec_output output = exec_output_of(exec, i, 0);

        kept += output.n_rows * output.n;
    }
    if (ret_output != NULL && output_elems > kept) {
        return pst_fail(err, PST_ERR_BUG, "internal",
                        "%llu elements of output wanted, the plan keeps %llu",
                        (unsigned long long)output_elems, (unsigned long long)kept);
    }
    status = exec_run_all(exec,
                          &(struct exec_task){.command = EXEC_EVAL,
                                              .t = exec->n_collected,
                                              .batches = {*batch},
                                              .values = ret_output,
                                              .n_values = output_elems},
                          err);
    if (status == PST_OK && exec_is_shared(exec)) {
        status = exec_share_eval(exec, exec->n_collected, &loss, ret_output, output_elems, err);
    } else if (status == PST_OK) {
        loss = exec_eval_loss(exec, exec->n_collected);
    }
    if (status == PST_OK) {
        *ret_loss = loss / plan->batch;
    }
    return status;
}

pst_status pst_exec_measured_peaks(struct pst_exec *exec, uint64_t *ret_bytes,
                                   struct pst_error *err)
{
    const struct exec_task task = {.command = EXEC_PEAK};

    PST_ASSERT(pst_exec_in_flight(exec) == 0);
    exec_tasks_wait(&exec->tasks, exec_tasks_post(&exec->tasks, &task, exec->n_local));
    if (exec_is_shared(exec)) {
        return exec_exchange(exec, &exec->ranks[exec->first_local].peak, ret_bytes,
                             sizeof *ret_bytes, err);
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        ret_bytes[i] = exec->ranks[i].peak;
    }
    return PST_OK;
}

pst_status pst_exec_copied(const struct pst_exec *exec, uint32_t rank,
                           struct pst_exec_copies *ret_copies, struct pst_error *err)
{
    struct pst_exec_copies own, *all;
    pst_status status;

    if (!exec_is_shared(exec)) {
        exec_copied(&exec->ranks[rank], ret_copies);
        return PST_OK;
    }
    exec_copied(&exec->ranks[exec->first_local], &own);
    all = pst_alloc(exec->n_ranks, sizeof *all);
    status = exec_exchange(exec, &own, all, sizeof own, err);
    if (status == PST_OK) {
        *ret_copies = all[rank];
    }
    free(all);
    return status;
}

/* The row of the parameter on a rank that is asked for it; NULL: it is not. */
static const struct pst_program_param *row_on(const struct pst_exec *exec, uint32_t rank,
                                              uint32_t parameter, uint32_t of_rank)
{
    const struct pst_program *program = exec->config.programs[rank];

    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];

        if (row->parameter == parameter && (of_rank == PST_NONE ? row->owner : rank == of_rank)) {
            return row;
        }
    }
    return NULL;
}

/* Each process has what its rank is asked for: all get all of it. */
static pst_status share_values(struct pst_exec *exec, uint32_t parameter, uint32_t of_rank,
                               float *values)
{
    const uint64_t elems = exec->config.graph->params[parameter].elems;
    float *all = pst_alloc(exec->n_ranks, elems * sizeof *all);
    pst_status status = exec_exchange(exec, values, all, elems * sizeof *values, NULL);

    for (uint32_t r = 0; r < exec->n_ranks && status == PST_OK; r++) {
        const struct pst_program_param *row = row_on(exec, r, parameter, of_rank);
        const bool kept =
            of_rank != PST_NONE && exec->config.graph->params[parameter].dtype == PST_F32;
        const struct pst_shard shard = row == NULL ? (struct pst_shard){0, 0}
                                       : kept      ? row->kept
                                                   : row->shard;

        if (shard.elems > 0) {
            memcpy(values + shard.first, all + r * elems + shard.first,
                   shard.elems * sizeof *values);
        }
    }
    free(all);
    return status;
}

static pst_status fetch_parameter(struct pst_exec *exec, uint32_t command, uint32_t parameter,
                                  uint32_t of_rank, float *ret_values)
{
    bool found = false;
    pst_status status;

    if (of_rank == PST_NONE && pst_is_split(&exec->config.graph->params[parameter])) {
        return PST_ERR_BUG;
    }
    for (uint32_t r = 0; r < exec->n_ranks && !found; r++) {
        found = row_on(exec, r, parameter, of_rank) != NULL;
    }
    if (!found) {
        return PST_ERR_BUG;
    }
    status = exec_run_all(exec,
                          &(struct exec_task){.command = command,
                                              .t = exec->n_collected,
                                              .parameter = parameter,
                                              .of_rank = of_rank,
                                              .values = ret_values},
                          NULL);
    return status == PST_OK && exec_is_shared(exec)
               ? share_values(exec, parameter, of_rank, ret_values)
               : status;
}

pst_status pst_exec_get_parameter(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return fetch_parameter(exec, EXEC_PARAMETER, parameter, PST_NONE, ret_values);
}

pst_status pst_exec_get_copy(struct pst_exec *exec, uint32_t parameter, uint32_t rank,
                             float *ret_values)
{
    return fetch_parameter(exec, EXEC_PARAMETER, parameter, rank, ret_values);
}

pst_status pst_exec_get_gradient(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return exec->n_steps == 0
               ? PST_ERR_BUG
               : fetch_parameter(exec, EXEC_GRADIENT, parameter, PST_NONE, ret_values);
}

pst_status pst_exec_copy_state(struct pst_exec *exec, float *const *ret_values,
                               struct pst_error *err)
{
    return exec_run_all(
        exec,
        &(struct exec_task){.command = EXEC_STATE, .t = exec->n_collected, .state = ret_values},
        err);
}

uint64_t pst_exec_updates(const struct pst_exec *exec)
{
    PST_ASSERT(pst_exec_in_flight(exec) == 0);
    return exec->n_collected * exec->n_updates - exec->ranks[exec->first_local].n_skipped;
}
