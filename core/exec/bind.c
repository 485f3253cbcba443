/* SPDX-License-Identifier: Apache-2.0
 *
 * From a program to what the step loop walks: pointers instead of value indices, tags instead of
 * edges, and of all waits only those for transfers and sums: everything else of this thread has
 * ended, and for copies calls wait.
 */
#include "exec/state.h"

#include <string.h>

static bool is_transfer(const struct pst_instr *instr)
{
    return instr->op == PST_I_SEND || instr->op == PST_I_RECV;
}

/* The program is ours, but may come with a plan read from a file: no pointer leaves the arena. */
static pst_status check_ranges(const struct exec_rank *rank, const struct pst_program *program,
                               struct pst_error *err)
{
    bool ok = true;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];

        uint64_t room = value->kind == PST_V_HOST ? program->host_bytes : rank->arena_bytes;

        ok = ok && value->bytes <= room && value->offset <= room - value->bytes &&
             value->offset % PST_VALUE_ALIGN == 0;
    }
    for (uint32_t i = 0; i < program->n_operands; i++) {
        uint32_t value = program->operands[i];

        ok = ok && (value == PST_NONE ||
                    (value < program->n_values && program->values[value].kind != PST_V_HOST));
    }
    for (uint32_t i = 0; i < program->n_parts; i++) {
        const struct pst_transfer_part *part = &program->parts[i];

        ok = ok && part->value < program->n_values &&
             part->bytes <= program->values[part->value].bytes &&
             part->begin <= program->values[part->value].bytes - part->bytes;
    }
    return ok ? PST_OK
              : pst_fail(err, PST_ERR_BUG, "plan.illegal",
                         "rank %u: a buffer of the program lies outside of its arena", rank->index);
}

/*
 * Both ends derive the same tag from what the plan says of the transfer. Within one pair of ranks
 * it is unique in the batch; the parity of the batch is added when it is posted. bit 63..40 edge,
 * 39 payload, 38..32 part, 31..1 first sample, 0 parity
 */
static pst_status make_tag(const struct pst_instr *instr, uint32_t part, uint32_t batch,
                           uint64_t *ret_tag, struct pst_error *err)
{
    if (instr->stage >= EXEC_GUEST || part >= 1u << 7 || batch >= 1u << 31) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "edge %u, tensor %u, sample %u: more than a transfer can name "
                        "(16777214, 128, 2147483648)",
                        instr->stage, part, instr->first_sample);
    }
    *ret_tag = (uint64_t)instr->stage << 40 | (uint64_t)(instr->payload & 1) << 39 |
               (uint64_t)part << 32 | (uint64_t)(instr->first_sample % batch) << 1;
    return PST_OK;
}

/* Of guests: bit 63..40 none of the edges, 39 payload, 38..24 part, 23..1 number of the guest among
   those of the plan, 0 parity. */
static pst_status make_guest_tag(const struct pst_plan *plan, const struct pst_instr *instr,
                                 uint32_t part, uint64_t *ret_tag, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &plan->stages[instr->stage];
    const struct pst_plan_guest *guest =
        pst_plan_guest_of(stage, instr->first_sample / stage->microbatch_size);
    uint64_t number = guest != NULL ? (uint64_t)(guest - stage->guests) : 0;

    for (uint32_t s = 0; s < instr->stage; s++) {
        number += plan->stages[s].n_guests;
    }
    if (guest == NULL || part >= 1u << 15 || number >= 1u << 23) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "stage %u, sample %u, tensor %u: more than a transfer between devices can "
                        "name (8388608 micro-batches elsewhere, 32768 tensors each)",
                        instr->stage, instr->first_sample, part);
    }
    *ret_tag = EXEC_GUEST << 40 | (uint64_t)(instr->payload == PST_PAYLOAD_LOAD) << 39 |
               (uint64_t)part << 24 | number << 1;
    return PST_OK;
}

static pst_status bind_parts(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                             struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_program_instr *from = &program->lists[index];

    for (uint32_t i = 0; i < from->n_parts; i++) {
        const struct pst_transfer_part *part = &program->parts[from->first_part + i];
        struct exec_part *bound = &list->parts[from->first_part + i];
        const struct pst_instr *instr = &program->instrs[index];
        pst_status status = pst_instr_moves_guest(instr)
                                ? make_guest_tag(list->plan, instr, i, &bound->tag, err)
                                : make_tag(instr, i, list->plan->batch, &bound->tag, err);

        if (status != PST_OK) {
            return status;
        }
        bound->data = (char *)exec_value(rank, program, part->value) + part->begin;
        bound->bytes = part->bytes;
        bound->next = program->instrs[index].first_sample >= list->plan->batch;
    }
    return PST_OK;
}

/* What has no calls waits for copies itself. */
static bool waits_for_copy(const struct pst_program *program, uint32_t index, uint32_t waited)
{
    return program->lists[index].n_calls == 0 && program->lists[index].n_copies == 0 &&
           program->lists[waited].n_copies > 0;
}

/* Ends later than it is posted. */
static bool is_posted(const struct pst_plan *plan, const struct pst_instr *instr)
{
    return is_transfer(instr) ||
           (instr->op == PST_I_REDUCE && plan->stages[instr->stage].n_ranks > 1);
}

