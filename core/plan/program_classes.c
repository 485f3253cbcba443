/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/program_classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define BATCHES 4 /* fill, three bodies, drain: the middle one is between its like */

/* --- names -------------------------------------------------------------------------------------
 */

static uint32_t bucket_of(const struct pst_class *class)
{
    uint32_t hash = class->target;

    hash = hash * 31 + class->op;
    hash = hash * 31 + class->payload;
    hash = hash * 31 + class->kind;
    hash = hash * 31 + class->node;
    return (hash * 31 + class->index) % PST_CLASS_BUCKETS;
}

static uint32_t find(const struct pst_classes *classes, const struct pst_class *name)
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
    at = find(b->classes, &name);
    if (at == PST_NONE || b->classes->rows[at].period == 0) {
        return PST_NONE;
    }
    run = b->phase * b->stages[stage].n_batch + microbatch;
    return b->classes->rows[at].first_value + run % b->classes->rows[at].period;
}

static uint32_t add(struct pst_classes *classes, const struct pst_class *name)
{
    uint32_t bucket = bucket_of(name);

    if (!pst_grow(&classes->rows, &classes->room, classes->n, sizeof *classes->rows)) {
        return PST_NONE;
    }
    classes->rows[classes->n] = *name;
    classes->rows[classes->n].next = classes->buckets[bucket];
    classes->buckets[bucket] = classes->n;
    return classes->n++;
}

bool pst_build_record(struct pst_builder *b, uint8_t kind, uint32_t value)
{
    struct pst_classes *classes = b->classes;
    uint32_t at = PST_NONE;

    if (classes == NULL || !classes->recording) {
        return true;
    }
    if (may_last(b, kind)) {
        struct pst_class name = name_of(b, kind);

        at = find(classes, &name);
        at = at == PST_NONE ? add(classes, &name) : at;
        if (at == PST_NONE) {
            return false;
        }
    }
    PST_ASSERT(value == classes->n_of_value);
    if (!pst_grow(&classes->class_of_value, &classes->room_of_value, classes->n_of_value,
                  sizeof *classes->class_of_value)) {
        return false;
    }
    classes->class_of_value[classes->n_of_value++] = at;
    return true;
}

/* --- lives -------------------------------------------------------------------------------------
 */

static bool make_lives(struct pst_classes *classes, const struct pst_builder *r)
{
    for (uint32_t c = 0; c < classes->n; c++) {
        classes->rows[c].first = NULL;
    }
    for (uint32_t v = 0; v < r->program->n_values; v++) {
        const struct pst_value *value = &r->program->values[v];
        struct pst_class *class;
        uint32_t n = r->stages[value->stage].n_micros, j = value->microbatch;

        if (classes->class_of_value[v] == PST_NONE) {
            continue;
        }
        class = &classes->rows[classes->class_of_value[v]];
        if (class->first == NULL) {
            class->first = pst_arena_array(&classes->arena, n, sizeof *class->first);
            class->last = pst_arena_array(&classes->arena, n, sizeof *class->last);
            if (class->first == NULL || class->last == NULL) {
                return false;
            }
            memset(class->first, 0xFF, n * sizeof *class->first);
            class->stage = value->stage;
            class->what = value->what;
            class->slot = value->slot;
            class->bytes = value->bytes;
        }
        class->first[j] = value->first;
        class->last[j] = value->last;
    }
    return true;
}

/* First ticks of the parts of an unrolled list, and the end. */
static void find_borders(const struct pst_builder *r, const struct pst_plan_device *device,
                         uint32_t *ret_borders)
{
    uint32_t tick = 0, part = 0, end = device->n_fill;

    ret_borders[0] = 0;
    for (uint32_t i = 0; i < r->program->n_instrs; i++) {
        while (i == end && part < BATCHES) {
            ret_borders[++part] = tick;
            end += part < BATCHES ? device->n_instrs : device->n_drain;
        }
        tick += r->program->lists[i].n_ticks;
    }
    while (part <= BATCHES) {
        ret_borders[++part] = tick;
    }
}

static uint32_t part_of(const uint32_t *borders, uint32_t tick)
{
    uint32_t part = 0;

    while (part < BATCHES && tick >= borders[part + 1]) {
        part++;
    }
    return part;
}

