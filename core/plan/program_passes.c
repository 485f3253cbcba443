/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel calls of passes.
 *
 * Backward for weights: a kernel overwrites its gradient; that of the first micro-batch of an
 * update goes straight into the accumulators, every later one into a scratch buffer that is added
 * when all before it have been: the order of the sum is that of the micro-batches, of slices of a
 * sequence from the last to the first, whatever the schedule. Where replicas accumulate pieces
 * (ZeRO 2) the first goes into a scratch buffer too (program_gradients.c).
 *
 * Backward for inputs, with replays where the plan recomputes: operators are visited in reverse; a
 * gradient with two contributions is their sum in either order, with more it is added up from the
 * last use to the first, whatever the cut.
 */
#include "plan/program_build.h"

/* --- forward -----------------------------------------------------------------------------------*/

/* The value of a tensor that a micro-batch of the stage reads. */
static uint32_t activation_of(const struct pst_builder *b, uint32_t s, uint32_t j, uint32_t tensor)
{
    const struct pst_tensor *t = &b->graph->tensors[tensor];
    uint32_t maker = t->producer == PST_NONE ? s : b->stage_of[t->producer];
    uint32_t *act = pst_build_act(b, s, j, tensor);

    /* A reader on the maker's rank keeps what its F read: a late W of it may come after the maker's
       B, which forgets what it recomputes. */
    if (maker != s && pst_build_together(b, s, maker) && *act == PST_NONE) {
        *act = *pst_build_act(b, maker, j, tensor);
    }
    return *act;
}

/* Sets the operands that a kernel reads: inputs, parameters and results, by the masks x, p, y. */
static void set_reads(struct pst_builder *b, const struct pst_program_call *call, uint32_t s,
                      uint32_t j, uint64_t x, uint64_t p, uint64_t y)
{
    const struct pst_op *op = &b->graph->ops[call->op];
    struct pst_operands at = pst_operands_of(op);

    for (uint32_t i = 0; i < op->n_in; i++) {
        if (x >> i & 1) {
            pst_build_set(b, call, at.x + i, activation_of(b, s, j, op->in[i]));
        }
    }
    pst_build_params(b, call, op, p);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (y >> i & 1) {
            pst_build_set(b, call, at.y + i, *pst_build_act(b, s, j, op->out[i]));
        }
    }
}

/* Attention of a slice reads keys and values where the slices before it left them. */
static void set_past(struct pst_builder *b, const struct pst_program_call *call, uint32_t s,
                     uint32_t j)
{
    const struct pst_op *op = &b->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);

    for (uint32_t i = 0; op->slices > 1 && i < call->slice; i++) {
        pst_build_set(b, call, at.past + i, activation_of(b, s, j - call->slice + i, op->in[0]));
    }
}

/* B of the last slice makes the gradients of the others' keys and values. */
static void set_dpast(struct pst_builder *b, const struct pst_program_call *call, uint32_t s,
                      uint32_t j, uint32_t node)
{
    const struct pst_op *op = &b->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    const bool last = call->slice + 1 == op->slices;

    for (uint32_t i = 0; op->slices > 1 && i < call->slice + !last; i++) {
        const uint32_t of = j - call->slice + i;
        uint32_t *past = &b->stages[s].micros[of].past[node];

        if (last) {
            *past = pst_build_value(b, PST_V_PAST, s, of, call->op, 0,
                                    pst_op_past_bytes(b->graph, call->op) * call->samples);
        }
        pst_build_set(b, call, at.dpast + i, *past);
    }
}

static void forward_node(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node, bool replay)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    struct pst_operands at = pst_operands_of(op);
    struct pst_program_call *call;

    pst_build_gathered(b, s, j);
    call = pst_build_kernel(b, s, j, node, 0);
    call->replay = replay;
    set_reads(b, call, s, j, UINT64_MAX, UINT64_MAX, 0);
    set_past(b, call, s, j);
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t value =
            pst_build_value(b, PST_V_ACT, s, j, op->out[i], i,
                            pst_tensor_bytes(&b->graph->tensors[op->out[i]], call->samples));

        *pst_build_act(b, s, j, op->out[i]) = value;
        pst_build_set(b, call, at.y + i, value);
    }
    b->tick++;
}

