/* SPDX-License-Identifier: Apache-2.0
 *
 * How many phases a program has. An evaluation of a plan with several versions of the weights has a
 * phase for each, and runs any.
 *
 * In an asynchronous plan what a micro-batch keeps may live from one part to the next, so its place
 * must not depend on which batch it belongs to, and must not be taken by a later micro-batch too
 * early. A class is what every micro-batch makes alike: the i-th buffer of a kind that one pass or
 * transfer makes. Micro-batch g of the run has buffer g mod K of each class that lives across
 * parts. K is as small as the lives allow; it divides the micro-batches of U batches, so that after
 * U batches everything is where it was: the program is U phases of fill, body and drain. Everything
 * else lives inside one part and is packed like the values of a synchronous step.
 */
#include <string.h>

#include "base/util.h"
#include "plan/program_classes.h"
#include "plan/program_build.h"

#define BATCHES     4 /* fill, three bodies, drain: the middle one is between its like */
#define MOST_PHASES 16

/* --- lives -------------------------------------------------------------------------------------*/

static void make_lives(struct pst_classes *classes, const struct pst_builder *r)
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
            class->first = pst_arena_none(&classes->arena, n);
            class->last = pst_arena_array(&classes->arena, n, sizeof *class->last);
            class->stage = value->stage;
            class->what = value->what;
            class->slot = value->slot;
            class->bytes = value->bytes;
        }
        class->first[j] = value->first;
        class->last[j] = value->last;
    }
}

/* The part of the unrolled list that each tick is in: 0 is fill. */
static uint32_t *number_parts(struct pst_builder *r, const struct pst_plan *plan)
{
    uint32_t *parts = pst_arena_array(&r->arena, r->tick, sizeof *parts);

    for (uint32_t i = 0, tick = 0; i < r->program->n_instrs; i++) {
        const struct pst_origin origin = pst_plan_origin(plan, r->rank, i, BATCHES, 0);

        for (uint32_t n = r->program->lists[i].n_ticks; n > 0; n--) {
            parts[tick++] = origin.batch + (origin.part != PST_FILL);
        }
    }
    return parts;
}

static void find_shared(struct pst_classes *classes, const struct pst_builder *r,
                        const uint32_t *parts)
{
    for (uint32_t c = 0; c < classes->n; c++) {
        struct pst_class *class = &classes->rows[c];

        for (uint32_t j = 0; j < r->stages[class->stage].n_micros && !class->shared; j++) {
            class->shared =
                class->first[j] != PST_NONE && parts[class->first[j]] != parts[class->last[j]];
        }
    }
}

/* Lives of all classes of the builder's rank. */
static pst_status record_lives(const struct pst_builder *b, struct pst_classes *classes,
                               struct pst_error *err)
{
    struct pst_program *program = pst_alloc(1, sizeof *program);
    struct pst_builder r = {.graph = b->graph,
                            .cost = b->cost,
                            .program = program,
                            .rank = b->rank,
                            .batches = {.n = BATCHES, .samples = b->batches.samples},
                            .classes = classes};
    struct pst_plan *unrolled = NULL;
    pst_status status;

    memset(classes->buckets, 0xFF, sizeof classes->buckets);
    status = pst_plan_unroll(b->plan, BATCHES, 0, &unrolled, err);
    if (status == PST_OK) {
        classes->recording = true;
        r.plan = unrolled;
        pst_build_begin(&r);
        status = pst_build_sections(&r, 1, err);
        classes->recording = false;
    }
    if (status == PST_OK) {
        pst_build_copies(&r); /* as far as lives are concerned */
        make_lives(classes, &r);
        find_shared(classes, &r, number_parts(&r, b->plan));
    }
    pst_arena_finish(&r.arena);
    pst_program_destroy(program);
    pst_plan_destroy(unrolled);
    return status;
}

/* --- periods -----------------------------------------------------------------------------------*/

/* Returns true if micro-batches that are n apart can use one buffer in turn. */
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
static uint32_t smallest_period(const struct pst_class *class, uint32_t n_batch, uint32_t total)
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
            class->period = smallest_period(class, n_batch, n_phases * n_batch);
            bytes += class->period * class->bytes;
        }
    }
    return bytes;
}

/* Sets the periods; returns the number of phases with the fewest bytes: a multiple of `step`, which
   is even, and at most `most`. */
static uint32_t choose_phases(const struct pst_builder *b, struct pst_classes *classes,
                              uint32_t step, uint32_t most)
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

/* --- programs ----------------------------------------------------------------------------------*/

/* One buffer for each turn of each class that lives across parts. */
static void make_shared(struct pst_builder *b)
{
    struct pst_classes *classes = b->classes;

    b->classes = NULL; /* these are new */
    for (uint32_t c = 0; c < classes->n && !b->failed; c++) {
        struct pst_class *class = &classes->rows[c];

        for (uint32_t i = 0; i < class->period; i++) {
            uint32_t value = pst_build_value(b, class->kind, class->stage, i, class->what,
                                             class->slot, class->bytes);

            if (value != PST_NONE) {
                b->program->values[value].period = class->period;
                class->first_value = i == 0 ? value : class->first_value;
            }
        }
    }
    b->classes = classes;
}

/* After so many phases, a multiple of `turn`, every version of the weights is in the slot where the
   first was. A phase of a training plan is a batch, one of an evaluation a version. */
static uint32_t turn_of_phases(const struct pst_builder *b, uint32_t turn)
{
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        const struct pst_stage_build *build = &b->stages[s];
        uint32_t slots = pst_plan_slots(b->plan, s);

        if (build->local) {
            slots /=
                b->batches.newest ? 1 : (uint32_t)pst_gcd(slots, build->n_batch / build->n_unit);
            turn = turn / (uint32_t)pst_gcd(turn, slots) * slots;
        }
    }
    return turn;
}

static pst_status build_parts(struct pst_builder *b, struct pst_error *err)
{
    struct pst_classes classes = {0};
    uint32_t n_phases = 0, turn = turn_of_phases(b, 2); /* gradients take turns, too */
    pst_status status = record_lives(b, &classes, err);

    if (status == PST_OK) {
        n_phases = choose_phases(b, &classes, turn, turn > MOST_PHASES ? turn : MOST_PHASES);
        b->classes = &classes;
        make_shared(b);
    }
    PST_TRY(status, pst_build_sections(b, n_phases, err));
    b->classes = NULL;
    pst_classes_finish(&classes);
    return status;
}

pst_status pst_build_phases(struct pst_builder *b, struct pst_error *err)
{
    return b->plan->asynchronous ? build_parts(b, err)
                                 : pst_build_sections(b, turn_of_phases(b, 1), err);
}
