/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/emission.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const char *const names[] = {"?", "F", "B", "W", "BW", "R"};

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

static pst_status check(struct pst_emission *e, uint32_t device, uint32_t pass, uint32_t stage,
                        uint32_t microbatch)
{
    const struct pst_schedule_stage *s;
    uint8_t done;

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
    if (microbatch >= s->n_microbatches) {
        return refuse(e, "%s of micro-batch %u on stage %u, which has %u", names[pass], microbatch,
                      stage, s->n_microbatches);
    }
    done = e->done[stage][microbatch];
    if ((done & excluded[pass]) != 0) {
        return refuse(e, "%s of micro-batch %u on stage %u comes twice", names[pass], microbatch,
                      stage);
    }
    if ((done & before[pass]) != before[pass]) {
        return refuse(e, "%s of micro-batch %u on stage %u comes before its %s", names[pass],
                      microbatch, stage, pass == PST_PASS_W ? "B" : "F");
    }
    return PST_OK;
}

static pst_status emit(struct pst_schedule_out *out, uint32_t device, uint32_t pass, uint32_t stage,
                       uint32_t microbatch)
{
    struct pst_emission *e = out->impl;

    if (e->fault[0] != '\0' || e->no_memory) {
        return e->no_memory ? PST_ERR_NOMEM : PST_ERR_BUG;
    }
    if (check(e, device, pass, stage, microbatch) != PST_OK) {
        return PST_ERR_BUG;
    }
    if (!pst_grow(&e->passes[device], &e->room[device], e->n_passes[device],
                  sizeof *e->passes[device])) {
        e->no_memory = true;
        return PST_ERR_NOMEM;
    }
    e->passes[device][e->n_passes[device]++] = (struct pst_pass){(uint8_t)pass, stage, microbatch};
    e->done[stage][microbatch] |= (uint8_t)(1u << pass);
    e->split |= pass == PST_PASS_B;
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
    (void)part;
    return refuse(out->impl, "fill, body and drain are parts of asynchronous schedules");
}

pst_status pst_emission_init(struct pst_emission *emission, const struct pst_schedule_in *in)
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
    emission->passes = calloc(in->n_devices + 1, sizeof *emission->passes);
    emission->n_passes = calloc(in->n_devices + 1, sizeof *emission->n_passes);
    emission->room = calloc(in->n_devices + 1, sizeof *emission->room);
    emission->done = calloc(in->n_stages + 1, sizeof *emission->done);
    if (emission->passes == NULL || emission->n_passes == NULL || emission->room == NULL ||
        emission->done == NULL) {
        return PST_ERR_NOMEM;
    }
    for (s = 0; s < in->n_stages; s++) {
        emission->done[s] = calloc(pst_schedule_stage_at(in, s)->n_microbatches + 1, 1);
        if (emission->done[s] == NULL) {
            return PST_ERR_NOMEM;
        }
    }
    return PST_OK;
}

void pst_emission_finish(struct pst_emission *emission)
{
    uint32_t i;

    if (emission->in == NULL) {
        return;
    }
    for (i = 0; emission->passes != NULL && i < emission->in->n_devices; i++) {
        free(emission->passes[i]);
    }
    for (i = 0; emission->done != NULL && i < emission->in->n_stages; i++) {
        free(emission->done[i]);
    }
    free(emission->passes);
    free(emission->n_passes);
    free(emission->room);
    free(emission->done);
    memset(emission, 0, sizeof *emission);
}

bool pst_emission_complete(struct pst_emission *emission)
{
    const uint8_t fused = 1u << PST_PASS_F | 1u << PST_PASS_BW;
    const uint8_t split = 1u << PST_PASS_F | 1u << PST_PASS_B | 1u << PST_PASS_W;
    uint32_t s, j;

    for (s = 0; s < emission->in->n_stages; s++) {
        for (j = 0; j < pst_schedule_stage_at(emission->in, s)->n_microbatches; j++) {
            uint8_t done = emission->done[s][j];

            if (done != fused && done != split) {
                refuse(emission, "micro-batch %u of stage %u never gets its %s", j, s,
                       done == 0                          ? "F"
                       : (done & (1u << PST_PASS_B)) != 0 ? "W"
                                                          : "backward");
                return false;
            }
        }
    }
    return true;
}

/* +1 where a micro-batch begins to be held, -1 behind where it ends, else 0. */
static int held_change(uint8_t op)
{
    return op == PST_PASS_F ? 1 : op == PST_PASS_W || op == PST_PASS_BW ? -1 : 0;
}

void pst_emission_count(const struct pst_emission *emission, uint32_t *ret_held)
{
    uint32_t s, d, i;

    for (s = 0; s < emission->in->n_stages; s++) {
        int64_t now = 0, most = 0;

        d = pst_schedule_stage_at(emission->in, s)->device;
        for (i = 0; i < emission->n_passes[d]; i++) {
            const struct pst_pass *pass = &emission->passes[d][i];

            if (pass->stage == s) {
                now += held_change(pass->op);
                most = now > most ? now : most;
            }
        }
        ret_held[s] = (uint32_t)most;
    }
}

/* `now` is per stage and zero on entry. */
static void count_device(const struct pst_emission *e, uint32_t device, uint32_t *now,
                         uint32_t *ret_held)
{
    uint64_t bytes = 0, most = 0;
    uint32_t i, s;

    for (i = 0; i < e->n_passes[device]; i++) {
        const struct pst_pass *pass = &e->passes[device][i];
        uint64_t unit = pst_schedule_stage_at(e->in, pass->stage)->saved_bytes;
        int change = held_change(pass->op);

        now[pass->stage] += (uint32_t)change;
        bytes = change > 0 ? bytes + unit : change < 0 ? bytes - unit : bytes;
        if (bytes > most) {
            most = bytes;
            for (s = 0; s < e->in->n_stages; s++) {
                if (pst_schedule_stage_at(e->in, s)->device == device) {
                    ret_held[s] = now[s];
                }
            }
        }
    }
}

pst_status pst_emission_count_at_peak(const struct pst_emission *emission, uint32_t *ret_held)
{
    uint32_t *now = calloc(emission->in->n_stages + 1, sizeof *now);
    uint32_t d;

    if (now == NULL) {
        return PST_ERR_NOMEM;
    }
    memset(ret_held, 0, emission->in->n_stages * sizeof *ret_held);
    for (d = 0; d < emission->in->n_devices; d++) {
        count_device(emission, d, now, ret_held);
    }
    free(now);
    return PST_OK;
}
