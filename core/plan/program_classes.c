/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes by name, while programs are built.
 */
#include "plan/program_classes.h"

#include <stdlib.h>

#include "base/util.h"

/* --- names -------------------------------------------------------------------------------------*/

static uint32_t bucket_of(const struct pst_class *class)
{
    uint32_t hash = class->target;

    hash = hash * 31 + class->op;
    hash = hash * 31 + class->payload;
    hash = hash * 31 + class->kind;
    hash = hash * 31 + class->node;
    return (hash * 31 + class->index) % PST_CLASS_BUCKETS;
}

static uint32_t find_class(const struct pst_classes *classes, const struct pst_class *name)
{
    uint32_t at = classes->buckets[bucket_of(name)];

    while (at != PST_NONE) {
        const struct pst_class *class = &classes->rows[at];

        if (class->op == name->op && class->payload == name->payload && class->kind == name->kind &&
            class->target == name->target && class->node == name->node &&
            class->index == name->index) {
            break;
        }
        at = class->next;
    }
    return at;
}

/* Values that a pass or a transfer makes and that a later one may use. */
static bool may_last(const struct pst_builder *b, uint8_t kind)
{
    return b->classes != NULL && b->instr != NULL && kind >= PST_V_INPUT && kind != PST_V_WORKSPACE;
}

/* The name of the value that was counted last. */
static struct pst_class name_of(const struct pst_builder *b, uint8_t kind)
{
    return (struct pst_class){.op = b->instr->op,
                              .payload = b->instr->payload,
                              .kind = kind,
                              .target = b->instr->stage,
                              .node = b->instr->node,
                              .index = b->n_created[kind] - 1};
}

uint32_t pst_build_shared(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t microbatch)
{
    struct pst_class name;
    uint32_t at, run;

    if (!may_last(b, kind)) {
        return PST_NONE;
    }
    b->n_created[kind]++;
    if (b->classes->recording) {
        return PST_NONE;
    }
    name = name_of(b, kind);
    at = find_class(b->classes, &name);
    if (at == PST_NONE || b->classes->rows[at].period == 0) {
        return PST_NONE;
    }
    run = b->section.phase * b->stages[stage].n_batch + microbatch;
    return b->classes->rows[at].first_value + run % b->classes->rows[at].period;
}

static uint32_t add_class(struct pst_classes *classes, const struct pst_class *name)
{
    uint32_t bucket = bucket_of(name);

    pst_grow(&classes->rows, &classes->room, classes->n, sizeof *classes->rows);
    classes->rows[classes->n] = *name;
    classes->rows[classes->n].next = classes->buckets[bucket];
    classes->buckets[bucket] = classes->n;
    return classes->n++;
}

void pst_build_record(struct pst_builder *b, uint8_t kind, uint32_t value)
{
    struct pst_classes *classes = b->classes;
    uint32_t at = PST_NONE;

    if (classes == NULL || !classes->recording) {
        return;
    }
    if (may_last(b, kind)) {
        struct pst_class name = name_of(b, kind);

        at = find_class(classes, &name);
        at = at == PST_NONE ? add_class(classes, &name) : at;
    }
    PST_ASSERT(value == classes->n_of_value);
    pst_grow(&classes->class_of_value, &classes->room_of_value, classes->n_of_value,
             sizeof *classes->class_of_value);
    classes->class_of_value[classes->n_of_value++] = at;
}

void pst_classes_finish(struct pst_classes *classes)
{
    free(classes->rows);
    free(classes->class_of_value);
    pst_arena_finish(&classes->arena);
}
