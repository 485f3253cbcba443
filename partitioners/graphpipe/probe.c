/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "classes.h"
#include "probe.h"

#define TICKS_BETWEEN_STOPS 4096

struct slot {
    struct gp_key key;
    void *state;
};

void gp_probe_init(struct gp_probe *probe, const struct gp_costs *costs,
                   const struct gp_levels *levels, uint32_t grouping)
{
    *probe = (struct gp_probe){.costs = costs,
                               .levels = levels,
                               .problem = costs->problem,
                               .grouping = grouping,
                               .max_states = UINT64_MAX};
    probe->limited = probe->problem->capacity_bytes < 1e300;
    probe->memo.value_size = sizeof(struct slot);
}

void gp_probe_tick(struct gp_probe *probe, uint32_t work)
{
    probe->n_states += work;
    if (probe->n_states > probe->max_states) {
        call_end(PST_ERR_CANCELLED);
    }
    work += probe->work;
    probe->work = 0;
    if (probe->countdown <= work) {
        probe->countdown = TICKS_BETWEEN_STOPS;
        if (probe->stop != NULL && probe->stop(probe->stop_context)) {
            call_end(PST_ERR_CANCELLED);
        }
    } else {
        probe->countdown -= work;
    }
}

void gp_memo_find(struct gp_probe *probe, const struct gp_key *key, size_t size, void **ret,
                  bool *ret_new)
{
    uint64_t number = gp_hash(1, key, sizeof *key) | 1; /* never 0 */
    struct slot *slot;

    while ((slot = part_map_find(&probe->memo, number)) != NULL &&
           memcmp(&slot->key, key, sizeof *key) != 0) {
        number += 2;
    }
    *ret_new = slot == NULL;
    if (slot == NULL) {
        slot = part_map_put(&probe->memo, number);
        slot->key = *key;
        slot->state = gp_pool_take(&probe->pool, 1, size);
        memset(slot->state, 0, size);
    }
    *ret = slot->state;
}

bool gp_stage_precedes(const struct gp_probe *probe, uint32_t level, const struct gp_end *end)
{
    return end->kind == GP_END_SINK || gp_before(probe->levels, level, end->level);
}

bool gp_precedes(const struct gp_probe *probe, const struct gp_start *start, uint32_t level,
                 const struct gp_end *end)
{
    if (end->kind == GP_END_SINK) {
        return true;
    }
    return start->is_virtual ? gp_covers(probe->levels, level, end->level)
                             : gp_before(probe->levels, level, end->level);
}

uint32_t gp_levels_fit(const struct gp_probe *probe, const struct gp_group *group, uint32_t d,
                       double weight, double saved, double workspace)
{
    const struct part_problem *p = probe->problem;
    const uint64_t *in_flight = probe->levels->in_flight + group->first;
    uint32_t low = 0, high = group->n;

    if (!probe->limited ||
        part_fits(p, part_memory(p, weight, saved, workspace, d, in_flight[high - 1]))) {
        return group->n;
    }
    while (low + 1 < high) {
        uint32_t middle = (low + high) / 2;

        if (part_fits(p, part_memory(p, weight, saved, workspace, d, in_flight[middle - 1]))) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t gp_degree(struct gp_probe *probe, const struct gp_stage_sums *sums, uint32_t level,
                   int64_t *ret_ticks)
{
    const struct gp_levels *levels = probe->levels;
    const struct part_problem *p = probe->problem;
    const struct gp_group *group = &levels->groups[levels->group[level]];
    uint32_t k;

    for (k = 0; k < group->n_lanes; k++) {
        uint32_t l = group->first_lane + k, d = probe->costs->lanes[l].d;
        int64_t ticks = gp_tps(probe->costs, sums->comp[l], sums->sync[l], sums->p2p[l]);

        if (d > p->n_devices) {
            break;
        }
        if (ticks > probe->limit) {
            probe->next = ticks < probe->next ? ticks : probe->next;
            continue;
        }
        if (!probe->limited ||
            part_fits(p, part_memory(p, sums->weight, sums->saved, sums->workspace, d,
                                     levels->in_flight[level]))) {
            if (ret_ticks != NULL) {
                *ret_ticks = ticks;
            }
            return d;
        }
    }
    return 0;
}

static const struct gp_start outside = {.is_virtual = 1};
static const struct gp_end nothing = {.kind = GP_END_SINK};

void gp_probe_run(struct gp_probe *probe, int64_t limit, bool *ret_found)
{
    const struct gp_head *head;
    uint32_t root = probe->costs->class_of_block[probe->costs->tree->n_blocks - 1], x;
    uint32_t n = probe->max_depth > 0 ? probe->max_depth : probe->levels->n;

    probe->limit = limit;
    probe->next = INT64_MAX;
    gp_pool_reset(&probe->pool);
    part_map_clear(&probe->memo);
    *ret_found = false;
    gp_head_of(probe, root, &outside, &nothing, true, &head);
    for (x = 0; x < n; x++) {
        *ret_found = *ret_found || head->value[x] <= probe->problem->n_devices;
    }
}
