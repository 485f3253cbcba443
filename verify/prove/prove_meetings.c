/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks do when they meet, against what pieces, stages and uses imply: as every member has
 * what follows from these alone, all have the same. COMM4: who meets, for what: replicas with the
 * same part, as every part has other elements, or all that there are. SHARD2: REDUCE sums each
 * accumulator over the replicas of its stage, each element once, to the one that updates it, or to
 * all, but for those that passes sum (SCATTER); TIE sums over the uses, in the order in which the
 * model has them. SHARD3: GATHER brings all pieces of the weights that the STEP before has made, or
 * in a pass all that the replicas keep.
 */
#include "base/util.h"
#include "prove/internal.h"

struct walk {
    struct pst_check *check;
    const struct pst_program *program;
    uint32_t instr, update; /* of the run, but for a multiple of the phases */
    const struct pst_program_meeting *meeting;
    uint32_t n_parts; /* so far */
    bool wrong;
};

static const struct pst_plan_stage *stage_of(const struct walk *w, uint32_t op)
{
    return &w->check->plan->stages[w->check->stage_of[op]];
}

static bool holds_use(const struct walk *w, uint32_t rank, uint32_t op)
{
    return pst_plan_replica(stage_of(w, op), rank) != PST_NONE;
}

static uint32_t parity_of(const struct walk *w)
{
    return w->check->plan->deferred_step ? w->update % 2 : 0;
}

/* The first part that is another is told. */
static void expect_part(struct walk *w, uint32_t p, uint32_t value,
                        struct pst_program_meet_part part)
{
    const bool gather = w->meeting->kind == PST_MEET_GATHER;
    const uint32_t at = w->n_parts++;
    const struct pst_program_meet_part *found = &w->meeting->parts[at];
    if (w->wrong ||
        (at < w->meeting->n_parts && found->value == value && found->owner == part.owner &&
         found->begin == part.begin && found->bytes == part.bytes)) {
        return;
    }
    w->wrong = true;
    pst_check_instr(w->check, gather ? "SHARD3" : "SHARD2", w->program->rank, w->instr,
                    ": part %u is not bytes %llu+%llu of %s of parameter %s, for %s %u", at,
                    (unsigned long long)part.begin, (unsigned long long)part.bytes,
                    gather ? "the new weights" : "a gradient", w->check->graph->params[p].name,
                    part.owner == PST_NONE ? "all of" : "member",
                    part.owner == PST_NONE ? w->meeting->n_members : part.owner);
}

/* All pieces of a parameter, each for who updates it, or all of it for all. */
static void expect_all(struct walk *w, uint32_t p, uint32_t value, uint32_t elem_bytes)
{
    const struct pst_shard *pieces = w->check->pieces[p];
    for (uint32_t m = 0; m < (pieces != NULL ? w->meeting->n_members : 1); m++) {
        const struct pst_shard piece = pst_check_piece(w->check, p, m);
        if (piece.elems > 0) {
            expect_part(w, p, value,
                        (struct pst_program_meet_part){.owner = pieces != NULL ? m : PST_NONE,
                                                       .begin = piece.first * elem_bytes,
                                                       .bytes = piece.elems * elem_bytes});
        }
    }
}

static void expect_end(const struct walk *w, const char *rule)
{
    if (!w->wrong && w->n_parts != w->meeting->n_parts) {
        pst_check_instr(w->check, rule, w->program->rank, w->instr, ": %u parts, expected %u",
                        w->meeting->n_parts, w->n_parts);
    }
}

static void expect_no_terms(const struct walk *w)
{
    if (w->meeting->n_sources > 0 || w->meeting->n_order > 0) {
        pst_check_instr(w->check, "SHARD2", w->program->rank, w->instr,
                        ": terms of its own, expected those of the members in their order");
    }
}

/* Every accumulator of the stage that its passes do not sum. Without terms of its own a sum is in
 * the order of members. */
static void check_reduce(struct walk *w, uint32_t stage)
{
    const struct pst_program *program = w->program;
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        const uint32_t *users = w->check->graph->params[row->parameter].users;
        for (uint32_t g = 0; g < row->n_grads; g++) {
            if (w->check->stage_of[users[row->grad_users[g]]] == stage &&
                !pst_check_scatters(w->check, row->parameter)) {
                expect_all(w, row->parameter, row->grads[parity_of(w) * row->n_grads + g],
                           sizeof(float));
            }
        }
    }
    expect_end(w, "SHARD2");
    expect_no_terms(w);
}

/* The piece that the replica updates, of each use of a whole parameter of which each part made a
   part of the gradient. */
