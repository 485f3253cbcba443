/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of all ranks: each program is well formed and belongs to its lists, then MEM1, MEM2,
 * MEM3 and NUM1 rank by rank, and COMM1 on the pieces of every transfer. Where lists are unrolled
 * the program is too, beginning with each of its phases.
 */
#include "prove/program_replay.h"

#include <stdlib.h>

#include "base/memory.h"

/* GATHER and SCATTER have a meeting, no other call has. */
static bool meeting_in_range(const struct pst_program *program, const struct pst_program_call *call)
{
    const struct pst_program_meeting *meeting = call->meeting;
    if ((meeting != NULL) != (call->kind == PST_C_SCATTER || call->kind == PST_C_GATHER) ||
        (call->kind == PST_C_GATHER && meeting->sources == NULL)) {
        return false;
    }
    for (uint32_t i = 0; meeting != NULL && i < meeting->n_parts; i++) {
        const struct pst_program_meet_part *part = &meeting->parts[i];
        if (part->value >= program->n_values ||
            (part->owner != PST_NONE && part->owner >= meeting->n_members) ||
            part->begin > program->values[part->value].bytes ||
            part->bytes > program->values[part->value].bytes - part->begin) {
            return false;
        }
    }
    return true;
}

static bool call_in_range(const struct pst_check *check, const struct pst_program *program,
                          const struct pst_program_call *call)
{
    uint32_t count = 3;
    uint32_t limit = check->graph->n_tensors;
    if (call->kind == PST_C_KERNEL) {
        if (call->op >= check->graph->n_ops || call->pass > 2) {
            return false;
        }
        count = pst_operands_of(&check->graph->ops[call->op]).count;
    } else if (call->kind == PST_C_ACCUMULATE || call->kind >= PST_C_SCATTER) {
        limit = check->graph->n_params;
    }
    if (call->kind > PST_C_ADD || !meeting_in_range(program, call) ||
        (call->kind == PST_C_WAIT && call->posted > call - program->calls) ||
        (call->kind != PST_C_KERNEL && call->op >= limit) ||
        call->first_operand > program->n_operands ||
        count > program->n_operands - call->first_operand) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = program->operands[call->first_operand + i];
        if (value != PST_NONE && value >= program->n_values) {
            return false;
        }
    }
    return true;
}

/* Calls and pieces follow each other in list order; ticks are counted as program.h says. */
static const char *list_fault(const struct pst_check *check, const struct pst_program *program)
{
    uint64_t calls = 0, parts = 0, ticks = 0;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        if ((list->n_calls > 0 && list->first_call != calls) ||
            (list->n_parts > 0 && list->first_part != parts)) {
            return "calls or pieces of the instructions do not follow each other";
        }
        calls += list->n_calls;
        parts += list->n_parts;
        if (calls > program->n_calls || list->first_tick != ticks ||
            list->n_ticks != pst_check_ticks(program, i)) {
            return "ticks of the instructions do not follow each other";
        }
        ticks += list->n_ticks;
    }
    if (calls != program->n_calls || parts != program->n_parts ||
        program->n_ticks != (ticks > 0 ? ticks : 1)) {
        return "counts of calls, pieces or ticks do not add up";
    }
    for (uint32_t c = 0; c < program->n_calls; c++) {
        if (!call_in_range(check, program, &program->calls[c])) {
            return "a call with an operand out of range";
        }
    }
    for (uint32_t p = 0; p < program->n_parts; p++) {
        const struct pst_transfer_part *part = &program->parts[p];
        if (part->value >= program->n_values || part->begin > program->values[part->value].bytes ||
            part->bytes > program->values[part->value].bytes - part->begin) {
            return "a piece of a transfer outside its buffer";
        }
    }
    return NULL;
}

static const char *value_fault(const struct pst_check *check, const struct pst_program *program)
{
    const struct pst_graph *graph = check->graph;
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        bool parameter = value->kind <= PST_V_OPTIMIZER || value->kind == PST_V_SCRATCH ||
                         value->kind == PST_V_GATHERED;
        bool op = value->kind == PST_V_STATE || value->kind == PST_V_Z ||
                  value->kind == PST_V_WORKSPACE || value->kind == PST_V_PAST;
        uint32_t limit = parameter ? graph->n_params : op ? graph->n_ops : graph->n_tensors;
        if (value->kind >= PST_V_KINDS || value->what >= limit ||
            value->stage >= check->plan->n_stages || value->first > value->last ||
            value->last >= program->n_ticks || value->offset > UINT64_MAX / 2 ||
            value->bytes > UINT64_MAX / 2 ||
            (value->period > 0 && (value->microbatch >= value->period || value->first != 0 ||
                                   value->last != program->n_ticks - 1))) {
            return "a buffer for something that does not exist, or alive outside the list";
        }
    }
    return NULL;
}

