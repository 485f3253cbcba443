/* SPDX-License-Identifier: Apache-2.0
 *
 * First answers: list scheduling under many priorities, with so many micro-batches in flight. One
 * in flight ends within any memory that holds one, so there is an answer whenever there is any.
 */
#include <string.h>

#include "exact.h"

struct rule {
    uint8_t rank[KINDS];   /* lower goes first */
    bool late_chunk_first; /* among stages of a device: the one nearer to the loss */
    uint32_t window;       /* micro-batches in flight on a stage */
};

/* The pass that the rule would begin on a free device now; false: none is ready and fits. */
static bool choose(const struct state *state, const struct instance *inst, const struct rule *rule,
                   uint32_t d, uint32_t *ret_stage, uint32_t *ret_kind)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < inst->n_on[d]; i++) {
        uint32_t s = inst->on[d][i];

        for (uint32_t kind = 0; kind < KINDS; kind++) {
            uint32_t late = rule->late_chunk_first ? inst->n_stages - s : s;
            uint32_t value = rule->rank[kind] * (inst->n_stages + 1) + late;

            if (value >= best || !state_ready(state, inst, s, kind) ||
                !state_fits(state, inst, s, kind) ||
                (kind == KIND_F &&
                 state->count[KIND_F][s] - state->count[KIND_W][s] >= rule->window)) {
                continue;
            }
            best = value;
            *ret_stage = s;
            *ret_kind = kind;
        }
    }
    return best != UINT32_MAX;
}

/* Moves the clock to the next moment at which anything may change; false: there is none. */
static bool move_on(struct state *state, const struct instance *inst)
{
    uint64_t next = NEVER;

    for (uint32_t d = 0; d < inst->n_devices; d++) {
        if (state->free_at[d] > state->now && state->free_at[d] < next) {
            next = state->free_at[d];
        }
    }
    for (uint32_t s = 0; s < inst->n_stages; s++) {
        for (uint32_t kind = KIND_F; kind <= KIND_B; kind++) {
            uint64_t at = state_ready_at(state, inst, s, kind);

            if (at != NEVER && at > state->now && at < next) {
                next = at;
            }
        }
    }
    if (next != NEVER) {
        state->now = next;
    }
    return next != NEVER;
}

/* True: all passes have begun. */
static bool run(const struct instance *inst, const struct rule *rule, struct state *state)
{
    uint64_t left = (uint64_t)inst->n_stages * inst->m * KINDS;

    do {
        for (uint32_t d = 0; d < inst->n_devices; d++) {
            uint32_t stage = 0, kind = 0;

            /* a pass of no length leaves the device free */
            while (state->free_at[d] <= state->now && choose(state, inst, rule, d, &stage, &kind)) {
                state_begin(state, inst, stage, kind);
                left--;
            }
        }
    } while (left > 0 && move_on(state, inst));
    return left == 0;
}

static void try_rule(const struct instance *inst, const struct rule *rule, struct order *best,
                     uint64_t *best_cost)
{
    struct state state;

    state_init(&state, inst);
    if (run(inst, rule, &state) && state_cost(&state, inst) < *best_cost) {
        struct order worse = *best;

        *best_cost = state_cost(&state, inst);
        *best = state.order;
        state.order = worse;
    }
    order_finish(&state.order);
    state_finish(&state);
}

void greedy_best(const struct instance *inst, struct order *ret_order, uint64_t *ret_cost)
{
    static const uint8_t ranks[][KINDS] = {{1, 0, 2}, {0, 1, 2}, {2, 0, 1}, {2, 1, 0}, {1, 2, 0}};
    uint32_t windows = 2 * inst->n_stages + 1;

    *ret_order = (struct order){.lists = NULL};
    *ret_cost = NEVER;
    windows = inst->m < windows ? inst->m : windows;
    /* every window at first, then twice as wide each time: large instances get fewer trials */
    for (uint32_t w = 1; w <= windows + 1; w = w < 8 ? w + 1 : 2 * w) {
        for (size_t r = 0; r < 2 * sizeof ranks / sizeof ranks[0]; r++) {
            struct rule rule = {.late_chunk_first = r % 2 == 0,
                                .window = w <= windows ? w : UINT32_MAX};

            memcpy(rule.rank, ranks[r / 2], sizeof rule.rank);
            try_rule(inst, &rule, ret_order, ret_cost);
        }
    }
    if (*ret_cost == NEVER) {
        call_end(PST_ERR_INFEASIBLE);
    }
}
