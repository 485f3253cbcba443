/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2, NUM1 call by call: what a kernel reads and writes is derived again from the operator and
 * its derivative, and each operand must be the right buffer.
 */
#include "base/util.h"
#include "prove/program_replay.h"

/* The buffer belongs to this tensor, parameter or operator and to the call's samples. */
static void expect(struct pst_walk *walk, const struct pst_program_call *call, uint32_t v,
                   uint32_t kinds, uint32_t what, const char *name)
{
    const struct pst_value *value = &walk->program->values[v];
    if (!(kinds >> value->kind & 1) || value->what != what) {
        pst_walk_fault(walk, "MEM2", "%s is buffer %u, which was made for something else", name, v);
    } else if (!value->is_static &&
               pst_walk_first_sample(walk, value->stage, value->microbatch) != call->first_sample) {
        pst_walk_fault(walk, "MEM2", "%s is buffer %u, of another micro-batch (%u)", name, v,
                       value->microbatch);
    }
}

#define KIND(k)        (1u << (k))
#define RESULT_KINDS   (KIND(PST_V_ACT) | KIND(PST_V_FETCHED) | KIND(PST_V_RETURNED))
#define DATA_KINDS     (KIND(PST_V_INPUT) | RESULT_KINDS | KIND(PST_V_RECV))
#define WEIGHT_KINDS   (KIND(PST_V_WEIGHT) | KIND(PST_V_WORKING))
#define SUMMAND_KINDS  (KIND(PST_V_GRAD) | KIND(PST_V_SCRATCH))
#define GRADIENT_KINDS (KIND(PST_V_DACT) | KIND(PST_V_RECV))

/* The operands that one pass of an operator reads and writes, as bit sets. */
struct access {
    uint64_t x, p, y, dx, add;
    bool y_written, reads_dy, writes_z, reads_z, writes_dp;
    uint32_t n_z;
};

static struct access find_access(const struct pst_walk *walk, const struct pst_program_call *call)
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

static bool present(struct pst_walk *walk, uint32_t v, const char *name)
{
    if (v == PST_NONE) {
        pst_walk_fault(walk, "MEM2", "the kernel needs %s, the call has none", name);
    }
    return v != PST_NONE;
}

static uint64_t bytes_of(const struct pst_walk *walk, uint32_t tensor, uint32_t samples)
{
    return pst_check_tensor_bytes(&walk->check->graph->tensors[tensor], samples);
}

static bool has_bit(uint64_t set, uint32_t i)
{
    return i < 64 ? (set >> i & 1) != 0 : set == UINT64_MAX;
}

static uint32_t slot_of(const struct pst_walk *walk, const struct pst_program_call *call,
                        const struct pst_program_param *row)
{
    const struct pst_check *check = walk->check;
    uint32_t stage = check->stage_of[call->op], n = row->n_versions > 0 ? row->n_versions : 1;
    uint32_t size = check->plan->stages[stage].microbatch_size;
    uint32_t update = call->first_sample / size / pst_check_unit(check, stage);
    return (walk->phase * pst_check_updates(check) + update + 1) % n;
}

/* Checks that a pass for the gradient of update u reads the slot that u will write
   (pst_plan_slots). An evaluation reads the newest weights. */
static void check_version(struct pst_walk *walk, const struct pst_program_call *call, uint32_t v,
                          uint32_t parameter)
{
    const struct pst_check *check = walk->check;
    const struct pst_program_param *params = walk->program->params;
    uint32_t at;
    if (check->limits->forward_only) {
        return;
    }
    at = PST_FIRST(i, walk->program->n_params, params[i].parameter >= parameter);
    if (at == walk->program->n_params || params[at].parameter != parameter ||
        v != params[at].versions[slot_of(walk, call, &params[at])]) {
        pst_walk_fault(walk, "MEM2",
                       "buffer %u does not hold the version of the weights that the "
                       "pass reads",
                       v);
    }
}

