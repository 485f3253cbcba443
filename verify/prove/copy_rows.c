/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2 on copies between device and host: they run beside the list, from when they may begin to the
 * call that waits for their end, and nobody else has their buffers meanwhile. Nothing is inferred
 * from the order of a queue.
 */
#include "prove/program_replay.h"

/* The pass behind which an instruction's copies stand; at the head of a part: itself. */
static uint32_t pass_before(const struct pst_instr *instrs, uint32_t at)
{
    while (at > 0 && pst_check_is_copy(instrs[at].op) && !instrs[at].at_part_head) {
        at--;
    }
    return at;
}

static bool in_pass(const struct pst_program *program, uint32_t copy, uint32_t call)
{
    const struct pst_program_instr *list = &program->lists[pass_before(program->instrs, copy)];
    return call >= list->first_call && call - list->first_call < list->n_calls;
}

const char *pst_check_copy_fault(const struct pst_program *program)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        if (list->n_copies > 0 &&
            (list->first_copy != n || !pst_check_is_copy(program->instrs[i].op))) {
            return "copies of the instructions do not follow each other";
        }
        for (uint32_t c = 0; c < list->n_copies && n < program->n_copies; c++, n++) {
            const struct pst_program_copy *copy = &program->copies[n];
            if (copy->instr != i || copy->out != (program->instrs[i].op == PST_I_OFFLOAD) ||
                copy->value >= program->n_values || copy->host >= program->n_values ||
                (copy->start_call != PST_NONE && !in_pass(program, i, copy->start_call)) ||
                (copy->after != PST_NONE && copy->after >= n)) {
                return "a copy of a buffer or call that does not exist";
            }
        }
    }
    if (n != program->n_copies) {
        return "counts of copies do not add up";
    }
    for (uint32_t c = 0; c < program->n_calls; c++) {
        const struct pst_program_call *call = &program->calls[c];
        if (call->first_copy_wait > program->n_copy_waits ||
            call->n_copy_waits > program->n_copy_waits - call->first_copy_wait) {
            return "a call with waits out of range";
        }
    }
    for (uint32_t w = 0; w < program->n_copy_waits; w++) {
        if (program->copy_waits[w] >= program->n_copies) {
            return "a wait for a copy that does not exist";
        }
    }
    return NULL;
}

/* The tick of a call. */
static uint32_t tick_of(const struct pst_walk *walk, uint32_t instr, uint32_t call)
{
    const struct pst_program_instr *list = &walk->program->lists[instr];
    uint32_t tick = walk->first_tick[instr];
    for (uint32_t c = list->first_call; c < call; c++) {
        tick += pst_call_ticks(&walk->program->calls[c]);
    }
    return tick + pst_call_ticks(&walk->program->calls[call]) - 1;
}

/* A call stays until a copy has ended, and that one began behind the one that it comes after. */
static void note_waits(struct pst_walk *walk, const struct pst_program_call *call, uint32_t tick)
{
    const struct pst_program *program = walk->program;
    for (uint32_t w = 0; w < call->n_copy_waits; w++) {
        uint32_t row = program->copy_waits[call->first_copy_wait + w];
        for (; row != PST_NONE; row = program->copies[row].after) {
            uint32_t *known = &walk->copies[row].known;
            *known = tick < *known ? tick : *known;
        }
    }
}

static void find_known(struct pst_walk *walk)
{
    const struct pst_program *program = walk->program;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        uint32_t tick = walk->first_tick[i];
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            note_waits(walk, &program->calls[c], tick);
            tick += pst_call_ticks(&program->calls[c]);
        }
    }
}

void pst_walk_copies(struct pst_walk *walk)
{
    const struct pst_program *program = walk->program;
    walk->copies =
        pst_check_array(walk->check, (uint64_t)program->n_copies + 1, sizeof *walk->copies);
    for (uint32_t c = 0; c < program->n_copies; c++) {
        const struct pst_program_copy *copy = &program->copies[c];
        uint32_t pass = pass_before(program->instrs, copy->instr), begins = walk->first_tick[pass];
        if (copy->start_call != PST_NONE) {
            begins = tick_of(walk, pass, copy->start_call) + 1;
        }
        if (copy->after != PST_NONE && walk->copies[copy->after].begins > begins) {
            begins = walk->copies[copy->after].begins;
        }
        walk->copies[c] = (struct pst_walk_copy){.begins = begins, .known = program->n_ticks};
    }
    find_known(walk);
}

