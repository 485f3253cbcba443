/* SPDX-License-Identifier: Apache-2.0
 *
 * Breadth-first pipeline: a device takes all micro-batches through one of its stages before it
 * turns to the next, so that the weights of a stage are needed once per pass. Lamy-Poirier,
 * "Breadth-First Pipeline Parallelism", MLSys 2023.
 */
#include "fixed.h"

struct config {
    int64_t chunks;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, chunks, PST_PARAM_INT, "2", "1..64", "Stages on each device."),
};

static uint32_t chunks_of(const void *config)
{
    return (uint32_t)((const struct config *)config)->chunks;
}

static pst_status build(const struct fixed_question *q, struct order *order)
{
    uint32_t d, c, j;
    pst_status st = PST_OK;

    for (d = 0; st == PST_OK && d < q->p; d++) {
        struct fixed_hand hand;

        fixed_hand_init(&hand, q, order, d);
        for (c = 0; c < q->v; c++) {
            for (j = 0; j < q->m; j++) {
                fixed_deal(&hand, PST_PASS_F, c);
            }
        }
        st = hand.status;
        for (c = q->v; c-- > 0;) {
            for (j = q->m; st == PST_OK && j-- > 0;) {
                st = order_add(order, hand.device, PST_PASS_BW, fixed_stage(q, d, c), j);
            }
        }
    }
    return st;
}

static const struct fixed_rules rules = {
    .id = "looped-bfs",
    .placement = FIXED_LOOPED,
    .chunks = chunks_of,
    .build = build,
};

FIXED_PLUGIN(
    "looped-bfs", "1.0", FIXED_WORDS("chain", "chunks", "placement=looped"),
    .summary = "All micro-batches through one stage, then the next: weights are needed once.",
    .reference = "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023",
    PST_PLUGIN_PARAMS(params, struct config))
