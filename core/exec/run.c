/* SPDX-License-Identifier: Apache-2.0
 *
 * The step loop. Passes run here and now; transfers are posted and waited for by whoever needs
 * them.
 */
#include "exec/state.h"

/* The losses of some samples, where the host reads them. */
static void take_losses(const struct exec_rank *rank, float *losses, const void *src,
                        uint64_t bytes)
{
    const struct pst_device_ops *device = rank->exec->config.device;

    if (rank->async.active) {
        device->move(rank->device, PST_QUEUE_COMPUTE, losses, src, bytes);
    } else {
        device->download(rank->device, losses, src, bytes);
    }
}

/* Returns the bound call with the first sample and the flags of the task. */
static const struct pst_kernel_call *call_at(const struct exec_list *list, uint32_t index,
                                             const struct exec_task *task, uint32_t flags)
{
    struct pst_kernel_call *call = &list->calls[index];
    uint32_t sample = list->program->calls[index].first_sample;
    const uint32_t next = exec_batch_of(list->plan, &sample);

    call->call.first_sample = task->batches[next].first_sample + sample;
    call->call.flags = (call->call.flags & PST_CALL_REPLAY) | flags;
    return call;
}

bool exec_run_both(const struct exec_list *list, uint32_t index, const struct exec_task *task,
                   uint32_t flags)
{
    const struct pst_kernel *kernel = list->calls[index].kernel;
    const struct pst_kernel *next = list->calls[index + 1].kernel;

    return kernel != NULL && next != NULL && kernel->run_both != NULL &&
           kernel->run_both(kernel, &call_at(list, index, task, flags)->call, next,
                            &call_at(list, index + 1, task, flags)->call);
}

pst_status exec_run_call(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                         const struct exec_task *task, uint32_t flags, struct pst_error *err)
{
    const struct pst_program_call *from = &list->program->calls[index];
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct pst_tensor *tensors = list->graph->tensors;
    uint32_t sample = from->first_sample;
    const uint32_t next = exec_batch_of(list->plan, &sample);
    const struct pst_kernel *kernel = list->calls[index].kernel;
    void *o[3];

    if (list->parts[index] != NULL) {
        return exec_meet_parts(rank, list, index, err);
    }
    if (kernel != NULL) {
        kernel->run(kernel, &call_at(list, index, task, flags)->call);
        return PST_OK;
    }
    for (uint32_t i = 0; i < 3; i++) {
        o[i] = exec_value(rank, list->program, list->program->operands[from->first_operand + i]);
    }
    switch (from->kind) {
    case PST_C_LOAD:
        return exec_load(rank, o[0],
                         (const char *)task->batches[next].inputs[from->op] +
                             sample * tensors[from->op].bytes,
                         tensors[from->op].bytes * from->samples, err);
    case PST_C_SUM:
        device->sum(rank->device, o[0], o[1], o[2],
                    tensors[from->op].elems * (tensors[from->op].batched ? from->samples : 1),
                    tensors[from->op].dtype);
        break;
    case PST_C_ACCUMULATE:
        device->accumulate(rank->device, o[0], o[1], from->elems);
        break;
    default:
        take_losses(rank, &rank->losses[(task->t + next) % 2 * rank->n_losses + sample], o[1],
                    from->samples * sizeof(float));
        break;
    }
    return PST_OK;
}

static pst_status post_transfer(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                                uint64_t batch, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;
    const struct pst_instr *instr = &list->program->instrs[index];
    const struct pst_program_instr *rows = &list->program->lists[index];
    struct pst_transport *t = rank->exec->transport;
    uint32_t sample = instr->first_sample;
    const uint64_t parity = (batch + exec_batch_of(list->plan, &sample)) & 1;
    pst_status status = exec_before_post(rank, err);

    exec_clock_post(rank);
    for (uint32_t i = 0; i < rows->n_parts && status == PST_OK; i++) {
        const struct pst_transfer_part *part = &list->program->parts[rows->first_part + i];
        const uint64_t tag = exec_part_tag(list->instrs[index].tag, i) | parity;
        char *data = (char *)exec_value(rank, list->program, part->value) + part->begin;
        pst_request *request = &list->requests[rows->first_part + i];

        status = transport->post(t, rank->index, instr->peer, instr->op == PST_I_SEND, tag, data,
                                 part->bytes, request);
        if (status != PST_OK) {
            return exec_fail_post(rank, status, "a transfer with rank", instr->peer, err);
        }
        exec_clock_touch(rank, data, part->bytes);
    }
    list->instrs[index].pending = status == PST_OK;
    return status;
}

