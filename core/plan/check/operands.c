/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2, NUM1: every call of a list in order. What a kernel reads and writes is derived again from
 * the operator and its derivative; each operand must be the right buffer, alive, written before it
 * is read, and not in the hands of the transport.
 */
#include "plan/check/sizes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct value_state {
    bool written;        /* all of it, by a call */
    uint64_t received;   /* bytes that posted receives fill */
    uint32_t ready;      /* instruction from which on they have arrived; PST_NONE: never */
    uint32_t sent_until; /* tick before which the transport reads it */
    uint32_t output_of;  /* last call that wrote it, plus 1 */
    uint32_t summed;     /* of an accumulator: micro-batches added */
};

struct walk {
    struct pst_check *check;
    const struct pst_program *program;
    struct value_state *states;
    uint32_t *first_tick; /* [instr] */
    uint32_t instr, tick, call;
};

static void fault(struct walk *walk, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fault(struct walk *walk, const char *rule, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_check_add(walk->check, rule, walk->program->rank, walk->instr, "tick %u: %s", walk->tick,
                  text);
}

static bool is_alive(const struct walk *walk, uint32_t v)
{
    const struct pst_value *value = &walk->program->values[v];
    return value->first <= walk->tick && walk->tick <= value->last;
}

static void read_value(struct walk *walk, uint32_t v, uint64_t bytes, const char *what)
{
    const struct pst_value *value = &walk->program->values[v];
    const struct value_state *state = &walk->states[v];
    if (!is_alive(walk, v)) {
        fault(walk, "MEM2", "%s (buffer %u) is read outside its life, ticks %u to %u", what, v,
              value->first, value->last);
    } else if (value->kind == PST_V_RECV &&
               (state->received != value->bytes || state->ready > walk->instr)) {
        fault(walk, "MEM2", "%s (buffer %u) is read before all of it has been received", what, v);
    } else if (value->kind != PST_V_RECV && !state->written) {
        fault(walk, "MEM2", "%s (buffer %u) is read before it is written", what, v);
    } else if (value->bytes < bytes) {
        fault(walk, "MEM2", "%s (buffer %u) holds %llu bytes, %llu are read", what, v,
              (unsigned long long)value->bytes, (unsigned long long)bytes);
    }
}

static void write_value(struct walk *walk, uint32_t v, uint64_t bytes, const char *what)
{
    const struct pst_value *value = &walk->program->values[v];
    struct value_state *state = &walk->states[v];
    if (!is_alive(walk, v)) {
        fault(walk, "MEM2", "%s (buffer %u) is written outside its life, ticks %u to %u", what, v,
              value->first, value->last);
    } else if (walk->tick < state->sent_until) {
        fault(walk, "MEM2", "%s (buffer %u) is written while it is sent", what, v);
    } else if (value->kind == PST_V_RECV && state->ready > walk->instr) {
        fault(walk, "MEM2", "%s (buffer %u) is written while it is received", what, v);
    } else if (value->bytes < bytes) {
        fault(walk, "MEM2", "%s (buffer %u) holds %llu bytes, %llu are written", what, v,
              (unsigned long long)value->bytes, (unsigned long long)bytes);
    } else if (state->output_of == walk->call + 1) {
        fault(walk, "MEM2", "%s (buffer %u) is written twice by one call", what, v);
    }
    state->written = true;
    state->output_of = walk->call + 1;
}

/* The buffer belongs to this tensor, parameter or operator and to the call's samples. */
static void expect(struct walk *walk, const struct pst_program_call *call, uint32_t v,
                   uint32_t kinds, uint32_t what, const char *name)
{
    const struct pst_value *value = &walk->program->values[v];
    if (!(kinds >> value->kind & 1) || value->what != what) {
        fault(walk, "MEM2", "%s is buffer %u, which was made for something else", name, v);
    } else if (!value->is_static &&
               (uint64_t)value->microbatch *
                       walk->check->plan->stages[value->stage].microbatch_size !=
                   call->first_sample) {
        fault(walk, "MEM2", "%s is buffer %u, of another micro-batch (%u)", name, v,
              value->microbatch);
    }
}

#define KIND(k)        (1u << (k))
#define DATA_KINDS     (KIND(PST_V_INPUT) | KIND(PST_V_ACT) | KIND(PST_V_RECV))
#define WEIGHT_KINDS   (KIND(PST_V_WEIGHT) | KIND(PST_V_WORKING))
#define SUMMAND_KINDS  (KIND(PST_V_GRAD) | KIND(PST_V_SCRATCH))
#define GRADIENT_KINDS (KIND(PST_V_DACT) | KIND(PST_V_RECV))

/* What one pass of an operator reads and writes, as bit sets over its operands. */
struct access {
    uint64_t x, p, y, dx, add;
    bool y_written, reads_dy, writes_z, reads_z, writes_dp;
    uint32_t n_z;
};

static struct access find_access(const struct walk *walk, const struct pst_program_call *call)
{
    struct pst_op_grad grad;
    pst_op_grad_info(walk->check->graph, call->op, &grad);
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    bool loss = op->out[0] == walk->check->graph->loss;
    switch (call->pass) {
    case 0:
        return (struct access){
            .x = UINT64_MAX, .p = UINT64_MAX, .y = UINT64_MAX, .y_written = true};
    case 1:
        return (struct access){.x = grad.b_reads_x,
                               .p = grad.b_reads_p,
                               .y = grad.b_reads_y,
                               .dx = grad.b_dx,
                               .add = grad.b_adds,
                               .reads_dy = !loss,
                               .writes_z = true,
                               .n_z = grad.n_z};
    default:
        return (struct access){.x = grad.w_reads_x,
                               .p = grad.w_reads_p,
                               .y = grad.w_reads_y,
                               .reads_dy = grad.w_reads_dy,
                               .reads_z = true,
                               .writes_dp = true,
                               .n_z = grad.n_z};
    }
}

static bool present(struct walk *walk, uint32_t v, const char *name)
{
    if (v == PST_NONE) {
        fault(walk, "MEM2", "the kernel needs %s, the call has none", name);
    }
    return v != PST_NONE;
}

static uint64_t bytes_of(const struct walk *walk, uint32_t tensor, uint32_t samples)
{
    return pst_check_tensor_bytes(&walk->check->graph->tensors[tensor], samples);
}

static bool has_bit(uint64_t set, uint32_t i)
{
    return i < 64 ? (set >> i & 1) != 0 : set == UINT64_MAX;
}

/* The operands that the pass reads. */
static void read_operands(struct walk *walk, const struct pst_program_call *call,
                          const struct access *access, const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (has_bit(access->x, i) && present(walk, operands[at.x + i], "an input")) {
            expect(walk, call, operands[at.x + i], DATA_KINDS, op->in[i], "an input");
            read_value(walk, operands[at.x + i], bytes_of(walk, op->in[i], call->samples),
                       "an input");
        }
        if (operands[at.add + i] != PST_NONE) {
            if (!has_bit(access->add, i)) {
                fault(walk, "MEM2", "the kernel does not take an addend for input %u", i);
            }
            read_value(walk, operands[at.add + i], bytes_of(walk, op->in[i], call->samples),
                       "an addend");
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (has_bit(access->p, i) && op->param[i] != PST_NONE &&
            present(walk, operands[at.p + i], "a parameter")) {
            expect(walk, call, operands[at.p + i], WEIGHT_KINDS, op->param[i], "a parameter");
        }
    }
    for (uint32_t i = 0; i < op->n_out && !access->y_written; i++) {
        if (has_bit(access->y, i) && present(walk, operands[at.y + i], "a result")) {
            expect(walk, call, operands[at.y + i], KIND(PST_V_ACT), op->out[i], "a result");
            read_value(walk, operands[at.y + i], bytes_of(walk, op->out[i], call->samples),
                       "a result");
        }
    }
    if (access->reads_dy && present(walk, operands[at.dy], "the gradient of its result")) {
        if (!(GRADIENT_KINDS >> walk->program->values[operands[at.dy]].kind & 1)) {
            fault(walk, "MEM2", "the gradient of the result is buffer %u, no gradient",
                  operands[at.dy]);
        }
        read_value(walk, operands[at.dy], bytes_of(walk, op->out[0], call->samples),
                   "the gradient of the result");
    }
    for (uint32_t i = 0; i < access->n_z && access->reads_z; i++) {
        if (present(walk, operands[at.z + i], "what B left")) {
            expect(walk, call, operands[at.z + i], KIND(PST_V_Z), call->op, "what B left");
            read_value(walk, operands[at.z + i], 0, "what B left");
        }
    }
}

/* NUM1: an accumulator takes the micro-batches in turn; the first is written, the others added. */
static void sum_in_turn(struct walk *walk, uint32_t accumulator, uint32_t microbatch)
{
    struct value_state *state = &walk->states[accumulator];
    if (state->summed != microbatch) {
        fault(walk, "NUM1", "gradient of micro-batch %u is added to buffer %u, expected %u",
              microbatch, accumulator, state->summed);
    }
    state->summed = microbatch + 1;
}

static void write_gradients(struct walk *walk, const struct pst_program_call *call,
                            const uint32_t *dp)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] == PST_NONE || !present(walk, dp[i], "room for a weight gradient")) {
            continue;
        }
        const struct pst_value *value = &walk->program->values[dp[i]];
        expect(walk, call, dp[i], SUMMAND_KINDS, op->param[i], "a weight gradient");
        if (value->kind == PST_V_GRAD) {
            uint32_t stage = walk->check->stage_of[call->op];
            const struct pst_parameter *parameter = &walk->check->graph->params[op->param[i]];
            if (value->slot >= parameter->n_users || parameter->users[value->slot] != call->op) {
                fault(walk, "MEM2",
                      "a weight gradient goes to the accumulator of another operator");
            }
            sum_in_turn(walk, dp[i],
                        call->first_sample / walk->check->plan->stages[stage].microbatch_size);
        }
        write_value(walk, dp[i], walk->check->graph->params[op->param[i]].elems * sizeof(float),
                    "a weight gradient");
    }
}

