/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of what buffers hold: contributions to gradients, pieces of transfers, and the table of
 * what each parameter has.
 */
#ifndef TESTS_CHECK_BUFFER_MUTATIONS_H
#define TESTS_CHECK_BUFFER_MUTATIONS_H

#include "unit/prove/memory_mutant.h"

/* A sum takes one of its two twice. */
static inline const char *me_lose_contribution(struct scene *scene)
{
    uint32_t first = 0, n = 0, at = rig_draw(scene->rig, 2);
    me_draw_call(scene, PST_C_SUM, &first, &n);
    scene->program->operands[first + 1 + at] = scene->program->operands[first + 2 - at];
    return "MEM2";
}

/* A kernel adds to nothing. */
static inline const char *me_lose_addend(struct scene *scene)
{
    uint32_t n = 0, *drawn = NULL;
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *call = &scene->program->calls[c];
        if (call->kind != PST_C_KERNEL || call->pass != 1) {
            continue;
        }
        struct pst_operands at = pst_operands_of(&scene->rig->graph->ops[call->op]);
        for (uint32_t i = at.add; i < at.z; i++) {
            uint32_t *operand = &scene->program->operands[call->first_operand + i];
            if (*operand != PST_NONE && rig_draw(scene->rig, ++n) == 0) {
                drawn = operand;
            }
        }
    }
    rig_need(scene->rig, drawn != NULL);
    *drawn = PST_NONE;
    return "MEM2";
}

/* Another buffer of the same kind and size. */
static inline uint32_t me_draw_like(struct scene *scene, uint32_t v)
{
    const struct pst_value *value = &scene->program->values[v];
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t o = 0; o < scene->program->n_values; o++) {
        const struct pst_value *other = &scene->program->values[o];
        if (o != v && other->kind == value->kind && other->bytes == value->bytes &&
            (other->what != value->what || other->microbatch != value->microbatch ||
             other->slot != value->slot) &&
            rig_draw(scene->rig, ++n) == 0) {
            drawn = o;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    return drawn;
}

/* The gradient of another result of the same size. */
static inline const char *me_wrong_gradient(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *call = me_draw_call(scene, PST_C_KERNEL, &first, &n);
    rig_need(scene->rig, call->pass > 0);
    uint32_t *dy = &scene->program->operands[first];
    dy += pst_operands_of(&scene->rig->graph->ops[call->op]).dy;
    rig_need(scene->rig, *dy != PST_NONE);
    *dy = me_draw_like(scene, *dy);
    return "MEM2";
}

/* Two uses of a parameter exchange a gradient. */
static inline const char *me_wrong_user(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *a = me_draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *b = &scene->program->calls[c];
        uint32_t *x = &scene->program->operands[first];
        uint32_t *y = &scene->program->operands[b->first_operand];
        if (b->kind == PST_C_ACCUMULATE && b->op == a->op && x[0] != y[0] &&
            scene->program->values[x[1]].microbatch == scene->program->values[y[1]].microbatch) {
            uint32_t kept = x[1];
            x[1] = y[1];
            y[1] = kept;
            return "MEM2 NUM1";
        }
    }
    return NULL;
}

static inline const char *me_wrong_rows(struct scene *scene)
{
    struct pst_transfer_part *part = me_draw_part(scene);
    part->value = me_draw_like(scene, part->value);
    return "MEM2";
}

static inline const char *me_shift_rows(struct scene *scene)
{
    struct pst_transfer_part *part = me_draw_part(scene);
    part->begin += part->begin >= part->bytes ? (uint64_t)0 - part->bytes : part->bytes;
    return "MEM2";
}

