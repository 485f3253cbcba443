/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/program.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/util.h"
#include "plan/program_build.h"

#define WORTH_THREADS 100000 /* values to lay out: a tenth of a second */

uint32_t pst_build_value(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t microbatch,
                         uint32_t what, uint32_t slot, uint64_t bytes)
{
    struct pst_program *program = b->program;
    struct pst_value *value;
    uint32_t shared = pst_build_shared(b, kind, stage, microbatch);

    if (shared != PST_NONE) {
        return shared;
    }
    if (b->failed ||
        !pst_grow(&program->values, &b->room_values, program->n_values, sizeof *program->values) ||
        !pst_build_record(b, kind, program->n_values)) {
        b->no_memory |= !b->failed;
        b->failed = true;
        return PST_NONE;
    }
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

struct pst_program_call *pst_build_call(struct pst_builder *b, uint8_t kind, uint32_t op,
                                        uint32_t n)
{
    struct pst_program *program = b->program;
    struct pst_program_call *call;

    if (b->failed ||
        !pst_grow(&program->calls, &b->room_calls, program->n_calls, sizeof *program->calls)) {
        b->no_memory |= !b->failed;
        b->failed = true;
        return NULL;
    }
    call = &program->calls[program->n_calls];
    memset(call, 0, sizeof *call);
    call->kind = kind;
    call->op = op;
    call->first_operand = program->n_operands;
    for (uint32_t i = 0; i < n; i++) {
        if (!pst_grow(&program->operands, &b->room_operands, program->n_operands,
                      sizeof *program->operands)) {
            b->failed = b->no_memory = true;
            return NULL;
        }
        program->operands[program->n_operands++] = PST_NONE;
    }
    program->n_calls++;
    return call;
}

bool pst_build_is_local(const struct pst_builder *b, uint32_t stage)
{
    return pst_plan_replica(&b->plan->stages[stage], b->rank) != PST_NONE;
}

/* --- set-up ------------------------------------------------------------------------------------
 */

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

static pst_status set_up(struct pst_builder *b, struct pst_error *err)
{
    const struct pst_graph *graph = b->graph;
    const struct pst_plan *plan = b->plan;
    pst_status st = PST_OK;

    b->stage_of = pst_arena_array(&b->arena, graph->n_ops, sizeof *b->stage_of);
    b->node_of = pst_arena_array(&b->arena, graph->n_ops, sizeof *b->node_of);
    b->separate = pst_arena_array(&b->arena, graph->n_tensors, sizeof *b->separate);
    b->stages = pst_arena_array(&b->arena, plan->n_stages, sizeof *b->stages);
    if (b->stage_of == NULL || b->node_of == NULL || b->separate == NULL || b->stages == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        b->stages[s].replica = pst_plan_replica(&plan->stages[s], b->rank);
        b->stages[s].local = b->stages[s].replica != PST_NONE;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            b->stage_of[plan->stages[s].nodes[i]] = s;
            b->node_of[plan->stages[s].nodes[i]] = i;
        }
    }
    find_separate(b);
    for (uint32_t s = 0; s < plan->n_stages && st == PST_OK; s++) {
        if (b->stages[s].local) {
            st = pst_build_stage(b, s, err);
        }
    }
    if (st == PST_OK) {
        st = pst_build_guest_tables(b, err);
    }
    return st == PST_OK ? pst_build_edges(b, err) : st;
}

pst_status pst_build_begin(struct pst_builder *b, struct pst_error *err)
{
    pst_status st = set_up(b, err);

    if (st == PST_OK) {
        pst_build_reset(b);
        st = pst_build_static(b, err);
    }
    return st;
}

/* --- the list ----------------------------------------------------------------------------------
 */

/*
 * An instruction that waits for a transfer ends the transport's hold on its buffers: sent ones may
 * be reused from its first call on, received ones are held at least until then.
 */
