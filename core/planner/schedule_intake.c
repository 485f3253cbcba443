/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/schedule_intake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/state.h"

#define BATCHES 3 /* in a row that show whether fill, body and drain fit together */

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
static const char *follow_rule(uint8_t *done, uint32_t pass)
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

/* The pass that a micro-batch of a stage still has to run, or NULL. */
static const char *missing_pass(uint8_t done)
{
    const uint8_t fused = 1u << PST_PASS_F | 1u << PST_PASS_BW;
    const uint8_t split = 1u << PST_PASS_F | 1u << PST_PASS_B | 1u << PST_PASS_W;

    return done == fused || done == split              ? NULL
           : done == 0                                 ? "F"
           : (done & (uint8_t)(1u << PST_PASS_B)) != 0 ? "W"
                                                       : "backward";
}

/* F of a slice reads keys and values of those before it, and a backward pass of it adds to their
   gradients. */
static pst_status follow_slices(struct pst_emission *e, uint32_t pass, uint32_t stage,
                                uint32_t microbatch)
{
    const uint8_t *done = &e->done[e->base[stage] + microbatch];
    uint32_t n = e->in->slices, other;
    uint8_t wanted = 1u << PST_PASS_F;

    if (n <= 1 || pass == PST_PASS_W ||
        (pass == PST_PASS_F ? microbatch % n == 0 : microbatch % n == n - 1)) {
        return PST_OK;
    }
    other = pass == PST_PASS_F ? microbatch - 1 : microbatch + 1;
    wanted = pass == PST_PASS_F ? wanted : 1u << PST_PASS_B | 1u << PST_PASS_BW;
    return (done[pass == PST_PASS_F ? -1 : 1] & wanted) != 0
               ? PST_OK
               : refuse(e,
                        "%s of micro-batch %u on stage %u, slice %u of %u of its sequences, comes "
                        "before that of micro-batch %u, slice %u",
                        names[pass], microbatch, stage, microbatch % n, n, other, other % n);
}

static pst_status check_pass(struct pst_emission *e, uint32_t device, uint32_t pass, uint32_t stage,
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
    if (e->orders.asynchronous) { /* what comes before what: once all is there */
        return microbatch < 2 * (uint64_t)s->n_microbatches
                   ? PST_OK
                   : refuse(e,
                            "%s of micro-batch %u on stage %u in %s: a part runs passes of the "
                            "batch that it closes and of the next, so below %llu",
                            names[pass], microbatch, stage, part_names[e->part],
                            2ull * s->n_microbatches);
    }
    if (microbatch >= s->n_microbatches) {
        return refuse(e, "%s of micro-batch %u on stage %u; micro-batches are 0 to %u", names[pass],
                      microbatch, stage, s->n_microbatches - 1);
    }
    what = follow_rule(&e->done[e->base[stage] + microbatch], pass);
    if (what != NULL) {
        return refuse(e, "%s of micro-batch %u on stage %u comes %s", names[pass], microbatch,
                      stage, what);
    }
    return follow_slices(e, pass, stage, microbatch);
}

static pst_status emit_pass(struct pst_schedule_out *out, uint32_t device, uint32_t pass,
                            uint32_t stage, uint32_t microbatch)
{
    struct pst_emission *e = out->impl;
    struct pst_pass **list;
    uint32_t *n;

    if (e->fault[0] != '\0' || check_pass(e, device, pass, stage, microbatch) != PST_OK) {
        return PST_ERR_BUG;
    }
    list = &e->orders.passes[e->part][device];
    n = &e->orders.n_passes[e->part][device];
    if (*n == e->room[e->part][device]) {
        /* The first room is for F and BW of all micro-batches of the stage: most lists fit. */
        const uint32_t n_microbatches = pst_schedule_stage_at(e->in, stage)->n_microbatches;
        const uint32_t room = 2 * (*n == 0 ? n_microbatches : *n) + 8;
        struct pst_pass *larger = pst_arena_array(&e->orders.arena, room, sizeof **list);

        if (*n > 0) {
            memcpy(larger, *list, *n * sizeof **list);
        }
        *list = larger;
        e->room[e->part][device] = room;
    }
    (*list)[(*n)++] = (struct pst_pass){(uint8_t)pass, stage, microbatch};
    e->orders.split |= pass == PST_PASS_B;
    e->any = true;
    return PST_OK;
}

