/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of programs of asynchronous plans: versions of the weights, accumulators of every other
 * batch, buffers in which micro-batches take turns, phases.
 */
#ifndef TESTS_CHECK_TURN_MUTATIONS_H
#define TESTS_CHECK_TURN_MUTATIONS_H

#include "unit/prove/memory_mutant.h"

/* Every use of a buffer is one of another. */
static inline void me_redirect(struct scene *scene, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < scene->program->n_operands; i++) {
        uint32_t *operand = &scene->program->operands[i];
        *operand = *operand == from ? to : *operand;
    }
    for (uint32_t p = 0; p < scene->program->n_parts; p++) {
        uint32_t *value = &scene->program->parts[p].value;
        *value = *value == from ? to : *value;
    }
}

/* An operand or a piece for which the function gives another buffer. */
static inline void me_replace_one(struct scene *scene, uint32_t (*other)(struct scene *, uint32_t))
{
    struct pst_program *program = scene->program;
    uint32_t n = 0, *drawn = NULL, to = PST_NONE;
    for (uint32_t i = 0; i < program->n_operands + program->n_parts; i++) {
        uint32_t *use = i < program->n_operands ? &program->operands[i]
                                                : &program->parts[i - program->n_operands].value;
        uint32_t o = *use == PST_NONE ? PST_NONE : other(scene, *use);
        if (o != PST_NONE && rig_draw(scene->rig, ++n) == 0) {
            drawn = use;
            to = o;
        }
    }
    rig_need(scene->rig, drawn != NULL);
    *drawn = to;
}

/* The other version of the weights that v holds. */
static inline uint32_t me_other_version(struct scene *scene, uint32_t v)
{
    for (uint32_t p = 0; p < scene->program->n_params; p++) {
        const struct pst_program_param *row = &scene->program->params[p];
        for (uint32_t i = 0; row->n_versions > 1 && i < row->n_versions; i++) {
            if (row->versions[i] == v) {
                return row->versions[(i + 1) % row->n_versions];
            }
        }
    }
    return PST_NONE;
}

/* The accumulator of v's user for every other batch. */
static inline uint32_t me_other_accumulator(struct scene *scene, uint32_t v)
{
    for (uint32_t p = 0; p < scene->program->n_params && scene->rig->plan->deferred_step; p++) {
        const struct pst_program_param *row = &scene->program->params[p];
        for (uint32_t i = 0; i < 2 * row->n_grads; i++) {
            if (row->grads[i] == v) {
                return row->grads[(i + row->n_grads) % (2 * row->n_grads)];
            }
        }
    }
    return PST_NONE;
}

/* The buffer of another turn of the same class. */
static inline uint32_t me_other_turn(struct scene *scene, uint32_t v)
{
    const struct pst_value *value = &scene->program->values[v];
    for (uint32_t k = 1; value->period > 1 && k < scene->program->n_values; k++) {
        uint32_t o = (v + k) % scene->program->n_values;
        const struct pst_value *other = &scene->program->values[o];
        if (other->kind == value->kind && other->stage == value->stage &&
            other->what == value->what && other->slot == value->slot &&
            other->period == value->period && other->microbatch != value->microbatch) {
            return o;
        }
    }
    return PST_NONE;
}

static inline bool me_takes_turns(const struct scene *scene, const struct pst_value *value)
{
    return value->period > 1;
}

/* --- mutations ------------------------------------------------------------------------------- */

static inline const char *me_wrong_version(struct scene *scene)
{
    me_replace_one(scene, me_other_version);
    return "MEM2";
}

static inline const char *me_one_version(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    uint32_t *versions = (uint32_t *)row->versions;
    rig_need(scene->rig, row->n_versions >= 2);
    me_redirect(scene, versions[1], versions[0]);
    versions[1] = versions[0];
    return "MEM2";
}

static inline const char *me_swap_versions(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    uint32_t *versions = (uint32_t *)row->versions, kept = versions[0];
    rig_need(scene->rig, row->n_versions >= 2);
    versions[0] = versions[1];
    versions[1] = kept;
    return "MEM2";
}

static inline const char *me_wrong_parity(struct scene *scene)
{
    me_replace_one(scene, me_other_accumulator);
    return "NUM1";
}

