/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2, NUM1: every instruction of a list in order. A buffer is alive when it is used, written
 * before it is read, and not touched while the transport has it.
 */
#include "prove/program_replay.h"

/* The tick from which on the instruction's transfer has ended, or the end of the list. */
static uint32_t ended_at(const struct pst_walk *walk, uint32_t known)
{
    return known == PST_NONE ? walk->program->n_ticks : walk->first_tick[known];
}

/* Whose buffers an end of a transfer moves. */
static uint32_t stage_at(const struct pst_walk *walk, const struct pst_instr *instr)
{
    if (pst_instr_moves_guest(instr)) {
        return instr->stage;
    }
    const struct pst_plan_edge *edge = &walk->check->plan->edges[instr->stage];
    bool act = instr->payload == PST_PAYLOAD_ACT, send = instr->op == PST_I_SEND;
    return act == send ? edge->from : edge->to;
}

/* The piece is one result of the guest, whole, where its device keeps it. */
static bool check_guest_piece(struct pst_walk *walk, const struct pst_instr *instr,
                              const struct pst_transfer_part *part, uint32_t tensor)
{
    const struct pst_value *value = &walk->program->values[part->value];
    const struct pst_plan_stage *stage = &walk->check->plan->stages[instr->stage];
    bool send = instr->op == PST_I_SEND, home = (instr->payload == PST_PAYLOAD_EVICT) == send;
    uint32_t kind = !home ? PST_V_GUEST : send ? PST_V_ACT : PST_V_RETURNED;
    uint64_t bytes =
        pst_check_tensor_bytes(&walk->check->graph->tensors[tensor], pst_plan_samples(stage));
    if (value->kind != kind || value->stage != instr->stage || value->what != tensor ||
        value->microbatch != instr->first_sample / stage->microbatch_size) {
        pst_walk_fault(walk, "MEM2", "buffer %u was not made for the tensor that is %s",
                       part->value, send ? "sent" : "received");
        return false;
    }
    if (part->begin != 0 || part->bytes != bytes) {
        pst_walk_fault(walk, "MEM2", "bytes %llu+%llu of buffer %u are moved, expected 0+%llu",
                       (unsigned long long)part->begin, (unsigned long long)part->bytes,
                       part->value, (unsigned long long)bytes);
    }
    return true;
}

/* The piece is rows of the transfer, in the right buffer. Of a gradient that is sent the rules of
   its contributions tell, because one buffer may be the gradient of several tensors. */
static bool check_piece(struct pst_walk *walk, const struct pst_instr *instr,
                        const struct pst_transfer_part *part, uint32_t tensor)
{
    const struct pst_value *value = &walk->program->values[part->value];
    bool act = instr->payload == PST_PAYLOAD_ACT, send = instr->op == PST_I_SEND;
    if (pst_instr_moves_guest(instr)) {
        return check_guest_piece(walk, instr, part, tensor);
    }
    uint32_t stage = stage_at(walk, instr);
    uint32_t size = walk->check->plan->stages[stage].microbatch_size;
    uint32_t kinds = 1u << (!send ? PST_V_RECV : act ? PST_V_ACT : PST_V_DACT);
    kinds |= send && !act ? 1u << PST_V_RECV : 0; /* passed on as it came */
    if (!(kinds >> value->kind & 1) ||
        ((act || !send) && (value->stage != stage || value->what != tensor ||
                            value->microbatch != instr->first_sample / size))) {
        pst_walk_fault(walk, "MEM2", "buffer %u was not made for the tensor that is %s",
                       part->value, send ? "sent" : "received");
        return false;
    }
    uint64_t row = walk->check->graph->tensors[tensor].bytes;
    uint64_t begin = instr->first_sample % pst_plan_samples(&walk->check->plan->stages[stage]);
    if (part->begin != begin * row || part->bytes != instr->n_samples * row) {
        pst_walk_fault(walk, "MEM2", "samples %u+%u %s bytes %llu+%llu of buffer %u",
                       instr->first_sample, instr->n_samples, send ? "come from" : "go to",
                       (unsigned long long)part->begin, (unsigned long long)part->bytes,
                       part->value);
    }
    return true;
}

static void visit_send(struct pst_walk *walk, const struct pst_instr *instr,
                       const struct pst_transfer_part *part, uint32_t known,
                       const struct pst_check_pieces *piece)
{
    struct pst_walk_value *state = &walk->states[part->value];
    const struct pst_value *value = &walk->program->values[part->value];
    uint32_t until = ended_at(walk, known);
    if (!check_piece(walk, instr, part, piece->tensor)) {
        return;
    }
    pst_walk_read(walk, part->value, part->begin + part->bytes, "the sent tensor");
    if (instr->payload == PST_PAYLOAD_GRAD) {
        uint32_t size = pst_plan_samples(&walk->check->plan->stages[stage_at(walk, instr)]);
        pst_walk_gradient(walk, part->value, piece->gradient, instr->first_sample / size * size,
                          "the sent tensor");
    }
    if (value->last < until - 1) {
        pst_walk_fault(walk, "MEM2",
                       "buffer %u is freed at tick %u, but its SEND may still run until %u",
                       part->value, value->last, until);
    }
    state->sent_until = until > state->sent_until ? until : state->sent_until;
}