static void check_merge(struct walk *w, uint32_t stage)
{
    const struct pst_program *program = w->program;
    const uint32_t replica = pst_plan_replica(&w->check->plan->stages[stage], program->rank);
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        const struct pst_parameter *parameter = &w->check->graph->params[row->parameter];
        const struct pst_shard piece = pst_check_piece(w->check, row->parameter, replica);
        const uint64_t begin = piece.first - pst_check_grad_first(w->check, row->parameter, piece);
        for (uint32_t g = 0; g < row->n_grads && piece.elems > 0; g++) {
            const uint32_t user = row->grad_users[g], op = parameter->users[user];
            if (w->check->stage_of[op] == stage &&
                (w->check->graph->ops[op].partial >> parameter->user_slots[user] & 1) != 0) {
                expect_part(w, row->parameter, row->grads[parity_of(w) * row->n_grads + g],
                            (struct pst_program_meet_part){.owner = PST_NONE,
                                                           .begin = begin * sizeof(float),
                                                           .bytes = piece.elems * sizeof(float)});
            }
        }
    }
    expect_end(w, "SHARD2");
}

/* The version that the STEP before it has made. */
static void check_gather(struct walk *w, uint32_t stage)
{
    const struct pst_program *program = w->program;
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        if (row->stage == stage && w->check->pieces[row->parameter] != NULL) {
            expect_all(w, row->parameter, row->versions[(w->update + 1) % row->n_versions],
                       pst_dtype_bytes(w->check->graph->params[row->parameter].dtype));
        }
    }
    expect_end(w, "SHARD3");
}

/* Use u is that of the first member which has it, among its own in the order of the model. */
static bool is_term(const struct walk *w, const struct pst_parameter *parameter, uint32_t u,
                    const uint32_t *term)
{
    const uint32_t *members = w->meeting->members;
    uint32_t m = 0, source = 0;
    while (m < w->meeting->n_members && !holds_use(w, members[m], parameter->users[u])) {
        m++;
    }
    for (uint32_t before = 0; before < u && m < w->meeting->n_members; before++) {
        source += holds_use(w, members[m], parameter->users[before]);
    }
    return m < w->meeting->n_members && term[0] == m && term[1] == source;
}

static void check_tie(struct walk *w, uint32_t tie)
{
    const struct pst_program_meeting *meeting = w->meeting;
    const uint32_t p = w->check->plan->ties[tie].parameter;
    const struct pst_parameter *parameter = &w->check->graph->params[p];
    const struct pst_program_param *row = w->program->params;
    bool right = meeting->n_order == parameter->n_users;
    while (row->parameter != p) {
        row++;
    }
    if (row->shard.elems > 0) {
        expect_part(w, p, row->tie,
                    (struct pst_program_meet_part){.owner = PST_NONE,
                                                   .bytes = row->shard.elems * sizeof(float)});
    }
    expect_end(w, "SHARD2");
    right =
        right && meeting->n_sources == row->n_grads &&
        (row->shard.elems == 0 ||
         meeting->source_begin ==
             (row->shard.first - pst_check_grad_first(w->check, p, row->shard)) * sizeof(float));
    for (uint32_t g = 0; right && g < row->n_grads; g++) {
        right = meeting->sources[g] == row->grads[parity_of(w) * row->n_grads + g];
    }
    for (uint32_t u = 0; right && u < parameter->n_users; u++) {
        right = is_term(w, parameter, u, meeting->order[u]);
    }
    if (!right) {
        pst_check_instr(w->check, "SHARD2", w->program->rank, w->instr,
                        ": its terms are not the gradients of all uses of parameter %s, in their "
                        "order",
                        parameter->name);
    }
}

/* --- who meets ---------------------------------------------------------------------------------*/

/* Does a rank take part in the TIE of this one? Of a parameter in pieces it has the same one. */
static bool is_in_tie(const struct walk *w, uint32_t p, uint32_t rank)
{
    const struct pst_parameter *parameter = &w->check->graph->params[p];
    uint32_t here = PST_NONE, there = PST_NONE;
    if (pst_check_part(w->check, rank) != pst_check_part(w->check, w->program->rank)) {
        return false;
    }
    for (uint32_t u = 0; u < parameter->n_users; u++) {
        const struct pst_plan_stage *stage = stage_of(w, parameter->users[u]);
        uint32_t a = pst_plan_replica(stage, w->program->rank), b = pst_plan_replica(stage, rank);
        here = a != PST_NONE ? a : here;
        there = b != PST_NONE ? b : there;
    }
    return there != PST_NONE && (w->check->pieces[p] == NULL || here == there);
}

