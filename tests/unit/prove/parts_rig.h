/* SPDX-License-Identifier: Apache-2.0
 *
 * Rigs with the graph of a part, and plans of ranks that come of plans of groups.
 */
#ifndef TESTS_PROVE_PARTS_RIG_H
#define TESTS_PROVE_PARTS_RIG_H

#include "graph/split.h"
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

/* From the plan of groups to that of ranks. */
static inline void expand(struct rig *rig)
{
    struct pst_plan *groups = rig->plan, *ranks;

    pst_plan_expand(groups, rig->graph, &ranks);
    assert_true(ranks->n_devices <= RIG_MAX);
    rig_drop_plan(rig);
    rig->plan = ranks;
    rig_programs(rig);
}

#endif
