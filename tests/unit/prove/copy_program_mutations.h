/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of programs with copies to the host and back.
 */
#ifndef TESTS_CHECK_COPY_PROGRAM_MUTATIONS_H
#define TESTS_CHECK_COPY_PROGRAM_MUTATIONS_H

#include "unit/prove/memory_mutant.h"

static inline struct pst_program_copy *draw_copy(struct scene *scene, bool out)
{
    struct pst_program_copy *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < scene->program->n_copies; c++) {
        if (scene->program->copies[c].out == out && rig_draw(scene->rig, ++n) == 0) {
            drawn = &scene->program->copies[c];
        }
    }
    rig_need(scene->rig, drawn != NULL);
    return drawn;
}

static inline const char *source_dies(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, true);
    struct pst_value *value = &scene->program->values[copy->value];
    value->last = scene->program->lists[copy->instr].first_tick - 1;
    scene->text = "its copy may run";
    return "MEM2";
}

static inline const char *room_too_late(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    struct pst_value *value = &scene->program->values[copy->value];
    rig_need(scene->rig, value->first != value->last);
    value->first++;
    scene->text = "its copy may run";
    return "MEM2";
}

static inline const char *host_dies(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    struct pst_value *host = &scene->program->values[copy->host];
    rig_need(scene->rig, host->first != host->last);
    host->first += copy->out;
    host->last -= !copy->out;
    scene->text = "its copy may run";
    return "MEM2";
}

/* A call stays for the way out in place of the way back. */
static inline const char *stays_too_short(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t w = 0; w < program->n_copy_waits; w++) {
        if (!program->copies[program->copy_waits[w]].out && rig_draw(scene->rig, ++n) == 0) {
            drawn = w;
        }
    }
    rig_need(scene->rig, drawn != PST_NONE);
    program->copy_waits[drawn] = program->copies[program->copy_waits[drawn]].after;
    return "MEM2";
}

static inline const char *begins_too_early(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, true);
    const struct pst_program_call *call = &scene->program->calls[copy->start_call];
    copy->start_call = call == scene->program->calls || rig_draw(scene->rig, 2) == 0
                           ? PST_NONE
                           : copy->start_call - 1;
    return "MEM2";
}

static inline const char *comes_after_nothing(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    copy->after = PST_NONE;
    scene->text = "before it is in host memory";
    return "MEM2";
}

static inline const char *other_buffer(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    uint32_t other = me_draw_value(scene, me_is_plain);
    rig_need(scene->rig, other != copy->value && other != copy->host);
    *(rig_draw(scene->rig, 2) == 0 ? &copy->value : &copy->host) = other;
    return "MEM2";
}

static inline const char *other_bytes(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    copy->bytes += rig_draw(scene->rig, 2) == 0 ? 1u : UINT64_MAX;
    return "MEM2";
}

static inline bool is_host(const struct scene *scene, const struct pst_value *value)
{
    return value->kind == PST_V_HOST;
}

static inline bool is_fetched(const struct scene *scene, const struct pst_value *value)
{
    return value->kind == PST_V_FETCHED;
}

/* A slot is taken while something is in it. */
static inline const char *same_place(struct scene *scene, uint32_t v)
{
    struct pst_program *program = scene->program;
    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[v], *other = &program->values[i];
        if (i != v && (value->kind == PST_V_HOST) == (other->kind == PST_V_HOST) &&
            !other->is_static && other->first <= value->last && value->first <= other->last &&
            rig_draw(scene->rig, 3) == 0) {
            program->values[v].offset = other->offset;
            scene->text = "overlaps buffer";
            return "MEM3";
        }
    }
    return NULL;
}

static inline const char *host_slot_taken(struct scene *scene)
{
    return same_place(scene, me_draw_value(scene, is_host));
}

static inline const char *device_slot_taken(struct scene *scene)
{
    return same_place(scene, me_draw_value(scene, is_fetched));
}

static inline const char *host_bytes(struct scene *scene)
{
    scene->program->host_bytes += 1;
    return "MEM3";
}

static inline const char *stated_host_bytes(struct scene *scene)
{
    scene->device->host_bytes += 1;
    return "MEM3";
}

static inline const char *byte_too_many(struct scene *scene)
{
    scene->rig->plan->capacity_bytes = scene->device->arena_bytes - 1;
    return "MEM1";
}

/* A kernel reads what went to the host, or what is there, in place of what came back. */
static inline const char *reads_the_wrong_one(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    const struct pst_program_copy *out = &scene->program->copies[copy->after];
    const struct pst_value *values = scene->program->values;
    bool gone = values[out->value].last < values[copy->value].first;
    for (uint32_t o = 0; o < scene->program->n_operands; o++) {
        if (scene->program->operands[o] == copy->value) {
            scene->program->operands[o] =
                gone && rig_draw(scene->rig, 2) == 0 ? out->value : out->host;
            return "MEM2";
        }
    }
    return NULL;
}

static inline const char *no_such_row(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    switch (rig_draw(scene->rig, 5)) {
    case 0:
        copy->value = scene->program->n_values;
        break;
    case 1:
        copy->host = UINT32_MAX;
        break;
    case 2:
        copy->start_call = scene->program->n_calls;
        break;
    case 3:
        copy->after = (uint32_t)(copy - scene->program->copies);
        break;
    default:
        copy->out = !copy->out;
    }
    return "MEM2";
}

static struct memory_mutation program_mutations[] = {
    {"source dies", .apply = source_dies},
    {"room too late", .apply = room_too_late},
    {"host dies", .apply = host_dies},
    {"stays too short", .apply = stays_too_short},
    {"begins too early", .apply = begins_too_early},
    {"after nothing", .apply = comes_after_nothing},
    {"other buffer", .apply = other_buffer},
    {"other bytes", .apply = other_bytes},
    {"host slot taken", .apply = host_slot_taken},
    {"slot taken", .apply = device_slot_taken},
    {"host bytes", .apply = host_bytes},
    {"stated host bytes", .apply = stated_host_bytes},
    {"a byte too many", .apply = byte_too_many},
    {"reads another", .apply = reads_the_wrong_one},
    {"no such row", .apply = no_such_row},
};

#endif
