/* SPDX-License-Identifier: Apache-2.0
 *
 * ZeRO 2 and 3: meetings of the replicas of a stage inside its passes. SCATTER posts one that sums
 * gradients in pieces, GATHER one that brings pieces of weights together, WAIT ends it, and ADD
 * adds the rank's piece of a sum to what it has. MEM2: from the post to the WAIT of the same pass
 * nobody touches the buffers, which live. SHARD2: each gradient of such a parameter, whole, is
 * summed so, once, and nothing else makes its accumulators. NUM1: in the order of the
 * micro-batches; of an empty piece too, for whose sums the others need the rank. COMM4: no more
 * meetings are open at once than there is room for, and all ranks of a stage post and await the
 * same in one order, between the same conversions. As LIVE finds that they begin these passes
 * together, the k-th meeting of one is the k-th of all, and nobody waits forever.
 */
#include "base/hash.h"
#include "graph/split.h"
#include "plan/gathers.h"
#include "prove/program_replay.h"

void pst_walk_scatters_begin(struct pst_walk *walk)
{
    struct pst_check *check = walk->check;
    walk->open = pst_check_array(check, pst_gathers_open(check->plan), sizeof *walk->open);
    walk->scattered = pst_check_array(check, check->graph->n_params, sizeof *walk->scattered);
    for (uint32_t p = 0; p < check->graph->n_params; p++) {
        if (pst_check_scatters(check, p)) {
            walk->scattered[p] =
                pst_check_array(check, check->graph->params[p].n_users, sizeof(uint32_t));
        }
    }
}

/* --- posts and waits --------------------------------------------------------------------------*/

/* The lane of such meetings has room for so many gathers, and one sum. */
static void open_meeting(struct pst_walk *walk)
{
    const struct pst_program_call *calls = walk->program->calls;
    const bool sums = calls[walk->call].kind == PST_C_SCATTER;
    const uint32_t most = sums ? 1 : pst_gathers_open(walk->check->plan) - 1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < walk->n_open; i++) {
        n += calls[walk->open[i]].kind == calls[walk->call].kind;
    }
    if (n >= most) {
        pst_walk_fault(walk, "COMM4", "more than %u %s%s of replicas %s open at once", most,
                       sums ? "sum" : "gather", most == 1 ? "" : "s", most == 1 ? "is" : "are");
    }
    if (walk->n_open < pst_gathers_open(walk->check->plan)) { /* else its WAIT is told of, too */
        walk->open[walk->n_open++] = walk->call;
    }
}

/* The buffers of a meeting belong to it from now on. They are in a row. */
static void give_buffer(struct pst_walk *walk, const struct pst_program_meeting *meeting,
                        uint32_t part)
{
    walk->states[meeting->parts[part].value].met_by = walk->call + 1;
}

static bool is_first_part(const struct pst_program_meeting *meeting, uint32_t part)
{
    return part == 0 || meeting->parts[part - 1].value != meeting->parts[part].value;
}

/* One call gathers a buffer once. */
void pst_walk_gather(struct pst_walk *walk, const struct pst_program_call *call)
{
    const struct pst_program_meeting *meeting = call->meeting;
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    if (pst_check_replica(walk->check, walk->program->rank, instr->stage) == PST_NONE ||
        !pst_check_meets_replicas(walk->check, instr)) {
        pst_walk_fault(walk, "COMM4", "GATHER in a pass that its stage's devices begin apart");
        return;
    }
    pst_check_gather(walk->check, walk->program, walk->instr, call);
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        const uint32_t v = meeting->parts[i].value;
        if (is_first_part(meeting, i)) {
            pst_walk_write(walk, v, walk->program->values[v].bytes, "gathered weights");
            give_buffer(walk, meeting, i);
        }
    }
    open_meeting(walk);
}

/* The use of the parameter whose gradient the scratch buffer holds; n_users: none. */
static uint32_t find_use(const struct pst_walk *walk, const struct pst_parameter *parameter,
                         uint32_t scratch)
{
    uint32_t u = 0;
    while (u < parameter->n_users &&
           pst_check_contribution(parameter->users[u], parameter->user_slots[u]) !=
               walk->states[scratch].gradient) {
        u++;
    }
    return u;
}

/* Returns the use of a parameter in the pass's stage of which the buffer is a gradient; n_users
   with a violation. */
