/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of plans whose ranks share the optimizer's state: GATHERs of the lists, meetings and
 * pieces of the programs.
 */
#ifndef TESTS_CHECK_ZERO_MUTATIONS_H
#define TESTS_CHECK_ZERO_MUTATIONS_H

#include "unit/prove/memory_mutant.h"
#include "unit/prove/mutant.h"

/* --- lists ------------------------------------------------------------------------------------*/

static inline bool mu_is_gather(const struct pst_instr *instr)
{
    return instr->op == PST_I_GATHER;
}

static inline bool mu_is_meeting(const struct pst_instr *instr)
{
    return instr->op == PST_I_REDUCE || instr->op == PST_I_TIE || instr->op == PST_I_NORM ||
           instr->op == PST_I_GATHER || instr->op == PST_I_MERGE;
}

static inline const char *mu_lose_gather(struct mutant *m, struct place p)
{
    free((void *)mu_take_out(m, p).waits);
    return "PASS10";
}

static inline const char *mu_double_gather(struct mutant *m, struct place p)
{
    mu_repeat(m, p);
    return "PASS10";
}

static inline const char *mu_gather_first(struct mutant *m, struct place p)
{
    struct pst_instr out = mu_take_out(m, p);
    out.n_waits = 0;
    while (!(m->lists[p.part][p.d][p.i].op == PST_I_STEP &&
             m->lists[p.part][p.d][p.i].stage == out.stage)) {
        p.i--;
    }
    mu_put_in(m, p, out);
    return "SHARD3";
}

static inline const char *mu_gather_other(struct mutant *m, struct place p)
{
    rig_need(m->rig, m->made.n_stages > 1);
    mu_at(m, p)->stage = (mu_at(m, p)->stage + 1) % m->made.n_stages;
    return "PASS10";
}

static inline const char *mu_gather_early(struct mutant *m, struct place p)
{
    mu_at(m, p)->n_waits = 0;
    return "SHARD3";
}

/* It exchanges its place with the meeting before it, on one rank of several. */
static inline const char *mu_cross_gather(struct mutant *m, struct place p)
{
    struct pst_instr *gather = mu_at(m, p), *other = gather - 1, kept = *gather;
    const uint32_t stage = gather->stage;
    while (other >= m->lists[p.part][p.d] && !mu_is_meeting(other)) {
        other--;
    }
    rig_need(m->rig,
             other >= m->lists[p.part][p.d] && (other->op != gather->op || other->stage != stage));
    gather->op = other->op;
    gather->stage = other->stage;
    other->op = kept.op;
    other->stage = kept.stage;
    return "COMM4";
}

static inline const char *mu_zero_is_four(struct mutant *m)
{
    m->rig->plan->zero = 4;
    return "FORM1";
}

static inline const char *mu_zero_is_none(struct mutant *m)
{
    mu_draw(m, mu_is_gather);
    m->rig->plan->zero = m->rig->plan->prefetch = 0;
    return "PASS10";
}

static inline const char *mu_zero_stashed(struct mutant *m)
{
    m->rig->plan->version_rule = PST_VERSION_STASHED;
    return "FORM1";
}

static struct mutation zero_list_mutations[] = {
    MU_AT(lose_gather, mu_is_gather),
    MU_AT(double_gather, mu_is_gather),
    MU_AT(gather_first, mu_is_gather),
    MU_AT(gather_other, mu_is_gather),
    MU_AT(gather_early, mu_is_gather),
    MU_AT(cross_gather, mu_is_gather),
    MU(zero_is_four),
    MU(zero_is_none),
    MU(zero_stashed),
};
#define N_ZERO_LISTS (sizeof zero_list_mutations / sizeof zero_list_mutations[0])

/* --- programs ---------------------------------------------------------------------------------*/

/* A meeting of this kind, or of any, with as many parts; its parts, members and terms become
   copies, as those of ranks may be one. */
static inline struct pst_program_meeting *me_draw_meeting(struct scene *scene, uint32_t op,
                                                          uint32_t n_parts)
{
    struct pst_program_meeting *drawn = NULL;
    struct pst_arena *arena = &scene->program->arena;
    uint32_t n = 0;
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_meeting *meeting = scene->program->lists[i].meeting;
        if (meeting != NULL && meeting->n_parts >= n_parts &&
            (op == PST_I_COUNT || scene->program->instrs[i].op == op) &&
            rig_draw(scene->rig, ++n) == 0) {
            drawn = (struct pst_program_meeting *)meeting;
        }
    }
    rig_need(scene->rig, drawn != NULL);
    drawn->members =
        pst_arena_copy(arena, drawn->members, drawn->n_members, sizeof *drawn->members);
    return drawn;
}

static inline const char *me_rule_of(const struct pst_program_meeting *meeting)
{
    return meeting->kind == PST_MEET_GATHER ? "SHARD3" : "SHARD2";
}

static inline struct pst_program_meet_part *me_draw_meet_part(
    struct scene *scene, const struct pst_program_meeting *meeting)
{
    return (struct pst_program_meet_part *)&meeting->parts[rig_draw(scene->rig, meeting->n_parts)];
}

