/* SPDX-License-Identifier: Apache-2.0
 *
 * A rig whose program of one rank has one thing changed, tools to choose what, and the judgement:
 * the checker finds it by one of the rules that it breaks, or it is proven harmless.
 */
#ifndef TESTS_CHECK_MEMORY_MUTANT_H
#define TESTS_CHECK_MEMORY_MUTANT_H

#include "unit/prove/rig.h"

struct scene {
    struct rig *rig;
    struct pst_program *program; /* of rank d */
    struct pst_plan_device *device;
    uint32_t d;
    bool open;        /* may be legal: me_harmless() decides; a wait is gone */
    const char *text; /* some violation must say this */
    uint32_t instr, wait;
};

/* Changes something and names the rules that may catch it; NULL, or rig_need(): nothing to change.
 */
struct memory_mutation {
    const char *name;
    const char *(*apply)(struct scene *);
    uint32_t counts[2]; /* caught, still legal */
};

/* One that is named as its function me_*. */
#define ME(what)                                                                                   \
    {                                                                                              \
        .name = #what, .apply = me_##what                                                          \
    }

static inline bool me_is_asynchronous(const struct scene *scene)
{
    return scene->rig->plan->asynchronous;
}

/* A value drawn among those that fit. */
static inline uint32_t me_draw_value(struct scene *scene,
                                     bool (*fits)(const struct scene *, const struct pst_value *))
{
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        if (fits(scene, &scene->program->values[v]) && rig_draw(scene->rig, ++n) == 0) {
            drawn = v;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    return drawn;
}

static inline bool me_is_any(const struct scene *scene, const struct pst_value *value)
{
    return value->bytes > 0;
}

static inline bool me_is_lasting(const struct scene *scene, const struct pst_value *value)
{
    return !value->is_static && value->first < value->last;
}

static inline bool me_is_static(const struct scene *scene, const struct pst_value *value)
{
    return value->is_static;
}

static inline bool me_is_plain(const struct scene *scene, const struct pst_value *value)
{
    return value->kind != PST_V_WORKSPACE;
}

/* A call drawn; its operands in [*ret_first, + *ret_n). */
static inline struct pst_program_call *me_draw_call(struct scene *scene, uint32_t kind,
                                                    uint32_t *ret_first, uint32_t *ret_n)
{
    struct pst_program_call *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        struct pst_program_call *call = &scene->program->calls[c];
        if (call->kind == kind && rig_draw(scene->rig, ++n) == 0) {
            drawn = call;
            *ret_first = call->first_operand;
            *ret_n = kind == PST_C_KERNEL
                         ? pst_operands_of(&scene->rig->graph->ops[call->op]).workspace
                         : 3;
        }
    }
    rig_need(scene->rig, drawn != NULL);
    return drawn;
}

static inline struct pst_transfer_part *me_draw_part(struct scene *scene)
{
    rig_need(scene->rig, scene->program->n_parts > 0);
    return &scene->program->parts[rig_draw(scene->rig, scene->program->n_parts)];
}

static inline struct pst_program_param *me_draw_param(struct scene *scene)
{
    rig_need(scene->rig, scene->program->n_params > 0);
    return &scene->program->params[rig_draw(scene->rig, scene->program->n_params)];
}

static inline void me_undo_wait(struct scene *scene)
{
    struct pst_instr *instr = (struct pst_instr *)&scene->device->body[scene->instr];
    uint32_t *waits = (uint32_t *)instr->waits, at = instr->n_waits++;
    for (; at > 0 && waits[at - 1] > scene->wait; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = scene->wait;
}

/* Nobody writes to what is sent, and nothing else lies there, until the next wait or the end. */
static inline bool me_harmless(const struct scene *scene)
{
    const struct pst_program *program = scene->program;
    uint32_t tick = 0, until = program->n_ticks, posted = 0;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        posted = i == scene->wait ? tick : posted;
        for (uint32_t w = 0; w < program->instrs[i].n_waits; w++) {
            if (program->instrs[i].waits[w] == scene->wait && until == program->n_ticks) {
                until = tick;
            }
        }
        tick += program->lists[i].n_calls > 0 ? program->lists[i].n_calls : 1;
    }
    const struct pst_program_instr *send = &program->lists[scene->wait];
    for (uint32_t p = send->first_part; p < send->first_part + send->n_parts; p++) {
        const struct pst_value *sent = &program->values[program->parts[p].value];
        for (uint32_t v = 0; v < program->n_values; v++) {
            const struct pst_value *other = &program->values[v];
            if (other != sent && other->first > posted && other->first < until &&
                other->offset < sent->offset + sent->bytes &&
                sent->offset < other->offset + other->bytes) {
                return false;
            }
        }
        if (sent->last + 1 < until) {
            return false; /* it would be free while it is sent */
        }
    }
    return true;
}

/* --- judging --------------------------------------------------------------------------------- */

static inline bool me_says(const struct pst_check_report *report, const char *text)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (text == NULL || strstr(report->violations[i].text, text) != NULL) {
            return true;
        }
    }
    return false;
}

static inline const char *me_apply(struct scene *scene, const struct memory_mutation *mutation)
{
    if (setjmp(scene->rig->nothing) != 0) {
        return NULL;
    }
    return mutation->apply(scene);
}

/* One mutant of the program of rank d. */
static inline void me_mutate(struct rig *rig, uint32_t d, struct memory_mutation *mutation,
                             const char *plan)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    const uint64_t capacity = rig->plan->capacity_bytes;
    const uint32_t prefetch = rig->plan->prefetch;
    struct scene scene = {
        .rig = rig, .program = rig->programs[d], .device = &rig->plan->devices[d], .d = d};
    if (scene.program->n_values == 0 || scene.program->n_calls == 0) {
        return;
    }
    const char *rules = me_apply(&scene, mutation);
    if (rules == NULL) {
        return;
    }
    bool accepted = rig_check(rig, true, &report, &err) == PST_OK;
    bool legal = scene.open && me_harmless(&scene);
    mutation->counts[legal]++;
    if (legal != accepted ||
        (!accepted && (!rig_has_rule(&report, rules) || !me_says(&report, scene.text)))) {
        fail_msg("seed %llu, %s, device %u, %s: %s, expected %s\n%s", (unsigned long long)rig->seed,
                 plan, d, mutation->name, accepted ? "accepted" : "refused",
                 legal ? "to be accepted" : rules, err.details);
    }
    if (scene.open) {
        me_undo_wait(&scene);
    }
    rig->plan->capacity_bytes = capacity;
    rig->plan->prefetch = prefetch;
    rig_program(rig, d);
}

/* Each of a rank that is drawn. */
static inline void me_mutate_all(struct rig *rig, struct memory_mutation *mutations, size_t n,
                                 const char *plan)
{
    for (size_t k = 0; k < n; k++) {
        me_mutate(rig, rig_draw(rig, rig->plan->n_devices), &mutations[k], plan);
    }
}

static inline void me_print(const struct memory_mutation *mutations, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        print_message("  %-18s %5u caught, %5u still legal\n", mutations[k].name,
                      mutations[k].counts[0], mutations[k].counts[1]);
        assert_true(mutations[k].counts[0] > 0);
    }
}

#endif
