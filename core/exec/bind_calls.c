/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a program with every pointer in place. Operand order: plan/program.h.
 */
#include "exec/state.h"

/* --- kernels ---------------------------------------------------------------------------------- */

/* One per operator, pass and number of samples, whatever stage or list asks. */
static pst_status get_kernel(struct exec_rank *rank, uint32_t op, uint32_t pass, uint32_t samples,
                             const struct pst_kernel **ret_kernel, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct exec_kernel *entry = rank->kernels[op];
    pst_status status;

    while (entry != NULL && (entry->pass != pass || entry->samples != samples)) {
        entry = entry->next;
    }
    if (entry == NULL) {
        entry = pst_arena_alloc(&rank->memory, sizeof *entry, 0);
        entry->pass = pass;
        entry->samples = samples;
        status = config->device->compile(rank->device, config->graph, op, pass, samples,
                                         &entry->kernel, err);
        if (status != PST_OK) {
            pst_error_prefix(err, "operator %s, %u samples", config->graph->ops[op].name, samples);
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

/* --- calls ------------------------------------------------------------------------------------ */

static pst_status bind_kernel(struct exec_rank *rank, struct exec_list *list, uint64_t *end,
                              const struct pst_program_call *from, struct exec_call *to,
                              struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const struct pst_op *op = &rank->exec->config.graph->ops[from->op];
    const uint32_t *operands = &program->operands[from->first_operand];
    const struct pst_operands at = pst_operands_of(op);
    struct pst_call *call = &to->kernel.call;
    uint32_t workspace = operands[at.workspace];
    void **o = pst_arena_array(&rank->memory, at.count, sizeof *o);
    pst_status status;

    for (uint32_t i = 0; i < at.count; i++) {
        o[i] = exec_value(rank, program, operands[i]);
    }
    status = get_kernel(rank, from->op, from->pass, from->samples, &to->kernel.kernel, err);
    if (status != PST_OK) {
        return status;
    }
    if (to->kernel.kernel->workspace_bytes >
        (workspace == PST_NONE ? 0 : program->values[workspace].bytes)) {
        return pst_fail(
            err, PST_ERR_UNSUPPORTED, "plan.mismatch",
            "operator %s needs %llu bytes of workspace here, the plan has %llu: it was "
            "made for another device or library; plan again",
            op->name, (unsigned long long)to->kernel.kernel->workspace_bytes,
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
    call->workspace = o[at.workspace];
    call->seed = rank->exec->config.seed;
    call->scale = 1.0f / (float)rank->exec->n_in_update;
    call->flags = from->replay ? PST_CALL_REPLAY : 0;
    return PST_OK;
}

static void bind_load(struct exec_rank *rank, const struct pst_program_call *from, void *out,
                      struct exec_call *to)
{
    const struct pst_tensor *tensor = &rank->exec->config.graph->tensors[from->op];

    to->load.dst = out;
    to->load.row_bytes = tensor->bytes;
    to->load.bytes = tensor->bytes * from->samples;
    to->load.input = from->op;
}

static void bind_sum(struct exec_rank *rank, const struct pst_program_call *from, void *out,
                     const void *a, const void *b, struct exec_call *to)
{
    const struct pst_tensor *tensor = &rank->exec->config.graph->tensors[from->op];

    to->sum.dst = out;
    to->sum.a = a;
    to->sum.b = b;
    to->sum.elems = tensor->elems * (tensor->batched ? from->samples : 1);
    to->sum.dtype = tensor->dtype;
}

/* Samples from the size of a batch on are those of the next one, where the plan has that. */
static pst_status bind_samples(const struct exec_rank *rank, const struct pst_plan *plan,
                               const struct pst_program_call *from, struct exec_call *to,
                               struct pst_error *err)
{
    uint32_t next = plan->asynchronous && from->first_sample >= plan->batch;
    uint32_t first = from->first_sample - next * plan->batch;

    if (first > plan->batch || from->samples > plan->batch - first) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u: a call for samples %u + %u of a batch of %u", rank->index,
                        from->first_sample, from->samples, plan->batch);
    }
    to->next = (uint8_t)next;
    to->first_sample = first;
    return PST_OK;
}

/* *end: of the highest workspace of the section. */
static pst_status bind_call(struct exec_rank *rank, struct exec_list *list, uint64_t *end,
                            const struct pst_program_call *from, struct exec_call *to,
                            struct pst_error *err)
{
    const struct pst_program *program = list->program;
    const uint32_t *operands = &program->operands[from->first_operand];
    void *o[3];
    pst_status status = bind_samples(rank, list->plan, from, to, err);

    to->kind = from->kind;
    if (status != PST_OK) {
        return status;
    }
    if (from->kind == PST_C_KERNEL) {
        return bind_kernel(rank, list, end, from, to, err);
    }
    for (uint32_t i = 0; i < 3; i++) {
        o[i] = exec_value(rank, program, operands[i]);
    }
    switch (from->kind) {
    case PST_C_LOAD:
        bind_load(rank, from, o[0], to);
        break;
    case PST_C_SUM:
        bind_sum(rank, from, o[0], o[1], o[2], to);
        break;
    case PST_C_ACCUMULATE:
        to->accumulate.dst = o[0];
        to->accumulate.src = o[1];
        to->accumulate.elems = from->elems;
        break;
    default:
        to->loss.src = o[1];
        to->loss.samples = from->samples;
        list->has_loss = true;
        break;
    }
    return PST_OK;
}

pst_status exec_bind_calls(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                           uint32_t index, struct pst_error *err)
{
    const struct pst_program_instr *range = &list->program->lists[index];
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < range->n_calls && status == PST_OK; i++) {
        status = bind_call(rank, list, &list->workspace_end[section],
                           &list->program->calls[range->first_call + i],
                           &list->calls[range->first_call + i], err);
    }
    return status;
}
