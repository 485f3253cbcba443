/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of ranks: sums of gradients, gathers of weights; inside passes conversions between the
 * parts of a replica; the replicas' running statistics, which are those of the first of them where
 * something reads them; their losses.
 */
#include "exec/state.h"

#include <string.h>

#include "graph/split.h"

/* --- meetings ----------------------------------------------------------------------------------*/

static const char *name_of(const struct pst_instr *instr)
{
    return instr->op == PST_I_TIE      ? "sum of a tied gradient"
           : instr->op == PST_I_GATHER ? "gather of new weights"
           : instr->op == PST_I_MERGE  ? "sum of gradients over parts"
                                       : "sum over replicas";
}

static void bind_meeting(struct exec_rank *rank, const struct pst_program *program,
                         const char *name, const struct pst_program_meeting *from,
                         struct pst_meeting *meeting)
{
    struct pst_meet_part *parts = pst_arena_array(&rank->memory, from->n_parts, sizeof *parts);
    const void **src = pst_arena_array(&rank->memory, from->n_sources, sizeof *src);

    for (uint32_t i = 0; i < from->n_sources; i++) {
        src[i] = (const char *)exec_value(rank, program, from->sources[i]) + from->source_begin;
    }
    for (uint32_t p = 0; p < from->n_parts; p++) {
        const struct pst_program_meet_part *part = &from->parts[p];

        parts[p] = (struct pst_meet_part){
            .src = from->n_sources > 0 ? src : NULL,
            .dst = (char *)exec_value(rank, program, part->value) + part->begin,
            .elems = from->kind == PST_MEET_SUM ? part->bytes / sizeof(float) : part->bytes,
            .owner = part->owner,
        };
    }
    *meeting = (struct pst_meeting){.kind = from->kind,
                                    .name = name,
                                    .members = from->members,
                                    .n_members = from->n_members,
                                    .n_src = from->n_sources > 0 ? from->n_sources : 1,
                                    .parts = parts,
                                    .n_parts = from->n_parts,
                                    .order = from->order,
                                    .n_order = from->n_order};
}

const struct pst_meeting *exec_bind_meeting(struct exec_rank *rank, const struct pst_instr *instr,
                                            const struct pst_program_meeting *from)
{
    struct pst_meeting *meeting = pst_arena_array(&rank->memory, 1, sizeof *meeting);

    bind_meeting(rank, rank->exec->config.programs[rank->index], name_of(instr), from, meeting);
    return meeting;
}

/* Finds the pieces that the rank brings to a GATHER. */
static void bind_brings(struct exec_rank *rank, const struct pst_program *program,
                        const struct pst_program_meeting *from, struct exec_parts *parts)
{
    parts->brings = pst_arena_array(&rank->memory, from->n_parts, sizeof *parts->brings);
    for (uint32_t p = 0; p < from->n_parts; p++) {
        if (from->parts[p].owner == parts->me) {
            parts->brings[p] = exec_value(rank, program, from->sources[p]);
        }
    }
}

/* Finds the piece that the rank gets of what was summed. */
static const void *piece_of(const struct exec_rank *rank, const struct pst_program *program,
                            const struct pst_program_call *add)
{
    const struct pst_program_param *row = program->params;

    while (row->parameter != add->op) {
        row++; /* the proof has found it */
    }
    return (const float *)exec_value(rank, program, program->operands[add->first_operand + 1]) +
           row->shard.first;
}

void exec_bind_replicas(struct exec_rank *rank, struct exec_list *list, uint32_t call)
{
    const struct pst_program_call *of = &list->program->calls[call];
    const struct pst_program_meeting *from = of->meeting;
    struct exec_parts *parts = pst_arena_array(&rank->memory, 1, sizeof *parts);

    list->parts[call] = parts;
    if (of->kind == PST_C_WAIT) {
        parts->posted = list->parts[call - of->posted];
        return;
    }
    if (of->kind == PST_C_ADD) {
        parts->own = piece_of(rank, list->program, of);
        return;
    }
    bind_meeting(rank, list->program,
                 of->kind == PST_C_GATHER ? "gather of weights" : "sum of gradients over replicas",
                 from, &parts->meeting);
    parts->meeting.lane = PST_MEET_ROWS;
    while (from->members[parts->me] != rank->index) {
        parts->me++;
    }
    if (of->kind == PST_C_GATHER) {
        bind_brings(rank, list->program, from, parts);
    }
}

