/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/emission.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/state.h"

static const char *const names[] = {"?", "F", "B", "W", "BW", "R"};
static const char *const part_names[PST_PARTS] = {"fill", "body", "drain"};

static pst_status refuse(struct pst_emission *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static pst_status refuse(struct pst_emission *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(e->fault, sizeof e->fault, format, args);
    va_end(args);
    return PST_ERR_BUG;
}

/* Passes that must have run before, and must not have run, as bits. */
static const uint8_t before[] = {
    [PST_PASS_F] = 0,
    [PST_PASS_B] = 1u << PST_PASS_F,
    [PST_PASS_W] = 1u << PST_PASS_B,
    [PST_PASS_BW] = 1u << PST_PASS_F,
};
static const uint8_t excluded[] = {
    [PST_PASS_F] = 1u << PST_PASS_F,
    [PST_PASS_B] = 1u << PST_PASS_B | 1u << PST_PASS_BW,
    [PST_PASS_W] = 1u << PST_PASS_W | 1u << PST_PASS_BW,
    [PST_PASS_BW] = 1u << PST_PASS_B | 1u << PST_PASS_W | 1u << PST_PASS_BW,
};

/* The rule of passes: F before B before W, or F before BW, each once. Notes the pass in the bits of
   its micro-batch on its stage; or says how it comes. */
static const char *follow(uint8_t *done, uint32_t pass)
{
    if ((*done & excluded[pass]) != 0) {
        return "twice";
    }
    if ((*done & before[pass]) != before[pass]) {
        return pass == PST_PASS_W ? "before its B" : "before its F";
    }
    *done |= (uint8_t)(1u << pass);
    return NULL;
}

/* What a micro-batch of a stage still has to run; NULL: nothing. */
static const char *missing(uint8_t done)
{
    const uint8_t fused = 1u << PST_PASS_F | 1u << PST_PASS_BW;
    const uint8_t split = 1u << PST_PASS_F | 1u << PST_PASS_B | 1u << PST_PASS_W;

    return done == fused || done == split              ? NULL
           : done == 0                                 ? "F"
           : (done & (uint8_t)(1u << PST_PASS_B)) != 0 ? "W"
                                                       : "backward";
}

static pst_status check(struct pst_emission *e, uint32_t device, uint32_t pass, uint32_t stage,
                        uint32_t microbatch)
{
    const struct pst_schedule_stage *s;
    const char *what;

    if (pass == PST_PASS_R) {
        return refuse(e, "R of stage %u is placed; replays run inside their backward", stage);
    }
    if (pass < PST_PASS_F || pass > PST_PASS_BW) {
        return refuse(e, "there is no pass %u", pass);
    }
    if (stage >= e->in->n_stages) {
        return refuse(e, "%s of stage %u, but there are %u stages", names[pass], stage,
                      e->in->n_stages);
    }
    s = pst_schedule_stage_at(e->in, stage);
    if (device != s->device) {
        return refuse(e, "%s of stage %u is emitted on device %u, but the stage is on device %u",
                      names[pass], stage, device, s->device);
    }
    if (e->asynchronous) { /* what comes before what: once all is there */
        return microbatch < 2 * (uint64_t)s->n_microbatches
                   ? PST_OK
                   : refuse(e,
                            "%s of micro-batch %u on stage %u in %s: a part runs passes of the "
                            "batch that it closes and of the next, so below %llu",
                            names[pass], microbatch, stage, part_names[e->part],
                            2ull * s->n_microbatches);
    }
    if (microbatch >= s->n_microbatches) {
        return refuse(e, "%s of micro-batch %u on stage %u, which has %u", names[pass], microbatch,
                      stage, s->n_microbatches);
    }
    what = follow(&e->done[stage][microbatch], pass);
    return what == NULL ? PST_OK
                        : refuse(e, "%s of micro-batch %u on stage %u comes %s", names[pass],
                                 microbatch, stage, what);
}

static pst_status emit(struct pst_schedule_out *out, uint32_t device, uint32_t pass, uint32_t stage,
                       uint32_t microbatch)
{
    struct pst_emission *e = out->impl;
    struct pst_pass **list;
    uint32_t *n;

    if (e->fault[0] != '\0' || check(e, device, pass, stage, microbatch) != PST_OK) {
        return PST_ERR_BUG;
    }
    list = &e->parts[e->part][device];
    n = &e->n_parts[e->part][device];
    pst_grow(list, &e->room[e->part][device], *n, sizeof **list);
    (*list)[(*n)++] = (struct pst_pass){(uint8_t)pass, stage, microbatch};
    e->split |= pass == PST_PASS_B;
    e->any = true;
    return PST_OK;
}

/* Run as F, then backward. */
static pst_status emit_pair(struct pst_schedule_out *out, uint32_t device, uint32_t stage_f,
                            uint32_t mb_f, uint32_t pass_b, uint32_t stage_b, uint32_t mb_b)
{
    pst_status st = emit(out, device, PST_PASS_F, stage_f, mb_f);

    if (st == PST_OK && pass_b != PST_PASS_B && pass_b != PST_PASS_BW) {
        return refuse(out->impl, "a pair of F and pass %u; the second is B or BW", pass_b);
    }
    return st == PST_OK ? emit(out, device, pass_b, stage_b, mb_b) : st;
}

static pst_status begin_part(struct pst_schedule_out *out, uint32_t part)
{
    struct pst_emission *e = out->impl;

    if (e->any && !e->asynchronous) {
        return refuse(e, "part() comes after passes that belong to no part");
    }
    if (part < PST_PART_FILL || part > PST_PART_DRAIN) {
        return refuse(e, "there is no part %u", part);
    }
    e->part = part - PST_PART_FILL;
    e->asynchronous = true;
    return PST_OK;
}

void pst_emission_init(struct pst_emission *emission, const struct pst_schedule_in *in)
{
    uint32_t s;

    memset(emission, 0, sizeof *emission);
    emission->out = (struct pst_schedule_out){
        .size = sizeof emission->out,
        .impl = emission,
        .emit = emit,
        .pair = emit_pair,
        .part = begin_part,
    };
    emission->in = in;
    emission->part = PST_BODY;
    for (uint32_t p = 0; p < PST_PARTS; p++) {
        emission->parts[p] = pst_alloc(in->n_devices, sizeof **emission->parts);
        emission->n_parts[p] = pst_alloc(in->n_devices, sizeof **emission->n_parts);
        emission->room[p] = pst_alloc(in->n_devices, sizeof **emission->room);
    }
    emission->passes = emission->parts[PST_BODY];
    emission->n_passes = emission->n_parts[PST_BODY];
    emission->done = pst_alloc(in->n_stages, sizeof *emission->done);
    for (s = 0; s < in->n_stages; s++) {
        emission->done[s] = pst_alloc(pst_schedule_stage_at(in, s)->n_microbatches, 1);
    }
}

/* An answer that goes to its end must be of the kind that is wanted, and whole; else says why. */
static void check_end(struct pst_emission *e, const bool *asynchronous)
{
    if (asynchronous != NULL && e->asynchronous != *asynchronous) {
        refuse(e, "%s",
               e->asynchronous
                   ? "fill, body and drain are parts of asynchronous schedules; its version rule "
                     "is that of whole steps"
                   : "its version rule lets steps overlap, but it emits no fill, body and drain");
        return;
    }
    (void)pst_emission_complete(e);
}

pst_status pst_emission_ask(struct pst_emission *emission, struct pst_instance *scheduler,
                            const struct pst_schedule_in *in, const bool *asynchronous,
                            struct pst_error *pending, struct pst_error *err)
{
    pst_status st;

    pst_emission_init(emission, in);
    memset(&scheduler->claim, 0, sizeof scheduler->claim);
    st = pst_call_schedule(scheduler, in, &emission->out);
    if (emission->fault[0] == '\0' && st == PST_OK) {
        check_end(emission, asynchronous);
    }
    if (emission->fault[0] != '\0') {
        return pst_planner_illegal(err, scheduler, "%s", emission->fault);
    }
    return pst_instance_blame(scheduler, pending, st, "schedule", err);
}

void pst_emission_finish(struct pst_emission *emission)
{
    uint32_t i;

    if (emission->in == NULL) {
        return;
    }
    for (uint32_t p = 0; p < PST_PARTS; p++) {
        for (i = 0; emission->parts[p] != NULL && i < emission->in->n_devices; i++) {
            free(emission->parts[p][i]);
        }
        free(emission->parts[p]);
        free(emission->n_parts[p]);
        free(emission->room[p]);
    }
    for (i = 0; emission->done != NULL && i < emission->in->n_stages; i++) {
        free(emission->done[i]);
    }
    free(emission->done);
    memset(emission, 0, sizeof *emission);
}

/* --- is it whole? ---*/

/* Some batches in a row. */
struct stream {
    struct pst_emission *emission;
    uint32_t n_batches;
    uint8_t *done; /* bit per pass, by stage and micro-batch of all batches */
    size_t *base;  /* [stage] first of its micro-batches */
};

static uint32_t count_of(const struct stream *stream, uint32_t stage)
{
    return pst_schedule_stage_at(stream->emission->in, stage)->n_microbatches;
}

static bool take(struct stream *stream, uint32_t part, uint32_t batch, uint32_t device,
                 const struct pst_pass *pass)
{
    uint32_t m = count_of(stream, pass->stage);
    uint64_t number = (uint64_t)batch * m + pass->microbatch;
    const char *what;

    if (number >= (uint64_t)stream->n_batches * m) {
        refuse(stream->emission,
               "%s of device %u runs %s of micro-batch %u on stage %u, of a batch that is never "
               "closed",
               part_names[part], device, names[pass->op], pass->microbatch, pass->stage);
        return false;
    }
    what = follow(&stream->done[stream->base[pass->stage] + number], pass->op);
    if (what != NULL) {
        refuse(stream->emission, "%s of micro-batch %u on stage %u comes %s: in %s, after %s",
               names[pass->op], pass->microbatch, pass->stage, what, part_names[part],
               batch == 0 ? "fill" : "fill and body");
    }
    return what == NULL;
}

static bool run(struct stream *stream)
{
    for (uint32_t d = 0; d < stream->emission->in->n_devices; d++) {
        for (uint32_t k = 0; k <= stream->n_batches; k++) {
            uint32_t part = k == 0 ? PST_FILL : k < stream->n_batches ? PST_BODY : PST_DRAIN;

            for (uint32_t i = 0; i < stream->emission->n_parts[part][d]; i++) {
                if (!take(stream, part, k == 0 ? 0 : k - 1, d,
                          &stream->emission->parts[part][d][i])) {
                    return false;
                }
            }
        }
    }
    for (uint32_t s = 0; s < stream->emission->in->n_stages; s++) {
        uint32_t m = count_of(stream, s);

        for (uint32_t j = 0; j < m * stream->n_batches; j++) {
            const char *what = missing(stream->done[stream->base[s] + j]);

            if (what != NULL) {
                refuse(
                    stream->emission,
                    "micro-batch %u of stage %u never gets its %s in batch %u of %u; asynchronous "
                    "schedules run n batches as fill, n - 1 times body, drain",
                    j % m, s, what, j / m, stream->n_batches);
                return false;
            }
        }
    }
    return true;
}

/* Fill, body, body, drain, one behind the other, must be three batches, and fill with drain one. */
static bool parts_complete(struct pst_emission *e)
{
    struct stream stream = {.emission = e};
    size_t n = 0;
    bool complete = true;

    stream.base = pst_alloc(e->in->n_stages, sizeof *stream.base);
    for (uint32_t s = 0; s < e->in->n_stages; s++) {
        stream.base[s] = n;
        n += 3 * (size_t)pst_schedule_stage_at(e->in, s)->n_microbatches;
    }
    stream.done = pst_alloc(n, 1);
    for (stream.n_batches = 1; complete && stream.n_batches <= 3; stream.n_batches += 2) {
        memset(stream.done, 0, n);
        complete = run(&stream);
    }
    free(stream.base);
    free(stream.done);
    return complete;
}

bool pst_emission_complete(struct pst_emission *emission)
{
    if (emission->asynchronous) {
        return parts_complete(emission);
    }
    for (uint32_t s = 0; s < emission->in->n_stages; s++) {
        for (uint32_t j = 0; j < pst_schedule_stage_at(emission->in, s)->n_microbatches; j++) {
            const char *what = missing(emission->done[s][j]);

            if (what != NULL) {
                refuse(emission, "micro-batch %u of stage %u never gets its %s", j, s, what);
                return false;
            }
        }
    }
    return true;
}

/* --- what it holds ---*/

/* +1 where a micro-batch begins to be held, -1 behind where it ends, else 0. */
static int held_change(uint8_t op)
{
    return op == PST_PASS_F ? 1 : op == PST_PASS_W || op == PST_PASS_BW ? -1 : 0;
}

/* What is held is the same after each body, so one body behind fill shows all that follow. */
static const uint8_t all_parts[] = {PST_FILL, PST_BODY, PST_DRAIN};

static const uint8_t *parts_of(const struct pst_emission *e, uint32_t *ret_n)
{
    *ret_n = e->asynchronous ? 3 : 1;
    return e->asynchronous ? all_parts : &all_parts[1];
}

static uint32_t count_stage(const struct pst_emission *e, uint32_t stage)
{
    uint32_t d = pst_schedule_stage_at(e->in, stage)->device, n_parts;
    const uint8_t *parts = parts_of(e, &n_parts);
    int64_t now = 0, most = 0;

    for (uint32_t k = 0; k < n_parts; k++) {
        for (uint32_t i = 0; i < e->n_parts[parts[k]][d]; i++) {
            const struct pst_pass *pass = &e->parts[parts[k]][d][i];

            if (pass->stage == stage) {
                now += held_change(pass->op);
                most = now > most ? now : most;
            }
        }
    }
    return (uint32_t)most;
}

void pst_emission_count(const struct pst_emission *emission, uint32_t *ret_held)
{
    for (uint32_t s = 0; s < emission->in->n_stages; s++) {
        ret_held[s] = count_stage(emission, s);
    }
}

/* `now` and `late` are per stage and zero on entry. */
static void count_device(const struct pst_emission *e, uint32_t device, uint32_t *now,
                         uint32_t *late, uint32_t *ret_held, uint32_t *ret_late)
{
    uint64_t bytes = 0, most = 0;
    uint32_t n_parts, i, s;
    const uint8_t *parts = parts_of(e, &n_parts);

    for (uint32_t k = 0; k < n_parts; k++) {
        for (i = 0; i < e->n_parts[parts[k]][device]; i++) {
            const struct pst_pass *pass = &e->parts[parts[k]][device][i];
            uint64_t unit = pst_schedule_stage_at(e->in, pass->stage)->saved_bytes;
            int change = held_change(pass->op);

            now[pass->stage] += (uint32_t)change;
            late[pass->stage] += pass->op == PST_PASS_B;
            late[pass->stage] -= pass->op == PST_PASS_W;
            bytes = change > 0 ? bytes + unit : change < 0 ? bytes - unit : bytes;
            if (bytes <= most) {
                continue;
            }
            most = bytes;
            for (s = 0; s < e->in->n_stages; s++) {
                if (pst_schedule_stage_at(e->in, s)->device == device) {
                    ret_held[s] = now[s];
                    if (ret_late != NULL) {
                        ret_late[s] = late[s];
                    }
                }
            }
        }
    }
}

void pst_emission_count_at_peak(const struct pst_emission *emission, uint32_t *ret_held,
                                uint32_t *ret_late)
{
    uint32_t n = emission->in->n_stages;
    uint32_t *now = pst_alloc((size_t)2 * n, sizeof *now);
    uint32_t d;

    memset(ret_held, 0, n * sizeof *ret_held);
    if (ret_late != NULL) {
        memset(ret_late, 0, n * sizeof *ret_late);
    }
    for (d = 0; d < emission->in->n_devices; d++) {
        count_device(emission, d, now, now + n, ret_held, ret_late);
    }
    free(now);
}

/* --- orders ---*/

/* One part's lists. */
static void copy_part(struct pst_orders *orders, const struct pst_emission *emission, uint32_t part)
{
    struct pst_arena *arena = &orders->arena;
    struct pst_pass **lists = pst_arena_array(arena, orders->n_devices, sizeof *lists);
    uint32_t *n = pst_arena_array(arena, orders->n_devices, sizeof *n);

    for (uint32_t d = 0; d < orders->n_devices; d++) {
        n[d] = emission->n_parts[part][d];
        lists[d] = pst_arena_array(arena, n[d], sizeof **lists);
        if (n[d] > 0) {
            memcpy(lists[d], emission->parts[part][d], n[d] * sizeof **lists);
        }
    }
    orders->passes[part] = lists;
    orders->n_passes[part] = n;
}

struct pst_orders pst_orders_take(const struct pst_emission *emission,
                                  const struct pst_claimed *claim)
{
    struct pst_orders orders = {.n_devices = emission->in->n_devices,
                                .split = emission->split,
                                .claimed = claim->size != 0,
                                .claim = *claim,
                                .asynchronous = emission->asynchronous};

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        if (emission->asynchronous || part == PST_BODY) {
            copy_part(&orders, emission, part);
        }
    }
    return orders;
}

void pst_orders_finish(struct pst_orders *orders)
{
    pst_arena_finish(&orders->arena);
    memset(orders, 0, sizeof *orders);
}