/* Data that operators of the stage read, one buffer per micro-batch. */
static void load_inputs(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];

    for (uint32_t node = 0; node < stage->n_nodes; node++) {
        const struct pst_op *op = pst_build_op(b, s, node);

        for (uint32_t i = 0; i < op->n_in; i++) {
            const struct pst_tensor *tensor = &b->graph->tensors[op->in[i]];
            uint32_t *act = pst_build_act(b, s, j, op->in[i]);
            struct pst_program_call *call;

            if (tensor->role != PST_ROLE_INPUT || *act != PST_NONE) {
                continue;
            }
            call = pst_build_call(b, PST_C_LOAD, s, j, op->in[i], 3);
            *act = pst_build_value(b, PST_V_INPUT, s, j, op->in[i], 0,
                                   pst_tensor_bytes(tensor, call->samples));
            pst_build_set(b, call, 0, *act);
            b->tick++;
        }
    }
}

void pst_build_forward(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];

    load_inputs(b, s, j);
    for (uint32_t node = 0; node < stage->n_nodes; node++) {
        uint32_t result = pst_build_op(b, s, node)->out[0];

        forward_node(b, s, j, node, false);
        if (result == b->graph->loss) {
            pst_build_set(b, pst_build_call(b, PST_C_LOSS, s, j, result, 3), 1,
                          *pst_build_act(b, s, j, result));
            b->tick++;
        }
    }
}

/* --- backward for weights ----------------------------------------------------------------------*/

/* W of one node. */
static void weights_node(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    const struct pst_op_grad *grad = &b->stages[s].grad[node];
    struct pst_operands at = pst_operands_of(op);
    struct pst_micro *micro = &b->stages[s].micros[j];
    const uint32_t turn = pst_graph_turn(b->graph, j);
    const bool first = turn % b->stages[s].n_unit == 0;
    struct pst_program_call *call;

    if (!grad->has_w) {
        return;
    }
    pst_build_gathered(b, s, j);
    call = pst_build_kernel(b, s, j, node, 2);
    set_reads(b, call, s, j, grad->w_reads_x, grad->w_reads_p, grad->w_reads_y);
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
        value = pst_build_accumulator(b, s, j, node, i);
        if (!first || pst_plan_scatters(b->plan, s, op->param[i])) {
            value = pst_build_value(b, PST_V_SCRATCH, s, j, op->param[i], i,
                                    b->graph->params[op->param[i]].elems * 4);
            micro->scratch[b->stages[s].use_base[node] + i] = value;
        }
        pst_build_set(b, call, at.dp + i, value);
    }
    b->tick++;
    if (turn == *b->stages[s].next_sum) {
        /* It is its turn: add at once, so that scratch buffers are short-lived. */
        pst_build_add(b, s, j, node);
    }
}

/* Micro-batch j of the stage is complete: it and whatever waited for it are added. */
static void sum_in_turn(struct pst_builder *b, uint32_t s, uint32_t j)
{
    struct pst_stage_build *build = &b->stages[s];

    build->summable[pst_graph_turn(b->graph, j)] = 1;
    while (*build->next_sum < build->n_micros && build->summable[*build->next_sum]) {
        for (uint32_t node = b->plan->stages[s].n_nodes; node-- > 0;) {
            pst_build_add(b, s, pst_graph_turn(b->graph, *build->next_sum), node);
        }
        ++*build->next_sum;
    }
    pst_build_added(b, s);
}

void pst_build_weights(struct pst_builder *b, uint32_t s, uint32_t j)
{
    pst_build_fetched(b, s, j, false);
    for (uint32_t node = b->plan->stages[s].n_nodes; node-- > 0;) {
        weights_node(b, s, j, node);
    }
    sum_in_turn(b, s, j);
}

/* --- backward for inputs -----------------------------------------------------------------------*/

/* out := a + c in the dtype of the tensor; out may be PST_NONE (a new buffer) or a. Returns out. */
static uint32_t add_sum(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t tensor,
                        uint32_t out, uint32_t a, uint32_t c)
{
    struct pst_program_call *call = pst_build_call(b, PST_C_SUM, s, j, tensor, 3);

    if (out == PST_NONE) {
        out = pst_build_value(b, PST_V_DACT, s, j, tensor, 0,
                              pst_tensor_bytes(&b->graph->tensors[tensor], call->samples));
    }
    pst_build_set(b, call, 0, out);
    pst_build_set(b, call, 1, a);
    pst_build_set(b, call, 2, c);
    b->tick++;
    return out;
}

/* A gradient that the far side of an edge made for stage s: there where it is on this rank, else
   received. */