/* The operands that the pass writes. */
static void write_operands(struct walk *walk, const struct pst_program_call *call,
                           const struct access *access, const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = 0; i < op->n_out && access->y_written; i++) {
        if (present(walk, operands[at.y + i], "room for a result")) {
            expect(walk, call, operands[at.y + i], KIND(PST_V_ACT), op->out[i], "a result");
            write_value(walk, operands[at.y + i], bytes_of(walk, op->out[i], call->samples),
                        "a result");
        }
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (has_bit(access->dx, i) && present(walk, operands[at.dx + i], "room for a gradient")) {
            expect(walk, call, operands[at.dx + i], KIND(PST_V_DACT), op->in[i], "a gradient");
            write_value(walk, operands[at.dx + i], bytes_of(walk, op->in[i], call->samples),
                        "a gradient");
        }
    }
    for (uint32_t i = 0; i < access->n_z && access->writes_z; i++) {
        if (present(walk, operands[at.z + i], "room for what W needs")) {
            expect(walk, call, operands[at.z + i], KIND(PST_V_Z), call->op, "what W needs");
            write_value(walk, operands[at.z + i], 0, "what W needs");
        }
    }
    if (access->writes_dp) {
        write_gradients(walk, call, &operands[at.dp]);
    }
    if (operands[at.workspace] != PST_NONE) {
        write_value(walk, operands[at.workspace], 0, "workspace");
    }
}