static uint32_t check_scratch(struct pst_walk *walk, uint32_t p, uint32_t scratch)
{
    const struct pst_parameter *parameter = &walk->check->graph->params[p];
    const uint32_t stage = walk->program->instrs[walk->instr].stage;
    const struct pst_value *part = &walk->program->values[scratch];
    const uint32_t use = find_use(walk, parameter, scratch);
    if (part->kind != PST_V_SCRATCH || part->what != p || part->stage != stage ||
        use == parameter->n_users || walk->check->stage_of[parameter->users[use]] != stage) {
        pst_walk_fault(walk, "MEM2", "buffer %u is not a gradient of parameter %s in stage %u",
                       scratch, parameter->name, stage);
        return parameter->n_users;
    }
    return use;
}

/* The pass is one in which replicas sum. A stage that is not here has none. */
static bool check_pass(struct pst_walk *walk, const char *call)
{
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    if (pst_check_replica(walk->check, walk->program->rank, instr->stage) == PST_NONE ||
        !walk->check->scatters[instr->stage] || (instr->op != PST_I_W && instr->op != PST_I_BW)) {
        pst_walk_fault(walk, "COMM4", "%s in a pass that its stage's devices begin apart", call);
        return false;
    }
    return true;
}

/* Afterwards a buffer holds no gradient any more: of its elements the rank's piece is a sum, and
   those of others are undefined. */
void pst_walk_scatter(struct pst_walk *walk, const struct pst_program_call *call)
{
    const struct pst_program_meeting *meeting = call->meeting;
    if (!check_pass(walk, "SCATTER")) {
        return;
    }
    pst_check_scatter(walk->check, walk->program, walk->instr, call);
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        const uint32_t v = meeting->parts[i].value;
        if (!is_first_part(meeting, i)) {
            continue;
        }
        if (walk->program->values[v].kind == PST_V_SCRATCH) { /* else SHARD2 has told */
            check_scratch(walk, walk->program->values[v].what, v);
        }
        if (walk->states[v].is_sum) {
            pst_walk_fault(walk, "SHARD2", "buffer %u is summed over the replicas twice", v);
        }
        pst_walk_read(walk, v, walk->program->values[v].bytes, "a gradient");
        give_buffer(walk, meeting, i);
    }
    open_meeting(walk);
}

/* The place of an open meeting among those that are; n_open: it is not. */
static uint32_t find_open(const struct pst_walk *walk, const struct pst_program_call *call)
{
    const uint32_t first = walk->program->lists[walk->instr].first_call;
    uint32_t at = 0;
    if (call->posted == 0 || call->posted > walk->call - first) {
        return walk->n_open;
    }
    while (at < walk->n_open && walk->open[at] != walk->call - call->posted) {
        at++;
    }
    return at;
}

void pst_walk_wait(struct pst_walk *walk, const struct pst_program_call *call)
{
    const uint32_t at = find_open(walk, call);
    if (at == walk->n_open) {
        pst_walk_fault(walk, "COMM4", "WAIT for no meeting that the pass has posted and not ended");
        return;
    }
    const struct pst_program_call *posted = &walk->program->calls[walk->open[at]];
    const struct pst_program_meeting *meeting = posted->meeting;
    walk->n_open--;
    for (uint32_t i = at; i < walk->n_open; i++) {
        walk->open[i] = walk->open[i + 1];
    }
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        const uint32_t v = meeting->parts[i].value;
        if (!pst_walk_is_alive(walk, v)) {
            pst_walk_fault(walk, "MEM2", "buffer %u is freed while replicas may still meet for it",
                           v);
        }
        walk->states[v].met_by = 0;
        walk->states[v].is_sum = posted->kind == PST_C_SCATTER;
    }
}

/* Every meeting of a pass ends in it. */
void pst_walk_meetings_end(struct pst_walk *walk)
{
    for (uint32_t i = 0; i < walk->n_open; i++) {
        pst_walk_fault(walk, "COMM4", "the pass does not end the meeting that call %u has posted",
                       walk->open[i]);
    }
    walk->n_open = 0;
}

/* --- pieces of sums ----------------------------------------------------------------------------*/

/* The piece and the pass. */
static bool check_place(struct pst_walk *walk, const struct pst_program_call *call, uint32_t out)
{
    const struct pst_check *check = walk->check;
    const struct pst_instr *instr = &walk->program->instrs[walk->instr];
    const char *name = check->graph->params[call->op].name;
    uint64_t elems;
    if (!check_pass(walk, "ADD")) {
        return false;
    }
    if (!pst_check_scatters(check, call->op)) {
        pst_walk_fault(walk, "SHARD2", "ADD of parameter %s, which REDUCE sums", name);
        return false;
    }
    if (!pst_check_uses(check, instr->stage, call->op)) {
        pst_walk_fault(walk, "MEM2", "ADD of parameter %s, which stage %u does not use", name,
                       instr->stage);
        return false;
    }
    elems = pst_check_piece(check, call->op,
                            pst_check_replica(check, walk->program->rank, instr->stage))
                .elems;
    if (call->elems != elems || (out == PST_NONE) != (elems == 0)) {
        pst_walk_fault(walk, "SHARD2",
                       "%llu elements of parameter %s are added to %s; the device updates %llu",
                       (unsigned long long)call->elems, name,
                       out == PST_NONE ? "nothing" : "an accumulator", (unsigned long long)elems);
        return false;
    }
    return true;
}

