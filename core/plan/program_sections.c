/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the sections of a program (docs/internals/async.md): its phases, each of which has the
 * parts of the plan; of a synchronous plan the body alone. Each is built instruction by
 * instruction; what micro-batches have between two parts is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "plan/program_build.h"

void pst_build_begin(struct pst_builder *b)
{
    pst_build_tables(b);
    pst_build_guest_tables(b);
    pst_build_edges(b);
    pst_build_static(b);
}

/* --- the list ----------------------------------------------------------------------------------*/

/*
 * An instruction that waits for a transfer ends the transport's hold on its buffers: sent ones may
 * be reused from its first call on, received ones are held at least until then.
 */
static void end_transfers(struct pst_builder *b, const struct pst_instr *instr)
{
    struct pst_program *program = b->program;

    for (uint32_t i = 0; i < instr->n_waits; i++) {
        uint32_t waited = b->section.first_instr + instr->waits[i];
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
static void end_unjoined(struct pst_builder *b, const struct pst_program_section *section)
{
    struct pst_program *program = b->program;
    const struct pst_instr *instrs = program->instrs + section->first_instr;
    const struct pst_program_instr *lists = program->lists + section->first_instr;
    bool *joined = pst_alloc((size_t)section->n_instrs + 1, sizeof *joined);

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
}

static pst_status build_instr(struct pst_builder *b, const struct pst_program_section *section,
                              const struct pst_instr *instr, struct pst_program_instr *list,
                              struct pst_error *err)
{
    uint32_t tick = b->tick;
    pst_status status = PST_OK;

    list->first_tick = tick;
    list->first_call = b->program->n_calls;
    list->first_part = b->program->n_parts;
    list->first_copy = b->program->n_copies;
    list->meeting = NULL;
    b->instr = instr;
    memset(b->n_created, 0, sizeof b->n_created);
    end_transfers(b, instr);
    pst_build_pass(b);
    switch (instr->op) {
    case PST_I_F:
        pst_build_forward(b, instr->stage, instr->microbatch);
        break;
    case PST_I_B:
        status = pst_build_backward(b, instr->stage, instr->microbatch, false, err);
        break;
    case PST_I_BW:
        status = pst_build_backward(b, instr->stage, instr->microbatch, true, err);
        break;
    case PST_I_W:
        pst_build_weights(b, instr->stage, instr->microbatch);
        break;
    case PST_I_SEND:
    case PST_I_RECV:
        pst_build_transfer(b, instr);
        break;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        pst_build_copy(b, instr);
        break;
    case PST_I_REDUCE:
    case PST_I_MERGE:
    case PST_I_TIE:
    case PST_I_GATHER:
        list->meeting = pst_build_meeting(b, section, instr);
        break;
    default:
        break;
    }
    if (status == PST_OK && b->failed) {
        status = pst_fail(
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
    return status;
}

static pst_status build_section(struct pst_builder *b, struct pst_program_section *section,
                                struct pst_error *err)
{
    struct pst_program *program = b->program;
    uint32_t end = section->first_instr + section->n_instrs;
    pst_status status = PST_OK;

    b->section.phase = section->phase;
    b->section.first_instr = section->first_instr;
    section->first_tick = b->tick;
    section->kept_output = PST_NONE;
    for (uint32_t i = section->first_instr; i < end && status == PST_OK; i++) {
        status = build_instr(b, section, &program->instrs[i], &program->lists[i], err);
    }
    if (status == PST_OK) {
        end_unjoined(b, section);
    }
    return status;
}

/* --- what lives between parts ------------------------------------------------------------------*/

/* Nothing has been made. */
static void forget_values(struct pst_builder *b)
{
    for (struct pst_made *made = b->made; made != NULL; made = made->next) {
        memset(made->at, made->kind == PST_MADE_COUNTS ? 0 : 0xFF, made->n * sizeof *made->at);
    }
}

/* Records the state that fill leaves: its private buffers end with it, shared ones stay. */
static void save_state(struct pst_builder *b)
{
    for (struct pst_made *made = b->made; made != NULL; made = made->next) {
        if (made->left == NULL) {
            made->left = pst_arena_array(&b->arena, made->n, sizeof *made->left);
        }
        for (size_t i = 0; i < made->n; i++) {
            bool gone = made->kind == PST_MADE_VALUES && made->at[i] != PST_NONE &&
                        b->program->values[made->at[i]].period == 0;

            made->left[i] = gone ? PST_NONE : made->at[i];
        }
    }
}

static void restore_state(struct pst_builder *b)
{
    for (struct pst_made *made = b->made; made != NULL; made = made->next) {
        memcpy(made->at, made->left, made->n * sizeof *made->at);
    }
}

/* --- the parts ---------------------------------------------------------------------------------*/

/* Rows of the program's tables for n phases. */
static pst_status make_sections(struct pst_builder *b, uint32_t n_phases, struct pst_error *err)
{
    const struct pst_plan_device *device = &b->plan->devices[b->rank];
    struct pst_program *program = b->program;
    uint32_t n_parts = b->plan->asynchronous ? PST_PARTS : 1;
    bool single = n_phases * n_parts == 1; /* the plan's list serves */
    struct pst_instr *instrs;
    uint64_t n_instrs =
        (uint64_t)n_phases * ((uint64_t)device->n_fill + device->n_instrs + device->n_drain);

    if (n_instrs > UINT32_MAX / 2) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "device %u: %llu instructions are too many", b->rank,
                        (unsigned long long)n_instrs);
    }
    instrs = pst_arena_array(&program->arena, single ? 0 : n_instrs, sizeof *instrs);
    program->lists = pst_arena_array(&program->arena, n_instrs, sizeof *program->lists);
    program->sections =
        pst_arena_array(&program->arena, (size_t)n_phases * n_parts, sizeof *program->sections);
    program->instrs = single ? device->body : instrs;
    program->n_phases = n_phases;
    for (uint32_t i = 0; i < n_phases * n_parts; i++) {
        struct pst_program_section *section = &program->sections[i];
        enum pst_part part = n_parts == 1 ? PST_BODY : (enum pst_part)(i % PST_PARTS);
        const struct pst_instr *list = pst_plan_list(device, part, &section->n_instrs);

        section->part = (uint8_t)part;
        section->phase = i / n_parts;
        section->first_instr = program->n_instrs;
        if (!single && section->n_instrs > 0) {
            memcpy(instrs + program->n_instrs, list, section->n_instrs * sizeof *instrs);
        }
        for (uint32_t k = n_parts > 1 ? pst_plan_apart(list, section->n_instrs) : 0; k-- > 0;) {
            instrs[program->n_instrs + k].at_part_head = true;
        }
        program->n_instrs += section->n_instrs;
    }
    program->n_sections = n_phases * n_parts;
    return PST_OK;
}

/* The result of the last micro-batch stays until the section ends. */
static void keep_output(struct pst_builder *b, struct pst_program_section *section)
{
    struct pst_program *program = b->program;
    uint32_t tensor = b->plan->kept_output;
    uint32_t stage = b->stage_of[b->graph->tensors[tensor].producer];
    uint32_t n = b->plan->stages[stage].n_microbatches;

    if (b->stages[stage].local && n > 0) {
        section->kept_output = *pst_build_act(b, stage, n - 1, tensor);
        if (section->kept_output != PST_NONE) {
            program->values[section->kept_output].last = b->tick - 1;
        }
    }
}

/* Builds all sections. A body leaves the same state as a fill, one batch later, so every part after
   a fill starts from what that fill left. */
pst_status pst_build_sections(struct pst_builder *b, uint32_t n_phases, struct pst_error *err)
{
    pst_status status = make_sections(b, n_phases, err);

    for (uint32_t i = 0; i < b->program->n_sections && status == PST_OK; i++) {
        struct pst_program_section *section = &b->program->sections[i];
        bool fill = section->part == PST_FILL;

        if (b->plan->asynchronous && !fill) {
            restore_state(b);
        } else {
            forget_values(b);
        }
        status = build_section(b, section, err);
        if (fill) {
            save_state(b);
        }
        if (status == PST_OK && b->plan->kept_output != PST_NONE) {
            keep_output(b, section);
        }
    }
    return status;
}