/* Posts it; a failure says that the rank cannot post `what` `whose`. */
static pst_status post_meeting(struct exec_rank *rank, const struct pst_meeting *meeting,
                               pst_request *ret_request, const char *what, uint32_t whose,
                               struct pst_error *err)
{
    pst_status status = exec_before_post(rank, err);

    if (status != PST_OK) {
        return status;
    }
    status = rank->exec->config.transport->meet(rank->exec->transport, rank->index, meeting,
                                                ret_request);
    if (status != PST_OK) {
        return exec_fail_post(rank, status, what, whose, err);
    }
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        exec_clock_touch(rank, meeting->parts[i].dst,
                         meeting->parts[i].elems * pst_meeting_size(meeting));
    }
    return PST_OK;
}

pst_status exec_post_meeting(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                             struct pst_error *err)
{
    const struct pst_instr *from = &list->program->instrs[index];
    struct exec_instr *instr = &list->instrs[index];
    pst_status status = post_meeting(rank, instr->meeting, &instr->request,
                                     pst_instr_name(from->op), from->stage, err);

    instr->pending = status == PST_OK;
    return status;
}

/* --- inside passes -----------------------------------------------------------------------------*/

/* Samples are outermost, so what is not summed whole has a piece of each member in each sample. */
static void bind_pieces(struct exec_rank *rank, struct exec_parts *parts,
                        enum pst_convert_work work, const struct pst_tensor *operand,
                        uint32_t samples, char *result)
{
    struct pst_meeting *meeting = &parts->meeting;
    const uint32_t n_members = work == PST_WORK_SUM ? 1 : meeting->n_members;
    const uint32_t n = work == PST_WORK_SUM ? 1 : samples * n_members;
    const uint64_t bytes = work == PST_WORK_SUM       ? operand->bytes * samples
                           : work == PST_WORK_SCATTER ? operand->bytes / n_members
                                                      : operand->bytes;
    struct pst_meet_part *pieces = pst_arena_array(&rank->memory, n, sizeof *pieces);
    const void **src =
        work != PST_WORK_GATHER ? pst_arena_array(&rank->memory, n, sizeof *src) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (src != NULL) {
            src[i] = (const char *)parts->own + i * bytes;
        }
        pieces[i] = (struct pst_meet_part){
            .src = src != NULL ? &src[i] : NULL,
            .dst = result + (work == PST_WORK_SCATTER ? i / n_members : i) * bytes,
            .elems = bytes / pst_meeting_size(meeting),
            .owner = work == PST_WORK_SUM ? PST_NONE : i % n_members};
    }
    meeting->parts = pieces;
    meeting->n_parts = n;
}

/* A block from each member to each, of each sample: of the operand the one with the number of the
   receiver, of the result the one with that of the owner. */
static void bind_blocks(struct exec_rank *rank, struct exec_parts *parts,
                        const struct pst_tensor *operand, uint32_t samples, char *result)
{
    struct pst_meeting *meeting = &parts->meeting;
    const uint32_t n_members = meeting->n_members, me = parts->me;
    const uint32_t n_blocks = samples * n_members; /* of an operand */
    const uint64_t bytes = operand->bytes / n_members;
    struct pst_meet_part *pieces =
        pst_arena_array(&rank->memory, (size_t)n_blocks * n_members, sizeof *pieces);
    const void **src = pst_arena_array(&rank->memory, n_blocks, sizeof *src);

    for (uint32_t i = 0; i < n_blocks; i++) {
        const uint32_t first = i - i % n_members; /* of the sample */

        src[i] = (const char *)parts->own + i * bytes;
        for (uint32_t owner = 0; owner < n_members; owner++) {
            pieces[(size_t)i * n_members + owner] = (struct pst_meet_part){
                .src = owner == me ? &src[i] : NULL,
                .dst = i - first == me ? result + (first + owner) * bytes : NULL,
                .elems = bytes,
                .owner = owner,
                .to = i - first};
        }
    }
    meeting->parts = pieces;
    meeting->n_parts = n_blocks * n_members;
}