/* Waits for a transfer, a sum or a copy, once. */
static pst_status finish_transfer(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                                  struct pst_error *err)
{
    const struct pst_program_instr *rows = &list->program->lists[index];
    const struct pst_instr *from = &list->program->instrs[index];
    struct exec_instr *instr = &list->instrs[index];
    const bool meets = instr->meeting != NULL;
    const pst_request *requests = meets ? &instr->request : &list->requests[rows->first_part];
    const uint32_t n = !instr->pending ? 0 : meets ? 1 : rows->n_parts;
    pst_status status = PST_OK;

    if (rows->n_copies > 0) {
        return exec_copies_join(rank, list, index, err);
    }
    instr->pending = false;
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        status = rank->exec->config.transport->wait(rank->exec->transport, rank->index, requests[i],
                                                    err);
        if (status == PST_OK) {
            exec_times_moved(rank, instr->visit, index);
        }
    }
    if (status != PST_OK && meets) {
        pst_error_detail(err, "instruction %u of rank %u: %s%s %u\n", index, rank->index,
                         pst_instr_name(from->op), from->op == PST_I_TIE ? "" : " of stage",
                         from->stage);
    } else if (status != PST_OK) {
        pst_error_detail(err, "instruction %u of rank %u: %s %s %u %s, samples %u + %u\n", index,
                         rank->index, pst_instr_name(from->op),
                         pst_instr_moves_guest(from) ? "stage" : "edge", from->stage,
                         pst_payload_name(from->payload), from->first_sample, from->n_samples);
    }
    return status;
}

static void post_behind(struct exec_rank *rank, const struct exec_list *list, uint32_t pass,
                        struct exec_visit *visit)
{
    for (uint32_t i = 1; i <= list->instrs[pass].n_behind; i++) {
        exec_copies_post(rank, list, pass + i, visit);
    }
}

/* A pass of a rank that copies: what stands behind it is posted when it begins. */
static pst_status run_beside_copies(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                                    const struct exec_task *task, uint32_t flags,
                                    struct exec_visit *visit, struct pst_error *err)
{
    const struct pst_program_instr *rows = &list->program->lists[index];
    const bool serial = rank->exec->config.copies.serial;
    pst_status status = PST_OK;

    rank->copies.visit = visit;
    rank->copies.pass = index;
    if (!serial) {
        post_behind(rank, list, index, visit);
    }
    for (uint32_t c = rows->first_call; c < rows->first_call + rows->n_calls && status == PST_OK;
         c++) {
        status = exec_copies_before(rank, list, c, err);
        PST_TRY(status, exec_run_call(rank, list, c, task, flags, err));
        if (status == PST_OK) {
            exec_copies_behind(rank);
        }
    }
    rank->copies.visit = NULL;
    if (serial && status == PST_OK) {
        post_behind(rank, list, index, visit);
        status = exec_copies_drain(rank, err);
    }
    return status;
}

static pst_status run_pass(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                           const struct exec_task *task, uint32_t flags, struct exec_visit *visit,
                           struct pst_error *err)
{
    const struct pst_program_instr *rows = &list->program->lists[index];
    const struct pst_device_ops *device = rank->exec->config.device;
    pst_status status = PST_OK;

    if (device->begin_pass != NULL) {
        device->begin_pass(rank->device, &list->calls[rows->first_call], rows->n_calls);
    }
    if (list->copies != NULL) {
        status = run_beside_copies(rank, list, index, task, flags, visit, err);
    } else {
        for (uint32_t i = 0, n = 1; i < rows->n_calls && status == PST_OK; i += n) {
            status = exec_graphs_pass(rank, list, rows->first_call + i, rows->n_calls - i, task,
                                      flags, &n, err);
        }
    }
    exec_clock_finish(rank);
    return status == PST_OK ? exec_pace(rank, err) : status;
}

static pst_status run_instr(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                            const struct exec_task *task, uint32_t flags, struct exec_visit *visit,
                            struct pst_error *err)
{
    struct exec_instr *instr = &list->instrs[index];
    pst_status status;

