/* SPDX-License-Identifier: Apache-2.0
 *
 * The program of an asynchronous plan for some batches in a row, as a straight list, so that the
 * rules for straight lists prove it. A buffer in which micro-batches take turns becomes one buffer
 * for each of them, at the same place, alive from its first use to its last: where a later one
 * comes too early, two buffers overlap.
 */
#include "prove/program_replay.h"

#include <stdlib.h>

#include "base/util.h"

struct unroller {
    struct pst_check *check;
    const struct pst_program *from;
    struct pst_program *to;
    size_t room;
    uint32_t phase;   /* of the first batch */
    uint32_t *head;   /* [value of from] its last copy; PST_NONE: none */
    uint32_t *before; /* [value of to] the copy before it of the same */
    size_t room_before;
    uint32_t n_before;
    /* where it is */
    const struct pst_program_section *section;
    uint32_t batch, run; /* that the section closes; counts sections, from 1 */
    uint32_t begin;      /* tick of to at which the section begins */
    uint32_t tick;
    uint32_t *run_of;    /* [value of from] section in which its last copy was made */
    uint32_t *row_of[2]; /* [out][value of from] the last row of to that moved it */
    uint32_t pass_call;  /* of to: the first call of the pass that copies stand behind */
    const struct pst_program_instr *pass; /* of from */
    const char *fault;
};

static uint32_t add_value(struct unroller *u, uint32_t v, const struct pst_value *value)
{
    pst_grow(&u->to->values, &u->room, u->to->n_values, sizeof *u->to->values);
    pst_grow(&u->before, &u->room_before, u->n_before, sizeof *u->before);
    u->to->values[u->to->n_values] = *value;
    u->before[u->n_before++] = u->head[v];
    u->head[v] = u->to->n_values;
    u->run_of[v] = u->run;
    return u->to->n_values++;
}

/* The tick after the section's last. */
static uint32_t end_tick(const struct unroller *u)
{
    const struct pst_program_section *next = u->section + 1;
    return next < u->from->sections + u->from->n_sections ? next->first_tick : u->from->n_ticks;
}

/* A buffer that lives inside the section. */
static uint32_t local_value(struct unroller *u, uint32_t v)
{
    struct pst_value value = u->from->values[v];
    const struct pst_plan_stage *stage = &u->check->source->stages[value.stage];
    if (u->head[v] != PST_NONE && u->run_of[v] == u->run) {
        return u->head[v];
    }
    if (value.first < u->section->first_tick || value.last >= end_tick(u)) {
        u->fault = "a buffer that lives in another section";
        return PST_NONE;
    }
    value.first += u->begin - u->section->first_tick;
    value.last += u->begin - u->section->first_tick;
    value.microbatch += u->batch * stage->n_microbatches;
    return add_value(u, v, &value);
}

/* A buffer in which micro-batches take turns, for the one of this sample. */
static uint32_t turn_value(struct unroller *u, uint32_t v, uint32_t sample)
{
    struct pst_value value = u->from->values[v];
    const struct pst_plan_stage *stage = &u->check->source->stages[value.stage];
    uint32_t microbatch = sample / stage->microbatch_size;
    uint32_t turn = u->phase * stage->n_microbatches + microbatch, at = u->head[v];
    if (turn % value.period != value.microbatch) {
        u->fault = "the buffer of another micro-batch";
        return PST_NONE;
    }
    while (at != PST_NONE && u->to->values[at].microbatch != microbatch) {
        at = u->before[at];
    }
    if (at != PST_NONE) {
        return at;
    }
    value.microbatch = microbatch;
    value.first = value.last = u->tick;
    return add_value(u, v, &value);
}

/* The copy of a value that is used now, for this sample of the unrolled list. */
static uint32_t use_copy(struct unroller *u, uint32_t v, uint32_t sample)
{
    uint32_t copy;
    if (v == PST_NONE || u->fault != NULL) {
        return PST_NONE;
    }
    if (u->from->values[v].is_static) {
        return u->head[v];
    }
    if (u->from->values[v].period == 0) {
        return local_value(u, v);
    }
    copy = turn_value(u, v, sample);
    if (copy != PST_NONE && u->to->values[copy].last < u->tick) {
        u->to->values[copy].last = u->tick;
    }
    return copy;
}

static uint32_t n_operands_of(const struct pst_check *check, const struct pst_program_call *call)
{
    return call->kind == PST_C_KERNEL ? pst_operands_of(&check->graph->ops[call->op]).count : 3;
}

/* Returns the row that last copied this host buffer in this direction, as in the executor. */
static uint32_t moved_last(struct unroller *u, uint32_t row)
{
    const struct pst_program_copy *copy = &u->from->copies[row];
    uint32_t last = u->row_of[copy->out][copy->host];
    if (last == PST_NONE) {
        u->fault = "a copy that no earlier part has made";
    }
    return last;
}

