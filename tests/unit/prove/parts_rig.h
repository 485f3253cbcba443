/* SPDX-License-Identifier: Apache-2.0
 *
 * Rigs with the graph of a part, and plans of ranks that come of plans of groups.
 */
#ifndef TESTS_PROVE_PARTS_RIG_H
#define TESTS_PROVE_PARTS_RIG_H

#include "graph/split.h"
#include "unit/plan/groups.h"
#include "unit/prove/rig.h"

#define GPT   "layers=2 dim=16 heads=4 context=8 vocab=11"
#define LLAMA "layers=2 dim=32 heads=4 kv_heads=2 context=8 vocab=11 ff=24"

static inline void open_division(struct rig *rig, const char *model, const char *settings,
                                 const struct pst_division *how, uint64_t seed)
{
    struct pst_error err = {0};
    struct pst_graph *local = NULL;

    rig_open(rig, model, settings, seed);
    assert_ok(pst_graph_split(rig->graph, how, &local, &err), &err);
    rig->graph = local;
    rig->cost.graph = local;
}

static inline void open_parts(struct rig *rig, const char *model, const char *settings,
                              uint32_t parts, bool sequence, uint64_t seed)
{
    open_division(rig, model, settings,
                  &(struct pst_division){.parts = parts, .sequence = sequence}, seed);
}

/* The operators of the model, dealt to n_stages stages in a row; stage s has degrees[s % n]. The
   operators of each stage then end at shape->ends. False: such a model cannot be divided so, and
   the rig is closed. */
static inline bool open_degrees(struct rig *rig, const char *model, const char *settings,
                                bool sequence, struct rig_shape *shape, const uint32_t *degrees,
                                uint32_t *ret_ends, uint64_t seed)
{
    const uint32_t n_stages = shape->devices * shape->chunks;
    struct pst_division how = {.sequence = sequence};
    struct pst_error err = {0};
    struct pst_graph *local = NULL;
    uint16_t *degree_of;
    uint32_t n, at = 0;

    rig_open(rig, model, settings, seed);
    n = rig->graph->n_ops;
    degree_of = calloc(n, sizeof *degree_of);
    for (uint32_t s = 0; s < n_stages; s++) {
        const uint32_t left = n - at - (n_stages - s - 1);
        const uint32_t most = 1 + 2 * left / (n_stages - s);
        uint32_t take = s + 1 == n_stages ? left : 1 + rig_draw(rig, most < left ? most : left);

        for (; take > 0 && at < n; take--) {
            degree_of[at++] = (uint16_t)degrees[s % shape->devices];
        }
        ret_ends[s] = at;
    }
    how.degree_of = degree_of;
    if (pst_graph_split(rig->graph, &how, &local, &err) != PST_OK) {
        free(degree_of);
        rig_close(rig);
        return false;
    }
    free(degree_of);
    rig->graph = local;
    rig->cost.graph = local;
    for (uint32_t s = 0, v = 0; s < n_stages; s++) {
        while (v < local->n_ops && local->op_of[v] < ret_ends[s]) {
            v++;
        }
        ret_ends[s] = v;
    }
    shape->ends = ret_ends;
    return true;
}

/* From the plan of groups to that of ranks. */
static inline void expand(struct rig *rig)
{
    struct pst_plan *groups = rig->plan, *ranks;

    expand_groups(groups, rig->graph, &ranks);
    assert_true(ranks->n_devices <= RIG_MAX);
    rig_drop_plan(rig);
    rig->plan = ranks;
    rig_programs(rig);
}

#endif
