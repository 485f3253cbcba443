/* SPDX-License-Identifier: Apache-2.0
 *
 * The state from which a program is built: values, calls and their operands; tables of the stages,
 * what their operators need backward, which nodes are replayed and when, and room for their
 * micro-batches.
 */
#include <string.h>

#include "base/util.h"
#include "plan/program_build.h"

uint32_t pst_build_value(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t microbatch,
                         uint32_t what, uint32_t slot, uint64_t bytes)
{
    struct pst_program *program = b->program;
    struct pst_value *value;
    uint32_t shared = pst_build_shared(b, kind, stage, microbatch);

    if (shared != PST_NONE) {
        return shared;
    }
    pst_grow(&program->values, &b->room.values, program->n_values, sizeof *program->values);
    pst_build_record(b, kind, program->n_values);
    value = &program->values[program->n_values];
    memset(value, 0, sizeof *value);
    value->kind = kind;
    value->stage = stage;
    value->microbatch = microbatch;
    value->what = what;
    value->slot = slot;
    value->bytes = bytes;
    value->first = value->last = b->tick;
    return program->n_values++;
}

void pst_build_use(struct pst_builder *b, uint32_t value)
{
    if (value == PST_NONE) {
        b->failed = true;
    } else if (b->program->values[value].last < b->tick) {
        b->program->values[value].last = b->tick;
    }
}

struct pst_program_call *pst_build_call(struct pst_builder *b, uint8_t kind, uint32_t stage,
                                        uint32_t microbatch, uint32_t op, uint32_t n)
{
    struct pst_program *program = b->program;
    struct pst_program_call *call;

    pst_grow(&program->calls, &b->room.calls, program->n_calls, sizeof *program->calls);
    call = &program->calls[program->n_calls++];
    *call = (struct pst_program_call){
        .kind = kind,
        .op = op,
        .samples = pst_build_samples(b, stage),
        .first_sample = pst_build_first_sample(b, stage, microbatch),
        .slice = microbatch % b->graph->slices,
        .first_operand = program->n_operands,
    };
    while (b->room.operands - program->n_operands < n) {
        pst_grow(&program->operands, &b->room.operands, b->room.operands,
                 sizeof *program->operands);
    }
    if (n > 0) {
        memset(&program->operands[program->n_operands], 0xFF, n * sizeof *program->operands);
        program->n_operands += n;
    }
    return call;
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
    struct pst_program_call *call =
        pst_build_call(b, PST_C_KERNEL, s, j, stage->nodes[node], at.count);
    uint64_t workspace = pst_cost_workspace(b->cost, stage->nodes[node], pass, call->samples);

    call->pass = pass;
    b->pass.n_kernels++;
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

uint32_t *pst_build_made(struct pst_builder *b, enum pst_made_kind kind, size_t n)
{
    struct pst_made *made = pst_arena_array(&b->arena, 1, sizeof *made);

    *made = (struct pst_made){.next = b->made,
                              .kind = kind,
                              .n = n,
                              .at = pst_arena_array(&b->arena, n, sizeof *made->at)};
    b->made = made;
    return made->at;
}

/* --- tables of a stage -------------------------------------------------------------------------*/

static void make_micros(struct pst_builder *b, uint32_t s)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];
    size_t n = (size_t)2 * b->n_near + b->n_separate +
               (size_t)stage->n_nodes * (2 + PST_MAX_SCRATCH) + build->n_uses;
    uint32_t *at, *rows;

    build->n_batch = b->batches.samples / stage->microbatch_size;
    build->n_unit = pst_rule_unit(b->plan->version_rule, build->n_batch);
    build->n_micros = build->n_batch * b->batches.n;
    build->micros = pst_arena_array(&b->arena, build->n_micros, sizeof *build->micros);
    build->next_sum = pst_build_made(b, PST_MADE_COUNTS, 1);
    build->summable = pst_build_made(b, PST_MADE_COUNTS, build->n_micros);
    at = pst_build_made(b, PST_MADE_VALUES, n * build->n_micros);
    rows = pst_build_made(b, PST_MADE_ROWS, (size_t)2 * stage->n_nodes * build->n_micros);
    for (uint32_t j = 0; j < build->n_micros; j++, at += n, rows += 2 * stage->n_nodes) {
        struct pst_micro *micro = &build->micros[j];

        micro->act = at;
        micro->dact = micro->act + b->n_near;
        micro->contrib = micro->dact + b->n_near;
        micro->dy = micro->contrib + b->n_separate;
        micro->z = micro->dy + stage->n_nodes;
        micro->scratch = micro->z + (size_t)stage->n_nodes * PST_MAX_SCRATCH;
        micro->past = micro->scratch + build->n_uses;
        micro->out_copy = rows;
        micro->in_copy = rows + stage->n_nodes;
    }
}