static void visit_recv(struct pst_walk *walk, const struct pst_instr *instr,
                       const struct pst_transfer_part *part, uint32_t known,
                       const struct pst_check_pieces *piece)
{
    const struct pst_value *value = &walk->program->values[part->value];
    struct pst_walk_value *state = &walk->states[part->value];
    if (!check_piece(walk, instr, part, piece->tensor)) {
        return;
    }
    if (!pst_walk_is_alive(walk, part->value) || value->last < ended_at(walk, known) - 1) {
        pst_walk_fault(walk, "MEM2",
                       "buffer %u lives from tick %u to %u, but its RECV is posted at %u and may "
                       "still run until %u",
                       part->value, value->first, value->last, walk->tick, ended_at(walk, known));
    }
    state->gradient = piece->gradient *
                      pst_walk_sample(pst_walk_first_sample(walk, value->stage, value->microbatch));
    state->received += part->bytes;
    if (state->ready != PST_NONE) {
        state->ready = known > state->ready ? known : state->ready;
    }
}

/* The buffers of a SEND or RECV are the pieces that its edge asks for. */
static void visit_transfer(struct pst_walk *walk, const struct pst_instr *instr, uint32_t known)
{
    const struct pst_program_instr *list = &walk->program->lists[walk->instr];
    struct pst_check_pieces pieces = {0};
    uint32_t n = 0;
    for (; n < list->n_parts && pst_check_next_piece(walk->check, instr, &pieces); n++) {
        (instr->op == PST_I_SEND ? visit_send : visit_recv)(
            walk, instr, &walk->program->parts[list->first_part + n], known, &pieces);
    }
    if (n < list->n_parts || pst_check_next_piece(walk->check, instr, &pieces)) {
        pst_walk_fault(walk, "MEM2", "%u pieces, which are %s than the edge has", list->n_parts,
                       n < list->n_parts ? "more" : "fewer");
    }
}

static void visit_instr(struct pst_walk *walk)
{
    const struct pst_program_instr *list = &walk->program->lists[walk->instr];
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    uint32_t known = walk->check->known[walk->check->list_base[walk->program->rank] + walk->instr];
    if (!pst_check_is_pass(instr->op) && list->n_calls > 0) {
        pst_walk_fault(walk, "MEM2", "only passes call kernels");
        return;
    }
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        visit_transfer(walk, instr, known);
    } else if (list->n_parts > 0) {
        pst_walk_fault(walk, "MEM2", "only transfers move buffers");
    }
    if (pst_check_is_copy(instr->op)) {
        pst_walk_copy(walk, instr);
    }
    for (uint32_t c = 0; c < list->n_calls; c++) {
        const struct pst_program_call *call = &walk->program->calls[list->first_call + c];
        walk->call = list->first_call + c;
        walk->tick += pst_call_ticks(call) - 1;
        pst_walk_call(walk, call);
        walk->tick++;
    }
    pst_walk_meetings_end(walk);
}

/* NUM1: in the end every accumulator holds all micro-batches of a batch; one of two may not have
   been used. */
static void check_sums(struct pst_walk *walk)
{
    const struct pst_graph *graph = walk->check->graph;
    for (uint32_t v = 0; v < walk->program->n_values; v++) {
        const struct pst_value *value = &walk->program->values[v];
        if (value->kind != PST_V_GRAD || walk->check->limits->forward_only ||
            value->slot >= graph->params[value->what].n_users) {
            continue;
        }
        struct pst_op_grad grad;
        uint32_t op = graph->params[value->what].users[value->slot];
        uint32_t n = pst_check_unit(walk->check, walk->check->stage_of[op]);
        bool spare = walk->check->n_batches == 1 && walk->check->plan->deferred_step &&
                     (walk->phase + value->microbatch) % 2 != 0;
        pst_op_grad_info(graph, op, &grad);
        if (grad.has_w && !spare && walk->states[v].summed != n) {
            pst_check_add(walk->check, "NUM1", walk->program->rank, PST_NONE,
                          "accumulator of %s for %s holds %u micro-batches, expected %u",
                          graph->params[value->what].name, graph->ops[op].name,
                          walk->states[v].summed, n);
        }
    }
}

void pst_check_operands(struct pst_check *check, const struct pst_program *program, uint32_t phase)
{
    struct pst_walk walk = {
        .check = check,
        .program = program,
        .phase = phase,
        .states =
            pst_check_array(check, (uint64_t)program->n_values + 1, sizeof(struct pst_walk_value)),
        .first_tick = pst_check_array(check, (uint64_t)program->n_instrs + 1, sizeof(uint32_t)),
    };
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        walk.first_tick[i + 1] = walk.first_tick[i] + pst_check_ticks(program, i);
    }
    pst_walk_scatters_begin(&walk);
    pst_walk_copies(&walk);
    for (uint32_t v = 0; v < program->n_values; v++) {
        uint32_t kind = program->values[v].kind;
        walk.states[v].written = kind == PST_V_WEIGHT || kind == PST_V_WORKING ||
                                 kind == PST_V_OPTIMIZER || kind == PST_V_STATE;
    }
    for (walk.instr = 0; walk.instr < program->n_instrs; walk.instr++) {
        walk.tick = walk.first_tick[walk.instr];
        visit_instr(&walk);
    }
    check_sums(&walk);
    pst_walk_scatters_end(&walk);
}