/* Checks that the buffers are the gradient of a use and, unless its piece is empty, the accumulator
   of that use. Returns the use; n_users with a violation. */
static uint32_t check_buffers(struct pst_walk *walk, const struct pst_program_call *call,
                              uint32_t out, uint32_t scratch)
{
    const struct pst_parameter *parameter = &walk->check->graph->params[call->op];
    const uint32_t use = check_scratch(walk, call->op, scratch);
    const struct pst_value *sum = out != PST_NONE ? &walk->program->values[out] : NULL;
    if (use < parameter->n_users && sum != NULL &&
        (sum->kind != PST_V_GRAD || sum->what != call->op || sum->slot != use)) {
        pst_walk_fault(walk, "MEM2",
                       "buffer %u is not the accumulator for buffer %u, a gradient of parameter %s",
                       out, scratch, parameter->name);
        return parameter->n_users;
    }
    return use;
}

/* NUM1: the micro-batches of the step in order, and the first of them begins the sum. */
static void sum_in_turn(struct pst_walk *walk, const struct pst_program_call *call, uint32_t use,
                        uint32_t microbatch)
{
    const struct pst_parameter *parameter = &walk->check->graph->params[call->op];
    uint32_t *summed = &walk->scattered[call->op][use];
    uint32_t turn = pst_check_turn(walk->check, microbatch);
    if (turn != *summed || call->begins != (turn == 0)) {
        pst_walk_fault(walk, "NUM1",
                       "gradient of micro-batch %u %s the sum of parameter %s, which has those of "
                       "%u micro-batches",
                       microbatch, call->begins ? "begins" : "is added to", parameter->name,
                       *summed);
    }
    *summed = turn + 1;
}

void pst_walk_add(struct pst_walk *walk, const struct pst_program_call *call,
                  const uint32_t *operands)
{
    const struct pst_parameter *parameter = &walk->check->graph->params[call->op];
    const uint64_t bytes = call->elems * sizeof(float);
    uint32_t out = operands[0], scratch = operands[1], use;
    if (!check_place(walk, call, out)) {
        return;
    }
    if (scratch == PST_NONE) {
        pst_walk_fault(walk, "MEM2", "ADD of parameter %s without its gradient", parameter->name);
        return;
    }
    use = check_buffers(walk, call, out, scratch);
    pst_walk_read(walk, scratch, parameter->elems * sizeof(float), "a gradient");
    if (!walk->states[scratch].is_sum) {
        pst_walk_fault(walk, "SHARD2", "a gradient of parameter %s is added before replicas sum it",
                       parameter->name);
    }
    walk->states[scratch].written = walk->states[scratch].is_sum = false;
    if (use == parameter->n_users) {
        return;
    }
    sum_in_turn(walk, call, use, walk->program->values[scratch].microbatch);
    if (out == PST_NONE) {
        return;
    }
    if (!call->begins) {
        pst_walk_read(walk, out, bytes, "an accumulator");
    }
    pst_walk_write(walk, out, bytes, "an accumulator");
    walk->states[out].summed = walk->scattered[call->op][use];
}

/* --- the end of a list -------------------------------------------------------------------------*/

/* The use makes gradients here that are added to an empty piece. */
static bool is_empty(const struct pst_walk *walk, uint32_t p, uint32_t use)
{
    const struct pst_check *check = walk->check;
    uint32_t op = check->graph->params[p].users[use];
    uint32_t replica = pst_check_replica(check, walk->program->rank, check->stage_of[op]);
    struct pst_op_grad grad;
    pst_op_grad_info(check->graph, op, &grad);
    return replica != PST_NONE && grad.has_w && pst_check_piece(check, p, replica).elems == 0;
}

void pst_walk_scatters_end(struct pst_walk *walk)
{
    const struct pst_check *check = walk->check;
    for (uint32_t p = 0; !check->limits->forward_only && p < check->graph->n_params; p++) {
        const struct pst_parameter *parameter = &check->graph->params[p];
        for (uint32_t u = 0; pst_check_scatters(check, p) && u < parameter->n_users; u++) {
            uint32_t op = parameter->users[u], summed = walk->scattered[p][u];
            uint32_t n = pst_check_unit(check, check->stage_of[op]);
            if (summed != n && is_empty(walk, p, u)) {
                pst_check_add(walk->check, "NUM1", walk->program->rank, PST_NONE,
                              "%u micro-batches of the gradients of %s for %s are summed over the "
                              "replicas, expected %u",
                              summed, parameter->name, check->graph->ops[op].name, n);
            }
        }
    }
}

