/* SPDX-License-Identifier: Apache-2.0
 *
 * An asynchronous plan written out: fill, body as often as wanted, drain, one behind the other, and
 * so again for every stretch between drains, so that whatever reads lists of one step reads those
 * of several.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/plan.h"

/* A queue of instructions that later parts wait for. */
struct bucket {
    uint32_t first, last; /* instructions, or PST_NONE */
};

/* The list of one rank while it is written. */
struct writer {
    struct pst_arena *arena;
    struct pst_arena scratch;
    const struct pst_plan *plan;
    struct pst_instr *instrs;
    size_t room; /* of the list */
    uint32_t n;
    uint32_t begin;         /* of the part that is written */
    bool empty_first;       /* the next instruction waits for all that are open */
    bool *waited;           /* [room] an instruction other than FETCH waits for it */
    uint32_t *next;         /* [room] in its bucket */
    struct bucket *buckets; /* pst_plan_bucket_of */
    uint32_t *waits;        /* of the instruction that is written */
    size_t waits_room;
    uint32_t *parked;      /* [first_parked + micro-batch of two batches] the last OFFLOAD that is
                              not back, or PST_NONE; NULL: nothing has moved yet */
    size_t *first_parked;  /* [stage] */
    uint32_t *next_parked; /* [room] */
};

static uint64_t total_length(const struct pst_plan_device *device, uint32_t n_batches,
                             uint32_t drain_every)
{
    uint64_t n_stretches = drain_every == 0 ? 1 : (n_batches - 1) / drain_every + 1;

    return n_stretches * ((uint64_t)device->n_fill + device->n_drain) +
           (n_batches - n_stretches) * device->n_instrs;
}

static bool begins_stretch(uint32_t batch, uint32_t drain_every)
{
    return batch == 0 || (drain_every > 0 && batch % drain_every == 0);
}

uint32_t pst_plan_bucket_ended(const struct pst_plan *plan, const struct pst_instr *instr)
{
    switch (instr->op) {
    case PST_I_F:
        return 2 * instr->stage;
    case PST_I_B:
    case PST_I_BW:
        return 2 * instr->stage + 1;
    case PST_I_TIE:
    case PST_I_NORM:
    case PST_I_STEP:
        return 2 * plan->n_stages;
    default:
        return PST_NONE;
    }
}

uint32_t pst_plan_bucket_of(const struct pst_plan *plan, const struct pst_instr *instr)
{
    const struct pst_plan_edge *edge;
    bool act = instr->payload == PST_PAYLOAD_ACT;

    if (instr->op == PST_I_GATHER) {
        return 2 * instr->stage;
    }
    if (instr->op == PST_I_REDUCE || instr->op == PST_I_MERGE || instr->op == PST_I_TIE ||
        instr->op == PST_I_NORM) {
        return 2 * plan->n_stages;
    }
    if (instr->op == PST_I_OFFLOAD) {
        return 2 * instr->stage;
    }
    if (instr->op != PST_I_SEND && instr->op != PST_I_RECV) {
        return PST_NONE;
    }
    edge = &plan->edges[instr->stage];
    return 2 * (act == (instr->op == PST_I_SEND) ? edge->from : edge->to) + !act;
}

/* Room for what is in host memory. */
static void make_parked(struct writer *w)
{
    size_t n = 0;

    w->first_parked = pst_arena_array(&w->scratch, w->plan->n_stages, sizeof *w->first_parked);
    w->next_parked = pst_arena_array(&w->scratch, w->room, sizeof *w->next_parked);
    for (uint32_t s = 0; s < w->plan->n_stages; s++) {
        w->first_parked[s] = n;
        n += 2 * (size_t)w->plan->stages[s].n_microbatches;
    }
    w->parked = pst_arena_none(&w->scratch, n);
}

/* Where what a micro-batch left in host memory is noted. */
static uint32_t *parked_by(struct writer *w, const struct pst_instr *instr)
{
    if (w->parked == NULL) {
        make_parked(w);
    }
    return &w->parked[w->first_parked[instr->stage] +
                      instr->microbatch % (2 * w->plan->stages[instr->stage].n_microbatches)];
}

