/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a training step: loss, global norm, clipping, update. The order of every sum follows
 * from the model alone, so all ranks and all plans come to the same bits.
 */
#include "exec/internal.h"

#include <math.h>
#include <string.h>

double exec_loss_sum(const struct exec_rank *rank, const struct exec_list *list)
{
    double sum = 0;

    for (uint32_t i = 0; list->has_loss && i < list->plan->batch; i++) {
        sum += rank->losses[i];
    }
    return sum;
}

pst_status exec_norm(struct exec_rank *rank, const struct exec_list *list, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    uint32_t n_params = config->graph->n_params;
    double total = 0;
    pst_status status;

    memset(rank->table, 0, (n_params + 1) * sizeof *rank->table);
    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];

        if (param->owner) {
            rank->table[param->parameter] =
                config->device->square_sum(rank->device, param->grad, param->elems);
        }
    }
    rank->table[n_params] = exec_loss_sum(rank, list);
    status =
        config->transport->sum(rank->exec->transport, rank->index, rank->table, n_params + 1, err);
    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < n_params; i++) {
        total += rank->table[i];
    }
    rank->loss_sum = rank->table[n_params];
    rank->norm = sqrt(total);
    rank->finite = isfinite(rank->norm) && isfinite(rank->loss_sum);
    rank->grad_scale =
        config->clip > 0 && rank->norm > config->clip ? (float)(config->clip / rank->norm) : 1.0f;
    return PST_OK;
}

void exec_update(struct exec_rank *rank, uint32_t stage, const struct pst_update *update)
{
    const struct pst_device_ops *device = rank->exec->config.device;

    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];
        struct pst_update own = *update;

        if (param->stage != stage) {
            continue;
        }
        own.grad_scale = rank->grad_scale;
        if (!param->decay || update->optimizer == PST_ADAM) {
            own.weight_decay = 0; /* adam has none; the decoupled form is adamw */
        }
        device->update(rank->device, &own, param->weights, param->grad, param->slots[0],
                       param->slots[1], param->working == param->weights ? NULL : param->working,
                       param->dtype, param->elems);
    }
}