/* --- all ranks of a stage ----------------------------------------------------------------------*/

/* Which operators wrote the scratch buffers. */
static void note_kernel(const struct pst_check *check, const struct pst_program *program,
                        const struct pst_program_call *call, uint32_t *made_by)
{
    const struct pst_op *op = &check->graph->ops[call->op];
    const uint32_t *dp = &program->operands[call->first_operand + pst_operands_of(op).dp];
    for (uint32_t i = 0; i < op->n_param && call->pass == 2; i++) {
        if (dp[i] != PST_NONE) {
            made_by[dp[i]] = call->op;
        }
    }
}

/* How many meetings of replicas have been posted since that which the WAIT ends; it too. */
static uint32_t count_posts(const struct pst_program_call *wait)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i <= wait->posted; i++) {
        n += wait[-(ptrdiff_t)i].meeting != NULL;
    }
    return n;
}

/* Adds a call to the digest, if ranks meet in it. Of a sum the uses are enough, since NUM1 orders
   their micro-batches. */
static uint64_t add_call(const struct pst_check *check, const struct pst_program *program,
                         const struct pst_program_call *call, const uint32_t *made_by,
                         uint64_t digest)
{
    const bool posts = call->kind == PST_C_GATHER || call->kind == PST_C_SCATTER;
    if (posts || call->kind == PST_C_WAIT ||
        (call->kind == PST_C_KERNEL && pst_op_meets(&check->graph->ops[call->op], call->pass))) {
        digest = pst_fnv1a(digest, call->kind);
    }
    if (call->kind == PST_C_WAIT) {
        digest = pst_fnv1a(digest, count_posts(call));
    } else if (posts) {
        digest = pst_fnv1a(digest, call->meeting->n_parts);
    }
    for (uint32_t i = 0; posts && i < call->meeting->n_parts; i++) {
        const uint32_t v = call->meeting->parts[i].value;
        digest = pst_fnv1a(digest, program->values[v].what);
        if (call->kind == PST_C_SCATTER) {
            digest = pst_fnv1a(pst_fnv1a(digest, made_by[v]), program->values[v].slot);
        }
    }
    if (call->kind == PST_C_KERNEL && pst_op_meets(&check->graph->ops[call->op], call->pass)) {
        digest = pst_fnv1a(pst_fnv1a(digest, call->op), call->pass);
        digest = pst_fnv1a(digest, call->samples);
    }
    return digest;
}

uint64_t pst_check_scatters_within(struct pst_check *check, const struct pst_program *program)
{
    uint64_t digest = PST_FNV1A;
    uint32_t *made_by =
        check->plan->zero >= 2 ? pst_arena_none(&check->arena, program->n_values) : NULL;
    for (uint32_t i = 0; made_by != NULL && i < program->n_instrs; i++) {
        const struct pst_instr *instr = &program->instrs[i];
        const struct pst_program_instr *list = &program->lists[i];
        if (!pst_check_is_pass(instr->op) || !pst_check_meets_replicas(check, instr)) {
            continue;
        }
        digest = pst_fnv1a(pst_fnv1a(digest, instr->op), instr->stage);
        digest = pst_fnv1a(digest, instr->microbatch);
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            const struct pst_program_call *call = &program->calls[c];
            if (call->kind == PST_C_KERNEL) {
                note_kernel(check, program, call, made_by);
            }
            digest = add_call(check, program, call, made_by, digest);
        }
    }
    return digest;
}

/* Stages that share a rank share all of theirs, so the first stage of a rank has all that it meets
   in such passes. */
void pst_check_replicas(struct pst_check *check, const uint64_t *scatters)
{
    for (uint32_t d = 0; check->plan->zero >= 2 && d < check->plan->n_devices; d++) {
        uint32_t at = check->rank_first[d], first;
        if (at == check->rank_first[d + 1]) {
            continue;
        }
        first = check->plan->stages[check->rank_stages[at]].ranks[0];
        if (scatters[d] != scatters[first]) {
            pst_check_add(check, "COMM4", d, PST_NONE,
                          "its passes sum gradients over the replicas, or gather weights, that are "
                          "others than those of device %u, which is the first of its stages, or in "
                          "another order",
                          first);
        }
    }
}