static inline const char *me_swap_pieces(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const uint32_t first = program->lists[i].first_part;
        if (program->lists[i].n_parts > 1 &&
            program->parts[first].value != program->parts[first + 1].value &&
            rig_draw(scene->rig, ++n) == 0) {
            drawn = first;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    struct pst_transfer_part kept = program->parts[drawn];
    program->parts[drawn] = program->parts[drawn + 1];
    program->parts[drawn + 1] = kept;
    return "MEM2 COMM1";
}

static inline const char *me_lose_piece(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t gone = (uint32_t)(me_draw_part(scene) - program->parts);
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        struct pst_program_instr *list = &program->lists[i];
        bool here = list->first_part <= gone && gone - list->first_part < list->n_parts;
        list->n_parts -= here;
        list->first_part -= !here && list->first_part > gone;
    }
    program->n_parts--;
    memmove(&program->parts[gone], &program->parts[gone + 1],
            (program->n_parts - gone) * sizeof *program->parts);
    return "MEM2 COMM1";
}

/* --- what a parameter has -------------------------------------------------------------------- */

/* One of its buffers is that of another parameter, or of nothing. */
static inline const char *me_wrong_place(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    uint32_t *versions = (uint32_t *)row->versions;
    uint32_t *const places[] = {
        &row->weight, &row->working,      &versions[0],       &versions[row->n_versions - 1],
        &row->tie,    &row->optimizer[0], &row->optimizer[1], &row->room};
    uint32_t *place = places[rig_draw(scene->rig, 8)], kept = *place;
    *place = rig_draw(scene->rig, scene->program->n_values);
    return *place == kept ? NULL : "MEM2";
}

static inline const char *me_wrong_accumulator(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    rig_need(scene->rig, row->n_grads > 0);
    uint32_t n = row->n_grads * (scene->rig->plan->deferred_step ? 2 : 1);
    uint32_t *grad = (uint32_t *)&row->grads[rig_draw(scene->rig, n)];
    *grad = me_draw_like(scene, *grad);
    return "MEM2";
}

static inline const char *me_wrong_owner(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    uint32_t next;
    switch (rig_draw(scene->rig, 4)) {
    case 0:
        row->owner ^= true;
        return "SHARD4";
    case 1:
        next = (row->stage + 1) % (scene->rig->plan->n_stages + 1);
        for (uint32_t u = 0; u < scene->rig->graph->params[row->parameter].n_users; u++) {
            uint32_t op = scene->rig->graph->params[row->parameter].users[u];
            const struct pst_plan_stage *stage = &scene->rig->plan->stages[next];
            for (uint32_t i = 0; next < scene->rig->plan->n_stages && i < stage->n_nodes; i++) {
                if (stage->nodes[i] == op) {
                    return NULL; /* that stage uses it, too */
                }
            }
        }
        row->stage = next;
        break;
    case 2:
        scene->program->n_params--;
        break;
    default:
        row->n_grads--;
        break;
    }
    return "MEM2";
}

/* Exchanged with the one of another slot or operator, in the table or in a call. */
static inline const char *me_wrong_statistics(struct scene *scene)
{
    const struct pst_graph *graph = scene->rig->graph;
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t op = 0; op < graph->n_ops; op++) {
        if (scene->program->state_values[2 * op] != PST_NONE && rig_draw(scene->rig, ++n) == 0) {
            drawn = op;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    uint32_t *mean = &scene->program->state_values[2 * drawn], kept = mean[0];
    if (rig_draw(scene->rig, 2) == 0) {
        mean[0] = mean[1];
        mean[1] = kept;
        return "MEM2";
    }
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        const struct pst_program_call *call = &scene->program->calls[c];
        if (call->kind == PST_C_KERNEL && call->op == drawn) {
            uint32_t at = call->first_operand + pst_operands_of(&graph->ops[drawn]).state;
            scene->program->operands[at] = mean[1];
            return "MEM2";
        }
    }
    return NULL;
}

static struct memory_mutation buffer_mutations[] = {
    ME(lose_contribution), ME(lose_addend),       ME(wrong_gradient), ME(wrong_user),
    ME(wrong_rows),        ME(shift_rows),        ME(swap_pieces),    ME(lose_piece),
    ME(wrong_place),       ME(wrong_accumulator), ME(wrong_owner),    ME(wrong_statistics),
};
#define N_BUFFER_MUTATIONS (sizeof buffer_mutations / sizeof buffer_mutations[0])

#endif