static void copy_waits(struct unroller *u, const struct pst_program_call *from,
                       struct pst_program_call *call)
{
    struct pst_program *to = u->to;
    call->first_copy_wait = to->n_copy_waits;
    for (uint32_t w = 0; w < from->n_copy_waits; w++) {
        to->copy_waits[to->n_copy_waits++] =
            moved_last(u, u->from->copy_waits[from->first_copy_wait + w]);
    }
}

/* A row of OFFLOAD or FETCH, for the samples of its micro-batch. */
static void copy_row(struct unroller *u, uint32_t i, const struct pst_program_copy *from)
{
    struct pst_program *to = u->to;
    const struct pst_instr *instr = &to->instrs[i];
    const struct pst_plan_stage *stage = &u->check->source->stages[instr->stage];
    uint32_t sample = instr->microbatch * stage->microbatch_size;
    struct pst_program_copy *row = &to->copies[to->n_copies];
    *row = *from;
    row->instr = i;
    row->value = use_copy(u, from->value, sample);
    row->host = use_copy(u, from->host, sample);
    if (from->start_call != PST_NONE) {
        row->start_call = u->pass_call + (from->start_call - u->pass->first_call);
    }
    if (from->after != PST_NONE) {
        row->after = moved_last(u, from->after);
    }
    if (from->host < u->from->n_values) {
        u->row_of[from->out][from->host] = to->n_copies;
    }
    to->n_copies++;
}

static void copy_call(struct unroller *u, const struct pst_program_call *from)
{
    struct pst_program *to = u->to;
    struct pst_program_call *call = &to->calls[to->n_calls++];
    uint32_t n = n_operands_of(u->check, from);
    *call = *from;
    call->first_operand = to->n_operands;
    call->first_sample += u->batch * u->check->source->batch;
    copy_waits(u, from, call);
    for (uint32_t i = 0; i < n; i++) {
        to->operands[to->n_operands++] =
            use_copy(u, u->from->operands[from->first_operand + i], call->first_sample);
    }
}

static void copy_instr(struct unroller *u, uint32_t i, const struct pst_program_instr *from)
{
    struct pst_program *to = u->to;
    struct pst_program_instr *list = &to->lists[i];
    *list = (struct pst_program_instr){.meeting = from->meeting,
                                       .first_tick = u->tick,
                                       .first_call = to->n_calls,
                                       .n_calls = from->n_calls,
                                       .first_part = to->n_parts,
                                       .n_parts = from->n_parts,
                                       .first_copy = to->n_copies,
                                       .n_copies = from->n_copies};
    if (!pst_check_is_copy(to->instrs[i].op)) {
        u->pass_call = to->n_calls;
        u->pass = from;
    }
    for (uint32_t p = 0; p < from->n_parts; p++) {
        const struct pst_transfer_part *part = &u->from->parts[from->first_part + p];
        to->parts[to->n_parts++] = (struct pst_transfer_part){
            use_copy(u, part->value, to->instrs[i].first_sample), part->begin, part->bytes};
    }
    for (uint32_t c = 0; c < from->n_copies; c++) {
        copy_row(u, i, &u->from->copies[from->first_copy + c]);
    }
    for (uint32_t c = 0; c < from->n_calls; c++) {
        u->tick += pst_call_ticks(&u->from->calls[from->first_call + c]) - 1;
        copy_call(u, &u->from->calls[from->first_call + c]);
        u->tick++;
    }
    u->tick += from->n_calls == 0;
    list->n_ticks = u->tick - list->first_tick;
}

/* Alive while the transport has it, as the waits tell. */
static void hold_value(struct unroller *u, uint32_t wait, uint32_t tick)
{
    struct pst_program *to = u->to;
    const struct pst_program_instr *list = &to->lists[wait];
    for (uint32_t p = list->first_part; p < list->first_part + list->n_parts; p++) {
        struct pst_value *value = &to->values[to->parts[p].value];
        if (value->period > 0 && value->last < tick) {
            value->last = tick;
        }
    }
}

static void hold_all(struct unroller *u)
{
    struct pst_program *to = u->to;
    uint64_t base = u->check->list_base[to->rank];
    uint32_t tick = 0;
    for (uint32_t i = 0; i < to->n_instrs; i++) {
        for (uint32_t w = 0; w < to->instrs[i].n_waits; w++) {
            uint32_t wait = to->instrs[i].waits[w];
            hold_value(u, wait, to->instrs[wait].op == PST_I_SEND && tick > 0 ? tick - 1 : tick);
        }
        if (u->check->known[base + i] == PST_NONE) {
            hold_value(u, i, to->n_ticks - 1);
        }
        tick += to->lists[i].n_ticks;
    }
}

