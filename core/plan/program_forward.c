/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel calls of a forward pass, and what all passes share.
 */
#include "plan/program_build.h"

uint64_t pst_build_bytes(const struct pst_tensor *tensor, uint32_t samples)
{
    return tensor->bytes * (tensor->batched ? samples : 1);
}

const struct pst_op *pst_build_op(const struct pst_builder *b, uint32_t s, uint32_t node)
{
    return &b->graph->ops[b->plan->stages[s].nodes[node]];
}

void pst_build_set(struct pst_builder *b, const struct pst_program_call *call, uint32_t operand,
                   uint32_t value)
{
    b->program->operands[call->first_operand + operand] = value;
    pst_build_use(b, value);
}

struct pst_program_call *pst_build_kernel(struct pst_builder *b, uint32_t s, uint32_t j,
                                          uint32_t node, uint8_t pass)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    const struct pst_op *op = pst_build_op(b, s, node);
    struct pst_operands at = pst_operands_of(op);
    struct pst_program_call *call = pst_build_call(b, PST_C_KERNEL, stage->nodes[node], at.count);
    uint64_t workspace;

    if (call == NULL) {
        return NULL;
    }
    call->pass = pass;
    call->samples = pst_build_samples(b, s);
    call->first_sample = pst_build_first_sample(b, s, j);
    workspace = pst_cost_workspace(b->cost, stage->nodes[node], pass, call->samples);
    if (workspace > 0) {
        pst_build_set(
            b, call, at.workspace,
            pst_build_value(b, PST_V_WORKSPACE, s, j, stage->nodes[node], pass, workspace));
    }
    for (uint32_t i = 0; i < op->n_state; i++) {
        pst_build_set(b, call, at.state + i, b->program->state_values[2 * stage->nodes[node] + i]);
    }
    return call;
}

/* The version that a call reads, as a number modulo those that there are: of its update, the one
   that this will overwrite. */
static uint32_t version_of(const struct pst_builder *b, const struct pst_program_call *call,
                           uint32_t stage)
{
    const struct pst_stage_build *build = &b->stages[stage];
    uint32_t j = call->first_sample / b->plan->stages[stage].microbatch_size;

    return b->newest ? b->phase
                     : b->phase * (build->n_batch / build->n_unit) + j / build->n_unit + 1;
}

void pst_build_set_params(struct pst_builder *b, const struct pst_program_call *call,
                          const struct pst_op *op, uint64_t mask)
{
    struct pst_operands at = pst_operands_of(op);

    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE && (mask >> i & 1)) {
            const struct pst_program_param *row = &b->program->params[b->param_row[op->param[i]]];

            pst_build_set(b, call, at.p + i,
                          row->versions[version_of(b, call, row->stage) % row->n_versions]);
        }
    }
}

/* --- forward -----------------------------------------------------------------------------------
 */

uint32_t pst_build_activation(const struct pst_builder *b, uint32_t s, uint32_t j, uint32_t tensor)
{
    const struct pst_tensor *t = &b->graph->tensors[tensor];
    uint32_t maker = t->producer == PST_NONE ? s : b->stage_of[t->producer];
    uint32_t *act = &b->stages[s].micros[j].act[tensor];

    /* A reader on the maker's rank keeps what its F read: a late W of it may come after the maker's
       B, which forgets what it recomputes. */
    if (maker != s && b->stages[maker].local && *act == PST_NONE) {
        *act = b->stages[maker].micros[j].act[tensor];
    }
    return *act;
}

void pst_build_forward_node(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node,
                            bool replay)
{
    const struct pst_op *op = pst_build_op(b, s, node);
    struct pst_operands at = pst_operands_of(op);
    struct pst_program_call *call = pst_build_kernel(b, s, j, node, 0);

    if (call == NULL) {
        return;
    }
    call->replay = replay;
    for (uint32_t i = 0; i < op->n_in; i++) {
        pst_build_set(b, call, at.x + i, pst_build_activation(b, s, j, op->in[i]));
    }
    pst_build_set_params(b, call, op, UINT64_MAX);
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t value =
            pst_build_value(b, PST_V_ACT, s, j, op->out[i], i,
                            pst_build_bytes(&b->graph->tensors[op->out[i]], call->samples));

        b->stages[s].micros[j].act[op->out[i]] = value;
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
            uint32_t *act = &b->stages[s].micros[j].act[op->in[i]];
            struct pst_program_call *call;

            if (tensor->role != PST_ROLE_INPUT || *act != PST_NONE) {
                continue;
            }
            call = pst_build_call(b, PST_C_LOAD, op->in[i], 3);
            if (call == NULL) {
                return;
            }
            call->samples = pst_build_samples(b, s);
            call->first_sample = pst_build_first_sample(b, s, j);
            *act = pst_build_value(b, PST_V_INPUT, s, j, op->in[i], 0,
                                   pst_build_bytes(tensor, call->samples));
            pst_build_set(b, call, 0, *act);
            b->tick++;
        }
    }
}

pst_status pst_build_forward(struct pst_builder *b, uint32_t s, uint32_t j, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];

    load_inputs(b, s, j);
    for (uint32_t node = 0; node < stage->n_nodes && !b->failed; node++) {
        const struct pst_op *op = pst_build_op(b, s, node);

        pst_build_forward_node(b, s, j, node, false);
        if (op->out[0] == b->graph->loss && !b->failed) {
            struct pst_program_call *call = pst_build_call(b, PST_C_LOSS, op->out[0], 3);

            if (call != NULL) {
                call->samples = pst_build_samples(b, s);
                call->first_sample = pst_build_first_sample(b, s, j);
                pst_build_set(b, call, 1, b->stages[s].micros[j].act[op->out[0]]);
                b->tick++;
            }
        }
    }
    return b->no_memory ? pst_fail_nomem(err) : PST_OK;
}
