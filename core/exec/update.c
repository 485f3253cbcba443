/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a training step: loss, global norm, clipping, update. The order of every sum follows
 * from the model alone, so all ranks and all plans come to the same bits.
 */
#include "exec/state.h"

#include <math.h>
#include <string.h>

/* Where replicas have the losses each tells its own, so that they are summed in sample order. */
static void put_losses(const struct exec_rank *rank, uint64_t t)
{
    const float *losses = rank->losses + t % 2 * rank->n_losses;
    uint32_t batch = rank->train.plan->batch;
    double *table = rank->result->table + rank->exec->n_trees;
    bool apart = rank->exec->n_sums - rank->exec->n_trees > 1;

    for (uint32_t i = 0; rank->train.has_loss && i < batch; i++) {
        table[apart ? i : 0] += losses[i];
    }
}

double exec_loss_of(const struct pst_exec *exec, const double *table)
{
    double sum = 0;

    for (uint32_t i = exec->n_trees; i < exec->n_sums; i++) {
        sum += table[i];
    }
    return sum;
}

void exec_begin_step(struct exec_rank *rank, const struct exec_task *task)
{
    rank->result = &rank->results[task->slot];
    rank->result->finite = !rank->exec->has_norm; /* until NORM says so */
    rank->result->done = false;
    rank->result->norm = 0;
    memset(rank->result->table, 0, rank->exec->n_sums * sizeof *rank->result->table);
    rank->grad_scale = 1.0f;
}

void exec_end_step(struct exec_rank *rank, const struct exec_task *task)
{
    rank->result->done = true;
    if (!rank->exec->has_norm) {
        put_losses(rank, task->t);
    }
}

double exec_norm_of(const struct pst_exec *exec, const double *table)
{
    return sqrt(pst_square_trees_sum(exec->trees, exec->n_trees, table));
}

pst_status exec_norm(struct exec_rank *rank, const struct exec_task *task, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct exec_result *result = rank->result;
    pst_status status = exec_squares(rank, task->t, PST_NONE, err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < rank->n_squared; i++) {
        if (rank->squared[i].entry != PST_NONE) {
            result->table[rank->squared[i].entry] = rank->squares[i];
        }
    }
    put_losses(rank, task->t);
    status = config->transport->sum(rank->exec->transport, rank->index, result->table,
                                    rank->exec->n_sums, err);
    if (status != PST_OK) {
        return status;
    }
    result->norm = exec_norm_of(rank->exec, result->table);
    result->finite = isfinite(result->norm) && isfinite(exec_loss_of(rank->exec, result->table));
    rank->n_skipped += !result->finite;
    if (config->clip > 0 && result->norm > config->clip) {
        rank->grad_scale = (float)(config->clip / result->norm);
    }
    return PST_OK;
}

/* Without NORM a stage looks at its own gradient alone: its share of the norm, over all updates of
   the step, and the verdict. */
static bool take_share(struct exec_rank *rank, uint32_t index)
{
    if (rank->squared[index].entry != PST_NONE) {
        rank->result->table[rank->squared[index].entry] += rank->squares[index];
    }
    return isfinite(rank->squares[index]);
}

uint32_t exec_update_kinds(const struct exec_rank *rank)
{
    return rank->exec->config.rules != NULL ? rank->exec->config.n_rules : 2;
}

struct pst_update exec_own_update(const struct exec_update *update, uint32_t kind)
{
    const struct exec_rank *rank = update->rank;
    const struct pst_exec_rule *rules = rank->exec->config.rules;
    const uint64_t n = rank->exec->n_updates;
    struct pst_update own = update->task->update;

    own.kind = kind;
    if (rules != NULL) {
        own.optimizer = rules[kind].optimizer;
        own.lr *= rules[kind].lr_scale;
        own.weight_decay = rules[kind].weight_decay;
    } else if (kind == 0) {
        own.weight_decay = 0;
    }
    own.grad_scale = rank->grad_scale;
    /* the optimizer counts the updates that were made */
    own.step = own.step * n - (n - 1) + (update->number - update->task->t * n) - rank->n_skipped;
    if (own.optimizer == PST_ADAM) {
        own.weight_decay = 0; /* adam has none; the decoupled form is adamw */
    }
    return own;
}

/* Update `number` of the run goes where the version was that its gradient was made with, for nobody
   reads that any more. For f32 it is made in place, on a copy of the newest version. Other elements
   than those of the shard, where they are kept, come with GATHER. */
static void update_param(const struct exec_update *update, const struct exec_param *param)
{
    struct exec_rank *rank = update->rank;
    const uint64_t number = update->number;
    const struct pst_device_ops *device = rank->exec->config.device;
    bool f32 = param->dtype == PST_F32, copied = param->n_versions > 1 && (f32 || !update->finite);
    void *next = exec_shard_of(param, param->versions[(number + 1) % param->n_versions]);
    const float *newest =
        f32 ? exec_shard_of(param, param->versions[number % param->n_versions]) : param->weights;
    struct pst_update own;

    if (copied && param->shard.elems > 0) {
        device->refresh(rank->device, next, newest, param->dtype, param->shard.elems);
    }
    if (!update->finite || param->shard.elems == 0) {
        return;
    }
    own = exec_own_update(update, param->kind);
    own.rows = param->rows;
    own.columns = param->columns;
    own.factor = param->factor;
    own.room = param->room;
    device->update(rank->device, &own, f32 ? next : param->weights,
                   param->grads[update->task->t % 2], param->slots[0], param->slots[1],
                   f32 ? NULL : next, param->dtype, param->shard.elems);
}

void exec_update_params(const struct exec_update *update)
{
    const struct exec_rank *rank = update->rank;

    for (uint32_t i = 0; i < rank->n_params; i++) {
        if (rank->params[i].stage == update->stage) {
            update_param(update, &rank->params[i]);
        }
    }
}

pst_status exec_step_stage(struct exec_rank *rank, const struct exec_list *list, uint32_t index,
                           const struct exec_task *task, struct pst_error *err)
{
    const uint32_t stage = list->program->instrs[index].stage;
    struct exec_update update = {.rank = rank,
                                 .task = task,
                                 .stage = stage,
                                 .number =
                                     task->t * rank->exec->n_updates + list->instrs[index].update,
                                 .finite = rank->result->finite};
    pst_status status = rank->exec->has_norm ? PST_OK : exec_squares(rank, task->t, stage, err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; !rank->exec->has_norm && i < rank->n_squared; i++) {
        if (rank->params[rank->squared[i].param].stage == stage) {
            update.finite = take_share(rank, i) && update.finite;
        }
    }
    return exec_graphs_update(&update, err);
}