/* Takes the OFFLOAD of a FETCH; PST_NONE: there is none. */
static uint32_t take_parked(struct writer *w, const struct pst_instr *instr)
{
    uint32_t *at = parked_by(w, instr), found;

    while (*at != PST_NONE && w->instrs[*at].node != instr->node) {
        at = &w->next_parked[*at];
    }
    found = *at;
    if (found != PST_NONE) {
        *at = w->next_parked[found];
    }
    return found;
}

static void park_row(struct writer *w, uint32_t i)
{
    uint32_t *at = parked_by(w, &w->instrs[i]);

    w->next_parked[i] = *at;
    *at = i;
}

static void add_wait(struct writer *w, struct pst_instr *instr, uint32_t wait)
{
    pst_grow(&w->waits, &w->waits_room, instr->n_waits, sizeof *w->waits);
    w->waits[instr->n_waits++] = wait;
}

/* Waits of an instruction: what is open for it, then those that it has, moved. */
static void write_waits(struct writer *w, const struct pst_instr *from, struct pst_instr *instr)
{
    uint32_t first = w->empty_first ? 0 : pst_plan_bucket_ended(w->plan, from);
    uint32_t n_buckets = w->empty_first ? 2 * w->plan->n_stages + 1 : first != PST_NONE;
    uint32_t out = from->op == PST_I_FETCH ? take_parked(w, instr) : PST_NONE;

    w->empty_first = false;
    instr->n_waits = 0;
    for (uint32_t b = first; n_buckets > 0; b++, n_buckets--) {
        for (uint32_t i = w->buckets[b].first; i != PST_NONE; i = w->next[i]) {
            add_wait(w, instr, i);
        }
        w->buckets[b] = (struct bucket){PST_NONE, PST_NONE};
    }
    if (out < w->begin) { /* its own wait names it else */
        add_wait(w, instr, out);
    }
    for (uint32_t i = 0; i < from->n_waits; i++) {
        add_wait(w, instr, w->begin + from->waits[i]);
        w->waited[w->begin + from->waits[i]] |= from->op != PST_I_FETCH;
    }
    instr->waits = instr->n_waits == 0
                       ? NULL
                       : pst_arena_copy(w->arena, w->waits, instr->n_waits, sizeof *w->waits);
}

/* Queues the instructions of the part that later parts wait for. */
static void collect_open(struct writer *w)
{
    for (uint32_t i = w->begin; i < w->n; i++) {
        uint32_t at = w->waited[i] ? PST_NONE : pst_plan_bucket_of(w->plan, &w->instrs[i]);
        struct bucket *bucket;

        w->next[i] = PST_NONE;
        if (at == PST_NONE) {
            continue;
        }
        bucket = &w->buckets[at];
        if (bucket->last == PST_NONE) {
            bucket->first = i;
        } else {
            w->next[bucket->last] = i;
        }
        bucket->last = i;
    }
}

/* A part that closes batch `batch`. */
static void write_part(struct writer *w, const struct pst_instr *list, uint32_t n, uint32_t batch)
{
    uint32_t n_apart = pst_plan_apart(list, n);

    w->begin = w->n;
    for (uint32_t i = 0; i < n; i++, w->n++) {
        struct pst_instr *instr = &w->instrs[w->n];

        *instr = list[i];
        instr->at_part_head = i < n_apart;
        if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
            instr->first_sample += batch * w->plan->batch;
        } else if (instr->op < PST_I_SEND || instr->op == PST_I_OFFLOAD ||
                   instr->op == PST_I_FETCH) {
            instr->microbatch += batch * w->plan->stages[instr->stage].n_microbatches;
        }
        write_waits(w, &list[i], instr);
        if (instr->op == PST_I_OFFLOAD) {
            park_row(w, w->n);
        }
    }
    collect_open(w);
}

static void write_parts(struct writer *w, const struct pst_plan_device *device, uint32_t n_batches,
                        uint32_t drain_every)
{

    for (uint32_t t = 0; t < n_batches; t++) {
        if (begins_stretch(t, drain_every)) {
            w->empty_first = t > 0; /* a drain ends with all that it has begun */
            write_part(w, device->fill, device->n_fill, t);
        }
        if (t + 1 == n_batches || begins_stretch(t + 1, drain_every)) {
            write_part(w, device->drain, device->n_drain, t);
        } else {
            write_part(w, device->body, device->n_instrs, t);
        }
    }
}

