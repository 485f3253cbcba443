/* SPDX-License-Identifier: Apache-2.0
 *
 * The step loop's additions to a program: kernels with their operands as pointers (their order:
 * plan/program.h), tags of transfers, sums. A program is ours, but may come with a plan read from a
 * file: no pointer leaves the arena, no wait names what comes later.
 */
#include "exec/state.h"

#include <string.h>

#include "graph/split.h"

/* --- kernels ---------------------------------------------------------------------------------- */

/* One per operator, pass and number of samples, whatever stage or list of its graph asks. */
static pst_status get_kernel(struct exec_rank *rank, const struct pst_graph *graph, uint32_t op,
                             uint32_t pass, uint32_t samples, const struct pst_kernel **ret_kernel,
                             struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct exec_kernel *entry = rank->kernels[op];
    pst_status status;

    while (entry != NULL &&
           (entry->graph != graph || entry->pass != pass || entry->samples != samples)) {
        entry = entry->next;
    }
    if (entry == NULL) {
        entry = pst_arena_alloc(&rank->memory, sizeof *entry, 0);
        entry->graph = graph;
        entry->pass = pass;
        entry->samples = samples;
        status =
            config->device->compile(rank->device, graph, op, pass, samples, &entry->kernel, err);
        if (status != PST_OK) {
            pst_error_prefix(err, "operator %s, %u samples", graph->ops[op].name, samples);
            return status;
        }
        entry->next = rank->kernels[op];
        rank->kernels[op] = entry;
    }
    *ret_kernel = entry->kernel;
    return PST_OK;
}

void exec_kernels_destroy(struct exec_rank *rank)
{
    if (rank->kernels == NULL) {
        return;
    }
    for (uint32_t op = 0; op < rank->exec->config.graph->n_ops; op++) {
        for (struct exec_kernel *entry = rank->kernels[op]; entry != NULL; entry = entry->next) {
            entry->kernel->destroy(entry->kernel);
        }
        rank->kernels[op] = NULL;
    }
}

/* *end: of the highest workspace of the section. */
static pst_status bind_kernel(struct exec_rank *rank, const struct exec_list *list, uint64_t *end,
                              uint32_t part, const struct pst_program_call *from,
                              struct pst_kernel_call *to, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_op *op = &list->graph->ops[from->op];
    const uint32_t *operands = &program->operands[from->first_operand];
    const struct pst_operands at = pst_operands_of(op);
    struct pst_call *call = &to->call;
    uint32_t workspace = operands[at.workspace];
    void **o = pst_arena_array(&rank->memory, at.count, sizeof *o);
    pst_status status;

    for (uint32_t i = 0; i < at.count; i++) {
        o[i] = exec_value(rank, program, operands[i]);
    }
    status = get_kernel(rank, list->graph, from->op, from->pass, from->samples, &to->kernel, err);
    if (status != PST_OK) {
        return status;
    }
    if (to->kernel->workspace_bytes >
        (workspace == PST_NONE ? 0 : program->values[workspace].bytes)) {
        return pst_fail(
            err, PST_ERR_UNSUPPORTED, "plan.mismatch",
            "operator %s needs %llu bytes of workspace here, the plan has %llu: it was "
            "made for another device or library; plan again",
            op->name, (unsigned long long)to->kernel->workspace_bytes,
            workspace == PST_NONE ? 0ull : (unsigned long long)program->values[workspace].bytes);
    }
    if (workspace != PST_NONE) {
        const struct pst_value *value = &program->values[workspace];

        *end = value->offset + value->bytes > *end ? value->offset + value->bytes : *end;
    }
    call->x = o + at.x;
    call->p = o + at.p;
    call->y = o + at.y;
    call->dy = o[at.dy];
    call->dx = o + at.dx;
    call->add = o + at.add;
    call->z = o + at.z;
    call->dp = (float *const *)(o + at.dp);
    call->state = (float *const *)(o + at.state);
    call->past = o + at.past;
    call->dpast = o + at.dpast;
    call->slice = from->slice;
    call->part = part;
    /* A kernel without a workspace may still add an offset of 0 to it, which NULL does not allow.
     */
    call->workspace = workspace == PST_NONE ? rank->base : o[at.workspace];
    call->seed = rank->exec->config.seed;
    call->scale = 1.0f / (float)rank->exec->n_in_update;
    call->flags = from->replay ? PST_CALL_REPLAY : 0;
    return PST_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

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
                         "rank %u: a buffer of the program is outside its arena", rank->index);
}

/*
 * Both ends derive the same tag from what the plan says of the transfer. Within one pair of ranks
 * it is unique in the batch; part and parity of the batch are added when it is posted. bit 63..40
 * edge, 39 payload, 38..32 part, 31..1 first sample, 0 parity
 */
static pst_status make_tag(const struct pst_instr *instr, uint32_t n_parts, uint32_t batch,
                           uint64_t *ret_tag, struct pst_error *err)
{
    const uint32_t part = n_parts > 1u << 7 ? 1u << 7 : 0;

    if (instr->stage >= EXEC_GUEST || part > 0 || batch >= 1u << 31) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "edge %u, tensor %u, sample %u: more than a transfer can name "
                        "(16777214, 128, 2147483648)",
                        instr->stage, part, instr->first_sample);
    }
    *ret_tag = (uint64_t)instr->stage << 40 | (uint64_t)(instr->payload & 1) << 39 |
               (uint64_t)(instr->first_sample % batch) << 1;
    return PST_OK;
}