static void find_shared(struct pst_classes *classes, const struct pst_builder *r,
                        const uint32_t *borders)
{
    for (uint32_t c = 0; c < classes->n; c++) {
        struct pst_class *class = &classes->rows[c];

        for (uint32_t j = 0; j < r->stages[class->stage].n_micros && !class->shared; j++) {
            class->shared = class->first[j] != PST_NONE &&
                            part_of(borders, class->first[j]) != part_of(borders, class->last[j]);
        }
    }
}

/* Builds the unrolled list, as far as lives are concerned. */
static pst_status build_unrolled(struct pst_builder *r, struct pst_error *err)
{
    pst_status st = pst_build_begin(r, err);

    if (st == PST_OK) {
        st = pst_build_sections(r, 1, PST_NONE, err);
    }
    return st == PST_OK ? pst_build_copies(r, err) : st;
}

pst_status pst_classes_record(const struct pst_builder *b, struct pst_classes *classes,
                              struct pst_error *err)
{
    struct pst_program *program = calloc(1, sizeof *program);
    struct pst_builder r = {.graph = b->graph,
                            .cost = b->cost,
                            .program = program,
                            .rank = b->rank,
                            .n_batches = BATCHES,
                            .batch = b->batch,
                            .classes = classes};
    struct pst_plan *unrolled = NULL;
    uint32_t borders[BATCHES + 2];
    pst_status st;

    memset(classes->buckets, 0xFF, sizeof classes->buckets);
    st = program == NULL ? pst_fail_nomem(err)
                         : pst_plan_unroll(b->plan, BATCHES, 0, &unrolled, err);
    if (st == PST_OK) {
        classes->recording = true;
        r.plan = unrolled;
        st = build_unrolled(&r, err);
        classes->recording = false;
    }
    if (st == PST_OK && !make_lives(classes, &r)) {
        st = pst_fail_nomem(err);
    }
    if (st == PST_OK) {
        find_borders(&r, &b->plan->devices[b->rank], borders);
        find_shared(classes, &r, borders);
    }
    pst_arena_finish(&r.arena);
    pst_program_destroy(program);
    pst_plan_destroy(unrolled);
    return st;
}

/* --- periods -----------------------------------------------------------------------------------
 */

/* Whether micro-batches that are n apart can take turns in one buffer. */
static bool may_repeat(const struct pst_class *class, uint32_t n_micros, uint32_t n)
{
    for (uint32_t turn = 0; turn < n; turn++) {
        uint32_t before = PST_NONE;

        for (uint32_t j = turn; j < n_micros; j += n) {
            if (class->first[j] == PST_NONE) {
                continue;
            }
            if (before != PST_NONE && class->first[j] <= before) {
                return false;
            }
            before = class->last[j];
        }
    }
    return true;
}

/* The smallest period that divides `total`, the micro-batches of all phases. That of two batches
   always does, for no value lives longer than into the next batch. */
static uint32_t smallest(const struct pst_class *class, uint32_t n_batch, uint32_t total)
{
    uint32_t n = 1;

    while (n < 2 * n_batch && (total % n != 0 || !may_repeat(class, BATCHES * n_batch, n))) {
        n++;
    }
    return n;
}

static uint64_t set_periods(const struct pst_builder *b, struct pst_classes *classes,
                            uint32_t n_phases)
{
    uint64_t bytes = 0;

    for (uint32_t c = 0; c < classes->n; c++) {
        struct pst_class *class = &classes->rows[c];
        uint32_t n_batch = b->stages[class->stage].n_batch;

        if (class->shared) {
            class->period = smallest(class, n_batch, n_phases * n_batch);
            bytes += class->period * class->bytes;
        }
    }
    return bytes;
}

uint32_t pst_classes_choose(const struct pst_builder *b, struct pst_classes *classes, uint32_t step,
                            uint32_t most)
{
    uint64_t fewest = UINT64_MAX;
    uint32_t best = step;

    for (uint32_t n = step; n <= most; n += step) {
        uint64_t bytes = set_periods(b, classes, n);

        if (bytes < fewest) {
            fewest = bytes;
            best = n;
        }
    }
    set_periods(b, classes, best);
    return best;
}

void pst_classes_finish(struct pst_classes *classes)
{
    free(classes->rows);
    free(classes->class_of_value);
    pst_arena_finish(&classes->arena);
}
