/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2 on gradients: which contributions a buffer holds, as the sum of one random number for each
 * use of a tensor. Sums of numbers do not depend on the order in which contributions are added, so
 * one comparison tells whether a gradient is complete, and of the right tensor and micro-batch.
 */
#include "prove/program_replay.h"

#include "base/philox.h"

/* Returns the contribution of one use of a tensor, input i of an operator, to its gradient. */
static uint64_t of_use(const struct pst_check *check, uint32_t op, uint32_t i)
{
    struct pst_op_grad grad;
    pst_op_grad_info(check->graph, op, &grad);
    if (grad.b_alias >> i & 1) {
        return check->gradients[check->graph->ops[op].out[0]];
    }
    return grad.b_dx >> i & 1 ? pst_check_contribution(op, i) : 0;
}

uint64_t pst_check_contribution(uint32_t op, uint32_t i)
{
    struct pst_philox r = pst_philox(0x6772616469656e74ull, op, i);
    return (uint64_t)r.v[0] << 32 | r.v[1];
}

void pst_check_gradients(struct pst_check *check)
{
    const struct pst_graph *graph = check->graph;
    check->gradients = pst_check_array(check, (uint64_t)graph->n_tensors + 1, sizeof(uint64_t));
    for (uint32_t op = graph->n_ops; op-- > 0;) {
        for (uint32_t i = 0; i < graph->ops[op].n_in; i++) {
            check->gradients[graph->ops[op].in[i]] += of_use(check, op, i);
        }
    }
}

/* Three or more uses in several stages: their gradients travel apart (docs/plan.md). */
static bool travels_apart(const struct pst_check *check, const struct pst_tensor *tensor)
{
    bool several = false;
    for (uint32_t u = 1; u < tensor->n_consumers; u++) {
        several |= check->stage_of[tensor->consumers[u]] != check->stage_of[tensor->consumers[0]];
    }
    return several && tensor->n_consumers >= 3;
}

/* Which input of its consumer the u-th use of a tensor is. */
static uint32_t input_of_use(const struct pst_check *check, uint32_t t, uint32_t u)
{
    const uint32_t *consumers = check->graph->tensors[t].consumers;
    const struct pst_op *op = &check->graph->ops[consumers[u]];
    uint32_t before = 0, i = 0;
    for (uint32_t k = 0; k < u; k++) {
        before += consumers[k] == consumers[u];
    }
    for (; i + 1 < op->n_in; i++) {
        if (op->in[i] == t && before-- == 0) {
            break;
        }
    }
    return i;
}

/* The next piece of gradients of an edge: of one tensor, summed over its uses, or of one use. */
static bool next_gradient(const struct pst_check *check, const struct pst_plan_edge *edge,
                          struct pst_check_pieces *pieces)
{
    for (; pieces->i < edge->n_tensors; pieces->i++, pieces->use = 0) {
        uint32_t t = edge->tensors[pieces->i];
        const struct pst_tensor *tensor = &check->graph->tensors[t];
        bool apart = travels_apart(check, tensor), any = false;
        pieces->tensor = t;
        pieces->gradient = 0;
        while (tensor->needs_grad && pieces->use < tensor->n_consumers && !(apart && any)) {
            uint32_t u = pieces->use++;
            if (check->stage_of[tensor->consumers[u]] == edge->to) {
                pieces->gradient += of_use(check, tensor->consumers[u], input_of_use(check, t, u));
                any = true;
            }
        }
        if (any) {
            return true;
        }
    }
    return false;
}

bool pst_check_next_piece(const struct pst_check *check, const struct pst_instr *instr,
                          struct pst_check_pieces *pieces)
{
    if (pst_instr_moves_guest(instr)) {
        bool more = pieces->i < check->n_guest_tensors[instr->stage];
        pieces->gradient = 0;
        pieces->tensor = more ? check->guest_tensors[instr->stage][pieces->i++] : PST_NONE;
        return more;
    }
    const struct pst_plan_edge *edge = &check->plan->edges[instr->stage];
    if (instr->payload == PST_PAYLOAD_GRAD) {
        return next_gradient(check, edge, pieces);
    }
    pieces->gradient = 0;
    pieces->tensor = pieces->i < edge->n_tensors ? edge->tensors[pieces->i] : PST_NONE;
    return pieces->i++ < edge->n_tensors;
}