/* Outputs lie apart from inputs; only an addend may be where its sum goes. */
static void check_aliases(struct walk *walk, const struct pst_program_call *call,
                          const struct access *access, const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = 0; i < at.count; i++) {
        bool input = i < at.y || (i < at.dy && !access->y_written) || (i == at.dy) ||
                     (i >= at.z && i < at.dp && access->reads_z) ||
                     (i >= at.add && i < at.z && operands[i] != operands[i - at.add + at.dx]);
        if (input && operands[i] != PST_NONE &&
            walk->states[operands[i]].output_of == walk->call + 1) {
            fault(walk, "MEM2", "buffer %u is read and written by one kernel", operands[i]);
        }
    }
}

static void visit_kernel(struct walk *walk, const struct pst_program_call *call)
{
    const uint32_t *operands = &walk->program->operands[call->first_operand];
    struct access access = find_access(walk, call);
    const struct pst_plan_stage *stage =
        &walk->check->plan->stages[walk->check->stage_of[call->op]];
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    if (walk->check->stage_of[call->op] != instr->stage ||
        (uint64_t)instr->microbatch * stage->microbatch_size != call->first_sample ||
        call->samples != pst_check_samples(walk->check->plan, instr->stage)) {
        fault(walk, "MEM2", "a kernel of another stage or other samples");
        return;
    }
    read_operands(walk, call, &access, operands);
    write_operands(walk, call, &access, operands);
    check_aliases(walk, call, &access, operands);
}