/* Both buffers are those of one result of the operator. */
static bool check_buffers(struct pst_walk *walk, const struct pst_instr *instr,
                          const struct pst_program_copy *copy)
{
    const struct pst_value *value = &walk->program->values[copy->value];
    const struct pst_value *host = &walk->program->values[copy->host];
    const struct pst_graph *graph = walk->check->graph;
    uint32_t samples = pst_plan_samples(&walk->check->plan->stages[instr->stage]);
    if (value->kind != (copy->out ? PST_V_ACT : PST_V_FETCHED) || host->kind != PST_V_HOST ||
        value->stage != instr->stage || host->stage != instr->stage ||
        value->microbatch != instr->microbatch || host->microbatch != instr->microbatch ||
        value->what != host->what || graph->tensors[value->what].producer != instr->node) {
        pst_walk_fault(walk, "MEM2", "buffers %u and %u are not the two ends of the copy",
                       copy->value, copy->host);
        return false;
    }
    if (copy->bytes != pst_check_tensor_bytes(&graph->tensors[value->what], samples) ||
        copy->bytes > value->bytes || copy->bytes > host->bytes) {
        pst_walk_fault(walk, "MEM2", "%llu bytes of buffers %u and %u are copied",
                       (unsigned long long)copy->bytes, copy->value, copy->host);
        return false;
    }
    return true;
}

/* Alive as long as the copy may run. */
static void expect_alive(struct pst_walk *walk, uint32_t v, uint32_t row, const char *what)
{
    const struct pst_value *value = &walk->program->values[v];
    const struct pst_walk_copy *copy = &walk->copies[row];
    uint32_t end = copy->known < walk->program->n_ticks ? copy->known : walk->program->n_ticks - 1;
    if (value->first > copy->begins || value->last < end) {
        pst_walk_fault(walk, "MEM2",
                       "%s (buffer %u) lives from tick %u to %u, its copy may run from %u to %u",
                       what, v, value->first, value->last, copy->begins, end);
    }
}

static void visit_out(struct pst_walk *walk, uint32_t row)
{
    const struct pst_program_copy *copy = &walk->program->copies[row];
    struct pst_walk_value *state = &walk->states[copy->value];
    uint32_t until = walk->copies[row].known + 1;
    if (!state->written || copy->start_call == PST_NONE ||
        state->output_of > copy->start_call + 1) {
        pst_walk_fault(walk, "MEM2", "buffer %u is copied before it is written", copy->value);
    }
    if (walk->states[copy->host].written) {
        pst_walk_fault(walk, "MEM2", "buffer %u receives two copies", copy->host);
    }
    expect_alive(walk, copy->value, row, "the copied tensor");
    expect_alive(walk, copy->host, row, "its place in host memory");
    state->sent_until = until > state->sent_until ? until : state->sent_until;
    walk->states[copy->host].written = true;
    walk->states[copy->host].output_of = row;
}

static void visit_in(struct pst_walk *walk, uint32_t row)
{
    const struct pst_program_copy *copy = &walk->program->copies[row];
    struct pst_walk_value *state = &walk->states[copy->value];
    const struct pst_walk_value *host = &walk->states[copy->host];
    if (!host->written || copy->after != host->output_of) {
        pst_walk_fault(walk, "MEM2", "buffer %u is copied back before it is in host memory",
                       copy->host);
    }
    if (state->written) {
        pst_walk_fault(walk, "MEM2", "buffer %u receives two copies", copy->value);
    }
    expect_alive(walk, copy->value, row, "room for the tensor copied back");
    expect_alive(walk, copy->host, row, "the tensor in host memory");
    state->written = true;
    state->back = walk->copies[row].known;
}

void pst_walk_copy(struct pst_walk *walk, const struct pst_instr *instr)
{
    const struct pst_program_instr *list = &walk->program->lists[walk->instr];
    for (uint32_t c = list->first_copy; c < list->first_copy + list->n_copies; c++) {
        const struct pst_program_copy *copy = &walk->program->copies[c];
        if (check_buffers(walk, instr, copy)) {
            (copy->out ? visit_out : visit_in)(walk, c);
        }
    }
}