    switch (list->program->instrs[index].op) {
    case PST_I_SEND:
    case PST_I_RECV:
        return post_transfer(rank, list, index, task->t, err);
    case PST_I_REDUCE: /* nothing to add up where the stage has one rank */
    case PST_I_MERGE:
    case PST_I_GATHER:
        return instr->meeting != NULL ? exec_post_meeting(rank, list, index, err) : PST_OK;
    case PST_I_TIE:
        instr->visit = visit;
        status = exec_post_meeting(rank, list, index, err);
        return status == PST_OK ? finish_transfer(rank, list, index, err) : status;
    case PST_I_NORM:
        return exec_norm(rank, task, err);
    case PST_I_STEP:
        status = exec_step_stage(rank, list, index, task, err);
        exec_clock_finish(rank);
        return status == PST_OK ? exec_pace(rank, err) : status;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        if (!instr->ahead) {
            exec_copies_post(rank, list, index, visit);
        }
        return PST_OK;
    default:
        return run_pass(rank, list, index, task, flags, visit, err);
    }
}

/* Begins to time a pass, an update or a REDUCE on one rank, by marks before and after it. */
static struct exec_timing *begin_timing(struct exec_rank *rank, const struct exec_list *list,
                                        struct exec_visit *visit, uint32_t index)
{
    const uint32_t op = list->program->instrs[index].op;
    const bool here =
        op <= PST_I_R || op == PST_I_STEP ||
        ((op == PST_I_REDUCE || op == PST_I_MERGE) && list->instrs[index].meeting == NULL);
    struct exec_timing *timing = visit != NULL && here ? exec_times_take(rank, visit, index) : NULL;

    if (timing != NULL) {
        rank->exec->config.device->mark(rank->device, PST_QUEUE_COMPUTE, timing->start);
    }
    return timing;
}

static pst_status run_recorded(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                               const struct exec_task *task, uint32_t flags,
                               struct exec_visit *visit, struct pst_error *err)
{
    const uint32_t op = list->program->instrs[index].op;
    struct exec_timing *timing = begin_timing(rank, list, visit, index);
    pst_status status;

    exec_range_begin(rank, list, index);
    status = run_instr(rank, list, index, task, flags, visit, err);
    exec_range_end(rank, list);
    list->instrs[index].visit = visit;
    if (timing != NULL && status == PST_OK) {
        rank->exec->config.device->mark(rank->device, PST_QUEUE_COMPUTE, timing->end);
        exec_times_put(timing);
    }
    if (status == PST_OK && op == PST_I_NORM) {
        exec_times_moved(rank, visit, index);
    }
    return status;
}

/* Ends what earlier parts left open for this pass. */
static pst_status finish_open(struct exec_rank *rank, struct exec_list *list, uint32_t bucket,
                              struct pst_error *err)
{
    pst_status status = PST_OK;

    while (list->open[bucket] != PST_NONE && status == PST_OK) {
        uint32_t index = list->open[bucket];

        list->open[bucket] = list->instrs[index].next_open;
        status = finish_transfer(rank, list, index, err);
    }
    return status;
}

/* The sums of a rank are a queue: TIE and NORM come behind what is posted before them. */
static pst_status finish_sums(struct exec_rank *rank, struct exec_list *list, uint32_t first,
                              uint32_t index, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = first; i < index && status == PST_OK; i++) {
        if (list->instrs[i].meeting != NULL) {
            status = finish_transfer(rank, list, i, err);
        }
    }
    return status;
}

/* The end of a section: its transfers end, or stay open until a later part wants them to. */
static pst_status end_section(struct exec_rank *rank, struct exec_list *list,
                              const struct pst_program_section *range, struct pst_error *err)
{
    bool leaves = list->plan->asynchronous && range->part != PST_DRAIN;
    pst_status status = exec_flush(rank, err);

    for (uint32_t i = 0; i < range->n_instrs && status == PST_OK; i++) {
        struct exec_instr *instr = &list->instrs[range->first_instr + i];

        if (instr->pending && leaves) {
            uint32_t *open = &list->open[pst_plan_bucket_of(
                list->plan, &list->program->instrs[range->first_instr + i])];

            instr->next_open = *open;
            *open = range->first_instr + i;
        } else if (!leaves) {
            status = finish_transfer(rank, list, range->first_instr + i, err);
        }
    }
    for (uint32_t b = 0; b <= 2 * list->plan->n_stages && status == PST_OK && !leaves; b++) {
        status = finish_open(rank, list, b, err);
    }
    if (status == PST_OK && list->copies != NULL && !leaves) {
        status = exec_copies_drain(rank, err);
    }
    return status;
}