static inline const char *me_one_accumulator(struct scene *scene)
{
    rig_need(scene->rig, scene->rig->plan->deferred_step);
    struct pst_program_param *row = me_draw_param(scene);
    uint32_t *grads = (uint32_t *)row->grads;
    for (uint32_t i = 0; i < row->n_grads; i++) {
        me_redirect(scene, grads[row->n_grads + i], grads[i]);
        grads[row->n_grads + i] = grads[i];
    }
    return "MEM2 NUM1";
}

static inline const char *me_wrong_turn(struct scene *scene)
{
    me_replace_one(scene, me_other_turn);
    return "MEM2";
}

/* Two turns in one place. */
static inline const char *me_share_place(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_takes_turns);
    uint32_t other = me_other_turn(scene, v);
    rig_need(scene->rig, other != PST_NONE);
    scene->program->values[v].offset = scene->program->values[other].offset;
    return "MEM3";
}

/* One buffer for all turns: micro-batches meet in it. */
static inline const char *me_one_turn(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_takes_turns), other;
    while ((other = me_other_turn(scene, v)) != PST_NONE) {
        me_redirect(scene, other, v);
        scene->program->values[other].period = 1;
        scene->program->values[other].microbatch = 0;
    }
    scene->program->values[v].period = 1;
    scene->program->values[v].microbatch = 0;
    return "MEM3 MEM2";
}

static inline const char *me_longer_period(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_takes_turns);
    scene->program->values[v].period *= 2;
    return "MEM2";
}

static inline const char *me_turn_dies(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_takes_turns);
    struct pst_value *value = &scene->program->values[v];
    switch (rig_draw(scene->rig, 3)) {
    case 0:
        value->first++;
        break;
    case 1:
        value->last--;
        break;
    default:
        value->period = 0; /* lives in one section, which it does not */
        scene->text = "lives in another section";
        break;
    }
    return "MEM2 MEM3";
}

static inline const char *me_wrong_phases(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t i = rig_draw(scene->rig, program->n_sections);
    switch (rig_draw(scene->rig, 3)) {
    case 0:
        program->sections[i].phase ^= 1;
        break;
    case 1:
        program->n_phases = 1;
        break;
    default:
        program->sections[i].first_tick++;
        break;
    }
    return "MEM2";
}

/* The first operand, x to z, that two calls of one operator have both and that differs. */
static inline uint32_t me_differ(const struct scene *scene, const struct pst_program_call *a,
                                 const struct pst_program_call *b)
{
    uint32_t n = pst_operands_of(&scene->rig->graph->ops[a->op]).dp;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = scene->program->operands[a->first_operand + i];
        uint32_t y = scene->program->operands[b->first_operand + i];
        if (x != y && x != PST_NONE && y != PST_NONE) {
            return i;
        }
    }
    return PST_NONE;
}

/* A call has an operand that it has in another phase. */
static inline const char *me_other_phase(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t n = 0, from = 0, to = 0;
    for (uint32_t c = 0; c < program->n_calls; c++) {
        const struct pst_program_call *a = &program->calls[c], *b = a + 1;
        uint32_t at = PST_NONE;
        for (; a->kind == PST_C_KERNEL && at == PST_NONE && b < program->calls + program->n_calls;
             b++) {
            if (b->kind == a->kind && b->op == a->op && b->pass == a->pass &&
                b->first_sample == a->first_sample) {
                at = me_differ(scene, a, b);
                if (at != PST_NONE && rig_draw(scene->rig, ++n) == 0) {
                    from = a->first_operand + at;
                    to = b->first_operand + at;
                }
            }
        }
    }
    rig_need(scene->rig, n > 0);
    program->operands[to] = program->operands[from];
    return "MEM2 MEM3"; /* it may live longer than its place is free */
}

static struct memory_mutation turn_mutations[] = {
    ME(wrong_version),   ME(one_version), ME(swap_versions), ME(wrong_parity),
    ME(one_accumulator), ME(wrong_turn),  ME(share_place),   ME(one_turn),
    ME(longer_period),   ME(turn_dies),   ME(wrong_phases),  ME(other_phase),
};
#define N_TURN_MUTATIONS (sizeof turn_mutations / sizeof turn_mutations[0])

#endif