static bool same_instrs(const struct pst_instr *a, const struct pst_instr *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].op != b[i].op || a[i].payload != b[i].payload || a[i].stage != b[i].stage ||
            a[i].microbatch != b[i].microbatch || a[i].node != b[i].node ||
            a[i].first_sample != b[i].first_sample || a[i].n_samples != b[i].n_samples ||
            a[i].peer != b[i].peer || a[i].n_waits != b[i].n_waits || a[i].waits != b[i].waits) {
            return false;
        }
    }
    return true;
}

/* Phase by phase the lists of the plan: every part, or the body alone. */
static const char *section_fault(const struct pst_check *check, const struct pst_program *program)
{
    const struct pst_plan *plan = check->source != NULL ? check->source : check->plan;
    const struct pst_plan_device *device = &plan->devices[program->rank];
    uint32_t n_parts = plan->asynchronous ? PST_PARTS : 1, tick = 0, at = 0;
    if (program->n_phases == 0 || (plan->asynchronous && program->n_phases % 2 != 0) ||
        program->n_sections / n_parts != program->n_phases || program->n_sections % n_parts != 0) {
        return "an impossible number of sections";
    }
    for (uint32_t i = 0; i < program->n_sections; i++) {
        const struct pst_program_section *section = &program->sections[i];
        enum pst_part part = plan->asynchronous ? i % PST_PARTS : PST_BODY;
        uint32_t n;
        const struct pst_instr *list = pst_plan_list(device, part, &n);
        if (section->part != part || section->phase != i / n_parts || section->n_instrs != n ||
            section->first_instr != at || section->first_tick != tick ||
            n > program->n_instrs - at || !same_instrs(program->instrs + at, list, n)) {
            return "the program was made for another list";
        }
        for (uint32_t k = 0; k < n; k++, at++) {
            tick += program->lists[at].n_ticks;
        }
    }
    return at == program->n_instrs ? NULL : "the program was made for another list";
}

static bool check_shape(struct pst_check *check, const struct pst_program *program, uint32_t rank)
{
    const char *fault = program->rank != rank ? "the program was made for another list"
                                              : section_fault(check, program);
    fault = fault == NULL ? list_fault(check, program) : fault;
    fault = fault == NULL ? value_fault(check, program) : fault;
    fault = fault == NULL ? pst_check_copy_fault(program) : fault;
    if (fault != NULL) {
        pst_check_add(check, "MEM2", rank, PST_NONE, "%s", fault);
    }
    return fault == NULL;
}

/* The pieces of a program's transfers, instruction by instruction. */
static void list_pieces(const struct pst_program *program, struct pst_check_moved *ret_moved)
{
    uint32_t *first = pst_alloc((size_t)program->n_instrs + 1, sizeof *first);
    uint64_t *bytes = pst_alloc((size_t)program->n_parts + 1, sizeof *bytes);
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        first[i + 1] = first[i] + list->n_parts;
        for (uint32_t p = 0; p < list->n_parts; p++) {
            bytes[first[i] + p] = program->parts[list->first_part + p].bytes;
        }
    }
    *ret_moved = (struct pst_check_moved){first, bytes};
}

/* MEM2, NUM1 and the overlaps of MEM3 for the batches that are unrolled. Pieces are the same in
   every phase. */
static void check_unrolled(struct pst_check *check, const struct pst_program *program,
                           struct pst_check_moved *ret_moved)
{
    for (uint32_t phase = 0; phase < program->n_phases; phase++) {
        struct pst_arena kept = check->arena;
        struct pst_program unrolled;
        check->arena = (struct pst_arena){NULL, 0, 0};
        if (pst_check_unroll_program(check, program, phase, &unrolled)) {
            pst_check_meetings(check, &unrolled, phase);
            pst_check_operands(check, &unrolled, phase);
            pst_check_overlaps(check, &unrolled);
            if (phase == 0) {
                list_pieces(&unrolled, ret_moved);
            }
            free(unrolled.values);
        }
        pst_arena_finish(&check->arena);
        check->arena = kept;
    }
}

/* The results of the rules of one rank. */
struct rank {
    bool shaped;
    struct pst_check_report *report; /* NULL: no violation */
    uint64_t meetings, scatters;     /* within its passes, as numbers */
    struct pst_check_moved moved;    /* of shaped ones */
};

struct ranks {
    const struct pst_check *check;
    struct rank *at;
};

