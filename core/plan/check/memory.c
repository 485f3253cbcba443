/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of all ranks: each program is well formed and belongs to its list, then MEM1, MEM2,
 * MEM3 and NUM1 rank by rank, and COMM1 on the pieces of every transfer.
 */
#include "plan/check/internal.h"

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
    } else if (call->kind == PST_C_ACCUMULATE) {
        limit = check->graph->n_params;
    }
    if (call->kind > PST_C_LOSS || (call->kind != PST_C_KERNEL && call->op >= limit) ||
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
        ticks += list->n_calls > 0 ? list->n_calls : 1;
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
        bool parameter = value->kind <= PST_V_OPTIMIZER || value->kind == PST_V_SCRATCH;
        bool op =
            value->kind == PST_V_STATE || value->kind == PST_V_Z || value->kind == PST_V_WORKSPACE;
        uint32_t limit = parameter ? graph->n_params : op ? graph->n_ops : graph->n_tensors;
        if (value->kind >= PST_V_KINDS || value->what >= limit ||
            value->stage >= check->plan->n_stages || value->first > value->last ||
            value->last >= program->n_ticks || value->offset > UINT64_MAX / 2 ||
            value->bytes > UINT64_MAX / 2) {
            return "a buffer of nothing that exists, or alive outside the list";
        }
    }
    return NULL;
}

static bool check_shape(struct pst_check *check, const struct pst_program *program, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    const char *fault = program->rank != rank || program->n_instrs != device->n_instrs
                            ? "the program was made for another list"
                            : list_fault(check, program);
    fault = fault == NULL ? value_fault(check, program) : fault;
    if (fault != NULL) {
        pst_check_add(check, "MEM2", rank, PST_NONE, "%s", fault);
    }
    return fault == NULL;
}

void pst_check_memory(struct pst_check *check, const struct pst_program *const *programs)
{
    bool shaped = true;
    for (uint32_t s = 0; s < check->plan->n_stages; s++) {
        if (check->plan->stages[s].n_ranks != 1) {
            pst_check_add(check, "PART3", PST_NONE, PST_NONE,
                          "stage %u has %u replicas; this version runs one", s,
                          check->plan->stages[s].n_ranks);
            return;
        }
    }
    for (uint32_t d = 0; d < check->plan->n_devices && check->status == PST_OK; d++) {
        if (!check_shape(check, programs[d], d)) {
            shaped = false;
            continue;
        }
        pst_check_operands(check, programs[d]);
        if (check->status == PST_OK) {
            pst_check_layout(check, programs[d]);
        }
    }
    if (shaped && check->status == PST_OK) {
        pst_check_pieces(check, programs);
    }
}
