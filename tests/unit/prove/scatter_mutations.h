/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of plans whose replicas accumulate pieces of gradients (ZeRO 2): W and BW of the lists,
 * SCATTERs of the programs.
 */
#ifndef TESTS_CHECK_SCATTER_MUTATIONS_H
#define TESTS_CHECK_SCATTER_MUTATIONS_H

#include "unit/prove/zero_mutations.h"

/* --- lists ------------------------------------------------------------------------------------*/

static inline bool mu_makes_gradients(const struct pst_instr *instr)
{
    return instr->op == PST_I_W || instr->op == PST_I_BW;
}

/* Replicas of the stage of an instruction sum gradients in W and BW. */
static inline bool mu_sums(const struct mutant *m, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &m->made.stages[instr->stage];
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        const struct pst_op *op = &m->rig->graph->ops[stage->nodes[n]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            if (op->param[i] != PST_NONE &&
                pst_plan_scatters(&m->made, instr->stage, op->param[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Two of one stage change places, on one rank of several. */
static inline const char *mu_swap_weights(struct mutant *m, struct place p)
{
    struct pst_instr *a = mu_at(m, p), *b = a + 1;
    const struct pst_instr *end = m->lists[p.part][p.d] + m->n[p.part][p.d];
    while (b < end && (b->op != a->op || b->stage != a->stage)) {
        b++;
    }
    rig_need(m->rig, b < end && mu_sums(m, a));
    const uint32_t kept = a->microbatch;
    a->microbatch = b->microbatch;
    b->microbatch = kept;
    return "LIVE1";
}

/* A list that comes to no such pass: the others wait for it. Copies would miss it, too. */
static inline const char *mu_lose_weights(struct mutant *m, struct place p)
{
    const uint32_t next = p.i + 1 < m->n[p.part][p.d] ? mu_at(m, p)[1].op : PST_I_COUNT;
    rig_need(m->rig, mu_sums(m, mu_at(m, p)) && next != PST_I_OFFLOAD && next != PST_I_FETCH);
    free((void *)mu_take_out(m, p).waits);
    return "LIVE1";
}

static inline const char *mu_pieces_of_delayed(struct mutant *m)
{
    m->rig->plan->version_rule = PST_VERSION_DELAYED;
    return "FORM1";
}

static inline const char *mu_pieces_of_copies(struct mutant *m)
{
    m->rig->plan->copies = 2;
    return "FORM1";
}

static struct mutation scatter_list_mutations[] = {
    MU_AT(swap_weights, mu_makes_gradients),
    MU_AT(lose_weights, mu_makes_gradients),
    MU(pieces_of_delayed),
    MU(pieces_of_copies),
};
#define N_SCATTER_LISTS (sizeof scatter_list_mutations / sizeof scatter_list_mutations[0])

/* --- programs ---------------------------------------------------------------------------------*/

static inline uint32_t *me_operands(struct scene *scene, const struct pst_program_call *call)
{
    return &scene->program->operands[call->first_operand];
}

static inline struct pst_program_call *me_draw_scatter(struct scene *scene)
{
    uint32_t first, n;
    return me_draw_call(scene, PST_C_SCATTER, &first, &n);
}

static inline struct pst_program_call *me_draw_tied(struct scene *scene)
{
    struct pst_program_call *call = NULL;
    for (uint32_t tries = 0; tries < 100; tries++) {
        call = me_draw_scatter(scene);
        if (scene->rig->graph->params[call->op].n_users > 1) {
            return call;
        }
    }
    rig_need(scene->rig, false);
    return NULL;
}

/* One that has a meeting, or one of a row that another has it for. */
static inline struct pst_program_call *me_draw_of_row(struct scene *scene, bool first)
{
    struct pst_program_call *call = NULL;
    for (uint32_t tries = 0; tries < 100; tries++) {
        call = me_draw_scatter(scene);
        if ((call->meeting != NULL) == first) {
            return call;
        }
    }
    rig_need(scene->rig, false);
    return NULL;
}

/* One with as many parts. */
static inline struct pst_program_meeting *me_draw_sum(struct scene *scene, uint32_t n_parts)
{
    struct pst_program_meeting *meeting =
        (struct pst_program_meeting *)me_draw_of_row(scene, true)->meeting;
    rig_need(scene->rig, meeting->n_parts >= n_parts);
    return meeting;
}

/* It reads something else instead. */
static inline void me_drop_scatter(struct rig *rig, struct pst_program_call *call)
{
    call->kind = PST_C_LOSS;
    call->op = rig->graph->loss;
    call->meeting = NULL;
}

static inline const char *me_lose_scatter(struct scene *scene)
{
    me_drop_scatter(scene->rig, me_draw_scatter(scene));
    return "NUM1";
}

/* Of a piece without elements, which no accumulator shows. */
static inline const char *me_lose_empty(struct scene *scene)
{
    struct pst_program_call *call = me_draw_scatter(scene);
    rig_need(scene->rig, me_operands(scene, call)[0] == PST_NONE);
    me_drop_scatter(scene->rig, call);
    return "NUM1";
}

/* The next call of the same pass, if it is one, too. */
static inline struct pst_program_call *me_draw_pair(struct scene *scene)
{
    struct pst_program_call *call = me_draw_scatter(scene);
    const uint32_t at = (uint32_t)(call - scene->program->calls);
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_instr *list = &scene->program->lists[i];
        if (at >= list->first_call && at + 1 < list->first_call + list->n_calls) {
            rig_need(scene->rig, call[1].kind == PST_C_SCATTER);
            return call;
        }
    }
    rig_need(scene->rig, false);
    return NULL;
}

static inline const char *me_scatter_twice(struct scene *scene)
{
    struct pst_program_call *call = me_draw_pair(scene);
    struct pst_value *value = &scene->program->values[me_operands(scene, call)[1]];
    value->last++; /* else its life tells */
    call[1] = call[0];
    scene->text = "is read before it is written";
    return "MEM2";
}

/* Of two parameters. Neither reads a buffer outside its life: COMM4 alone tells. */
static inline const char *me_scatter_order(struct scene *scene)
{
    struct pst_program_call *call = me_draw_pair(scene), kept = call[0];
    rig_need(scene->rig, call[0].op != call[1].op);
    struct pst_value *value = &scene->program->values[me_operands(scene, call)[1]];
    value->last++;
    call[0] = call[1];
    call[1] = kept;
    scene->text = "or in another order";
    return "COMM4";
}

static inline const char *me_scatter_begins(struct scene *scene)
{
    me_draw_scatter(scene)->begins ^= true;
    return "NUM1";
}

/* Two micro-batches of one use. */
static inline const char *me_scatter_turns(struct scene *scene)
{
    struct pst_program_call *a = me_draw_scatter(scene);
    uint32_t *x = me_operands(scene, a);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *b = &scene->program->calls[c];
        uint32_t *y = me_operands(scene, b);
        if (b != a && b->kind == PST_C_SCATTER && x[0] != PST_NONE && x[0] == y[0]) {
            const uint32_t kept = x[1];
            x[1] = y[1];
            y[1] = kept;
            return "NUM1";
        }
    }
    return NULL;
}

static inline const char *me_scatter_elems(struct scene *scene)
{
    me_draw_scatter(scene)->elems += 1;
    return "SHARD2";
}

/* Nothing is kept, or something is where there is no piece. */
static inline const char *me_scatter_out(struct scene *scene)
{
    uint32_t *operands = me_operands(scene, me_draw_scatter(scene));
    operands[0] = operands[0] == PST_NONE ? operands[1] : PST_NONE;
    return "SHARD2";
}

static inline const char *me_scatter_elsewhere(struct scene *scene)
{
    uint32_t *a = me_operands(scene, me_draw_scatter(scene));
    const uint32_t *b = me_operands(scene, me_draw_scatter(scene));
    rig_need(scene->rig, a[0] != PST_NONE && b[0] != PST_NONE && a[0] != b[0]);
    a[0] = b[0];
    return "MEM2";
}

/* The accumulator of another use. */
static inline const char *me_scatter_use(struct scene *scene)
{
    uint32_t *operands = me_operands(scene, me_draw_tied(scene));
    for (uint32_t v = 0; v < scene->program->n_values && operands[0] != PST_NONE; v++) {
        const struct pst_value *a = &scene->program->values[operands[0]];
        const struct pst_value *b = &scene->program->values[v];
        if (b->kind == PST_V_GRAD && b->what == a->what && b->slot != a->slot) {
            operands[0] = v;
            scene->text = "is not the accumulator for";
            return "MEM2";
        }
    }
    return NULL;
}

/* The gradient that a later SCATTER of the same parameter sums: no kernel has made it. */
static inline const char *me_scatter_early(struct scene *scene)
{
    const struct pst_program_call *a = me_draw_scatter(scene);
    const struct pst_program_call *end = scene->program->calls + scene->program->n_calls;
    for (const struct pst_program_call *b = a + 1; b < end; b++) {
        if (b->kind == PST_C_SCATTER && b->op == a->op &&
            scene->program->values[me_operands(scene, b)[1]].first > 0 &&
            scene->program->values[me_operands(scene, b)[1]].first >
                scene->program->values[me_operands(scene, a)[1]].last) {
            me_operands(scene, a)[1] = me_operands(scene, b)[1];
            scene->text = "is not a gradient of parameter";
            return "MEM2";
        }
    }
    return NULL;
}

/* Of a tied parameter, in a pass of another stage here, which takes the buffer for its own. */
static inline const char *me_scatter_late(struct scene *scene)
{
    struct pst_program_call *a = me_draw_tied(scene);
    const struct pst_program_call *end = scene->program->calls + scene->program->n_calls;
    struct pst_value *value = &scene->program->values[me_operands(scene, a)[1]];
    for (const struct pst_program_call *b = a + 1; b < end; b++) {
        const struct pst_value *other = &scene->program->values[me_operands(scene, b)[1]];
        if (b->kind == PST_C_SCATTER && b->op == a->op && other->stage != value->stage) {
            value->stage = other->stage;
            memcpy(me_operands(scene, b), me_operands(scene, a), 2 * sizeof(uint32_t));
            me_drop_scatter(scene->rig, a);
            scene->text = "is not a gradient of parameter";
            return "MEM2";
        }
    }
    return NULL;
}

/* It changes places with a kernel in which the parts of the replica meet. */
static inline const char *me_scatter_crosses(struct scene *scene)
{
    struct pst_program_call *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_instr *list = &scene->program->lists[i];
        for (uint32_t c = list->first_call; c + 1 < list->first_call + list->n_calls; c++) {
            struct pst_program_call *call = &scene->program->calls[c];
            if (call->kind == PST_C_SCATTER && call[1].kind == PST_C_KERNEL &&
                pst_op_meets(&scene->rig->graph->ops[call[1].op], call[1].pass) &&
                rig_draw(scene->rig, ++n) == 0) {
                drawn = call;
            }
        }
    }
    rig_need(scene->rig, drawn != NULL);
    const struct pst_program_call kept = drawn[0];
    drawn[0] = drawn[1];
    drawn[1] = kept;
    scene->text = "or in another order";
    return "COMM4";
}

static inline const char *me_scatter_other(struct scene *scene)
{
    struct pst_program_call *a = me_draw_scatter(scene), *b = me_draw_scatter(scene);
    rig_need(scene->rig, me_operands(scene, a)[1] != me_operands(scene, b)[1]);
    me_operands(scene, a)[1] = me_operands(scene, b)[1];
    return "MEM2";
}

/* A buffer of another stage here, whose micro-batches have the same samples. */
static inline const char *me_scatter_stage(struct scene *scene)
{
    const struct pst_plan *plan = scene->rig->plan;
    struct pst_value *value =
        &scene->program->values[me_operands(scene, me_draw_scatter(scene))[1]];
    const uint32_t other = (value->stage + 1) % plan->n_stages;
    rig_need(scene->rig,
             other != value->stage && pst_plan_replica(&plan->stages[other], scene->d) != PST_NONE);
    value->stage = other;
    return "MEM2";
}

/* A parameter in pieces that no operator of the stage reads. */
static inline uint32_t me_draw_stranger(struct scene *scene, uint32_t stage)
{
    const struct rig *rig = scene->rig;
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        const struct pst_parameter *parameter = &rig->graph->params[p];
        bool used = false, cut = false;
        for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
            for (uint32_t u = 0; u < parameter->n_users; u++) {
                for (uint32_t v = 0; v < rig->plan->stages[s].n_nodes; v++) {
                    const bool here = rig->plan->stages[s].nodes[v] == parameter->users[u];
                    used |= here && s == stage;
                    cut |= here && pst_plan_cuts(rig->plan, s, p);
                }
            }
        }
        if (cut && !used && rig_draw(scene->rig, ++n) == 0) {
            drawn = p;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    return drawn;
}

static inline const char *me_scatter_stranger(struct scene *scene)
{
    struct pst_program_call *call = me_draw_scatter(scene);
    const uint32_t scratch = me_operands(scene, call)[1];
    call->op = me_draw_stranger(scene, scene->program->values[scratch].stage);
    scene->text = "does not use";
    return "MEM2";
}

static inline const char *me_scatter_nothing(struct scene *scene)
{
    me_operands(scene, me_draw_scatter(scene))[1] = PST_NONE;
    return "MEM2";
}

/* As the accumulators of a whole parameter get it. */
static inline const char *me_scatter_alone(struct scene *scene)
{
    struct pst_program_call *call = me_draw_scatter(scene);
    call->kind = PST_C_ACCUMULATE;
    call->meeting = NULL;
    scene->text = "is added before replicas sum it";
    return "SHARD2";
}

/* A kernel writes where its gradient should be added. */
static inline const char *me_scatter_past(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_scatter(scene);
    const uint32_t out = me_operands(scene, call)[0], scratch = me_operands(scene, call)[1];
    rig_need(scene->rig, out != PST_NONE);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *kernel = &scene->program->calls[c];
        if (kernel->kind != PST_C_KERNEL || kernel->pass != 2) {
            continue;
        }
        const struct pst_op *op = &scene->rig->graph->ops[kernel->op];
        uint32_t *dp = me_operands(scene, kernel) + pst_operands_of(op).dp;
        for (uint32_t i = 0; i < op->n_param; i++) {
            if (dp[i] == scratch) {
                dp[i] = out;
                scene->text = "goes to an accumulator that replicas sum";
                return "SHARD2";
            }
        }
    }
    return NULL;
}

/* Of a parameter that REDUCE sums. */
static inline const char *me_scatter_whole(struct scene *scene)
{
    uint32_t first, n;
    const struct pst_program_call *from = me_draw_scatter(scene);
    struct pst_program_call *call = me_draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    call->kind = PST_C_SCATTER;
    call->meeting = from->meeting;
    return "SHARD2 COMM4";
}

/* In a pass that ranks begin apart: it takes the place of a call there. */
static inline const char *me_scatter_forward(struct scene *scene)
{
    uint32_t first, n;
    const struct pst_program_call *from = me_draw_scatter(scene);
    struct pst_program_call *call = me_draw_call(scene, PST_C_LOAD, &first, &n);
    *call = *from;
    return "COMM4";
}

static inline const char *me_sum_owner(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_sum(scene, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    part->owner = (part->owner + 1) % meeting->n_members;
    return "SHARD2";
}

static inline const char *me_sum_for_all(struct scene *scene)
{
    me_draw_meet_part(scene, me_draw_sum(scene, 1))->owner = PST_NONE;
    return "SHARD2";
}

/* The border between two pieces moves by a block. */
static inline const char *me_sum_border(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_sum(scene, 2);
    struct pst_program_meet_part *parts = (struct pst_program_meet_part *)meeting->parts;
    struct pst_program_meet_part *a = &parts[0], *b = &parts[1];
    const uint64_t block = PST_SHARD_BLOCK * sizeof(float);
    if (b->begin < a->begin) {
        a = &parts[1];
        b = &parts[0];
    }
    rig_need(scene->rig, a->begin + a->bytes == b->begin && a->bytes > block);
    a->bytes -= block;
    b->begin -= block;
    b->bytes += block;
    return "SHARD2";
}

static inline const char *me_sum_part_never(struct scene *scene)
{
    me_draw_sum(scene, 1)->n_parts--;
    return "SHARD2";
}

static inline const char *me_sum_part_more(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_sum(scene, 1);
    struct pst_program_meet_part *parts =
        pst_arena_array(&scene->program->arena, (size_t)meeting->n_parts + 1, sizeof *parts);
    memcpy(parts, meeting->parts, meeting->n_parts * sizeof *parts);
    parts[meeting->n_parts] = parts[0];
    meeting->parts = parts;
    meeting->n_parts++;
    scene->text = "parts, expected";
    return "SHARD2";
}

static inline const char *me_sum_value(struct scene *scene)
{
    struct pst_program_meet_part *part = me_draw_meet_part(scene, me_draw_sum(scene, 1));
    part->value = scene->program->n_values + rig_draw(scene->rig, 2);
    scene->text = "out of range";
    return "MEM2";
}

static inline const char *me_sum_members(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_sum(scene, 0);
    uint32_t *members = pst_arena_copy(&scene->program->arena, meeting->members, meeting->n_members,
                                       sizeof *members);
    members[0] = meeting->members[1];
    members[1] = meeting->members[0];
    meeting->members = members;
    return "COMM4";
}

static inline const char *me_sum_kind(struct scene *scene)
{
    me_draw_sum(scene, 0)->kind = PST_MEET_GATHER;
    return "COMM4";
}

static inline const char *me_sum_gone(struct scene *scene)
{
    me_draw_of_row(scene, true)->meeting = NULL;
    return "COMM4";
}

/* The parts of the row from a call on. */
static inline uint32_t me_parts_from(struct scene *scene, const struct pst_program_call *call,
                                     const struct pst_program_meeting *meeting)
{
    const uint32_t scratch = me_operands(scene, call)[1];
    uint32_t at = 0;
    while (at < meeting->n_parts && meeting->parts[at].value != scratch) {
        at++;
    }
    return at;
}

/* The rank meets for the rest of a row apart: in itself right, but the others wait for all. */
static inline const char *me_sum_split(struct scene *scene)
{
    struct pst_program_call *second = me_draw_of_row(scene, false), *first = second;
    while (first->meeting == NULL) {
        first--;
    }
    struct pst_program_meeting *a = (struct pst_program_meeting *)first->meeting;
    struct pst_program_meeting *b = pst_arena_array(&scene->program->arena, 1, sizeof *b);
    const uint32_t at = me_parts_from(scene, second, a);
    *b = *a;
    b->parts = a->parts + at;
    b->n_parts = a->n_parts - at;
    a->n_parts = at;
    second->meeting = b;
    scene->text = "or in another order";
    return "COMM4";
}

/* All gradients of a row once more, though they have been summed. */
static inline const char *me_sum_twice(struct scene *scene)
{
    struct pst_program_call *second = me_draw_of_row(scene, false);
    const struct pst_program_call *first = second;
    while (first->meeting == NULL) {
        first--;
    }
    second->meeting = first->meeting;
    return "SHARD2";
}

/* The gradients of a row in another order. */
static inline const char *me_sum_order(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_of_row(scene, false);
    const struct pst_program_call *first = call;
    while (first->meeting == NULL) {
        first--;
    }
    const struct pst_program_meeting *meeting = first->meeting;
    struct pst_program_meet_part *parts = (struct pst_program_meet_part *)meeting->parts;
    const uint32_t at = me_parts_from(scene, call, meeting);
    const struct pst_program_meet_part kept = parts[0];
    rig_need(scene->rig, at < meeting->n_parts && at > 0);
    parts[0] = parts[at];
    parts[at] = kept;
    return "SHARD2";
}

/* A gradient of the row that its kernel has not made. */
static inline const char *me_sum_early(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_of_row(scene, false);
    struct pst_value *value = &scene->program->values[me_operands(scene, call)[1]];
    value->first = value->last;
    scene->text = "outside its life";
    return "MEM2";
}

static inline const char *me_sum_terms(struct scene *scene)
{
    static const uint32_t term[1][2] = {{0, 0}};
    struct pst_program_meeting *meeting = me_draw_sum(scene, 1);
    meeting->order = term;
    meeting->n_order = 1;
    return "SHARD2";
}

/* REDUCE sums it once more. */
static inline const char *me_sum_again(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_scatter(scene);
    const uint32_t out = me_operands(scene, call)[0];
    rig_need(scene->rig, out != PST_NONE);
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_instr *instr = &scene->program->instrs[i];
        struct pst_program_meeting *meeting =
            (struct pst_program_meeting *)scene->program->lists[i].meeting;
        if (instr->op == PST_I_REDUCE && instr->stage == scene->program->values[out].stage) {
            struct pst_program_meet_part *parts = pst_arena_array(
                &scene->program->arena, (size_t)meeting->n_parts + 1, sizeof *parts);
            if (meeting->n_parts > 0) {
                memcpy(parts, meeting->parts, meeting->n_parts * sizeof *parts);
            }
            parts[meeting->n_parts++] = (struct pst_program_meet_part){
                .value = out, .owner = PST_NONE, .bytes = scene->program->values[out].bytes};
            meeting->parts = parts;
            return "SHARD2";
        }
    }
    return NULL;
}

/* The row of a parameter in pieces. */
static inline struct pst_program_param *me_draw_piece(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    rig_need(scene->rig, pst_plan_scatters(scene->rig->plan, row->stage, row->parameter));
    return row;
}

static inline const char *me_piece_first(struct scene *scene)
{
    me_draw_piece(scene)->grad_first += PST_SHARD_BLOCK;
    return "SHARD1";
}

/* An accumulator of all elements. */
static inline const char *me_piece_whole(struct scene *scene)
{
    const struct pst_program_param *row = me_draw_piece(scene);
    const uint64_t elems = scene->rig->graph->params[row->parameter].elems;
    rig_need(scene->rig, row->shard.elems > 0 && row->shard.elems < elems && row->n_grads > 0);
    scene->program->values[row->grads[0]].bytes = elems * sizeof(float);
    return "SHARD1";
}

static inline const char *me_piece_gone(struct scene *scene)
{
    const struct pst_program_param *row = me_draw_piece(scene);
    uint32_t *grads = (uint32_t *)row->grads;
    rig_need(scene->rig, row->n_grads > 0);
    grads[0] = grads[0] == PST_NONE ? 0 : PST_NONE;
    return "MEM2";
}

static struct memory_mutation scatter_program_mutations[] = {
    ME(lose_scatter),      ME(lose_empty),    ME(scatter_twice),   ME(scatter_order),
    ME(scatter_begins),    ME(scatter_turns), ME(scatter_elems),   ME(scatter_out),
    ME(scatter_elsewhere), ME(scatter_other), ME(scatter_nothing), ME(scatter_stage),
    ME(scatter_stranger),  ME(scatter_use),   ME(scatter_early),   ME(scatter_late),
    ME(scatter_crosses),   ME(sum_part_more), ME(sum_value),       ME(scatter_alone),
    ME(scatter_past),      ME(scatter_whole), ME(scatter_forward), ME(sum_owner),
    ME(sum_for_all),       ME(sum_border),    ME(sum_part_never),  ME(sum_members),
    ME(sum_kind),          ME(sum_gone),      ME(sum_terms),       ME(sum_again),
    ME(sum_split),         ME(sum_twice),     ME(sum_order),       ME(sum_early),
    ME(piece_first),       ME(piece_whole),   ME(piece_gone),
};
#define N_SCATTER_PROGRAMS (sizeof scatter_program_mutations / sizeof scatter_program_mutations[0])

#endif