static pst_status bind_waits(struct exec_rank *rank, const struct exec_list *list, uint32_t first,
                             uint32_t index, struct exec_instr *bound, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_instr *instr = &program->instrs[index];
    uint32_t *waits = pst_arena_array(&rank->memory, instr->n_waits, sizeof *waits);

    for (uint32_t i = 0; i < instr->n_waits; i++) {
        if (instr->waits[i] >= index - first) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "rank %u: instruction %u waits for %u, which comes later", rank->index,
                            index - first, instr->waits[i]);
        }
        if (is_posted(list->plan, &program->instrs[first + instr->waits[i]]) ||
            waits_for_copy(program, index, first + instr->waits[i])) {
            waits[bound->n_waits++] = first + instr->waits[i];
        }
    }
    bound->waits = waits;
    return PST_OK;
}

/* Two a stage, forward and backward; one for sums. */
static uint32_t bucket_of(const struct pst_plan *plan, const struct pst_instr *instr)
{
    bool act = instr->payload == PST_PAYLOAD_ACT;
    const struct pst_plan_edge *edge;

    if (!plan->asynchronous || !is_posted(plan, instr)) {
        return PST_NONE;
    }
    if (instr->op == PST_I_REDUCE) {
        return 2 * plan->n_stages;
    }
    edge = &plan->edges[instr->stage];
    return 2 * (act == (instr->op == PST_I_SEND) ? edge->from : edge->to) + !act;
}

static uint32_t bucket_ended_by(const struct pst_plan *plan, const struct pst_instr *instr)
{
    if (!plan->asynchronous) {
        return PST_NONE;
    }
    switch (instr->op) {
    case PST_I_F:
        return 2 * instr->stage;
    case PST_I_B:
    case PST_I_BW:
        return 2 * instr->stage + 1;
    case PST_I_TIE:
    case PST_I_NORM:
    case PST_I_STEP:
        return 2 * plan->n_stages;
    default:
        return PST_NONE;
    }
}

/* Whose gradients a REDUCE sums, modulo 2: the k-th of a stage is for batch k, and the first may
   stand in fill. */
static uint32_t parity_of(const struct pst_program *program,
                          const struct pst_program_section *section, uint32_t stage)
{
    const struct pst_program_section *fill = &program->sections[0];
    uint32_t ahead = 0;

    for (uint32_t i = 0; fill->part == PST_FILL && section->part != PST_FILL && i < fill->n_instrs;
         i++) {
        const struct pst_instr *instr = &program->instrs[fill->first_instr + i];

        ahead += instr->op == PST_I_REDUCE && instr->stage == stage;
    }
    return (section->phase + ahead) % 2;
}

/* The update of a STEP, by the pass that made the last gradient of it. */
static uint32_t update_of(const struct pst_plan *plan, const struct pst_program *program,
                          const struct pst_program_section *section, uint32_t index)
{
    uint32_t stage = program->instrs[index].stage;

    while (plan->version_rule == PST_VERSION_STASHED && index-- > section->first_instr) {
        const struct pst_instr *instr = &program->instrs[index];

        if (instr->stage == stage && (instr->op == PST_I_W || instr->op == PST_I_BW)) {
            return instr->microbatch;
        }
    }
    return 0;
}

static pst_status bind_instr(struct exec_rank *rank, struct exec_list *list,
                             const struct pst_program_section *section, uint32_t index,
                             struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_instr *instr = &program->instrs[index];
    const struct pst_program_instr *from = &program->lists[index];
    struct exec_instr *bound = &list->instrs[index];
    pst_status status;

    *bound = (struct exec_instr){.op = instr->op,
                                 .stage = instr->stage,
                                 .peer = instr->peer,
                                 .first_call = from->first_call,
                                 .n_calls = from->n_calls,
                                 .first_part = from->first_part,
                                 .n_parts = from->n_parts,
                                 .bucket = bucket_of(list->plan, instr),
                                 .ends = bucket_ended_by(list->plan, instr)};
    status = bind_waits(rank, list, section->first_instr, index, bound, err);
    if (instr->op == PST_I_STEP) {
        bound->update = update_of(list->plan, program, section, index);
    }
    if (status == PST_OK && is_transfer(instr)) {
        status = bind_parts(rank, list, index, err);
    }
    if (status == PST_OK && instr->op == PST_I_TIE) {
        status =
            exec_bind_tie(rank, list->plan, instr->stage, section->phase % 2, &bound->tie, err);
    }
    if (status == PST_OK && instr->op == PST_I_REDUCE && is_posted(list->plan, instr)) {
        bound->reduce = exec_bind_reduce(rank, list->plan, instr->stage,
                                         parity_of(program, section, instr->stage));
    }
    return status;
}

pst_status exec_bind(struct exec_rank *rank, struct exec_list *list, const struct pst_plan *plan,
                     const struct pst_program *program, struct pst_error *err)
{
    pst_status status = check_ranges(rank, program, err);

    if (status != PST_OK) {
        return status;
    }
    list->plan = plan;
    list->program = program;
    list->instrs = pst_arena_array(&rank->memory, program->n_instrs, sizeof *list->instrs);
    list->calls = pst_arena_array(&rank->memory, program->n_calls, sizeof *list->calls);
    list->parts = pst_arena_array(&rank->memory, program->n_parts, sizeof *list->parts);
    list->workspace_end =
        pst_arena_array(&rank->memory, program->n_sections, sizeof *list->workspace_end);
    list->open = pst_arena_array(&rank->memory, 2 * (size_t)plan->n_stages + 1, sizeof *list->open);
    memset(list->open, 0xFF, (2 * (size_t)plan->n_stages + 1) * sizeof *list->open);
    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *section = &program->sections[s];

        for (uint32_t i = 0; i < section->n_instrs && status == PST_OK; i++) {
            status = bind_instr(rank, list, section, section->first_instr + i, err);
            if (status == PST_OK) {
                status = exec_bind_calls(rank, list, s, section->first_instr + i, err);
            }
        }
    }
    return status;
}
