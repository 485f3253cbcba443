/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a run stands: passes begun, clocks, held bytes; begin and undo one pass.
 */
#include <string.h>

#include "exact.h"

static const uint8_t passes[] = {PST_PASS_F, PST_PASS_B, PST_PASS_W};

void state_init(struct state *state, const struct instance *inst)
{
    size_t n = inst->n_stages, p = inst->n_devices;
    uint32_t *counts = call_alloc(KINDS * n, sizeof *counts);
    uint64_t **rows = call_alloc(2 * n, sizeof *rows);
    uint64_t *times = call_alloc(2 * n * inst->m + 3 * p, sizeof *times);

    *state = (struct state){.count = {counts, counts + n, counts + 2 * n},
                            .arrival = {rows, rows + n},
                            .free_at = times,
                            .start = times + p,
                            .held = times + 2 * p};
    for (size_t i = 0; i < 2 * n; i++) {
        rows[i] = times + 3 * p + i * inst->m;
    }
    memset(state->start, 0xFF, p * sizeof *state->start);
    order_init(&state->order, inst->in);
}

void state_finish(struct state *state)
{
    call_free(state->count[0]);
    call_free(state->arrival[0]);
    call_free(state->free_at);
}

uint64_t state_ready_at(const struct state *state, const struct instance *inst, uint32_t stage,
                        uint32_t kind)
{
    uint32_t j = state->count[kind][stage];
    const struct near *near = kind == KIND_F ? inst->before[stage] : inst->behind[stage];
    uint32_t n = kind == KIND_F ? inst->n_before[stage] : inst->n_behind[stage];
    uint64_t at = 0;

    if (j >= inst->m || (kind != KIND_F && state->count[kind - 1][stage] <= j)) {
        return NEVER;
    }
    if (kind == KIND_W) {
        return 0; /* its B ran on this device */
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t arrives;

        if (state->count[kind][near[i].stage] <= j) {
            return NEVER;
        }
        arrives = state->arrival[kind][near[i].stage][j] + near[i].latency;
        at = arrives > at ? arrives : at;
    }
    return at;
}

bool state_ready(const struct state *state, const struct instance *inst, uint32_t stage,
                 uint32_t kind)
{
    return state_ready_at(state, inst, stage, kind) <= state->now;
}

bool state_fits(const struct state *state, const struct instance *inst, uint32_t stage,
                uint32_t kind)
{
    uint32_t d = inst->device_of[stage];

    return kind != KIND_F || inst->room[d] == NEVER ||
           state->held[d] + (uint64_t)inst->held[KIND_F][stage] <= inst->room[d];
}

void state_begin(struct state *state, const struct instance *inst, uint32_t stage, uint32_t kind)
{
    uint32_t d = inst->device_of[stage], j = state->count[kind][stage];
    uint64_t end = state->now + inst->time[kind][stage];

    if (state->start[d] == NEVER) {
        state->start[d] = state->now;
    }
    if (kind != KIND_W) {
        state->arrival[kind][stage][j] = end;
    }
    state->free_at[d] = end;
    state->held[d] += (uint64_t)inst->held[kind][stage];
    state->count[kind][stage]++;
    order_add(&state->order, d, passes[kind], stage, j);
}

void state_undo(struct state *state, const struct instance *inst, uint32_t stage, uint32_t kind,
                uint64_t free_before, uint64_t start_before)
{
    uint32_t d = inst->device_of[stage];

    state->count[kind][stage]--;
    state->held[d] -= (uint64_t)inst->held[kind][stage];
    state->free_at[d] = free_before;
    state->start[d] = start_before;
    state->order.lists[d].n--;
}

uint64_t state_cost(const struct state *state, const struct instance *inst)
{
    uint64_t cost = 0;

    for (uint32_t d = 0; d < inst->n_devices; d++) {
        uint64_t end = state->start[d] == NEVER            ? 0
                       : inst->objective == EXACT_MAKESPAN ? state->free_at[d]
                                                           : state->free_at[d] - state->start[d];

        cost = end > cost ? end : cost;
    }
    return cost;
}
