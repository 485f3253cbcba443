/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance in arrays, bounds that need no search, and the state that both searches walk.
 */
#include <string.h>

#include "exact.h"

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void read_links(struct instance *inst)
{
    const struct pst_schedule_in *in = inst->in;

    for (uint32_t s = 0; s < inst->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        CALL_TAKE(inst->before[s], stage->n_pred);
        CALL_TAKE(inst->behind[s], stage->n_succ);
        inst->n_before[s] = stage->n_pred;
        inst->n_behind[s] = stage->n_succ;
        for (uint32_t i = 0; i < stage->n_pred + stage->n_succ; i++) {
            bool forward = i < stage->n_pred;
            uint32_t row = forward ? stage->first_pred + i
                                   : in->out_links[stage->first_succ + i - stage->n_pred];
            const struct pst_schedule_link *link = pst_schedule_link_at(in, row);
            uint32_t other = forward ? link->from : link->to;
            bool local = inst->device_of[other] == inst->device_of[s];
            struct near near = {other, local, local ? 0 : link->transfer_ns};
            uint64_t *slowest = inst->slowest[forward ? KIND_B : KIND_F];

            slowest[s] = max_of(slowest[s], near.latency);

            if (forward) {
                inst->before[s][i] = near;
            } else {
                inst->behind[s][i - stage->n_pred] = near;
            }
        }
    }
}

static void measure_heads(struct instance *inst)
{
    for (uint32_t s = 0; s < inst->n_stages; s++) {
        for (uint32_t i = 0; i < inst->n_before[s]; i++) {
            const struct near *near = &inst->before[s][i];

            inst->head[s] =
                max_of(inst->head[s],
                       inst->head[near->stage] + inst->time[KIND_F][near->stage] + near->latency);
        }
    }
}

static void find_ways(struct instance *inst)
{
    size_t n = inst->n_stages;

    for (uint32_t to = 0; to < n; to++) {
        for (uint32_t i = 0; i < inst->n_before[to]; i++) {
            uint32_t near = inst->before[to][i].stage;

            inst->leads[near * n + to] = true;
            for (uint32_t from = 0; from < near; from++) {
                inst->leads[from * n + to] |= inst->leads[from * n + near];
            }
        }
    }
}

/* Is a stage the first of its device in any order, and all that lead to it of theirs? */
static bool is_first(const struct instance *inst, uint32_t stage)
{
    uint32_t d = inst->device_of[stage];
    bool first = inst->on[d][0] == stage;

    for (uint32_t i = 1; i < inst->n_on[d]; i++) {
        first &= instance_leads(inst, stage, inst->on[d][i]);
    }
    for (uint32_t s = 0; s < stage && first; s++) {
        first = !instance_leads(inst, s, stage) || inst->on[inst->device_of[s]][0] == s;
    }
    return first;
}

/* The first stage of every device is reached through first stages of others. Then no order has a
   say in when a device begins. */
static void find_starts(struct instance *inst)
{
    inst->starts_known = true;
    for (uint32_t d = 0; d < inst->n_devices; d++) {
        inst->starts_known &= inst->n_on[d] > 0 && is_first(inst, inst->on[d][0]);
    }
    for (uint32_t d = 0; inst->starts_known && d < inst->n_devices; d++) {
        inst->last_start = max_of(inst->last_start, inst->head[inst->on[d][0]]);
    }
    for (uint32_t d = 0; inst->objective == EXACT_SPAN && inst->starts_known && d < inst->n_devices;
         d++) {
        inst->lag[d] = inst->last_start - inst->head[inst->on[d][0]];
    }
    if (inst->objective == EXACT_MAKESPAN) {
        inst->last_start = 0;
    }
}