static void visit_accumulate(struct walk *walk, const struct pst_program_call *call,
                             const uint32_t *operands)
{
    uint64_t bytes = call->elems * sizeof(float);
    if (!present(walk, operands[0], "an accumulator") || !present(walk, operands[1], "a summand")) {
        return;
    }
    const struct pst_value *sum = &walk->program->values[operands[0]];
    const struct pst_value *part = &walk->program->values[operands[1]];
    if (sum->kind != PST_V_GRAD || part->kind != PST_V_SCRATCH || sum->what != call->op ||
        part->what != call->op || call->elems != walk->check->graph->params[call->op].elems) {
        fault(walk, "MEM2", "buffers %u and %u are not accumulator and gradient of parameter %u",
              operands[0], operands[1], call->op);
    }
    read_value(walk, operands[1], bytes, "a summand");
    read_value(walk, operands[0], bytes, "an accumulator");
    sum_in_turn(walk, operands[0], part->microbatch);
    write_value(walk, operands[0], bytes, "an accumulator");
}

static void visit_call(struct walk *walk, const struct pst_program_call *call)
{
    const uint32_t *operands = &walk->program->operands[call->first_operand];
    uint64_t bytes = 0;
    if (call->kind == PST_C_LOAD || call->kind == PST_C_SUM || call->kind == PST_C_LOSS) {
        bytes = bytes_of(walk, call->op, call->samples);
    }
    switch (call->kind) {
    case PST_C_LOAD:
        if (present(walk, operands[0], "room for data")) {
            expect(walk, call, operands[0], KIND(PST_V_INPUT), call->op, "data");
            write_value(walk, operands[0], bytes, "data");
        }
        break;
    case PST_C_KERNEL:
        visit_kernel(walk, call);
        break;
    case PST_C_SUM:
        if (present(walk, operands[0], "room for a sum") &&
            present(walk, operands[1], "a summand") && present(walk, operands[2], "a summand")) {
            read_value(walk, operands[1], bytes, "a summand");
            read_value(walk, operands[2], bytes, "a summand");
            write_value(walk, operands[0], bytes, "a sum");
        }
        break;
    case PST_C_ACCUMULATE:
        visit_accumulate(walk, call, operands);
        break;
    default:
        if (present(walk, operands[1], "losses")) {
            expect(walk, call, operands[1], KIND(PST_V_ACT), call->op, "losses");
            read_value(walk, operands[1], bytes, "losses");
        }
        break;
    }
}

/* The tick from which on the instruction's transfer has ended, or the end of the list. */
static uint32_t ended_at(const struct walk *walk, uint32_t known)
{
    return known == PST_NONE ? walk->program->n_ticks : walk->first_tick[known];
}

static void visit_send(struct walk *walk, const struct pst_transfer_part *part, uint32_t known)
{
    struct value_state *state = &walk->states[part->value];
    uint32_t until = ended_at(walk, known);
    read_value(walk, part->value, part->begin + part->bytes, "what is sent");
    if (walk->program->values[part->value].last < until - 1) {
        fault(walk, "MEM2", "buffer %u dies at tick %u, its SEND has surely ended only before %u",
              part->value, walk->program->values[part->value].last, until);
    }
    state->sent_until = until > state->sent_until ? until : state->sent_until;
}