/* Run as F, then backward. */
static pst_status emit_pair(struct pst_schedule_out *out, uint32_t device, uint32_t stage_f,
                            uint32_t mb_f, uint32_t pass_b, uint32_t stage_b, uint32_t mb_b)
{
    pst_status status = emit_pass(out, device, PST_PASS_F, stage_f, mb_f);

    if (status == PST_OK && pass_b != PST_PASS_B && pass_b != PST_PASS_BW) {
        return refuse(out->impl, "a pair of F and pass %u; the second is B or BW", pass_b);
    }
    return status == PST_OK ? emit_pass(out, device, pass_b, stage_b, mb_b) : status;
}

static pst_status begin_part(struct pst_schedule_out *out, uint32_t part)
{
    struct pst_emission *e = out->impl;

    if (e->any && !e->orders.asynchronous) {
        return refuse(e, "part() comes after passes that belong to no part");
    }
    if (part < PST_PART_FILL || part > PST_PART_DRAIN) {
        return refuse(e, "there is no part %u", part);
    }
    e->part = part - PST_PART_FILL;
    e->orders.asynchronous = true;
    return PST_OK;
}

void pst_emission_init(struct pst_emission *emission, const struct pst_schedule_in *in)
{
    struct pst_orders *orders = &emission->orders;

    memset(emission, 0, sizeof *emission);
    emission->out = (struct pst_schedule_out){
        .size = sizeof emission->out,
        .impl = emission,
        .emit = emit_pass,
        .pair = emit_pair,
        .part = begin_part,
    };
    emission->in = in;
    emission->part = PST_BODY;
    orders->n_devices = in->n_devices;
    for (uint32_t p = 0; p < PST_PARTS; p++) {
        orders->passes[p] = pst_arena_array(&orders->arena, in->n_devices, sizeof **orders->passes);
        orders->n_passes[p] =
            pst_arena_array(&orders->arena, in->n_devices, sizeof **orders->n_passes);
        emission->room[p] = pst_arena_array(&orders->arena, in->n_devices, sizeof **emission->room);
    }
    emission->base = pst_alloc(in->n_stages + (size_t)1, sizeof *emission->base);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        emission->base[s + 1] =
            emission->base[s] + BATCHES * (size_t)pst_schedule_stage_at(in, s)->n_microbatches;
    }
    emission->done = pst_alloc(emission->base[in->n_stages], 1);
}

/* An answer that goes to its end must be of the kind that is wanted, and whole; else says why. */
static void check_end(struct pst_emission *e, const bool *asynchronous)
{
    if (asynchronous != NULL && e->orders.asynchronous != *asynchronous) {
        refuse(e, "%s",
               e->orders.asynchronous
                   ? "fill, body and drain are parts of asynchronous schedules; its version rule "
                     "is that of whole steps"
                   : "its version rule lets steps overlap, but it emits no fill, body and drain");
        return;
    }
    (void)pst_emission_complete(e);
}

pst_status pst_orders_ask(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                          const bool *asynchronous, struct pst_error *pending,
                          struct pst_orders *ret_orders, struct pst_error *err)
{
    struct pst_emission emission;
    pst_status status;

    *ret_orders = (struct pst_orders){.n_devices = 0};
    pst_emission_init(&emission, in);
    memset(&scheduler->claim, 0, sizeof scheduler->claim);
    status = pst_call_schedule(scheduler, in, &emission.out);
    if (emission.fault[0] == '\0' && status == PST_OK) {
        check_end(&emission, asynchronous);
    }
    if (emission.fault[0] != '\0') {
        status = pst_planner_illegal(err, scheduler, "%s", emission.fault);
    } else {
        status = pst_instance_blame(scheduler, pending, status, "schedule", err);
    }
    if (status == PST_OK) {
        *ret_orders = pst_orders_take(&emission, &scheduler->claim);
    }
    pst_emission_finish(&emission);
    return status;
}