pst_status exec_bind_parts(struct exec_rank *rank, struct exec_list *list,
                           const struct pst_plan_stage *stage, uint32_t call, struct pst_error *err)
{
    const struct pst_program_call *from = &list->program->calls[call];
    const struct pst_op *op = &list->graph->ops[from->op];
    const bool forward = from->pass == PST_KERNEL_F;
    const enum pst_convert_work work = pst_convert_work(op, from->pass);
    const enum pst_meet_kind kind = work == PST_WORK_GATHER     ? PST_MEET_GATHER
                                    : work == PST_WORK_EXCHANGE ? PST_MEET_EXCHANGE
                                                                : PST_MEET_SUM;
    static const char *const names[] = {"sum", "gather", "exchange"}; /* enum pst_meet_kind */
    const struct pst_tensor *operand = &list->graph->tensors[forward ? op->in[0] : op->out[0]];
    const uint32_t *operands = &list->program->operands[from->first_operand];
    const struct pst_operands at = pst_operands_of(op);
    struct exec_parts *parts = pst_arena_array(&rank->memory, 1, sizeof *parts);
    const uint32_t samples = operand->batched ? from->samples : 1;
    char *result = exec_value(rank, list->program, operands[forward ? at.y : at.dx]);

    if (stage == NULL || stage->tensor != op->parts ||
        pst_plan_place(stage, rank->index) == PST_NONE) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u: operator %s is of %u parts, and the stage is not", rank->index,
                        op->name, op->parts);
    }
    parts->own = exec_value(rank, list->program, operands[forward ? at.x : at.dy]);
    parts->me = pst_plan_part(stage, rank->index);
    parts->meeting = (struct pst_meeting){
        .kind = kind,
        .lane = PST_MEET_PARTS,
        .dtype = operand->dtype,
        .name = pst_arena_printf(&rank->memory, "%s over parts (%s)", names[kind], op->name),
        .members = &stage->ranks[pst_plan_replica(stage, rank->index) * stage->tensor],
        .n_members = stage->tensor,
        .n_src = 1};
    if (kind == PST_MEET_EXCHANGE) {
        bind_blocks(rank, parts, operand, samples, result);
    } else {
        bind_pieces(rank, parts, work, operand, samples, result);
    }
    list->parts[call] = parts;
    return PST_OK;
}

static void bring_part(struct exec_rank *rank, const struct pst_meet_part *part, const void *own)
{
    const uint64_t bytes = part->elems; /* of a gather */

    if ((rank->exec->config.device->flags & PST_DEVICE_NO_DATA) != 0) {
        exec_clock_touch(rank, own, bytes);
    } else {
        memcpy(part->dst, own, bytes);
    }
}

/* Copies the rank's own pieces of a gather to where they belong. */
static void bring_own(struct exec_rank *rank, const struct exec_parts *parts)
{
    const struct pst_meeting *meeting = &parts->meeting;
    const char *own = parts->own;

    for (uint32_t i = 0; i < meeting->n_parts && meeting->kind == PST_MEET_GATHER; i++) {
        const void *src = parts->brings != NULL ? parts->brings[i] : own;

        if (meeting->parts[i].owner == parts->me) {
            bring_part(rank, &meeting->parts[i], src);
            own = parts->brings != NULL ? own : own + meeting->parts[i].elems;
        }
    }
}

/* Adds the rank's piece of what SCATTER has summed to what it has of earlier micro-batches. */
static void add_piece(struct exec_rank *rank, const struct exec_list *list,
                      const struct pst_program_call *from, const void *piece)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    float *sum = exec_value(rank, list->program, list->program->operands[from->first_operand]);

    if (from->elems > 0 && from->begins) {
        device->refresh(rank->device, sum, piece, PST_F32, from->elems);
    } else if (from->elems > 0) {
        device->accumulate(rank->device, sum, piece, from->elems);
    }
}

static void tell_call(const struct exec_rank *rank, const struct exec_list *list,
                      const struct pst_program_call *from, struct pst_error *err)
{
    if (from->kind != PST_C_KERNEL) {
        pst_error_detail(err, "parameter %s, samples %u + %u on rank %u\n",
                         list->graph->params[from->op].name, from->first_sample, from->samples,
                         rank->index);
    } else {
        pst_error_detail(err, "operator %s, pass %c, samples %u + %u on rank %u\n",
                         list->graph->ops[from->op].name, from->pass == PST_KERNEL_F ? 'F' : 'B',
                         from->first_sample, from->samples, rank->index);
    }
}

