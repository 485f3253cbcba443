/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executor tells and asks a transport beside transfers and sums: which ranks have to do
 * with each other, that a group of transfers is complete, and whether all went well.
 */
#include "exec/internal.h"

static bool shares_stage(const struct pst_plan *plan, uint32_t rank, uint32_t other)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_plan_replica(&plan->stages[s], rank) != PST_NONE &&
            pst_plan_replica(&plan->stages[s], other) != PST_NONE) {
            return true;
        }
    }
    return false;
}

static bool is_member(const struct pst_plan *plan, const struct pst_plan_tie *tie, uint32_t rank)
{
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        if (pst_plan_replica(&plan->stages[tie->stages[s]], rank) != PST_NONE) {
            return true;
        }
    }
    return false;
}

static bool moves(const struct pst_program *program, uint32_t other)
{
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_instr *instr = &program->instrs[i];

        if ((instr->op == PST_I_SEND || instr->op == PST_I_RECV) && instr->peer == other) {
            return true;
        }
    }
    return false;
}

/* Replicas share running statistics by transfers, and gradients by sums. */
uint32_t exec_meets(void *context, uint32_t rank, uint32_t other)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_config *config = &exec->config;
    const struct pst_plan *plan = config->plan;
    bool replicas = rank != other && shares_stage(plan, rank, other), tied = false;
    bool transfers = moves(config->programs[rank], other) ||
                     (config->eval_plan != NULL && (moves(config->eval_programs[rank], other) ||
                                                    shares_stage(config->eval_plan, rank, other)));

    for (uint32_t t = 0; t < plan->n_ties && !tied; t++) {
        tied = is_member(plan, &plan->ties[t], rank) && is_member(plan, &plan->ties[t], other);
    }
    return (transfers || replicas ? PST_MEETS_TRANSFER : 0u) |
           (replicas || tied ? PST_MEETS_SUM : 0u);
}

pst_status exec_flush(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->flush != NULL ? transport->flush(rank->exec->transport, rank->index, err)
                                    : PST_OK;
}

pst_status exec_check(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->ordered && transport->check != NULL
               ? transport->check(rank->exec->transport, rank->index, err)
               : PST_OK;
}

bool exec_detach(struct exec_rank *rank)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->detach == NULL ||
           (rank->exec->config.device->flags & PST_DEVICE_APART) == 0 ||
           transport->detach(rank->exec->transport, rank->index);
}

pst_status exec_fail_post(const struct exec_rank *rank, pst_status status, const char *what,
                          uint32_t whose, struct pst_error *err)
{
    if (status == PST_ERR_CANCELLED) {
        return pst_fail(err, status, "run.aborted", "rank %u: another rank stopped the run",
                        rank->index);
    }
    return pst_fail(err, status, "transport.request", "rank %u cannot post %s %u", rank->index,
                    what, whose);
}