/* Makes the tables for the copies of a stage that offloads. */
static void prepare_copies(struct pst_builder *b, uint32_t s)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];

    if (!pst_plan_stage_has(stage, PST_ACTION_OFFLOAD)) {
        return;
    }
    build->saved = pst_arena_array(&b->arena, b->graph->n_tensors, sizeof *build->saved);
    build->calls = pst_arena_array(&b->arena, PST_I_BW + 1, sizeof *build->calls);
    pst_plan_saved(stage, b->graph, build->saved);
    pst_pass_calls_init(stage, b->graph, &b->arena, build->calls);
}

/* Lists what passes of the stage gather. */
static void prepare_gathers(struct pst_builder *b, uint32_t s)
{
    const uint32_t ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
    struct pst_pass_calls calls[PST_I_BW + 1];
    struct pst_stage_build *build = &b->stages[s];

    if (b->plan->zero < 3) {
        return;
    }
    pst_pass_calls_init(&b->plan->stages[s], b->graph, &b->arena, calls);
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        build->gathers[ops[i]].n = pst_pass_gathers_list(b->plan, b->graph, s, &calls[ops[i]],
                                                         &b->arena, &build->gathers[ops[i]].rows);
    }
}

static void make_stage(struct pst_builder *b, uint32_t s)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];

    build->grad = pst_arena_array(&b->arena, stage->n_nodes, sizeof *build->grad);
    build->use_base = pst_arena_array(&b->arena, stage->n_nodes, sizeof *build->use_base);
    pst_plan_replays(stage, b->graph, &b->arena, &build->replays);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        pst_op_grad_info(b->graph, stage->nodes[i], &build->grad[i]);
        build->use_base[i] = build->n_uses;
        build->n_uses += b->graph->ops[stage->nodes[i]].n_param;
    }
    prepare_copies(b, s);
    prepare_gathers(b, s);
    make_micros(b, s);
}

/* --- set-up ------------------------------------------------------------------------------------*/

/* Tensors whose gradients must be kept apart: three or more uses in two or more stages. */
static void find_separate(struct pst_builder *b)
{
    for (uint32_t t = 0; t < b->graph->n_tensors; t++) {
        const struct pst_tensor *tensor = &b->graph->tensors[t];
        bool several = false;

        b->separate[t] = PST_NONE;
        if (!tensor->needs_grad || tensor->n_consumers < 3) {
            continue;
        }
        for (uint32_t u = 1; u < tensor->n_consumers; u++) {
            several |= b->stage_of[tensor->consumers[u]] != b->stage_of[tensor->consumers[0]];
        }
        if (several) {
            b->separate[t] = b->n_separate;
            b->n_separate += tensor->n_consumers;
        }
    }
}

static void number_near(struct pst_builder *b, const uint32_t *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (b->near[tensors[i]] == PST_NONE) {
            b->near[tensors[i]] = b->n_near++;
        }
    }
}

static void find_near(struct pst_builder *b)
{
    b->near = pst_arena_none(&b->arena, b->graph->n_tensors);
    for (uint32_t v = 0; v < b->graph->n_ops; v++) {
        const struct pst_op *op = &b->graph->ops[v];

        if (b->stages[b->stage_of[v]].local) {
            number_near(b, op->in, op->n_in);
            number_near(b, op->out, op->n_out);
        }
    }
}

void pst_build_tables(struct pst_builder *b)
{
    const struct pst_graph *graph = b->graph;
    const struct pst_plan *plan = b->plan;
    uint32_t n_uses = 0;

    b->stage_of = pst_arena_array(&b->arena, graph->n_ops, sizeof *b->stage_of);
    b->separate = pst_arena_array(&b->arena, graph->n_tensors, sizeof *b->separate);
    b->stages = pst_arena_array(&b->arena, plan->n_stages, sizeof *b->stages);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        b->stages[s].replica = pst_plan_replica(&plan->stages[s], b->rank);
        b->stages[s].local = b->stages[s].replica != PST_NONE;
        b->stages[s].last_edge = PST_NONE;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            b->stage_of[plan->stages[s].nodes[i]] = s;
        }
    }
    find_separate(b);
    find_near(b);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (b->stages[s].local) {
            make_stage(b, s);
            n_uses = b->stages[s].n_uses > n_uses ? b->stages[s].n_uses : n_uses;
        }
    }
    b->pass.summed = pst_arena_array(&b->arena, n_uses, sizeof *b->pass.summed);
}
