/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of programs: lives, offsets, sizes, operands, order of sums, pieces, waits that only
 * buffers need.
 */
#ifndef TESTS_CHECK_MEMORY_MUTATIONS_H
#define TESTS_CHECK_MEMORY_MUTATIONS_H

#include "unit/prove/memory_mutant.h"

static inline const char *me_die_early(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_is_lasting);
    scene->program->values[v].last--;
    return "MEM2";
}

static inline const char *me_live_late(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_is_lasting);
    scene->program->values[v].first++;
    return "MEM2";
}

/* Two that live together; one moves onto a part of the other. */
static inline const char *me_overlap(struct scene *scene)
{
    uint32_t a = me_draw_value(scene, me_is_any), n = 0, b = PST_NONE;
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        const struct pst_value *x = &scene->program->values[v], *y = &scene->program->values[a];
        if (v != a && x->bytes > 0 && x->is_static == y->is_static && x->first <= y->last &&
            y->first <= x->last && rig_draw(scene->rig, ++n) == 0) {
            b = v;
        }
    }
    rig_need(scene->rig, b != PST_NONE);
    struct pst_value *x = &scene->program->values[b];
    const struct pst_value *y = &scene->program->values[a];
    uint64_t steps = (y->bytes - 1) / PST_VALUE_ALIGN + 1;
    uint64_t back = (x->bytes - 1) / PST_VALUE_ALIGN * PST_VALUE_ALIGN;
    if (rig_draw(scene->rig, 2) == 0 && back <= y->offset) {
        x->offset = y->offset - back; /* its end in the other's beginning */
    } else {
        x->offset = y->offset + rig_draw(scene->rig, (uint32_t)steps) * PST_VALUE_ALIGN;
    }
    scene->text = "overlaps buffer";
    return "MEM3";
}

static inline const char *me_misalign(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_is_any);
    scene->program->values[v].offset += 4;
    return "MEM3";
}

static inline const char *me_too_small(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_is_plain);
    scene->program->values[v].bytes -= 2;
    return "MEM3 MEM2"; /* a piece that no longer fits comes first */
}

static inline const char *me_static_dies(struct scene *scene)
{
    uint32_t v = me_draw_value(scene, me_is_static);
    rig_need(scene->rig, scene->program->n_ticks >= 2);
    scene->program->values[v].last--;
    return "MEM3";
}

static inline const char *me_shrink_capacity(struct scene *scene)
{
    scene->rig->plan->capacity_bytes = scene->program->arena_bytes - 1;
    return "MEM1";
}

static inline const char *me_wrong_peak(struct scene *scene)
{
    if (rig_draw(scene->rig, 2) == 0) {
        scene->device->peak_bytes++;
    } else {
        scene->program->arena_bytes += 256;
    }
    return "MEM3";
}

static inline const char *me_lose_operand(struct scene *scene)
{
    uint32_t first = 0, n = 0, at, tries = 0;
    struct pst_program_call *call = me_draw_call(scene, PST_C_KERNEL, &first, &n);
    const struct pst_op *op = &scene->rig->graph->ops[call->op];
    struct pst_operands layout = pst_operands_of(op);
    do {
        at = rig_draw(scene->rig, n);
    } while ((scene->program->operands[first + at] == PST_NONE || at >= layout.state ||
              (at >= layout.add && at < layout.z)) &&
             ++tries < 200);
    rig_need(scene->rig, tries != 200);
    scene->program->operands[first + at] = PST_NONE;
    return "MEM2";
}

static inline const char *me_wrong_operand(struct scene *scene)
{
    uint32_t first = 0, n = 0, at, tries = 0;
    struct pst_program_call *call = me_draw_call(scene, PST_C_KERNEL, &first, &n);
    uint32_t other = me_draw_value(scene, me_is_any);
    struct pst_operands layout = pst_operands_of(&scene->rig->graph->ops[call->op]);
    do {
        at = rig_draw(scene->rig, n);
    } while ((scene->program->operands[first + at] == PST_NONE || at >= layout.state) &&
             ++tries < 200);
    rig_need(scene->rig, tries != 200 && scene->program->operands[first + at] != other);
    /* the same tensor of the same micro-batch, replayed or received, would be right */
    const struct pst_value *a = &scene->program->values[scene->program->operands[first + at]];
    const struct pst_value *b = &scene->program->values[other];
    if (a->what == b->what && a->microbatch == b->microbatch) {
        return NULL;
    }
    scene->program->operands[first + at] = other;
    return "MEM2";
}

/* Two additions to one accumulator change places. */
static inline const char *me_reorder_sums(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *a = me_draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        struct pst_program_call *b = &scene->program->calls[c];
        if (b != a && b->kind == PST_C_ACCUMULATE &&
            scene->program->operands[b->first_operand] == scene->program->operands[first]) {
            uint32_t *x = &scene->program->operands[first + 1];
            uint32_t *y = &scene->program->operands[b->first_operand + 1], kept = *x;
            *x = *y;
            *y = kept;
            return "NUM1 MEM2";
        }
    }
    return NULL;
}

static inline const char *me_lose_sum(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *call = me_draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    call->kind = PST_C_LOSS; /* reads something else instead */
    call->op = scene->rig->graph->loss;
    return "NUM1";
}