static void end_transfers(struct pst_builder *b, const struct pst_instr *instr)
{
    struct pst_program *program = b->program;

    for (uint32_t i = 0; i < instr->n_waits; i++) {
        uint32_t waited = b->first_instr + instr->waits[i];
        const struct pst_program_instr *list = &program->lists[waited];
        bool sent = program->instrs[waited].op == PST_I_SEND;

        for (uint32_t p = list->first_part; p < list->first_part + list->n_parts; p++) {
            struct pst_value *value = &program->values[program->parts[p].value];
            uint32_t until = sent && b->tick > 0 ? b->tick - 1 : b->tick;

            value->last = value->last < until ? until : value->last;
        }
    }
}

/* Transfers that nothing waits for are complete only when the section has ended. */
static pst_status end_unjoined(struct pst_builder *b, const struct pst_program_section *section,
                               struct pst_error *err)
{
    struct pst_program *program = b->program;
    const struct pst_instr *instrs = program->instrs + section->first_instr;
    const struct pst_program_instr *lists = program->lists + section->first_instr;
    bool *joined = calloc((size_t)section->n_instrs + 1, sizeof *joined);

    if (joined == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < section->n_instrs; i++) {
        for (uint32_t w = 0; w < instrs[i].n_waits; w++) {
            joined[instrs[i].waits[w]] = true;
        }
    }
    for (uint32_t i = 0; i < section->n_instrs; i++) {
        for (uint32_t p = lists[i].first_part;
             p < lists[i].first_part + lists[i].n_parts && !joined[i]; p++) {
            struct pst_value *value = &program->values[program->parts[p].value];

            value->last = value->last < b->tick - 1 ? b->tick - 1 : value->last;
        }
    }
    free(joined);
    return PST_OK;
}

static pst_status build_instr(struct pst_builder *b, const struct pst_instr *instr,
                              struct pst_program_instr *list, struct pst_error *err)
{
    uint32_t tick = b->tick;
    pst_status st = PST_OK;

    list->first_tick = tick;
    list->first_call = b->program->n_calls;
    list->first_part = b->program->n_parts;
    list->first_copy = b->program->n_copies;
    b->instr = instr;
    memset(b->n_created, 0, sizeof b->n_created);
    end_transfers(b, instr);
    switch (instr->op) {
    case PST_I_F:
        st = pst_build_forward(b, instr->stage, instr->microbatch, err);
        break;
    case PST_I_B:
        st = pst_build_backward(b, instr->stage, instr->microbatch, false, err);
        break;
    case PST_I_BW:
        st = pst_build_backward(b, instr->stage, instr->microbatch, true, err);
        break;
    case PST_I_W:
        st = pst_build_weights(b, instr->stage, instr->microbatch, err);
        break;
    case PST_I_SEND:
    case PST_I_RECV:
        pst_build_transfer(b, instr);
        break;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        pst_build_copy(b, instr);
        break;
    default:
        break;
    }
    if (st == PST_OK && b->no_memory) {
        st = pst_fail_nomem(err);
    } else if (st == PST_OK && b->failed) {
        st = pst_fail(
            err, PST_ERR_BUG, "plan.illegal",
            "PASS3: device %u, %s of stage or edge %u reads a buffer that nothing has made",
            b->rank, pst_instr_name(instr->op), instr->stage);
    }
    list->n_calls = b->program->n_calls - list->first_call;
    list->n_parts = b->program->n_parts - list->first_part;
    list->n_copies = b->program->n_copies - list->first_copy;
    if (b->tick == tick) {
        b->tick++;
    }
    list->n_ticks = b->tick - tick;
    return st;
}

pst_status pst_build_section(struct pst_builder *b, struct pst_program_section *section,
                             struct pst_error *err)
{
    struct pst_program *program = b->program;
    uint32_t end = section->first_instr + section->n_instrs;
    pst_status st = PST_OK;

    b->phase = section->phase;
    b->first_instr = section->first_instr;
    section->first_tick = b->tick;
    section->kept_output = PST_NONE;
    for (uint32_t i = section->first_instr; i < end && st == PST_OK; i++) {
        st = build_instr(b, &program->instrs[i], &program->lists[i], err);
    }
    return st == PST_OK ? end_unjoined(b, section, err) : st;
}