static void widen_life(struct pst_value *value, uint32_t first, uint32_t last)
{
    if (value->period > 0) {
        value->first = first < value->first ? first : value->first;
        value->last = last > value->last ? last : value->last;
    }
}

/* Alive while a copy may run. */
static void hold_copies(struct unroller *u)
{
    struct pst_program *to = u->to;
    struct pst_walk walk = {.check = u->check, .program = to};
    walk.first_tick = pst_check_array(u->check, (uint64_t)to->n_instrs + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < to->n_instrs; i++) {
        walk.first_tick[i] = to->lists[i].first_tick;
    }
    pst_walk_copies(&walk);
    for (uint32_t c = 0; c < to->n_copies; c++) {
        uint32_t begins = walk.copies[c].begins, known = walk.copies[c].known;
        known = known < to->n_ticks ? known : to->n_ticks - 1;
        widen_life(&to->values[to->copies[c].value], begins, known);
        widen_life(&to->values[to->copies[c].host], begins, known);
    }
}

/* The row of from->lists that instruction i of the unrolled list is. */
static const struct pst_program_instr *enter_row(struct unroller *u, uint32_t i)
{
    struct pst_origin origin =
        pst_plan_origin(u->check->source, u->to->rank, i, u->check->n_batches, 0);
    uint32_t phase = (u->phase + origin.batch) % u->from->n_phases;
    const struct pst_program_section *section =
        &u->from->sections[phase * PST_PARTS + (uint32_t)origin.part];
    if (u->run == 0 || section != u->section || origin.batch != u->batch) {
        u->section = section;
        u->batch = origin.batch;
        u->begin = u->tick;
        u->run++;
    }
    return &u->from->lists[section->first_instr + origin.instr];
}

static void make_tables(struct unroller *u)
{
    struct pst_check *check = u->check;
    const struct pst_program *from = u->from;
    struct pst_program *to = u->to;
    uint64_t n_calls = 0, n_parts = 0, n_operands = 0, n_copies = 0, n_waits = 0;
    for (uint32_t i = 0; i < to->n_instrs; i++) {
        const struct pst_program_instr *list = enter_row(u, i);
        n_calls += list->n_calls;
        n_parts += list->n_parts;
        n_copies += list->n_copies;
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            n_operands += n_operands_of(check, &from->calls[c]);
            n_waits += from->calls[c].n_copy_waits;
        }
    }
    u->run = 0;
    u->head = pst_arena_none(&check->arena, from->n_values);
    u->run_of = pst_check_array(check, (uint64_t)from->n_values + 1, sizeof *u->run_of);
    to->lists = pst_check_array(check, (uint64_t)to->n_instrs + 1, sizeof *to->lists);
    to->calls = pst_check_array(check, n_calls + 1, sizeof *to->calls);
    to->parts = pst_check_array(check, n_parts + 1, sizeof *to->parts);
    to->operands = pst_check_array(check, n_operands + 1, sizeof *to->operands);
    to->copies = pst_check_array(check, n_copies + 1, sizeof *to->copies);
    to->copy_waits = pst_check_array(check, n_waits + 1, sizeof *to->copy_waits);
    for (uint32_t i = 0; i < 2 && n_copies > 0; i++) {
        u->row_of[i] = pst_arena_none(&check->arena, from->n_values);
    }
    for (uint32_t v = 0; v < from->n_values; v++) {
        if (from->values[v].is_static) {
            add_value(u, v, &from->values[v]);
        }
    }
}

bool pst_check_unroll_program(struct pst_check *check, const struct pst_program *program,
                              uint32_t phase, struct pst_program *ret_program)
{
    struct pst_program to = {.rank = program->rank,
                             .n_instrs = check->plan->devices[program->rank].n_instrs,
                             .instrs = check->plan->devices[program->rank].body,
                             .n_params = program->n_params,
                             .params = program->params,
                             .n_sections = 1,
                             .n_phases = 1,
                             .static_bytes = program->static_bytes};
    struct unroller u = {.check = check, .from = program, .to = &to, .phase = phase};
    bool ok = true;
    make_tables(&u);
    for (uint32_t i = 0; ok && i < to.n_instrs; i++) {
        copy_instr(&u, i, enter_row(&u, i));
        ok = u.fault == NULL;
        if (u.fault != NULL) {
            pst_check_add(check, "MEM2", to.rank, i, "phase %u: it uses %s", phase, u.fault);
        }
    }
    to.n_ticks = u.tick > 0 ? u.tick : 1;
    for (uint32_t v = 0; ok && v < to.n_values; v++) {
        if (to.values[v].is_static) {
            to.values[v].last = to.n_ticks - 1;
        }
    }
    if (ok) {
        hold_all(&u);
        if (to.n_copies > 0) {
            hold_copies(&u);
        }
    }
    free(u.before);
    if (!ok) {
        free(to.values);
        return false;
    }
    *ret_program = to;
    return true;
}