static void visit_recv(struct walk *walk, const struct pst_instr *instr,
                       const struct pst_transfer_part *part, uint32_t known)
{
    const struct pst_value *value = &walk->program->values[part->value];
    struct value_state *state = &walk->states[part->value];
    const struct pst_plan_stage *stage = &walk->check->plan->stages[value->stage];
    const struct pst_plan_edge *edge = &walk->check->plan->edges[instr->stage];
    uint32_t reader = instr->payload == PST_PAYLOAD_ACT ? edge->to : edge->from;
    if (value->kind != PST_V_RECV || value->stage != reader ||
        value->microbatch != instr->first_sample / stage->microbatch_size) {
        fault(walk, "MEM2", "buffer %u was not made for what is received", part->value);
        return;
    }
    uint64_t row = walk->check->graph->tensors[value->what].bytes;
    uint64_t begin = instr->first_sample % pst_check_samples(walk->check->plan, value->stage);
    if (part->begin != begin * row || part->bytes != instr->n_samples * row) {
        fault(walk, "MEM2", "samples %u+%u go to bytes %llu+%llu of buffer %u", instr->first_sample,
              instr->n_samples, (unsigned long long)part->begin, (unsigned long long)part->bytes,
              part->value);
    }
    if (!is_alive(walk, part->value) || value->last < ended_at(walk, known) - 1) {
        fault(walk, "MEM2",
              "buffer %u lives from tick %u to %u, its RECV is posted at %u and has "
              "surely ended only before %u",
              part->value, value->first, value->last, walk->tick, ended_at(walk, known));
    }
    state->received += part->bytes;
    if (state->ready != PST_NONE) {
        state->ready = known > state->ready ? known : state->ready;
    }
}

static void visit_instr(struct walk *walk)
{
    const struct pst_program_instr *list = &walk->program->lists[walk->instr];
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    uint32_t known = walk->check->known[walk->check->list_base[walk->program->rank] + walk->instr];
    if (!pst_check_is_pass(instr->op) && list->n_calls > 0) {
        fault(walk, "MEM2", "only passes call kernels");
        return;
    }
    for (uint32_t p = list->first_part; p < list->first_part + list->n_parts; p++) {
        if (instr->op == PST_I_SEND) {
            visit_send(walk, &walk->program->parts[p], known);
        } else if (instr->op == PST_I_RECV) {
            visit_recv(walk, instr, &walk->program->parts[p], known);
        } else {
            fault(walk, "MEM2", "only transfers move buffers");
        }
    }
    for (uint32_t c = 0; c < list->n_calls; c++) {
        walk->call = list->first_call + c;
        walk->tick = walk->first_tick[walk->instr] + c;
        visit_call(walk, &walk->program->calls[walk->call]);
    }
}

/* NUM1: in the end every accumulator holds all micro-batches. */
static void check_sums(struct walk *walk)
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
        uint32_t n = walk->check->plan->stages[walk->check->stage_of[op]].n_microbatches;
        pst_op_grad_info(graph, op, &grad);
        if (grad.has_w && walk->states[v].summed != n) {
            pst_check_add(walk->check, "NUM1", walk->program->rank, PST_NONE,
                          "accumulator of %s for %s holds %u micro-batches, expected %u",
                          graph->params[value->what].name, graph->ops[op].name,
                          walk->states[v].summed, n);
        }
    }
}

void pst_check_operands(struct pst_check *check, const struct pst_program *program)
{
    struct walk walk = {
        .check = check,
        .program = program,
        .states =
            pst_check_array(check, (uint64_t)program->n_values + 1, sizeof(struct value_state)),
        .first_tick = pst_check_array(check, (uint64_t)program->n_instrs + 1, sizeof(uint32_t)),
    };
    if (walk.states == NULL || walk.first_tick == NULL) {
        return;
    }
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        uint32_t n_calls = program->lists[i].n_calls;
        walk.first_tick[i + 1] = walk.first_tick[i] + (n_calls > 0 ? n_calls : 1);
    }
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
}