/* Gathered in the pass itself, or a version. */
static void read_weights(struct pst_walk *walk, const struct pst_program_call *call, uint32_t v,
                         uint32_t parameter)
{
    const struct pst_parameter *of = &walk->check->graph->params[parameter];
    if (!pst_check_gathers(walk->check, parameter)) {
        expect(walk, call, v, WEIGHT_KINDS, parameter, "a parameter");
        check_version(walk, call, v, parameter);
        return;
    }
    expect(walk, call, v, KIND(PST_V_GATHERED), parameter, "a parameter");
    if (walk->program->values[v].first < walk->first_tick[walk->instr]) {
        pst_walk_fault(walk, "SHARD3", "parameter %s was gathered for another pass", of->name);
    }
    pst_walk_read(walk, v, of->elems * pst_dtype_bytes(of->dtype), "a parameter");
}

/* Which gradient it is will show in the sum, unless it is none. */
static void read_summand(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what)
{
    pst_walk_read(walk, v, bytes, what);
    if (walk->states[v].gradient == 0) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is not a gradient", what, v);
    }
}

/* The operands that the pass reads. */
static void read_operands(struct pst_walk *walk, const struct pst_program_call *call,
                          const struct access *access, const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (has_bit(access->x, i) && present(walk, operands[at.x + i], "an input")) {
            expect(walk, call, operands[at.x + i], DATA_KINDS, op->in[i], "an input");
            pst_walk_read(walk, operands[at.x + i], bytes_of(walk, op->in[i], call->samples),
                          "an input");
        }
        if (operands[at.add + i] != PST_NONE) {
            if (!has_bit(access->add, i)) {
                pst_walk_fault(walk, "MEM2", "the kernel supports no addend for input %u", i);
            }
            read_summand(walk, operands[at.add + i], bytes_of(walk, op->in[i], call->samples),
                         "an addend");
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (has_bit(access->p, i) && op->param[i] != PST_NONE &&
            present(walk, operands[at.p + i], "a parameter")) {
            read_weights(walk, call, operands[at.p + i], op->param[i]);
        }
    }
    for (uint32_t i = 0; i < op->n_out && !access->y_written; i++) {
        if (has_bit(access->y, i) && present(walk, operands[at.y + i], "a result")) {
            expect(walk, call, operands[at.y + i], RESULT_KINDS, op->out[i], "a result");
            pst_walk_read(walk, operands[at.y + i], bytes_of(walk, op->out[i], call->samples),
                          "a result");
        }
    }
    if (access->reads_dy && present(walk, operands[at.dy], "the gradient of its result")) {
        if (!(GRADIENT_KINDS >> walk->program->values[operands[at.dy]].kind & 1)) {
            pst_walk_fault(walk, "MEM2", "the gradient of the result is buffer %u, not a gradient",
                           operands[at.dy]);
        }
        pst_walk_read(walk, operands[at.dy], bytes_of(walk, op->out[0], call->samples),
                      "the gradient of the result");
        pst_walk_gradient(walk, operands[at.dy], walk->check->gradients[op->out[0]],
                          call->first_sample, "the gradient of the result");
    }
    for (uint32_t i = 0; i < access->n_z && access->reads_z; i++) {
        if (present(walk, operands[at.z + i], "the data left by B")) {
            expect(walk, call, operands[at.z + i], KIND(PST_V_Z), call->op, "the data left by B");
            pst_walk_read(walk, operands[at.z + i], 0, "the data left by B");
        }
    }
}

/* NUM1: an accumulator adds the micro-batches of a batch, or update, in order, the slices of a
   sequence from the last to the first; the first of all is written. Two accumulators alternate
   between batches. */