static inline const char *me_part_twice(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 2);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    const uint32_t at = (uint32_t)(part - meeting->parts);
    *part = meeting->parts[(at + 1) % meeting->n_parts];
    return me_rule_of(meeting);
}

static inline const char *me_part_never(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    meeting->n_parts--;
    return me_rule_of(meeting);
}

static inline const char *me_part_owner(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    part->owner = part->owner == PST_NONE ? 0 : (part->owner + 1) % meeting->n_members;
    return meeting->n_members > 1 || part->owner == 0 ? me_rule_of(meeting) : NULL;
}

/* A sum that is not sent to all is not one that is. */
static inline const char *me_part_for_all(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    rig_need(scene->rig, part->owner != PST_NONE);
    part->owner = PST_NONE;
    return me_rule_of(meeting);
}

static inline const char *me_part_bytes(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    *(rig_draw(scene->rig, 2) == 0 ? &part->bytes : &part->begin) += 4;
    return me_rule_of(meeting);
}

static inline const char *me_part_value(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    part->value = (part->value + 1 + rig_draw(scene->rig, scene->program->n_values - 1)) %
                  scene->program->n_values;
    return me_rule_of(meeting);
}

/* The other version of the weights, the accumulator of the other batches. */
static inline const char *me_part_turn(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 1);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    const struct pst_value *value = &scene->program->values[part->value];
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        const struct pst_value *other = &scene->program->values[v];
        if (v != part->value && other->kind == value->kind && other->what == value->what &&
            (value->kind != PST_V_GRAD || other->slot == value->slot)) {
            part->value = v;
            return me_rule_of(meeting);
        }
    }
    return NULL;
}

static inline const char *me_members_cross(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 0);
    uint32_t *members = (uint32_t *)meeting->members, kept = members[0];
    rig_need(scene->rig, meeting->n_members > 1);
    members[0] = members[1];
    members[1] = kept;
    return "COMM4";
}

static inline const char *me_member_missing(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 0);
    meeting->n_members--;
    return "COMM4";
}

static inline const char *me_meeting_kind(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 0);
    meeting->kind = meeting->kind == PST_MEET_SUM ? PST_MEET_GATHER : PST_MEET_SUM;
    return "COMM4";
}

static inline const char *me_meeting_gone(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_COUNT, 0);
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        if (scene->program->lists[i].meeting == meeting) {
            scene->program->lists[i].meeting = NULL;
        }
    }
    return "COMM4";
}

static inline const char *me_tie_order(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_TIE, 1);
    uint32_t(*order)[2] = (uint32_t(*)[2])meeting->order;
    rig_need(scene->rig, meeting->n_order > 1);
    const uint32_t kept[] = {order[0][0], order[0][1]};
    memcpy(order[0], order[1], sizeof kept);
    memcpy(order[1], kept, sizeof kept);
    return "SHARD2";
}

static inline const char *me_tie_term(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_TIE, 1);
    switch (rig_draw(scene->rig, 4)) {
    case 0:
        meeting->n_order--;
        break;
    case 1:
        meeting->n_sources--;
        break;
    case 2:
        meeting->source_begin += 4;
        break;
    default:
        meeting->sources = &meeting->parts[0].value;
        break;
    }
    return "SHARD2";
}

/* REDUCE with a term for one member alone. */
static inline const char *me_reduce_order(struct scene *scene)
{
    static const uint32_t term[1][2] = {{0, 0}};
    struct pst_program_meeting *meeting = me_draw_meeting(scene, PST_I_REDUCE, 1);
    meeting->order = term;
    meeting->n_order = 1;
    return "SHARD2";
}

static inline const char *me_shard(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    rig_need(scene->rig, row->shard.elems > 0);
    *(rig_draw(scene->rig, 2) == 0 ? &row->shard.first : &row->shard.elems) += 1;
    return "SHARD1";
}

static inline const char *me_shard_state(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    const uint64_t elems = scene->rig->graph->params[row->parameter].elems;
    const uint32_t v = rig_draw(scene->rig, 2) == 0 ? row->tie : row->optimizer[0];
    rig_need(scene->rig, v != PST_NONE && row->shard.elems < elems);
    scene->program->values[v].bytes = elems * sizeof(float);
    return "SHARD1";
}

static inline const char *me_counts_twice(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    row->owner ^= true;
    return "SHARD4";
}

static struct memory_mutation zero_program_mutations[] = {
    ME(part_twice),   ME(part_never),   ME(part_owner),    ME(part_for_all),   ME(part_bytes),
    ME(part_value),   ME(part_turn),    ME(members_cross), ME(member_missing), ME(meeting_kind),
    ME(meeting_gone), ME(tie_order),    ME(tie_term),      ME(reduce_order),   ME(shard),
    ME(shard_state),  ME(counts_twice),
};
#define N_ZERO_PROGRAMS (sizeof zero_program_mutations / sizeof zero_program_mutations[0])

#endif