/* The replicas of a stage with the walk's part, in their order. */
static bool are_replicas(const struct walk *w, const struct pst_plan_stage *stage)
{
    const uint32_t n = pst_plan_replicas(stage), part = pst_plan_part(stage, w->program->rank);
    for (uint32_t r = 0; w->meeting->n_members == n && r < n; r++) {
        if (w->meeting->members[r] != stage->ranks[r * stage->tensor + part]) {
            return false;
        }
    }
    return w->meeting->n_members == n;
}

/* The parts of the walk's replica, in their order. */
static bool are_parts(const struct walk *w, const struct pst_plan_stage *stage)
{
    const uint32_t first = pst_plan_replica(stage, w->program->rank) * stage->tensor;
    for (uint32_t i = 0; w->meeting->n_members == stage->tensor && i < stage->tensor; i++) {
        if (w->meeting->members[i] != stage->ranks[first + i]) {
            return false;
        }
    }
    return w->meeting->n_members == stage->tensor;
}

static bool are_members(const struct walk *w, const struct pst_instr *instr)
{
    const struct pst_plan *plan = w->check->plan;
    const struct pst_program_meeting *meeting = w->meeting;
    uint32_t n = 0;
    if (instr->op == PST_I_MERGE) {
        return are_parts(w, &plan->stages[instr->stage]);
    }
    if (instr->op != PST_I_TIE) {
        return are_replicas(w, &plan->stages[instr->stage]);
    }
    for (uint32_t rank = 0; rank < plan->n_devices; rank++) {
        if (is_in_tie(w, plan->ties[instr->stage].parameter, rank)) {
            if (n >= meeting->n_members || meeting->members[n++] != rank) {
                return false;
            }
        }
    }
    return n == meeting->n_members;
}

/* TIE also adds up where a rank is alone. */
static bool needs_meeting(const struct pst_plan *plan, const struct pst_instr *instr)
{
    return instr->op == PST_I_TIE ||
           (instr->op == PST_I_MERGE && plan->stages[instr->stage].tensor > 1) ||
           ((instr->op == PST_I_REDUCE || instr->op == PST_I_GATHER) &&
            pst_plan_replicas(&plan->stages[instr->stage]) > 1);
}

static void check_meeting(struct walk *w, const struct pst_instr *instr)
{
    const uint8_t kind = instr->op == PST_I_GATHER ? PST_MEET_GATHER : PST_MEET_SUM;
    if ((w->meeting != NULL) != needs_meeting(w->check->plan, instr) ||
        (w->meeting != NULL && (w->meeting->kind != kind || !are_members(w, instr)))) {
        pst_check_instr(w->check, "COMM4", w->program->rank, w->instr,
                        ": not a meeting of its kind with the devices of its stage or tie, in "
                        "their order, where there are others");
    } else if (w->meeting == NULL) {
        return;
    } else if (instr->op == PST_I_REDUCE) {
        check_reduce(w, instr->stage);
    } else if (instr->op == PST_I_MERGE) {
        check_merge(w, instr->stage);
    } else if (instr->op == PST_I_TIE) {
        check_tie(w, instr->stage);
    } else {
        check_gather(w, instr->stage);
    }
}

void pst_check_meetings(struct pst_check *check, const struct pst_program *program, uint32_t phase)
{
    const struct pst_plan *plan = check->plan;
    struct walk w = {.check = check, .program = program};
    uint32_t *counts[PST_I_COUNT] = {NULL}; /* [op][stage or tie] so far */
    if (check->report->n_violations > 0) {
        return; /* buffers are found by the table of parameters, in which nothing may be wrong */
    }
    counts[PST_I_REDUCE] = pst_check_array(check, plan->n_stages, sizeof(uint32_t));
    counts[PST_I_MERGE] = pst_check_array(check, plan->n_stages, sizeof(uint32_t));
    counts[PST_I_GATHER] = pst_check_array(check, plan->n_stages, sizeof(uint32_t));
    counts[PST_I_TIE] = pst_check_array(check, plan->n_ties, sizeof(uint32_t));
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_instr *instr = &program->instrs[i];
        w.instr = i;
        w.meeting = program->lists[i].meeting;
        w.n_parts = 0;
        w.wrong = false;
        w.update = phase + (counts[instr->op] != NULL ? counts[instr->op][instr->stage]++ : 0);
        check_meeting(&w, instr);
    }
}

/* False also where the rank has no row for the parameter, which MEM2 says. */
static bool is_version_of(const struct pst_program *program, uint32_t value, uint32_t parameter)
{
    const uint32_t at = PST_FIRST(i, program->n_params, program->params[i].parameter >= parameter);
    return value != PST_NONE && at < program->n_params &&
           program->params[at].parameter == parameter && program->params[at].n_versions > 0 &&
           value == program->params[at].versions[0];
}