static void sum_in_turn(struct pst_walk *walk, uint32_t stage, uint32_t accumulator,
                        uint32_t microbatch)
{
    const struct pst_check *check = walk->check;
    struct pst_walk_value *state = &walk->states[accumulator];
    uint32_t n = pst_check_unit(check, stage), batch = microbatch / n;
    uint32_t expected = state->summed % n, turn = pst_check_turn(check, microbatch) % n;
    if (turn != expected) {
        pst_walk_fault(walk, "NUM1",
                       "gradient of micro-batch %u is added to buffer %u, expected %u", microbatch,
                       accumulator, pst_check_turn(check, batch * n + expected));
    }
    if (check->plan->deferred_step &&
        (walk->phase + batch) % 2 != walk->program->values[accumulator].microbatch) {
        pst_walk_fault(walk, "NUM1", "buffer %u is for the gradients of every other batch",
                       accumulator);
    }
    state->summed = turn + 1;
}

static void write_gradients(struct pst_walk *walk, const struct pst_program_call *call,
                            const uint32_t *dp)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] == PST_NONE || !present(walk, dp[i], "room for a weight gradient")) {
            continue;
        }
        const struct pst_value *value = &walk->program->values[dp[i]];
        expect(walk, call, dp[i], SUMMAND_KINDS, op->param[i], "a weight gradient");
        if (value->kind == PST_V_GRAD && pst_check_scatters(walk->check, op->param[i])) {
            pst_walk_fault(walk, "SHARD2",
                           "a weight gradient goes to an accumulator that replicas sum");
        } else if (value->kind == PST_V_GRAD) {
            uint32_t stage = walk->check->stage_of[call->op];
            const struct pst_parameter *parameter = &walk->check->graph->params[op->param[i]];
            if (value->slot >= parameter->n_users || parameter->users[value->slot] != call->op) {
                pst_walk_fault(walk, "MEM2",
                               "a weight gradient goes to the accumulator of another operator");
            }
            sum_in_turn(walk, stage, dp[i],
                        call->first_sample / walk->check->plan->stages[stage].microbatch_size);
        }
        pst_walk_write(walk, dp[i], walk->check->graph->params[op->param[i]].elems * sizeof(float),
                       "a weight gradient");
        walk->states[dp[i]].gradient = pst_check_contribution(call->op, i);
    }
}

/* The operands that the pass writes. */
static void write_operands(struct pst_walk *walk, const struct pst_program_call *call,
                           const struct access *access, const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = 0; i < op->n_out && access->y_written; i++) {
        if (present(walk, operands[at.y + i], "room for a result")) {
            expect(walk, call, operands[at.y + i], KIND(PST_V_ACT), op->out[i], "a result");
            pst_walk_write(walk, operands[at.y + i], bytes_of(walk, op->out[i], call->samples),
                           "a result");
        }
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (has_bit(access->dx, i) && present(walk, operands[at.dx + i], "room for a gradient")) {
            expect(walk, call, operands[at.dx + i], KIND(PST_V_DACT), op->in[i], "a gradient");
            uint32_t add = operands[at.add + i];
            uint64_t gradient =
                pst_check_contribution(call->op, i) * pst_walk_sample(call->first_sample);
            gradient += add != PST_NONE ? walk->states[add].gradient : 0;
            pst_walk_write(walk, operands[at.dx + i], bytes_of(walk, op->in[i], call->samples),
                           "a gradient");
            walk->states[operands[at.dx + i]].gradient = gradient;
        }
    }
    for (uint32_t i = 0; i < access->n_z && access->writes_z; i++) {
        if (present(walk, operands[at.z + i], "room for the data W needs")) {
            expect(walk, call, operands[at.z + i], KIND(PST_V_Z), call->op, "the data W needs");
            pst_walk_write(walk, operands[at.z + i], 0, "the data W needs");
        }
    }
    if (access->writes_dp) {
        write_gradients(walk, call, &operands[at.dp]);
    }
    for (uint32_t i = 0; i < op->n_state; i++) {
        uint32_t v = operands[at.state + i];
        if (present(walk, v, "running statistics")) {
            expect(walk, call, v, KIND(PST_V_STATE), call->op, "running statistics");
            if (walk->program->values[v].slot != i) {
                pst_walk_fault(walk, "MEM2", "buffer %u holds other statistics", v);
            }
        }
    }
    if (operands[at.workspace] != PST_NONE) {
        expect(walk, call, operands[at.workspace], KIND(PST_V_WORKSPACE), call->op, "workspace");
        pst_walk_write(walk, operands[at.workspace], 0, "workspace");
    }
}

