/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds gradients of weights to accumulators. A whole gradient is added as it is. Where replicas
 * accumulate pieces (ZeRO 2), one meeting sums all gradients of a layer (gathers.h) while the pass
 * computes. Each rank then adds its piece of every sum, before the next meeting begins or the pass
 * ends, so that the order of micro-batches stays.
 */
#include "plan/program_build.h"

uint32_t pst_build_accumulator(const struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node,
                               uint32_t slot)
{
    uint32_t parity = b->plan->deferred_step ? pst_build_batch(b, s, j) % 2 : 0;
    uint32_t v = b->plan->stages[s].nodes[node];

    return b->grad_value[((size_t)parity * b->graph->n_ops + v) * PST_MAX_PARAMS + slot];
}

static void add_whole(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node, uint32_t slot,
                      uint32_t scratch)
{
    const uint32_t p = pst_build_op(b, s, node)->param[slot];
    struct pst_program_call *call = pst_build_call(b, PST_C_ACCUMULATE, s, j, p, 3);

    call->elems = b->graph->params[p].elems;
    pst_build_set(b, call, 0, pst_build_accumulator(b, s, j, node, slot));
    pst_build_set(b, call, 1, scratch);
    b->tick++;
}

/* --- sums over replicas ------------------------------------------------------------------------*/

static void add_piece(struct pst_builder *b, uint32_t s, const struct pst_build_summed *summed)
{
    const uint32_t j = summed->microbatch;
    const uint32_t p = pst_build_op(b, s, summed->node)->param[summed->slot];
    struct pst_program_call *call = pst_build_call(b, PST_C_ADD, s, j, p, 3);

    call->elems = b->program->params[b->param_row[p]].shard.elems;
    call->begins = pst_graph_turn(b->graph, j) % b->stages[s].n_unit == 0;
    if (call->elems > 0) {
        pst_build_set(b, call, 0, pst_build_accumulator(b, s, j, summed->node, summed->slot));
    }
    pst_build_set(b, call, 1, summed->scratch);
    b->tick++;
}

void pst_build_added(struct pst_builder *b, uint32_t s)
{
    if (b->pass.sum == PST_NONE) {
        return;
    }
    pst_build_wait(b, s, b->pass.summed[0].microbatch, b->pass.sum);
    for (uint32_t i = 0; i < b->pass.n_summed; i++) {
        add_piece(b, s, &b->pass.summed[i]);
    }
    b->pass.sum = PST_NONE;
    b->pass.n_summed = 0;
}

/* Posts the sum of what is listed. */
static void post_sum(struct pst_builder *b, uint32_t s)
{
    const struct pst_build_summed *first = &b->pass.summed[0];
    struct pst_program_call *call;

    call = pst_build_call(b, PST_C_SCATTER, s, first->microbatch,
                          pst_build_op(b, s, first->node)->param[first->slot], 3);
    call->meeting = pst_build_scatter(b, s);
    b->pass.sum = b->program->n_calls - 1;
    b->tick++;
    if (b->plan->prefetch == 0) {
        pst_build_added(b, s);
    }
}

/* Returns whether gradients of nodes [first, end) of a layer, from the last node on, wait for their
   sum; and lists them. */
static bool take_waiting(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t first,
                         uint32_t end, bool lists)
{
    bool any = false;

    for (uint32_t node = end; node-- > first;) {
        const struct pst_op *op = pst_build_op(b, s, node);
        uint32_t *scratch = &b->stages[s].micros[j].scratch[b->stages[s].use_base[node]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            if (scratch[i] == PST_NONE ||
                !pst_scatters_in_layer(b->plan, b->graph, s, op->param[i])) {
                continue;
            }
            any = true;
            if (lists) {
                b->pass.summed[b->pass.n_summed++] =
                    (struct pst_build_summed){j, node, i, scratch[i]};
                scratch[i] = PST_NONE;
            }
        }
    }
    return any;
}

void pst_build_add(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    uint32_t *scratch = &b->stages[s].micros[j].scratch[b->stages[s].use_base[node]];
    uint32_t end;

    for (uint32_t i = 0; i < op->n_param; i++) {
        if (scratch[i] == PST_NONE || pst_scatters_in_layer(b->plan, b->graph, s, op->param[i])) {
            continue;
        }
        if (pst_plan_scatters(b->plan, s, op->param[i])) {
            pst_build_added(b, s);
            b->pass.summed[b->pass.n_summed++] = (struct pst_build_summed){j, node, i, scratch[i]};
            post_sum(b, s);
        } else {
            add_whole(b, s, j, node, i, scratch[i]);
        }
        scratch[i] = PST_NONE;
    }
    if (b->plan->zero >= 2 && pst_scatters_layer(b->plan, b->graph, s, node, &end) &&
        take_waiting(b, s, j, node, end, false)) {
        pst_build_added(b, s);
        take_waiting(b, s, j, node, end, true);
        post_sum(b, s);
    }
}