/* Posts the meeting of a call, of which the rank has brought what is its own. */
static pst_status post_parts(struct exec_rank *rank, const struct pst_program_call *from,
                             struct exec_parts *parts, struct pst_error *err)
{
    pst_status status = exec_fault(rank, "meet", err);

    if (status == PST_OK) {
        bring_own(rank, parts);
        status = post_meeting(rank, &parts->meeting, &parts->request,
                              from->kind == PST_C_KERNEL ? "a meeting of operator"
                                                         : "a meeting of parameter",
                              from->op, err);
    }
    return status;
}

pst_status exec_meet_parts(struct exec_rank *rank, const struct exec_list *list, uint32_t call,
                           struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;
    const struct pst_program_call *from = &list->program->calls[call];
    struct exec_parts *parts = list->parts[call];
    const struct exec_parts *ended = from->kind == PST_C_WAIT     ? parts->posted
                                     : from->kind == PST_C_KERNEL ? parts
                                                                  : NULL;
    pst_status status = PST_OK;

    if (from->kind == PST_C_ADD) {
        add_piece(rank, list, from, parts->own);
        return PST_OK;
    }
    if (from->kind != PST_C_WAIT) {
        status = post_parts(rank, from, parts, err);
    }
    if (status == PST_OK && ended != NULL) {
        status = transport->wait(rank->exec->transport, rank->index, ended->request, err);
    }
    if (status != PST_OK) {
        tell_call(rank, list, from, err);
    }
    return status;
}

/* --- running statistics ------------------------------------------------------------------------*/

/* One buffer from the first replica to the same part of the others. */
static pst_status share_buffer(struct exec_rank *rank, const struct pst_plan_stage *stage,
                               uint64_t tag, void *data, uint64_t bytes, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;
    struct pst_transport *t = rank->exec->transport;
    const uint32_t *ranks = stage->ranks + pst_plan_part(stage, rank->index);
    const uint32_t replica = pst_plan_replica(stage, rank->index);
    const bool first = replica == 0;
    pst_status status = exec_before_post(rank, err);

    for (uint32_t r = 1; r < pst_plan_replicas(stage) && status == PST_OK; r++) {
        pst_request request;

        if (!first && r != replica) {
            continue;
        }
        status = transport->post(t, rank->index, ranks[first ? r * stage->tensor : 0], first, tag,
                                 data, bytes, &request);
        status = status == PST_OK
                     ? transport->wait(t, rank->index, request, err)
                     : exec_fail_post(rank, status, "running statistics for replica", r, err);
    }
    return status;
}

pst_status exec_share_state(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_program *program = config->programs[rank->index];
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < config->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &config->plan->stages[s];
        bool here =
            pst_plan_replicas(stage) > 1 && pst_plan_replica(stage, rank->index) != PST_NONE;

        for (uint32_t n = 0; here && n < stage->n_nodes; n++) {
            uint32_t op = stage->nodes[n];

            for (uint32_t i = 0; i < config->graph->ops[op].n_state && status == PST_OK; i++) {
                uint32_t value = program->state_values[2 * (size_t)op + i];

                status = share_buffer(rank, stage, exec_state_tag(op, i),
                                      exec_value(rank, program, value),
                                      program->values[value].bytes, err);
            }
        }
    }
    return status;
}

/* --- losses ------------------------------------------------------------------------------------*/

const struct pst_plan_stage *exec_loss_stage(const struct pst_plan *plan,
                                             const struct pst_graph *graph)
{
    uint32_t op = graph->tensors[graph->loss].producer;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_plan_node(&plan->stages[s], op) != PST_NONE) {
            return &plan->stages[s];
        }
    }
    return NULL;
}

double exec_eval_loss(const struct pst_exec *exec, uint64_t t)
{
    double sum = 0;

    for (uint32_t i = 0; i < exec->config.eval_plan->batch; i++) {
        for (uint32_t r = 0; r < exec->n_ranks; r++) { /* one of them has it, for the others 0 */
            const struct exec_rank *rank = &exec->ranks[r];

            sum += rank->eval.has_loss ? rank->losses[t % 2 * rank->n_losses + i] : 0;
        }
    }
    return sum;
}