void pst_emission_finish(struct pst_emission *emission)
{
    pst_orders_finish(&emission->orders);
    free(emission->base);
    free(emission->done);
}

/* Parts that a synchronous order does not have are empty so far. */
struct pst_orders pst_orders_take(struct pst_emission *emission, const struct pst_claimed *claim)
{
    struct pst_orders orders = emission->orders;

    orders.claim = *claim;
    if (!orders.asynchronous) {
        orders.passes[PST_FILL] = orders.passes[PST_DRAIN] = NULL;
        orders.n_passes[PST_FILL] = orders.n_passes[PST_DRAIN] = NULL;
    }
    memset(&emission->orders, 0, sizeof emission->orders);
    return orders;
}

void pst_orders_finish(struct pst_orders *orders)
{
    pst_arena_finish(&orders->arena);
    memset(orders, 0, sizeof *orders);
}

/* --- is it whole? ---*/

/* Marks a part's passes on a device as run; `batch` is the one that it closes. False: a fault. */
static bool run_part(struct pst_emission *e, uint32_t n_batches, uint32_t part, uint32_t batch,
                     uint32_t device)
{
    for (uint32_t i = 0; i < e->orders.n_passes[part][device]; i++) {
        const struct pst_pass *pass = &e->orders.passes[part][device][i];
        uint32_t m = pst_schedule_stage_at(e->in, pass->stage)->n_microbatches;
        uint64_t number = (uint64_t)batch * m + pass->microbatch;
        const char *what;

        if (number >= (uint64_t)n_batches * m) {
            refuse(
                e,
                "%s of device %u runs %s of micro-batch %u on stage %u, of a batch that is never "
                "closed",
                part_names[part], device, names[pass->op], pass->microbatch, pass->stage);
            return false;
        }
        what = follow_rule(&e->done[e->base[pass->stage] + number], pass->op);
        if (what != NULL) {
            refuse(e, "%s of micro-batch %u on stage %u comes %s: in %s, after %s", names[pass->op],
                   pass->microbatch, pass->stage, what, part_names[part],
                   batch == 0 ? "fill" : "fill and body");
            return false;
        }
    }
    return true;
}

/* Has every micro-batch of so many batches run forward and backward? */
static bool all_done(struct pst_emission *e, uint32_t n_batches)
{
    for (uint32_t s = 0; s < e->in->n_stages; s++) {
        uint32_t m = pst_schedule_stage_at(e->in, s)->n_microbatches;

        for (uint32_t j = 0; j < m * n_batches; j++) {
            const char *what = missing_pass(e->done[e->base[s] + j]);

            if (what != NULL && e->orders.asynchronous) {
                refuse(
                    e,
                    "micro-batch %u of stage %u never gets its %s in batch %u of %u; asynchronous "
                    "schedules run n batches as fill, n - 1 times body, drain",
                    j % m, s, what, j / m, n_batches);
            } else if (what != NULL) {
                refuse(e, "micro-batch %u of stage %u never gets its %s", j, s, what);
            }
            if (what != NULL) {
                return false;
            }
        }
    }
    return true;
}

/* Fill, body, body, drain, one after the other, must be three batches, and fill with drain one. */
bool pst_emission_complete(struct pst_emission *e)
{
    bool complete = e->orders.asynchronous || all_done(e, 1);

    for (uint32_t n = 1; e->orders.asynchronous && complete && n <= BATCHES; n += 2) {
        memset(e->done, 0, e->base[e->in->n_stages]);
        for (uint32_t d = 0; complete && d < e->in->n_devices; d++) {
            for (uint32_t k = 0; complete && k <= n; k++) {
                uint32_t part = k == 0 ? PST_FILL : k < n ? PST_BODY : PST_DRAIN;

                complete = run_part(e, n, part, k == 0 ? 0 : k - 1, d);
            }
        }
        complete = complete && all_done(e, n);
    }
    return complete;
}