static inline const char *me_wrong_piece(struct scene *scene)
{
    struct pst_program *program = scene->program;
    struct pst_transfer_part *part = me_draw_part(scene);
    if (rig_draw(scene->rig, 2) == 0) {
        part->bytes -= 4;
        return "COMM1 MEM2";
    }
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        uint32_t index = (uint32_t)(part - program->parts);
        if (program->instrs[i].op == PST_I_RECV && index >= program->lists[i].first_part &&
            index < program->lists[i].first_part + program->lists[i].n_parts) {
            part->begin += 4;
            return "MEM2";
        }
    }
    return NULL;
}

static inline const char *me_wrong_samples(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *call = me_draw_call(scene, PST_C_KERNEL, &first, &n);
    call->first_sample += 1;
    return "MEM2";
}

/* A wait for a SEND goes. The plan's lists are the program's, too. */
static inline const char *me_forget_send(struct scene *scene)
{
    uint32_t n = 0;
    for (uint32_t i = 0; !me_is_asynchronous(scene) && i < scene->device->n_instrs; i++) {
        const struct pst_instr *instr = &scene->device->body[i];
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (scene->device->body[instr->waits[w]].op == PST_I_SEND &&
                rig_draw(scene->rig, ++n) == 0) {
                scene->instr = i;
                scene->wait = w;
            }
        }
    }
    rig_need(scene->rig, n > 0);
    struct pst_instr *instr = (struct pst_instr *)&scene->device->body[scene->instr];
    uint32_t *waits = (uint32_t *)instr->waits, gone = waits[scene->wait];
    memmove(&waits[scene->wait], &waits[scene->wait + 1],
            (instr->n_waits - scene->wait - 1) * sizeof *waits);
    waits[instr->n_waits - 1] = gone; /* for undoing */
    instr->n_waits--;
    scene->wait = gone;
    scene->open = true;
    return "MEM2";
}

/* A kernel of a pass between a SEND and the end of its wait writes into what is sent. */
static inline const char *me_write_to_sent(struct scene *scene)
{
    struct pst_program *program = scene->program;
    for (uint32_t i = 0; !me_is_asynchronous(scene) && i + 1 < program->n_instrs; i++) {
        const struct pst_program_instr *send = &program->lists[i], *next = send + 1;
        bool waits = false;
        for (uint32_t w = 0; w < program->instrs[i + 1].n_waits; w++) {
            waits |= program->instrs[i + 1].waits[w] == i;
        }
        if (program->instrs[i].op == PST_I_SEND && program->instrs[i + 1].op == PST_I_F && !waits) {
            const struct pst_program_call *call =
                &program->calls[next->first_call + next->n_calls - 1];
            call -= call->kind == PST_C_LOSS; /* the kernel before it */
            uint32_t at = pst_operands_of(&scene->rig->graph->ops[call->op]).y;
            program->operands[call->first_operand + at] = program->parts[send->first_part].value;
            scene->text = "is written while it is sent";
            return "MEM2";
        }
    }
    return NULL;
}

/* Something that is no gradient is added to one. */
static inline const char *me_add_other(struct scene *scene)
{
    uint32_t first = 0, n = 0, v = me_draw_value(scene, me_is_lasting);
    const struct pst_value *value = &scene->program->values[v];
    me_draw_call(scene, PST_C_SUM, &first, &n);
    rig_need(scene->rig, value->kind == PST_V_ACT || value->kind == PST_V_INPUT);
    scene->program->operands[first + 1 + rig_draw(scene->rig, 2)] = v;
    scene->text = scene->program->n_sections > 1
                      ? NULL
                      : "is not a gradient"; /* unrolled: it lives elsewhere */
    return "MEM2";
}

/* A kernel adds something that is no gradient to one. */
static inline const char *me_adds_other(struct scene *scene)
{
    uint32_t first = 0, n = 0, v = me_draw_value(scene, me_is_lasting), drawn = PST_NONE;
    const struct pst_value *value = &scene->program->values[v];
    const struct pst_program_call *call = me_draw_call(scene, PST_C_KERNEL, &first, &n);
    const struct pst_op *op = &scene->rig->graph->ops[call->op];
    const struct pst_operands at = pst_operands_of(op);
    for (uint32_t i = at.add; i < at.add + op->n_in; i++) {
        drawn = scene->program->operands[first + i] != PST_NONE ? i : drawn;
    }
    rig_need(scene->rig,
             drawn != PST_NONE && (value->kind == PST_V_ACT || value->kind == PST_V_INPUT));
    scene->program->operands[first + drawn] = v;
    scene->text = scene->program->n_sections > 1
                      ? NULL
                      : "is not a gradient"; /* unrolled: it lives elsewhere */
    return "MEM2";
}

/* A sum goes where something else was. */
static inline const char *me_sum_elsewhere(struct scene *scene)
{
    uint32_t first = 0, n = 0, v = me_draw_value(scene, me_is_any);
    me_draw_call(scene, PST_C_SUM, &first, &n);
    rig_need(scene->rig, scene->program->values[v].kind != PST_V_DACT);
    scene->program->operands[first] = v;
    scene->text = "which is not for a gradient";
    return "MEM2";
}

static struct memory_mutation memory_mutations[] = {
    ME(die_early),    ME(live_late),     ME(overlap),      ME(misalign),
    ME(too_small),    ME(static_dies),   ME(wrong_peak),   ME(shrink_capacity),
    ME(lose_operand), ME(wrong_operand), ME(reorder_sums), ME(lose_sum),
    ME(wrong_piece),  ME(wrong_samples), ME(forget_send),  ME(write_to_sent),
};
#define N_MEMORY_MUTATIONS (sizeof memory_mutations / sizeof memory_mutations[0])

#endif
