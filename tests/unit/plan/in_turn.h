/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose memory can be counted by hand: equal stages of a chain under 1F1B, two samples to a
 * micro-batch.
 */
#ifndef PST_TEST_PLAN_IN_TURN_H
#define PST_TEST_PLAN_IN_TURN_H

#include "unit/prove/rig.h"

#define IN_TURN_MOST 80 /* passes of a device */

static inline uint32_t in_turn(uint32_t d, uint32_t p, uint32_t m, struct pst_pass *order)
{
    uint32_t n = 0, warm = p - 1 - d < m ? p - 1 - d : m, f = 0;
    for (; f < warm; f++) {
        order[n++] = (struct pst_pass){PST_PASS_F, d, f};
    }
    for (uint32_t b = 0; b < m; b++) {
        if (f < m) {
            order[n++] = (struct pst_pass){PST_PASS_F, d, f++};
        }
        order[n++] = (struct pst_pass){PST_PASS_BW, d, b};
    }
    return n;
}

/* p stages of m micro-batches; actions are all keep, and may be changed before the lists are made.
 */
static inline void in_turn_stages(struct rig *rig, uint32_t p, uint32_t m)
{
    uint32_t n = rig->graph->n_ops, nodes[256];
    assert_true(n <= 256 && p <= RIG_MAX && 2 * m <= IN_TURN_MOST);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig->graph, 2 * m, p, &rig->plan);
    for (uint32_t d = 0; d < p; d++) {
        uint32_t begin = d * n / p, end = (d + 1) * n / p;
        pst_plan_add_stage(rig->plan, nodes + begin, end - begin, &d, 1, 2, 1);
    }
    rig->plan->optimizer_slots = 1;
}

/* Lists and programs of these stages. */
static inline void in_turn_lists(struct rig *rig)
{
    struct pst_error err = {0};
    struct pst_pass orders[RIG_MAX][IN_TURN_MOST];
    const struct pst_pass *lists[RIG_MAX];
    uint32_t n_passes[RIG_MAX], p = rig->plan->n_stages;
    for (uint32_t d = 0; d < p; d++) {
        n_passes[d] = in_turn(d, p, rig->plan->stages[d].n_microbatches, orders[d]);
        lists[d] = orders[d];
    }
    assert_int_equal(pst_plan_connect(rig->plan, rig->graph, &err), PST_OK);
    assert_int_equal(pst_plan_lower(rig->plan, rig->graph, &rig->cost, lists, n_passes, true, &err),
                     PST_OK);
    rig_programs(rig);
}

#endif