/* Ends what an instruction waits for. What has calls waits for copies in these, and copies are in
   the order of their queues. */
static pst_status finish_waits(struct exec_rank *rank, struct exec_list *list, uint32_t first,
                               uint32_t index, struct pst_error *err)
{
    const struct pst_instr *instr = &list->program->instrs[index];
    const struct pst_program_instr *rows = &list->program->lists[index];
    const uint32_t bucket = pst_plan_bucket_ended(list->plan, instr);
    pst_status status = PST_OK;

    for (uint32_t w = 0; w < instr->n_waits && status == PST_OK; w++) {
        const uint32_t waited = first + instr->waits[w];

        if (list->program->lists[waited].n_copies == 0 || rows->n_calls + rows->n_copies == 0) {
            status = finish_transfer(rank, list, waited, err);
        }
    }
    if (status == PST_OK && list->plan->asynchronous && bucket != PST_NONE) {
        status = finish_open(rank, list, bucket, err);
    }
    if (status == PST_OK && (instr->op == PST_I_TIE || instr->op == PST_I_NORM)) {
        status = finish_sums(rank, list, first, index, err);
    }
    return status;
}

/* Every instruction is two points, one for all and one for its kind. */
static pst_status meet_fault(const struct exec_rank *rank, uint32_t op, struct pst_error *err)
{
    static const char *const points[PST_I_COUNT] = {
        [PST_I_SEND] = "send",    [PST_I_RECV] = "recv",     [PST_I_OFFLOAD] = "copy",
        [PST_I_FETCH] = "copy",   [PST_I_REDUCE] = "reduce", [PST_I_TIE] = "reduce",
        [PST_I_NORM] = "reduce",  [PST_I_STEP] = "update",   [PST_I_GATHER] = "reduce",
        [PST_I_MERGE] = "reduce",
    };
    pst_status status = exec_fault(rank, "instr", err);

    PST_TRY(status, exec_fault(rank, points[op] == NULL ? "pass" : points[op], err));
    return status;
}

pst_status exec_run(struct exec_rank *rank, struct exec_list *list, uint32_t section,
                    const struct exec_task *task, uint32_t flags, struct pst_error *err)
{
    const struct pst_program_section *range = &list->program->sections[section];
    uint32_t end = range->first_instr + range->n_instrs;
    struct exec_visit *visit = exec_record_enter(rank, list, section, task);
    pst_status status = PST_OK;

    atomic_store_explicit(&rank->evaluates, list == &rank->eval, memory_order_relaxed);
    if (list->copies != NULL) {
        exec_copies_enter(rank);
    }
    for (uint32_t i = range->first_instr; i < end && status == PST_OK; i++) {
        const uint32_t op = list->program->instrs[i].op;

        if (op != PST_I_SEND && op != PST_I_RECV) {
            status = exec_flush(rank, err);
        }
        atomic_store_explicit(&rank->at, i + 1, memory_order_relaxed);
        PST_TRY(status, finish_waits(rank, list, range->first_instr, i, err));
        if (status == PST_OK) {
            if (atomic_load_explicit(&rank->exec->failed, memory_order_relaxed) != 0) {
                return pst_fail(err, PST_ERR_CANCELLED, "run.aborted",
                                "rank %u: another rank stopped the run", rank->index);
            }
            status = meet_fault(rank, op, err);
        }
        PST_TRY(status, run_recorded(rank, list, i, task, flags, visit, err));
    }
    PST_TRY(status, end_section(rank, list, range, err));
    if (status == PST_OK && list->workspace_end[section] > rank->handed_bytes) {
        rank->handed_bytes = list->workspace_end[section];
    }
    if (status == PST_OK) {
        atomic_store_explicit(&rank->at, 0, memory_order_relaxed);
    }
    return status;
}