/* up, down, back: longest chains without waiting. */
static void measure_chains(struct instance *inst)
{
    for (uint32_t s = 0; s < inst->n_stages; s++) {
        inst->up[s] = inst->time[KIND_W][s] + inst->lag[inst->device_of[s]];
        for (uint32_t i = 0; i < inst->n_before[s]; i++) {
            const struct near *near = &inst->before[s][i];

            inst->up[s] = max_of(inst->up[s], near->latency + inst->time[KIND_B][near->stage] +
                                                  inst->up[near->stage]);
        }
    }
    for (uint32_t s = inst->n_stages; s-- > 0;) {
        inst->back[s] = inst->time[KIND_B][s];
        inst->down[s] = inst->time[KIND_B][s] + inst->up[s]; /* its own backward at least */
        for (uint32_t i = 0; i < inst->n_behind[s]; i++) {
            const struct near *near = &inst->behind[s][i];

            inst->back[s] =
                max_of(inst->back[s], 2 * near->latency + inst->time[KIND_F][near->stage] +
                                          inst->back[near->stage] + inst->time[KIND_B][s]);
            inst->down[s] = max_of(inst->down[s], near->latency + inst->time[KIND_F][near->stage] +
                                                      inst->down[near->stage]);
        }
    }
}

static void allocate(struct instance *inst)
{
    size_t n = inst->n_stages, p = inst->n_devices;

    CALL_TAKE(inst->device_of, n);
    CALL_TAKE(inst->n_on, p);
    CALL_TAKE(inst->on, p);
    CALL_TAKE(inst->before, n);
    CALL_TAKE(inst->behind, n);
    CALL_TAKE(inst->n_before, n);
    CALL_TAKE(inst->n_behind, n);
    CALL_TAKE(inst->slowest[KIND_F], n);
    CALL_TAKE(inst->slowest[KIND_B], n);
    CALL_TAKE(inst->head, n);
    CALL_TAKE(inst->down, n);
    CALL_TAKE(inst->up, n);
    CALL_TAKE(inst->back, n);
    CALL_TAKE(inst->lag, p);
    CALL_TAKE(inst->leads, n * n);
    for (int k = 0; k < KINDS; k++) {
        CALL_TAKE(inst->time[k], n);
        CALL_TAKE(inst->held[k], n);
    }
    for (uint32_t d = 0; d < p; d++) {
        CALL_TAKE(inst->on[d], n);
    }
}

void instance_init(struct instance *inst, const struct pst_schedule_in *in, uint32_t m,
                   uint32_t objective)
{
    memset(inst, 0, sizeof *inst);
    inst->in = in;
    inst->m = m;
    inst->n_devices = in->n_devices;
    inst->n_stages = in->n_stages;
    inst->room = in->activation_bytes;
    inst->objective = objective;
    allocate(inst);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t d = stage->device;

        inst->device_of[s] = d;
        inst->on[d][inst->n_on[d]++] = s;
        inst->time[KIND_F][s] = stage->forward_ns;
        inst->time[KIND_B][s] = stage->backward_input_ns;
        inst->time[KIND_W][s] = stage->backward_weight_ns;
        inst->held[KIND_F][s] = (int64_t)stage->saved_bytes;
        inst->held[KIND_W][s] = -(int64_t)stage->saved_weight_bytes;
        inst->held[KIND_B][s] = -(inst->held[KIND_F][s] + inst->held[KIND_W][s]);
    }
    read_links(inst);
    measure_heads(inst);
    find_ways(inst);
    find_starts(inst);
    measure_chains(inst);
}

uint64_t instance_bound(const struct instance *inst)
{
    bool open = inst->objective == EXACT_SPAN && !inst->starts_known;
    uint64_t bound = 0;

    for (uint32_t d = 0; d < inst->n_devices; d++) {
        uint64_t work = 0, head = NEVER;

        for (uint32_t i = 0; i < inst->n_on[d]; i++) {
            uint32_t s = inst->on[d][i];

            work +=
                inst->m * (inst->time[KIND_F][s] + inst->time[KIND_B][s] + inst->time[KIND_W][s]);
            head = inst->head[s] < head ? inst->head[s] : head;
            /* one micro-batch from its F here, through the later stages, to its W here */
            bound =
                max_of(bound, (open ? 0 : inst->head[s] + inst->lag[d]) + inst->time[KIND_F][s] +
                                  inst->back[s] + inst->time[KIND_W][s]);
        }
        bound = max_of(bound, work + (!open && inst->n_on[d] > 0 ? head + inst->lag[d] : 0));
    }
    for (uint32_t s = 0; !open && s < inst->n_stages; s++) {
        bound = max_of(bound, inst->head[s] + inst->time[KIND_F][s] + inst->down[s]);
    }
    return bound - inst->last_start;
}
