/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel calls of a backward pass for weights. A kernel overwrites its gradient; that of the
 * first micro-batch of an update goes straight into the accumulators, every later one into a
 * scratch buffer that is added when all before it have been: the order of the sum is that of the
 * micro-batches, whatever the schedule.
 */
#include "plan/program_build.h"

/* Of a use of a parameter in stage s, for the batch of micro-batch j. */
static uint32_t accumulator(const struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node,
                            uint32_t slot)
{
    uint32_t parity = b->plan->deferred_step ? pst_build_batch(b, s, j) % 2 : 0;
    uint32_t v = b->plan->stages[s].nodes[node];

    return b->grad_value[((size_t)parity * b->graph->n_ops + v) * PST_MAX_PARAMS + slot];
}

void pst_build_weights_node(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    const struct pst_op_grad *grad = &b->stages[s].grad[node];
    struct pst_operands at = pst_operands_of(op);
    struct pst_micro *micro = &b->stages[s].micros[j];
    bool first = j % b->stages[s].n_unit == 0;
    struct pst_program_call *call;

    if (!grad->has_w || (call = pst_build_kernel(b, s, j, node, 2)) == NULL) {
        return;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (grad->w_reads_x >> i & 1) {
            pst_build_set(b, call, at.x + i, pst_build_activation(b, s, j, op->in[i]));
        }
    }
    pst_build_set_params(b, call, op, grad->w_reads_p);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (grad->w_reads_y >> i & 1) {
            pst_build_set(b, call, at.y + i, micro->act[op->out[i]]);
        }
    }
    if (grad->w_reads_dy) {
        pst_build_set(b, call, at.dy, micro->dy[node]);
    }
    for (uint32_t i = 0; i < grad->n_z; i++) {
        pst_build_set(b, call, at.z + i, micro->z[node * PST_MAX_SCRATCH + i]);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        uint32_t value;

        if (op->param[i] == PST_NONE) {
            continue;
        }
        value = accumulator(b, s, j, node, i);
        if (!first) {
            value = pst_build_value(b, PST_V_SCRATCH, s, j, op->param[i], i,
                                    b->graph->params[op->param[i]].elems * 4);
            micro->scratch[b->stages[s].use_base[node] + i] = value;
        }
        pst_build_set(b, call, at.dp + i, value);
    }
    b->tick++;
    if (!first && j == b->stages[s].next_sum) {
        /* Its turn already: add at once, so that the scratch buffer is short-lived. */
        pst_build_add_node(b, s, j, node);
    }
}

void pst_build_add_node(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    struct pst_micro *micro = &b->stages[s].micros[j];

    for (uint32_t i = 0; i < op->n_param && !b->failed; i++) {
        uint32_t *scratch = &micro->scratch[b->stages[s].use_base[node] + i];
        struct pst_program_call *call;

        if (*scratch == PST_NONE ||
            (call = pst_build_call(b, PST_C_ACCUMULATE, op->param[i], 3)) == NULL) {
            continue;
        }
        call->elems = b->graph->params[op->param[i]].elems;
        call->samples = pst_build_samples(b, s);
        call->first_sample = pst_build_first_sample(b, s, j);
        pst_build_set(b, call, 0, accumulator(b, s, j, node, i));
        pst_build_set(b, call, 1, *scratch);
        *scratch = PST_NONE;
        b->tick++;
    }
}

/* Micro-batch j of the stage is complete: it and whatever waited for it are added. */
void pst_build_sum_in_turn(struct pst_builder *b, uint32_t s, uint32_t j)
{
    struct pst_stage_build *build = &b->stages[s];

    build->summable[j] = true;
    while (build->next_sum < build->n_micros && build->summable[build->next_sum] && !b->failed) {
        for (uint32_t node = b->plan->stages[s].n_nodes; node-- > 0;) {
            pst_build_add_node(b, s, build->next_sum, node);
        }
        build->next_sum++;
    }
}

pst_status pst_build_weights(struct pst_builder *b, uint32_t s, uint32_t j, struct pst_error *err)
{
    pst_build_fetched(b, s, j, false);
    for (uint32_t node = b->plan->stages[s].n_nodes; node-- > 0 && !b->failed;) {
        pst_build_weights_node(b, s, j, node);
    }
    pst_build_sum_in_turn(b, s, j);
    return b->no_memory ? pst_fail_nomem(err) : PST_OK;
}