/* Outputs lie apart from inputs; only an addend may be where its sum goes. */
static void check_aliases(struct pst_walk *walk, const struct pst_program_call *call,
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
            pst_walk_fault(walk, "MEM2", "buffer %u is read and written by one kernel",
                           operands[i]);
        }
    }
}

/* Slices of a sequence: B of the last writes the gradients of earlier keys and values, B of others
   adds. The share of a slice counts like one more input of its operator. */
static uint64_t past_contribution(const struct pst_program_call *call, uint32_t slice)
{
    return pst_check_contribution(call->op, 1u << 16 | slice);
}

static void write_past(struct pst_walk *walk, const struct pst_program_call *call, uint32_t v,
                       uint64_t bytes, bool last)
{
    uint64_t held = last ? 0 : walk->states[v].gradient;
    if (!last) {
        pst_walk_read(walk, v, bytes, "the gradient of an earlier slice");
    }
    pst_walk_write(walk, v, bytes, "the gradient of an earlier slice");
    walk->states[v].gradient = held + past_contribution(call, call->slice);
}

/* Reads the gradient of the call's own keys and values; it must be the sum of all later slices. */
static void read_past(struct pst_walk *walk, const struct pst_program_call *call, uint32_t v,
                      uint64_t bytes)
{
    uint64_t expected = 0;
    for (uint32_t i = call->slice + 1; i < walk->check->graph->ops[call->op].slices; i++) {
        expected += past_contribution(call, i);
    }
    pst_walk_read(walk, v, bytes, "the gradient of later slices");
    if (walk->states[v].gradient != expected) {
        pst_walk_fault(walk, "MEM2",
                       "the gradient of later slices (buffer %u) is not the sum of all of them", v);
    }
}

static void visit_past(struct pst_walk *walk, const struct pst_program_call *call,
                       const uint32_t *operands)
{
    const struct pst_op *op = &walk->check->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    const uint64_t bytes = pst_op_past_bytes(walk->check->graph, call->op) * call->samples;
    const uint32_t size =
        walk->check->plan->stages[walk->check->stage_of[call->op]].microbatch_size;
    bool last = call->slice + 1 == op->slices;
    for (uint32_t i = 0; i < op->slices && i <= call->slice && call->pass < 2; i++) {
        struct pst_program_call of = *call;
        uint32_t v = operands[at.dpast + i];
        of.first_sample -= (call->slice - i) * size;
        if (i < call->slice && present(walk, operands[at.past + i], "an earlier slice")) {
            expect(walk, &of, operands[at.past + i], DATA_KINDS, op->in[0], "an earlier slice");
            pst_walk_read(walk, operands[at.past + i], bytes_of(walk, op->in[0], call->samples),
                          "an earlier slice");
        }
        if (call->pass == 0 || (i == call->slice && last) ||
            !present(walk, v, "the gradient of a slice")) {
            continue;
        }
        expect(walk, &of, v, KIND(PST_V_PAST), call->op, "the gradient of a slice");
        if (i < call->slice) {
            write_past(walk, call, v, bytes, last);
        } else {
            read_past(walk, call, v, bytes);
        }
    }
}

static void visit_kernel(struct pst_walk *walk, const struct pst_program_call *call)
{
    const uint32_t *operands = &walk->program->operands[call->first_operand];
    struct access access = find_access(walk, call);
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    if (walk->check->stage_of[call->op] != instr->stage ||
        pst_walk_first_sample(walk, instr->stage, instr->microbatch) != call->first_sample ||
        call->samples != pst_plan_samples(&walk->check->plan->stages[instr->stage])) {
        pst_walk_fault(walk, "MEM2", "a kernel of another stage or other samples");
        return;
    }
    if (call->slice != instr->microbatch % walk->check->graph->slices) {
        pst_walk_fault(walk, "MEM2", "a kernel of slice %u in a pass of slice %u", call->slice,
                       instr->microbatch % walk->check->graph->slices);
        return;
    }
    read_operands(walk, call, &access, operands);
    if (walk->check->graph->ops[call->op].slices > 1) {
        visit_past(walk, call, operands);
    }
    write_operands(walk, call, &access, operands);
    check_aliases(walk, call, &access, operands);
}