static void write_rank(struct pst_plan *unrolled, const struct pst_plan *plan, uint32_t rank,
                       uint32_t n_batches, uint32_t drain_every)
{
    const struct pst_plan_device *device = &plan->devices[rank];
    size_t n_buckets = 2 * (size_t)plan->n_stages + 1;
    struct writer w = {.arena = &unrolled->arena,
                       .plan = plan,
                       .room = total_length(device, n_batches, drain_every)};

    w.instrs = pst_arena_array(&unrolled->arena, w.room, sizeof *w.instrs);
    w.waited = pst_arena_array(&w.scratch, w.room, sizeof *w.waited);
    w.next = pst_arena_array(&w.scratch, w.room, sizeof *w.next);
    w.buckets = pst_arena_array(&w.scratch, n_buckets, sizeof *w.buckets);
    memset(w.buckets, 0xFF, n_buckets * sizeof *w.buckets);
    write_parts(&w, device, n_batches, drain_every);
    unrolled->devices[rank] = *device;
    unrolled->devices[rank].body = w.instrs;
    unrolled->devices[rank].n_instrs = w.n;
    unrolled->devices[rank].n_fill = unrolled->devices[rank].n_drain = 0;
    free(w.waits);
    pst_arena_finish(&w.scratch);
}

/* Numbers of the unrolled plan are 32 bits wide. */
static bool fits_numbers(const struct pst_plan *plan, uint32_t n_batches, uint32_t drain_every)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (total_length(&plan->devices[d], n_batches, drain_every) > INT_MAX) {
            return false;
        }
    }
    return ((uint64_t)n_batches + 1) * plan->batch <= INT_MAX;
}

void pst_plan_view(const struct pst_plan *plan, uint32_t n_batches, struct pst_arena *arena,
                   struct pst_plan *ret_view)
{
    *ret_view = *plan;
    ret_view->arena = (struct pst_arena){0};
    ret_view->batch *= n_batches;
    ret_view->stages = pst_arena_copy(arena, plan->stages, plan->n_stages, sizeof *plan->stages);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        ret_view->stages[s].n_microbatches *= n_batches;
    }
}

pst_status pst_plan_unroll(const struct pst_plan *plan, uint32_t n_batches, uint32_t drain_every,
                           struct pst_plan **ret_unrolled, struct pst_error *err)
{
    struct pst_plan *unrolled;

    PST_ASSERT(plan->asynchronous && n_batches > 0);
    if (!fits_numbers(plan, n_batches, drain_every)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.unsupported",
                        "%u batches of %u samples are too much for one list", n_batches,
                        plan->batch);
    }
    unrolled = pst_alloc(1, sizeof *unrolled);
    pst_plan_view(plan, n_batches, &unrolled->arena, unrolled);
    unrolled->asynchronous = false;
    unrolled->drain_every = 0;
    unrolled->stated = NULL;
    unrolled->devices =
        pst_arena_array(&unrolled->arena, plan->n_devices, sizeof *unrolled->devices);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        write_rank(unrolled, plan, d, n_batches, drain_every);
    }
    *ret_unrolled = unrolled;
    return PST_OK;
}

struct pst_origin pst_plan_origin(const struct pst_plan *plan, uint32_t rank, uint32_t instr,
                                  uint32_t n_batches, uint32_t drain_every)
{
    const struct pst_plan_device *device = &plan->devices[rank];
    uint32_t stretch = drain_every == 0 ? n_batches : drain_every, first = 0, in_body, bodies;
    uint64_t whole = total_length(device, stretch, 0); /* of a stretch but the last */

    if (stretch < n_batches && whole > 0) {
        uint64_t n_whole = (n_batches - 1) / stretch, before = instr / whole;

        before = before < n_whole ? before : n_whole;
        first = (uint32_t)before * stretch;
        instr -= (uint32_t)(before * whole);
    }
    if (instr < device->n_fill) {
        return (struct pst_origin){PST_FILL, first, instr};
    }
    in_body = instr - device->n_fill;
    bodies = (n_batches - first < stretch ? n_batches - first : stretch) - 1;
    if (in_body < bodies * device->n_instrs) {
        return (struct pst_origin){PST_BODY, first + in_body / device->n_instrs,
                                   in_body % device->n_instrs};
    }
    return (struct pst_origin){PST_DRAIN, first + bodies, in_body - bodies * device->n_instrs};
}