/* --- what it holds ---*/

/* +1 where a micro-batch begins to be held, -1 after where it ends, else 0. */
static int held_change(uint8_t op)
{
    return op == PST_PASS_F ? 1 : op == PST_PASS_W || op == PST_PASS_BW ? -1 : 0;
}

/* `now` and `late` are per stage and zero on entry. What is held is the same after each body, so
   one body after fill shows all that follow. */
static void count_device(const struct pst_orders *orders, const struct pst_schedule_in *in,
                         uint32_t device, uint32_t *now, uint32_t *late,
                         const struct pst_orders_count *ret_count)
{
    uint64_t bytes = 0, peak = 0;

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        uint32_t n = orders->n_passes[part] == NULL ? 0 : orders->n_passes[part][device];

        for (uint32_t i = 0; i < n; i++) {
            const struct pst_pass *pass = &orders->passes[part][device][i];
            uint64_t unit = pst_schedule_stage_at(in, pass->stage)->saved_bytes;
            uint32_t *most = &ret_count->most[pass->stage];
            int change = held_change(pass->op);

            now[pass->stage] += (uint32_t)change;
            *most = now[pass->stage] > *most ? now[pass->stage] : *most;
            late[pass->stage] += pass->op == PST_PASS_B;
            late[pass->stage] -= pass->op == PST_PASS_W;
            bytes = change > 0 ? bytes + unit : change < 0 ? bytes - unit : bytes;
            for (uint32_t s = 0; bytes > peak && s < in->n_stages; s++) {
                if (pst_schedule_stage_at(in, s)->device == device) {
                    ret_count->at_peak[s] = now[s];
                    ret_count->late[s] = late[s];
                }
            }
            peak = bytes > peak ? bytes : peak;
        }
    }
}

struct pst_orders_count pst_orders_count(const struct pst_orders *orders,
                                         const struct pst_schedule_in *in, struct pst_arena *arena)
{
    uint32_t n = in->n_stages;
    uint32_t *now = pst_alloc(n, sizeof *now), *late = pst_alloc(n, sizeof *late);
    struct pst_orders_count count = {.most = pst_arena_array(arena, n, sizeof *count.most),
                                     .at_peak = pst_arena_array(arena, n, sizeof *count.at_peak),
                                     .late = pst_arena_array(arena, n, sizeof *count.late)};

    for (uint32_t d = 0; d < in->n_devices; d++) {
        count_device(orders, in, d, now, late, &count);
    }
    free(now);
    free(late);
    return count;
}

/* --- claims -----------------------------------------------------------------------------------*/

/* Does what is claimed differ from what was found by more than 5 %? 0 claims nothing. */
static bool is_apart(uint64_t claimed, uint64_t found)
{
    uint64_t apart = claimed > found ? claimed - found : found - claimed;

    return claimed != 0 && apart > found / 20;
}

static void warn_of_claim(const char *scheduler, const char *what, uint64_t claimed, uint64_t found,
                          double unit)
{
    if (is_apart(claimed, found)) {
        pst_log(PST_LOG_WARN, scheduler, "claims a %s of %.6g, but it is %.6g", what,
                (double)claimed / unit, (double)found / unit);
    }
}

void pst_claim_check(const char *scheduler, const struct pst_claimed *claim, uint64_t makespan_ns,
                     uint64_t span_ns, double ns_per_unit)
{
    uint64_t cost = claim->minimised == 2 ? span_ns : makespan_ns;

    if (claim->size == 0) {
        return;
    }
    warn_of_claim(scheduler, "makespan", claim->makespan_ns, makespan_ns, ns_per_unit);
    warn_of_claim(scheduler, "span", claim->span_ns, span_ns, ns_per_unit);
    if (claim->lower_bound_ns > cost) {
        pst_log(PST_LOG_WARN, scheduler,
                "claims that no order takes less than %.6g, but its own takes %.6g",
                (double)claim->lower_bound_ns / ns_per_unit, (double)cost / ns_per_unit);
    }
}