/* Makes the tag of a guest: bits 63..40 EXEC_GUEST in place of an edge, 39 payload, 38..24 part,
   23..1 number of the guest in the plan, 0 parity. */
static pst_status make_guest_tag(const struct pst_plan *plan, const struct pst_instr *instr,
                                 uint32_t n_parts, uint64_t *ret_tag, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &plan->stages[instr->stage];
    const struct pst_plan_guest *guest =
        pst_plan_guest_of(stage, instr->first_sample / stage->microbatch_size);
    const uint32_t part = n_parts > 1u << 15 ? 1u << 15 : 0;
    uint64_t number = guest != NULL ? (uint64_t)(guest - stage->guests) : 0;

    for (uint32_t s = 0; s < instr->stage; s++) {
        number += plan->stages[s].n_guests;
    }
    if (guest == NULL || part > 0 || number >= 1u << 23) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "stage %u, sample %u, tensor %u: more than a transfer between devices can "
                        "name (8388608 micro-batches elsewhere, 32768 tensors each)",
                        instr->stage, instr->first_sample, part);
    }
    *ret_tag =
        EXEC_GUEST << 40 | (uint64_t)(instr->payload == PST_PAYLOAD_LOAD) << 39 | number << 1;
    return PST_OK;
}

static pst_status check_waits(const struct exec_rank *rank,
                              const struct pst_program_section *section, uint32_t index,
                              const struct pst_instr *instr, struct pst_error *err)
{
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        if (instr->waits[w] >= index - section->first_instr) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "rank %u: instruction %u waits for %u, which comes later", rank->index,
                            index - section->first_instr, instr->waits[w]);
        }
    }
    return PST_OK;
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

/* stage: of the pass; NULL: the call is in none. */
static pst_status bind_call(struct exec_rank *rank, struct exec_list *list, uint64_t *end,
                            const struct pst_plan_stage *stage, uint32_t index,
                            struct pst_error *err)
{
    const struct pst_program_call *from = &list->program->calls[index];
    const uint32_t part = stage != NULL ? pst_plan_part(stage, rank->index) : 0;
    const uint32_t batch = list->plan->batch;
    uint32_t first = from->first_sample;

    exec_batch_of(list->plan, &first);
    if (first > batch || from->samples > batch - first) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u: a call for samples %u + %u of a batch of %u", rank->index,
                        from->first_sample, from->samples, batch);
    }
    list->has_loss |= from->kind == PST_C_LOSS && part == 0; /* all parts have the same */
    if (from->kind >= PST_C_SCATTER) {
        exec_bind_replicas(rank, list, index);
    }
    if (from->kind != PST_C_KERNEL) {
        return PST_OK;
    }
    return pst_op_meets(&list->graph->ops[from->op], from->pass)
               ? exec_bind_parts(rank, list, stage, index, err)
               : bind_kernel(rank, list, end, part, from, &list->calls[index], err);
}

static pst_status bind_instr(struct exec_rank *rank, struct exec_list *list, uint32_t s,
                             uint32_t index, struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_program_section *section = &program->sections[s];
    const struct pst_instr *instr = &program->instrs[index];
    const struct pst_program_instr *rows = &program->lists[index];
    const struct pst_plan_stage *stage =
        instr->op <= PST_I_R ? &list->plan->stages[instr->stage] : NULL;
    struct exec_instr *bound = &list->instrs[index];
    pst_status status = check_waits(rank, section, index, instr, err);

    if (instr->op == PST_I_STEP) {
        bound->update = update_of(list->plan, program, section, index);
    }
    if (status == PST_OK && (instr->op == PST_I_SEND || instr->op == PST_I_RECV)) {
        status = pst_instr_moves_guest(instr)
                     ? make_guest_tag(list->plan, instr, rows->n_parts, &bound->tag, err)
                     : make_tag(instr, rows->n_parts, list->plan->batch, &bound->tag, err);
    }
    if (status == PST_OK && rows->meeting != NULL) {
        bound->meeting = exec_bind_meeting(rank, instr, rows->meeting);
    }
    for (uint32_t c = 0; c < rows->n_calls && status == PST_OK; c++) {
        status = bind_call(rank, list, &list->workspace_end[s], stage, rows->first_call + c, err);
    }
    return status;
}

pst_status exec_bind(struct exec_rank *rank, struct exec_list *list, const struct pst_graph *graph,
                     const struct pst_plan *plan, const struct pst_program *program,
                     struct pst_error *err)
{
    const size_t n_buckets = 2 * (size_t)plan->n_stages + 1;
    pst_status status = check_ranges(rank, program, err);

    if (status != PST_OK) {
        return status;
    }
    list->graph = graph;
    list->plan = plan;
    list->program = program;
    list->instrs = pst_arena_array(&rank->memory, program->n_instrs, sizeof *list->instrs);
    list->calls = pst_arena_array(&rank->memory, program->n_calls, sizeof *list->calls);
    list->parts = pst_arena_array(&rank->memory, program->n_calls, sizeof *list->parts);
    list->requests = pst_arena_array(&rank->memory, program->n_parts, sizeof *list->requests);
    list->workspace_end =
        pst_arena_array(&rank->memory, program->n_sections, sizeof *list->workspace_end);
    list->open = pst_arena_array(&rank->memory, n_buckets, sizeof *list->open);
    memset(list->open, 0xFF, n_buckets * sizeof *list->open);
    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *section = &program->sections[s];

        for (uint32_t i = 0; i < section->n_instrs && status == PST_OK; i++) {
            status = bind_instr(rank, list, s, section->first_instr + i, err);
        }
    }
    return status;
}
