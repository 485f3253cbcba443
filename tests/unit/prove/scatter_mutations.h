/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of plans whose replicas accumulate pieces of gradients (ZeRO 2): W and BW of the lists,
 * SCATTERs of the programs, their WAITs and ADDs.
 */
#ifndef TESTS_CHECK_SCATTER_MUTATIONS_H
#define TESTS_CHECK_SCATTER_MUTATIONS_H

#include "graph/split.h"
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

static inline struct pst_program_call *me_draw_add(struct scene *scene)
{
    uint32_t first, n;
    return me_draw_call(scene, PST_C_ADD, &first, &n);
}

static inline struct pst_program_call *me_draw_wait(struct scene *scene)
{
    uint32_t first, n;
    return me_draw_call(scene, PST_C_WAIT, &first, &n);
}

static inline struct pst_program_call *me_draw_tied(struct scene *scene)
{
    struct pst_program_call *call = NULL;
    for (uint32_t tries = 0; tries < 100; tries++) {
        call = me_draw_add(scene);
        if (scene->rig->graph->params[call->op].n_users > 1) {
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
        (struct pst_program_meeting *)me_draw_scatter(scene)->meeting;
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
    me_drop_scatter(scene->rig, me_draw_add(scene));
    return "NUM1";
}

/* Of a piece without elements, which no accumulator shows. */
static inline const char *me_lose_empty(struct scene *scene)
{
    struct pst_program_call *call = me_draw_add(scene);
    rig_need(scene->rig, me_operands(scene, call)[0] == PST_NONE);
    me_drop_scatter(scene->rig, call);
    return "NUM1";
}

/* The next call of the same pass, if it is one, too. */
static inline struct pst_program_call *me_draw_pair(struct scene *scene)
{
    struct pst_program_call *call = me_draw_add(scene);
    const uint32_t at = (uint32_t)(call - scene->program->calls);
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_instr *list = &scene->program->lists[i];
        if (at >= list->first_call && at + 1 < list->first_call + list->n_calls) {
            rig_need(scene->rig, call[1].kind == PST_C_ADD);
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

static inline const char *me_scatter_begins(struct scene *scene)
{
    me_draw_add(scene)->begins ^= true;
    return "NUM1";
}

/* Two micro-batches of one use. */
static inline const char *me_scatter_turns(struct scene *scene)
{
    struct pst_program_call *a = me_draw_add(scene);
    uint32_t *x = me_operands(scene, a);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *b = &scene->program->calls[c];
        uint32_t *y = me_operands(scene, b);
        if (b != a && b->kind == PST_C_ADD && x[0] != PST_NONE && x[0] == y[0]) {
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
    me_draw_add(scene)->elems += 1;
    return "SHARD2";
}

/* Nothing is kept, or something is where there is no piece. */
static inline const char *me_scatter_out(struct scene *scene)
{
    uint32_t *operands = me_operands(scene, me_draw_add(scene));
    operands[0] = operands[0] == PST_NONE ? operands[1] : PST_NONE;
    return "SHARD2";
}

static inline const char *me_scatter_elsewhere(struct scene *scene)
{
    uint32_t *a = me_operands(scene, me_draw_add(scene));
    const uint32_t *b = me_operands(scene, me_draw_add(scene));
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

/* The gradient that a later ADD of the same parameter adds: no kernel has made it. */
static inline const char *me_scatter_early(struct scene *scene)
{
    const struct pst_program_call *a = me_draw_add(scene);
    const struct pst_program_call *end = scene->program->calls + scene->program->n_calls;
    for (const struct pst_program_call *b = a + 1; b < end; b++) {
        if (b->kind == PST_C_ADD && b->op == a->op &&
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
        if (b->kind == PST_C_ADD && b->op == a->op && other->stage != value->stage) {
            value->stage = other->stage;
            memcpy(me_operands(scene, b), me_operands(scene, a), 2 * sizeof(uint32_t));
            me_drop_scatter(scene->rig, a);
            scene->text = "is not a gradient of parameter";
            return "MEM2";
        }
    }
    return NULL;
}

/* A kernel in which the parts of the replica meet comes before it. */
static inline const char *me_scatter_crosses(struct scene *scene)
{
    struct pst_program_call *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_instr *list = &scene->program->lists[i];
        struct pst_program_call *end = &scene->program->calls[list->first_call + list->n_calls];
        struct pst_program_call *at = &scene->program->calls[list->first_call];
        for (; at < end; at++) {
            struct pst_program_call *next = at + 1;
            while (next < end && next->kind != PST_C_KERNEL) {
                next++;
            }
            if (at->kind == PST_C_SCATTER && next < end &&
                pst_op_meets(&scene->rig->graph->ops[next->op], next->pass) &&
                rig_draw(scene->rig, ++n) == 0) {
                drawn = at;
            }
        }
    }
    rig_need(scene->rig, drawn != NULL);
    const struct pst_program_call kept = *drawn;
    struct pst_program_call *to = drawn;
    for (; to[1].kind != PST_C_KERNEL; to++) {
        to[0] = to[1];
    }
    to[0] = to[1];
    to[1] = kept;
    scene->text = "or in another order";
    return "COMM4";
}

static inline const char *me_scatter_other(struct scene *scene)
{
    struct pst_program_call *a = me_draw_add(scene), *b = me_draw_add(scene);
    rig_need(scene->rig, me_operands(scene, a)[1] != me_operands(scene, b)[1]);
    me_operands(scene, a)[1] = me_operands(scene, b)[1];
    return "MEM2";
}

/* A buffer of another stage here, whose micro-batches have the same samples. */
static inline const char *me_scatter_stage(struct scene *scene)
{
    const struct pst_plan *plan = scene->rig->plan;
    struct pst_value *value = &scene->program->values[me_operands(scene, me_draw_add(scene))[1]];
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
    struct pst_program_call *call = me_draw_add(scene);
    const uint32_t scratch = me_operands(scene, call)[1];
    call->op = me_draw_stranger(scene, scene->program->values[scratch].stage);
    scene->text = "does not use";
    return "MEM2";
}

static inline const char *me_scatter_nothing(struct scene *scene)
{
    me_operands(scene, me_draw_add(scene))[1] = PST_NONE;
    return "MEM2";
}

/* As the accumulators of a whole parameter get it. */
static inline const char *me_scatter_alone(struct scene *scene)
{
    struct pst_program_call *call = me_draw_add(scene);
    call->kind = PST_C_ACCUMULATE;
    call->meeting = NULL;
    scene->text = "is added before replicas sum it";
    return "SHARD2";
}

/* A kernel writes where its gradient should be added. */
static inline const char *me_scatter_past(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_add(scene);
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
    const struct pst_program_call *from = me_draw_add(scene);
    struct pst_program_call *call = me_draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    call->kind = PST_C_ADD;
    call->elems = from->elems;
    return "SHARD2 COMM4";
}

/* In a pass that ranks begin apart: it takes the place of a call there. */
static inline const char *me_scatter_forward(struct scene *scene)
{
    uint32_t first, n;
    const struct pst_program_call *from =
        rig_draw(scene->rig, 2) == 0 ? me_draw_scatter(scene) : me_draw_add(scene);
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
    return "SHARD2 MEM2"; /* of a piece that is all: it belongs to the meeting already */
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
    me_draw_scatter(scene)->meeting = NULL;
    scene->text = "out of range";
    return "MEM2";
}

/* What an earlier SCATTER of the pass has summed, in place of its own. */
static inline const char *me_sum_twice(struct scene *scene)
{
    struct pst_program_call *second = me_draw_scatter(scene), *first = second;
    const struct pst_program *program = scene->program;
    uint32_t instr = 0;
    while (second >=
           program->calls + program->lists[instr].first_call + program->lists[instr].n_calls) {
        instr++;
    }
    do {
        rig_need(scene->rig, first-- > program->calls + program->lists[instr].first_call);
    } while (first->kind != PST_C_SCATTER);
    second->meeting = first->meeting;
    second->op = first->op;
    return "MEM2";
}

/* Its first parameter comes last: in itself right, but not what the others do. */
static inline const char *me_sum_order(struct scene *scene)
{
    struct pst_program_call *call = me_draw_scatter(scene);
    struct pst_program_meeting *meeting = (struct pst_program_meeting *)call->meeting;
    struct pst_program_meet_part *parts =
        pst_arena_array(&scene->program->arena, meeting->n_parts, sizeof *parts);
    uint32_t at = 0;
    while (at < meeting->n_parts && meeting->parts[at].value == meeting->parts[0].value) {
        at++;
    }
    rig_need(scene->rig, at < meeting->n_parts);
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        parts[i] = meeting->parts[(at + i) % meeting->n_parts];
    }
    meeting->parts = parts;
    call->op = scene->program->values[parts[0].value].what;
    scene->text = "or in another order";
    return "COMM4";
}

/* A gradient that its kernel has not made. */
static inline const char *me_sum_early(struct scene *scene)
{
    struct pst_value *value = &scene->program->values[me_operands(scene, me_draw_add(scene))[1]];
    value->first = value->last;
    scene->text = "outside its life";
    return "MEM2";
}

/* --- posts and waits --------------------------------------------------------------------------*/

static inline const char *me_wait_lost(struct scene *scene)
{
    me_drop_scatter(scene->rig, me_draw_wait(scene));
    scene->text = "the pass does not end the meeting";
    return "COMM4";
}

/* For another call than the one that posts. */
static inline const char *me_wait_other(struct scene *scene)
{
    struct pst_program_call *call = me_draw_wait(scene);
    call->posted = rig_draw(scene->rig, 2) == 0 ? 0 : call->posted + 1;
    rig_need(scene->rig, call->posted <= call - scene->program->calls &&
                             call[-(ptrdiff_t)call->posted].meeting == NULL);
    scene->text = "WAIT for no meeting";
    return "COMM4";
}

static inline const char *me_wait_outside(struct scene *scene)
{
    struct pst_program_call *call = me_draw_wait(scene);
    call->posted = (uint32_t)(call - scene->program->calls) + 1 + rig_draw(scene->rig, 2);
    scene->text = "out of range";
    return "MEM2";
}

static inline const char *me_wait_twice(struct scene *scene)
{
    struct pst_program_call *call = me_draw_wait(scene);
    rig_need(scene->rig, call + 1 < scene->program->calls + scene->program->n_calls);
    const uint32_t waits = call[1].n_copy_waits, first = call[1].first_copy_wait;
    call[1] = call[0];
    call[1].posted++;
    call[1].n_copy_waits = waits;
    call[1].first_copy_wait = first;
    scene->text = "WAIT for no meeting";
    return "COMM4";
}

/* The call after it changes places with it, and reads or adds what the transport still has. */
static inline const char *me_wait_late(struct scene *scene)
{
    struct pst_program_call *call = me_draw_wait(scene), kept = call[0];
    const struct pst_program_call *end = scene->program->calls + scene->program->n_calls;
    bool reads = false;
    rig_need(scene->rig, call + 1 < end && call->n_copy_waits == 0 && call[1].n_copy_waits == 0 &&
                             (call[1].kind == PST_C_KERNEL || call[1].kind == PST_C_ADD));
    const struct pst_program_meeting *meeting = call[-(ptrdiff_t)call->posted].meeting;
    const uint32_t *operands = me_operands(scene, &call[1]);
    const uint32_t n = call[1].kind == PST_C_KERNEL
                           ? pst_operands_of(&scene->rig->graph->ops[call[1].op]).count
                           : 3;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t p = 0; p < meeting->n_parts; p++) {
            reads = reads || operands[i] == meeting->parts[p].value;
        }
    }
    rig_need(scene->rig, reads);
    call[0] = call[1];
    call[1] = kept;
    call[1].posted++;
    scene->text = "is read while replicas meet for it";
    return "MEM2";
}

/* It is awaited one post sooner than by the others. */
static inline const char *me_wait_early(struct scene *scene)
{
    struct pst_program_call *call = me_draw_wait(scene), kept = call[0];
    rig_need(scene->rig, call->posted > 1 && call[-1].meeting != NULL && call->n_copy_waits == 0 &&
                             call[-1].n_copy_waits == 0);
    call[0] = call[-1];
    call[-1] = kept;
    call[-1].posted--;
    scene->text = "or in another order";
    return "COMM4";
}

/* Something else may be there before the meeting ends. */
static inline const char *me_wait_freed(struct scene *scene)
{
    const struct pst_program_call *call = me_draw_wait(scene);
    const struct pst_program_call *posted = &call[-(ptrdiff_t)call->posted];
    const struct pst_program_meet_part *part = me_draw_meet_part(scene, posted->meeting);
    struct pst_value *value = &scene->program->values[part->value];
    rig_need(scene->rig, value->first < value->last);
    value->last = value->first;
    scene->text = "is freed while replicas may still meet for it";
    return "MEM2";
}

/* A kernel makes another gradient where one is summed. */
static inline const char *me_wait_covered(struct scene *scene)
{
    const struct pst_program_call *wait = me_draw_wait(scene);
    const struct pst_program_call *posted = &wait[-(ptrdiff_t)wait->posted];
    uint32_t *drawn = NULL, n = 0;
    for (const struct pst_program_call *call = posted + 1; call < wait; call++) {
        const struct pst_op *op = &scene->rig->graph->ops[call->op];
        for (uint32_t i = 0; call->kind == PST_C_KERNEL && i < op->n_param; i++) {
            uint32_t *dp = me_operands(scene, call) + pst_operands_of(op).dp + i;
            if (*dp != PST_NONE && rig_draw(scene->rig, ++n) == 0) {
                drawn = dp;
            }
        }
    }
    rig_need(scene->rig, drawn != NULL);
    *drawn = posted->meeting->parts[0].value;
    scene->text = "is written while replicas meet for it";
    return "MEM2";
}

/* There is room for one less. */
static inline const char *me_wait_many(struct scene *scene)
{
    uint32_t most = 0, open = 0;
    rig_need(scene->rig, scene->rig->plan->prefetch > 0);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        open += scene->program->calls[c].meeting != NULL;
        open -= scene->program->calls[c].kind == PST_C_WAIT;
        most = open > most ? open : most;
    }
    rig_need(scene->rig, most > 2);
    scene->rig->plan->prefetch = most - 3;
    scene->text = "open at once";
    return "COMM4";
}

/* A sum is posted before the one before it has ended, though there is room for one more gather. */
static inline const char *me_wait_two_sums(struct scene *scene)
{
    struct pst_program_call *wait = me_draw_wait(scene), *next = wait;
    const struct pst_program_call *end = scene->program->calls + scene->program->n_calls;
    rig_need(scene->rig, wait[-(ptrdiff_t)wait->posted].kind == PST_C_SCATTER);
    for (next++; next < end && next->kind == PST_C_ADD; next++) {
        rig_need(scene->rig, next->n_copy_waits == 0);
    }
    rig_need(scene->rig, next < end && next->kind == PST_C_SCATTER && wait->n_copy_waits == 0 &&
                             next->n_copy_waits == 0);
    const struct pst_program_call kept = *next;
    const uint32_t n = (uint32_t)(next - wait);
    for (struct pst_program_call *call = next + 1; call < end; call++) {
        if (call->kind == PST_C_WAIT && call - call->posted == next) {
            call->posted += n;
        }
    }
    memmove(wait + 1, wait, n * sizeof *wait);
    *wait = kept;
    wait[1].posted++;
    scene->text = "more than 1 sum of replicas is open at once";
    return "COMM4";
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
    const struct pst_program_call *call = me_draw_add(scene);
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
    ME(lose_scatter),     ME(lose_empty),     ME(scatter_twice),   ME(scatter_begins),
    ME(scatter_turns),    ME(scatter_elems),  ME(scatter_out),     ME(scatter_elsewhere),
    ME(scatter_other),    ME(scatter_use),    ME(scatter_nothing), ME(scatter_stage),
    ME(scatter_stranger), ME(scatter_early),  ME(scatter_late),    ME(scatter_crosses),
    ME(scatter_alone),    ME(scatter_past),   ME(scatter_whole),   ME(scatter_forward),
    ME(sum_part_more),    ME(sum_value),      ME(sum_owner),       ME(sum_for_all),
    ME(sum_border),       ME(sum_part_never), ME(sum_members),     ME(sum_kind),
    ME(sum_gone),         ME(sum_terms),      ME(sum_again),       ME(sum_twice),
    ME(sum_order),        ME(sum_early),      ME(wait_lost),       ME(wait_other),
    ME(wait_outside),     ME(wait_twice),     ME(wait_late),       ME(wait_freed),
    ME(wait_covered),     ME(piece_first),    ME(piece_whole),     ME(piece_gone),
};
#define N_SCATTER_PROGRAMS (sizeof scatter_program_mutations / sizeof scatter_program_mutations[0])

#endif