static void visit_accumulate(struct pst_walk *walk, const struct pst_program_call *call,
                             const uint32_t *operands)
{
    uint64_t bytes = call->elems * sizeof(float);
    if (pst_check_scatters(walk->check, call->op)) {
        pst_walk_fault(walk, "SHARD2", "a gradient of parameter %s is added before replicas sum it",
                       walk->check->graph->params[call->op].name);
        return;
    }
    if (!present(walk, operands[0], "an accumulator") || !present(walk, operands[1], "a summand")) {
        return;
    }
    const struct pst_value *sum = &walk->program->values[operands[0]];
    const struct pst_value *part = &walk->program->values[operands[1]];
    if (sum->kind != PST_V_GRAD || part->kind != PST_V_SCRATCH || sum->what != call->op ||
        part->what != call->op || call->elems != walk->check->graph->params[call->op].elems) {
        pst_walk_fault(walk, "MEM2",
                       "buffers %u and %u are not accumulator and gradient of parameter %u",
                       operands[0], operands[1], call->op);
    }
    const struct pst_parameter *parameter = &walk->check->graph->params[call->op];
    if (sum->kind == PST_V_GRAD && sum->slot < parameter->n_users &&
        walk->states[operands[1]].gradient !=
            pst_check_contribution(parameter->users[sum->slot], parameter->user_slots[sum->slot])) {
        pst_walk_fault(walk, "MEM2", "buffer %u is the weight gradient of another operator",
                       operands[1]);
    }
    pst_walk_read(walk, operands[1], bytes, "a summand");
    pst_walk_read(walk, operands[0], bytes, "an accumulator");
    sum_in_turn(walk, walk->program->instrs[walk->instr].stage, operands[0], part->microbatch);
    pst_walk_write(walk, operands[0], bytes, "an accumulator");
}

static void visit_sum(struct pst_walk *walk, const uint32_t *operands, uint64_t bytes)
{
    uint64_t gradient = walk->states[operands[1]].gradient + walk->states[operands[2]].gradient;
    read_summand(walk, operands[1], bytes, "a summand");
    read_summand(walk, operands[2], bytes, "a summand");
    if (walk->program->values[operands[0]].kind != PST_V_DACT) {
        pst_walk_fault(walk, "MEM2", "a sum goes to buffer %u, which is not for a gradient",
                       operands[0]);
    }
    pst_walk_write(walk, operands[0], bytes, "a sum");
    walk->states[operands[0]].gradient = gradient;
}

void pst_walk_call(struct pst_walk *walk, const struct pst_program_call *call)
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
            pst_walk_write(walk, operands[0], bytes, "data");
        }
        break;
    case PST_C_KERNEL:
        visit_kernel(walk, call);
        break;
    case PST_C_SUM:
        if (present(walk, operands[0], "room for a sum") &&
            present(walk, operands[1], "a summand") && present(walk, operands[2], "a summand")) {
            visit_sum(walk, operands, bytes);
        }
        break;
    case PST_C_ACCUMULATE:
        visit_accumulate(walk, call, operands);
        break;
    case PST_C_SCATTER:
        pst_walk_scatter(walk, call);
        break;
    case PST_C_GATHER:
        pst_walk_gather(walk, call);
        break;
    case PST_C_WAIT:
        pst_walk_wait(walk, call);
        break;
    case PST_C_ADD:
        pst_walk_add(walk, call, operands);
        break;
    default:
        if (present(walk, operands[1], "losses")) {
            expect(walk, call, operands[1], KIND(PST_V_ACT), call->op, "losses");
            pst_walk_read(walk, operands[1], bytes, "losses");
        }
        break;
    }
}