/* Buffer of the meeting's next parameter, of which nothing comes before: a parameter in pieces that
   the pass reads, or a gradient of one that it makes. */
static bool is_for_pass(const struct walk *w, const struct pst_instr *instr, uint32_t value)
{
    const struct pst_value *of = &w->program->values[value];
    const bool gather = w->meeting->kind == PST_MEET_GATHER;
    return of->kind == (gather ? PST_V_GATHERED : PST_V_SCRATCH) &&
           (gather ? pst_check_gathers : pst_check_scatters)(w->check, of->what) &&
           pst_check_uses(w->check, instr->stage, of->what) &&
           (w->n_parts == 0 || w->meeting->parts[w->n_parts - 1].value != value);
}

/* The meeting begins with the parameter that the call names. */
static bool begins_with(const struct walk *w, const struct pst_program_call *call)
{
    const bool gather = call->kind == PST_C_GATHER;
    if (w->meeting->n_parts == 0 ||
        w->program->values[w->meeting->parts[0].value].what != call->op) {
        pst_check_instr(w->check, gather ? "SHARD3" : "SHARD2", w->program->rank, w->instr,
                        ": %s that does not begin with parameter %s", gather ? "GATHER" : "SCATTER",
                        w->check->graph->params[call->op].name);
        return false;
    }
    return true;
}

/* Whole buffers of gradients, of which each replica gets its own piece. */
void pst_check_scatter(struct pst_check *check, const struct pst_program *program, uint32_t instr,
                       const struct pst_program_call *call)
{
    struct walk w = {.check = check, .program = program, .instr = instr, .meeting = call->meeting};
    if (w.meeting->kind != PST_MEET_SUM ||
        !are_replicas(&w, &check->plan->stages[program->instrs[instr].stage])) {
        pst_check_instr(check, "COMM4", program->rank, instr,
                        ": a gradient is not summed over the replicas of the stage with this part, "
                        "in their order");
        return;
    }
    if (!begins_with(&w, call)) {
        return;
    }
    while (w.n_parts < w.meeting->n_parts && !w.wrong) {
        const uint32_t value = w.meeting->parts[w.n_parts].value;
        if (!is_for_pass(&w, &program->instrs[instr], value)) {
            pst_check_instr(check, "SHARD2", program->rank, instr,
                            ": sums buffer %u, which is not a gradient in pieces of the stage, or "
                            "once more",
                            value);
            return;
        }
        expect_all(&w, program->values[value].what, value, sizeof(float));
    }
    expect_no_terms(&w);
}

/* From `first` on, of one parameter: the replica brings its own piece. */
static bool brings_own(const struct walk *w, uint32_t first, uint32_t p, uint32_t replica)
{
    bool own = true;
    for (uint32_t i = first; i < w->n_parts && !w->wrong; i++) {
        const uint32_t source = w->meeting->sources[i];
        own = own && (w->meeting->parts[i].owner == replica ? is_version_of(w->program, source, p)
                                                            : source == PST_NONE);
    }
    return own;
}

/* Whole buffers of parameters whose replicas keep pieces, of which each brings its own. */
void pst_check_gather(struct pst_check *check, const struct pst_program *program, uint32_t instr,
                      const struct pst_program_call *call)
{
    const struct pst_plan_stage *stage = &check->plan->stages[program->instrs[instr].stage];
    struct walk w = {.check = check, .program = program, .instr = instr, .meeting = call->meeting};
    const struct pst_program_meeting *meeting = call->meeting;
    bool own = meeting->n_sources == 0 && meeting->source_begin == 0 && meeting->n_order == 0;
    if (meeting->kind != PST_MEET_GATHER || !are_replicas(&w, stage)) {
        pst_check_instr(check, "COMM4", program->rank, instr,
                        ": weights are not gathered from the replicas of the stage with this part, "
                        "in their order");
        return;
    }
    if (!begins_with(&w, call)) {
        return;
    }
    while (w.n_parts < meeting->n_parts && !w.wrong) {
        const uint32_t value = meeting->parts[w.n_parts].value, first = w.n_parts;
        const uint32_t p = program->values[value].what;
        if (!is_for_pass(&w, &program->instrs[instr], value)) {
            pst_check_instr(check, "SHARD3", program->rank, instr,
                            ": gathers into buffer %u, which is not for weights in pieces that the "
                            "stage uses, or is full",
                            value);
            return;
        }
        expect_all(&w, p, value, pst_dtype_bytes(check->graph->params[p].dtype));
        own = own && brings_own(&w, first, p, pst_plan_replica(stage, program->rank));
    }
    if (!own) {
        pst_check_instr(check, "SHARD3", program->rank, instr,
                        ": it does not bring its pieces of the weights");
    }
}