/* All ticks are there: what lives all the time does so from the first to the last. */
static void extend_lives(struct pst_builder *b)
{
    struct pst_program *program = b->program;

    program->n_ticks = b->tick > 0 ? b->tick : 1;
    for (uint32_t i = 0; i < program->n_values; i++) {
        if (program->values[i].is_static || program->values[i].period > 0) {
            program->values[i].first = 0;
            program->values[i].last = program->n_ticks - 1;
        }
    }
}

/* All but the offsets. */
static pst_status build_program(const struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost, uint32_t rank,
                                uint32_t keep_output, struct pst_program **ret_program,
                                struct pst_error *err)
{
    struct pst_program *program = calloc(1, sizeof *program);
    struct pst_builder b = {.plan = plan,
                            .graph = graph,
                            .cost = cost,
                            .program = program,
                            .rank = rank,
                            .n_batches = plan->asynchronous ? 2 : 1,
                            .batch = plan->batch,
                            .newest = !plan->asynchronous};
    pst_status st;

    if (program == NULL) {
        return pst_fail_nomem(err);
    }
    program->rank = rank;
    st = pst_build_begin(&b, err);
    if (st == PST_OK) {
        st = pst_build_phases(&b, keep_output, err);
    }
    if (st == PST_OK) {
        st = pst_build_copies(&b, err);
    }
    if (st == PST_OK) {
        extend_lives(&b);
    }
    pst_arena_finish(&b.arena);
    if (st != PST_OK) {
        pst_program_destroy(program);
        return st;
    }
    *ret_program = program;
    return PST_OK;
}

pst_status pst_program_create(const struct pst_plan *plan, const struct pst_graph *graph,
                              const struct pst_cost_model *cost, uint32_t rank,
                              uint32_t keep_output, struct pst_program **ret_program,
                              struct pst_error *err)
{
    struct pst_program *program;
    pst_status st = build_program(plan, graph, cost, rank, keep_output, &program, err);

    if (st == PST_OK) {
        st = pst_layout_program(program, plan->capacity_bytes, err);
        if (st != PST_OK) {
            pst_program_destroy(program);
            return st;
        }
        *ret_program = program;
    }
    return st;
}

struct layouts {
    struct pst_program **programs;
    uint64_t limit;
    atomic_bool failed;
};

static void lay_out(void *layouts_, uint32_t i)
{
    struct layouts *layouts = layouts_;

    if (pst_layout_program(layouts->programs[i], layouts->limit, NULL) != PST_OK) {
        atomic_store(&layouts->failed, true);
    }
}

pst_status pst_programs_create(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, struct pst_program **ret_programs,
                               struct pst_error *err)
{
    struct layouts layouts = {.programs = ret_programs, .limit = plan->capacity_bytes};
    uint64_t n_values = 0;
    pst_status st = PST_OK;

    for (uint32_t r = 0; st == PST_OK && r < plan->n_devices; r++) {
        st = build_program(plan, graph, cost, r, PST_NONE, &ret_programs[r], err);
        n_values += st == PST_OK ? ret_programs[r]->n_values : 0;
    }
    for (uint32_t r = 0; st == PST_OK && n_values < WORTH_THREADS && r < plan->n_devices; r++) {
        st = pst_layout_program(ret_programs[r], plan->capacity_bytes, err);
    }
    if (st == PST_OK && n_values >= WORTH_THREADS) {
        pst_parallel(plan->n_devices, lay_out, &layouts);
        st = layouts.failed ? pst_fail_nomem(err) : PST_OK;
    }
    return st;
}

void pst_program_destroy(struct pst_program *program)
{
    if (program != NULL) {
        free(program->calls);
        free(program->operands);
        free(program->values);
        free(program->parts);
        free(program->copies);
        pst_arena_finish(&program->arena);
        free(program);
    }
}