static uint32_t foreign_gradient(const struct pst_builder *b, uint32_t j, uint32_t edge,
                                 uint32_t item)
{
    const struct pst_edge_items *items = &b->items[edge];
    const struct pst_plan_edge *ends = &b->plan->edges[edge];

    return pst_build_together(b, ends->from, ends->to)
               ? *pst_build_dact(b, ends->to, j, items->at[item].tensor)
               : items->received[(size_t)j * items->n + item];
}

/* Running sums start with what other stages send, from the last stage to the first. */
static void gather_foreign(struct pst_builder *b, uint32_t s, uint32_t j)
{
    for (uint32_t e = b->stages[s].last_edge; e != PST_NONE; e = b->items[e].before) {
        for (uint32_t i = 0; i < b->items[e].n; i++) {
            uint32_t tensor = b->items[e].at[i].tensor, value;
            uint32_t *sum = pst_build_dact(b, s, j, tensor);

            if (b->items[e].at[i].use == PST_NONE) {
                value = foreign_gradient(b, j, e, i);
                *sum = *sum == PST_NONE ? value : add_sum(b, s, j, tensor, PST_NONE, *sum, value);
            }
        }
    }
}

/* The contribution of one use of a tensor whose gradients are kept apart. */
static uint32_t separate_part(const struct pst_builder *b, uint32_t s, uint32_t j, uint32_t tensor,
                              uint32_t use)
{
    uint32_t reader = b->stage_of[b->graph->tensors[tensor].consumers[use]];

    if (pst_build_together(b, s, reader)) {
        return b->stages[reader].micros[j].contrib[b->separate[tensor] + use];
    }
    for (uint32_t e = b->stages[s].last_edge; e != PST_NONE; e = b->items[e].before) {
        for (uint32_t i = 0; b->plan->edges[e].to == reader && i < b->items[e].n; i++) {
            if (b->items[e].at[i].tensor == tensor && b->items[e].at[i].use == use) {
                return b->items[e].received[(size_t)j * b->items[e].n + i];
            }
        }
    }
    return PST_NONE;
}

/* Gradient of the operator's result, complete; PST_NONE if none arrives. */
static uint32_t result_gradient(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t tensor)
{
    uint32_t sum = PST_NONE;

    if (b->separate[tensor] == PST_NONE) {
        return *pst_build_dact(b, s, j, tensor);
    }
    for (uint32_t use = b->graph->tensors[tensor].n_consumers; use-- > 0;) {
        uint32_t part = separate_part(b, s, j, tensor, use);

        sum = sum == PST_NONE ? part : add_sum(b, s, j, tensor, PST_NONE, sum, part);
    }
    *pst_build_dact(b, s, j, tensor) = sum;
    return sum;
}

/* Which of a tensor's uses is input i of this operator. */
static uint32_t use_of_input(const struct pst_builder *b, uint32_t v, uint32_t input)
{
    const struct pst_op *op = &b->graph->ops[v];
    const struct pst_tensor *tensor = &b->graph->tensors[op->in[input]];
    uint32_t nth = 0;

    for (uint32_t i = 0; i < input; i++) {
        nth += op->in[i] == op->in[input];
    }
    for (uint32_t u = 0; u < tensor->n_consumers; u++) {
        if (tensor->consumers[u] == v && nth-- == 0) {
            return u;
        }
    }
    return PST_NONE;
}

/* A finished contribution to the gradient of input i: keep it apart or add it to the running sum.
   `fresh`: the buffer was made for it, so the sum may go there. */
static void contribute(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node, uint32_t input,
                       uint32_t value, bool fresh)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    uint32_t tensor = op->in[input];
    struct pst_micro *micro = &b->stages[s].micros[j];

    if (b->separate[tensor] != PST_NONE) {
        uint32_t use = use_of_input(b, b->plan->stages[s].nodes[node], input);

        micro->contrib[b->separate[tensor] + use] = value;
    } else if (*pst_build_dact(b, s, j, tensor) == PST_NONE) {
        *pst_build_dact(b, s, j, tensor) = value;
    } else {
        *pst_build_dact(b, s, j, tensor) = add_sum(b, s, j, tensor, fresh ? value : PST_NONE, value,
                                                   *pst_build_dact(b, s, j, tensor));
    }
}

/* Returns true if an earlier input is the same tensor: in x * x one input adds the sum so far. */
static bool is_read_before(const struct pst_op *op, uint32_t input)
{
    for (uint32_t i = 0; i < input; i++) {
        if (op->in[i] == op->in[input]) {
            return true;
        }
    }
    return false;
}

