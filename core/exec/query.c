/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that look at an executor while no step is in flight: evaluation, peaks, parameters.
 */
#include "exec/internal.h"

pst_status pst_exec_eval(struct pst_exec *exec, const struct pst_batch *batch, double *ret_loss,
                         float *ret_output, uint64_t output_elems, struct pst_error *err)
{
    const struct pst_plan *plan = exec->config.eval_plan;
    uint64_t kept = 0;
    pst_status status;

    if (plan == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "there is no plan for evaluation");
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        kept += exec->ranks[i].eval.output_elems; /* replicas have a part each */
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
    if (status != PST_OK) {
        return status;
    }
    *ret_loss = exec_eval_loss(exec, exec->n_collected) / plan->batch;
    return PST_OK;
}

void pst_exec_measured_peaks(struct pst_exec *exec, uint64_t *ret_bytes)
{
    struct exec_handoff *handoff = &exec->handoff;

    PST_ASSERT(pst_exec_in_flight(exec) == 0);
    exec_handoff_wait(handoff, exec_handoff_post(handoff, &(struct exec_task){.command = EXEC_PEAK},
                                                 exec->n_ranks));
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        ret_bytes[i] = exec->ranks[i].peak;
    }
}

static pst_status get(struct pst_exec *exec, uint32_t command, uint32_t parameter, uint32_t of_rank,
                      float *ret_values)
{
    bool owned = false;

    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        const struct pst_program *program = exec->config.programs[r];

        for (uint32_t i = 0; i < program->n_params; i++) {
            owned = owned || (program->params[i].parameter == parameter &&
                              (of_rank == PST_NONE ? program->params[i].owner : r == of_rank));
        }
    }
    if (!owned) {
        return PST_ERR_BUG;
    }
    return exec_run_all(exec,
                        &(struct exec_task){.command = command,
                                            .t = exec->n_collected,
                                            .parameter = parameter,
                                            .of_rank = of_rank,
                                            .values = ret_values},
                        NULL);
}

pst_status pst_exec_get_parameter(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return get(exec, EXEC_PARAMETER, parameter, PST_NONE, ret_values);
}

pst_status pst_exec_get_copy(struct pst_exec *exec, uint32_t parameter, uint32_t rank,
                             float *ret_values)
{
    return get(exec, EXEC_PARAMETER, parameter, rank, ret_values);
}

pst_status pst_exec_get_gradient(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return exec->n_steps == 0 ? PST_ERR_BUG
                              : get(exec, EXEC_GRADIENT, parameter, PST_NONE, ret_values);
}