static void check_program(struct pst_check *check, const struct pst_program *program, uint32_t d,
                          struct rank *rank)
{
    rank->shaped = check_shape(check, program, d);
    if (!rank->shaped) {
        return;
    }
    rank->meetings = pst_check_meetings_within(check, program);
    rank->scatters = pst_check_scatters_within(check, program);
    pst_check_params(check, program);
    if (check->source != NULL) {
        check_unrolled(check, program, &rank->moved);
    } else {
        pst_check_meetings(check, program, 0);
        pst_check_operands(check, program, 0);
        list_pieces(program, &rank->moved);
    }
    pst_check_layout(check, program);
}

/*
 * A slim program is judged as what the builder makes of the plan a second time, with the offsets of
 * the slim one. A wrong program does not become legal thereby: the rules judge calls, operands,
 * lives and sizes of what was built, as they judge a whole program, and derive them from plan and
 * graph alone. What is proven is the second program, though, and not the first. So the slim one
 * must say nothing else: its values are those of the second that are alive at the peak. Nobody runs
 * a slim program; what trains is whole, and proven as it is.
 */
static bool says_the_same(const struct pst_program *slim, const struct pst_program *whole)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < whole->n_values; v++) {
        const struct pst_value *value = &whole->values[v], *said = &slim->values[n];
        if (value->kind == PST_V_HOST || value->first > slim->peak_tick ||
            value->last < slim->peak_tick) {
            continue;
        }
        if (n++ == slim->n_values || said->kind != value->kind || said->what != value->what ||
            said->slot != value->slot || said->stage != value->stage ||
            said->microbatch != value->microbatch || said->bytes != value->bytes ||
            said->offset != value->offset) {
            return false;
        }
    }
    return n == slim->n_values && slim->n_params == whole->n_params &&
           slim->n_ticks == whole->n_ticks;
}

/* All rules of one rank. Its tables and its report belong to it alone. */
static void check_rank(void *ranks_, uint32_t d)
{
    const struct ranks *ranks = ranks_;
    struct pst_check check = *ranks->check;
    struct rank *rank = &ranks->at[d];
    const struct pst_program *program = check.programs[d];
    struct pst_program *whole = NULL;
    check.arena = (struct pst_arena){NULL, 0, 0};
    check.report = pst_alloc(1, sizeof *check.report);
    if (program->places == NULL) {
        check_program(&check, program, d, rank);
    } else if (pst_program_restore(check.source != NULL ? check.source : check.plan, check.graph,
                                   check.limits->cost, program, &whole, NULL) == PST_OK &&
               says_the_same(program, whole)) {
        check_program(&check, whole, d, rank);
    } else {
        pst_check_add(&check, "MEM2", d, PST_NONE,
                      "its program is not the one that its plan makes");
    }
    pst_program_destroy(whole);
    pst_arena_finish(&check.arena);
    if (check.report->n_violations > 0) {
        rank->report = check.report;
    } else {
        free(check.report);
    }
}

static void add_report(struct pst_check_report *report, const struct pst_check_report *more)
{
    for (uint32_t i = 0; i < more->n_violations; i++) {
        if (i < PST_CHECK_MAX && report->n_violations < PST_CHECK_MAX) {
            report->violations[report->n_violations] = more->violations[i];
        }
        report->n_violations++;
    }
}

void pst_check_memory(struct pst_check *check)
{
    uint32_t n = check->plan->n_devices, before = check->report->n_violations;
    struct pst_check_moved *moved = pst_check_array(check, n, sizeof *moved);
    uint64_t *meetings = pst_check_array(check, n, sizeof *meetings);
    uint64_t *scatters = pst_check_array(check, n, sizeof *scatters);
    struct ranks ranks = {check, pst_check_array(check, n, sizeof *ranks.at)};
    struct pst_square_tree *trees;
    uint32_t n_trees = pst_plan_square_trees(check->plan, check->graph, &check->arena, &trees);
    bool shaped = true;
    pst_check_trees(check, trees, n_trees);
    pst_check_gradients(check);
    pst_plan_for_ranks(check->plan, check_rank, &ranks);
    for (uint32_t d = 0; d < n; d++) {
        moved[d] = ranks.at[d].moved;
        meetings[d] = ranks.at[d].meetings;
        scatters[d] = ranks.at[d].scatters;
        shaped = shaped && ranks.at[d].shaped;
        if (ranks.at[d].report != NULL) {
            add_report(check->report, ranks.at[d].report);
            free(ranks.at[d].report);
        }
    }
    if (shaped) {
        pst_check_within(check, meetings);
        pst_check_replicas(check, scatters);
    }
    if (shaped && (check->source == NULL || check->report->n_violations == before)) {
        pst_check_pieces(check, moved);
    }
    for (uint32_t d = 0; d < n; d++) {
        free(moved[d].first);
        free(moved[d].bytes);
    }
}