static void backward_kernel(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node,
                            uint32_t dy)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    const struct pst_op_grad *grad = &b->stages[s].grad[node];
    struct pst_operands at = pst_operands_of(op);
    struct pst_micro *micro = &b->stages[s].micros[j];
    struct pst_program_call *call;
    uint64_t added = 0;
    uint32_t first;

    pst_build_gathered(b, s, j);
    call = pst_build_kernel(b, s, j, node, 1);
    first = call->first_operand;
    set_reads(b, call, s, j, grad->b_reads_x, grad->b_reads_p, grad->b_reads_y);
    set_past(b, call, s, j);
    set_dpast(b, call, s, j, node);
    if (dy != PST_NONE) {
        pst_build_set(b, call, at.dy, dy);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t tensor = op->in[i];

        if (!(grad->b_dx >> i & 1)) {
            continue;
        }
        if ((grad->b_adds >> i & 1) && b->separate[tensor] == PST_NONE &&
            *pst_build_dact(b, s, j, tensor) != PST_NONE && !is_read_before(op, i)) {
            pst_build_set(b, call, at.add + i, *pst_build_dact(b, s, j, tensor));
            added |= (uint64_t)1 << i;
        }
        pst_build_set(b, call, at.dx + i,
                      pst_build_value(b, PST_V_DACT, s, j, tensor, i,
                                      pst_tensor_bytes(&b->graph->tensors[tensor], call->samples)));
    }
    for (uint32_t i = 0; i < grad->n_z; i++) {
        uint64_t elems = grad->z_elems[i] * (grad->z_batched[i] ? call->samples : 1);

        micro->z[node * PST_MAX_SCRATCH + i] =
            pst_build_value(b, PST_V_Z, s, j, b->plan->stages[s].nodes[node], i,
                            elems * pst_dtype_bytes(grad->z_dtype[i]));
        pst_build_set(b, call, at.z + i, micro->z[node * PST_MAX_SCRATCH + i]);
    }
    b->tick++;
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t dx = b->program->operands[first + at.dx + i];

        if (added >> i & 1) {
            *pst_build_dact(b, s, j, op->in[i]) = dx;
        } else if (grad->b_dx >> i & 1) {
            contribute(b, s, j, node, i, dx, true);
        }
    }
}

/* Runs the replays right before the backward of a node; *next: the first replay still to run. */
static void run_replays(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node,
                        uint32_t *next)
{
    const struct pst_replays *replays = &b->stages[s].replays;

    for (; *next < replays->n && replays->calls[*next].before == node; (*next)++) {
        forward_node(b, s, j, replays->calls[*next].node, true);
    }
}

/* Drops the results of recomputed nodes: they exist again only after a replay. */
static void forget_recomputed(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];

    for (uint32_t node = 0; node < stage->n_nodes; node++) {
        const struct pst_op *op = pst_build_op(b, s, node);

        for (uint32_t i = 0; stage->actions[node] == PST_ACTION_RECOMPUTE && i < op->n_out; i++) {
            *pst_build_act(b, s, j, op->out[i]) = PST_NONE;
        }
    }
}

pst_status pst_build_backward(struct pst_builder *b, uint32_t s, uint32_t j, bool with_weights,
                              struct pst_error *err)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    uint32_t next_replay = 0;

    gather_foreign(b, s, j);
    forget_recomputed(b, s, j);
    pst_build_fetched(b, s, j, true);
    pst_build_returned(b, s, j);
    for (uint32_t node = stage->n_nodes; node-- > 0 && !b->failed;) {
        const struct pst_op *op = pst_build_op(b, s, node);
        const struct pst_op_grad *grad = &b->stages[s].grad[node];
        bool is_loss = op->out[0] == b->graph->loss;
        uint32_t dy = is_loss ? PST_NONE : result_gradient(b, s, j, op->out[0]);

        run_replays(b, s, j, node, &next_replay);
        if (dy == PST_NONE && !is_loss && (grad->has_b || grad->has_w || grad->b_alias != 0)) {
            return pst_fail(err, PST_ERR_BUG, "internal",
                            "operator %s gets no gradient: it does not lead to the loss", op->name);
        }
        b->stages[s].micros[j].dy[node] = dy;
        if (grad->has_b) {
            backward_kernel(b, s, j, node, dy);
        }
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (grad->b_alias >> i & 1) {
                contribute(b, s, j, node, i, dy, false);
            }
        }
        if (with_weights) {
            weights_node(b, s, j, node);
        }
    }
    if (with_weights) {
        sum_in_turn(b, s, j);
    }
    return PST_OK;
}
