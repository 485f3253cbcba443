/* SPDX-License-Identifier: Apache-2.0
 *
 * Breadth-first pipeline: a device takes all micro-batches through one of its stages before it
 * turns to the next, so that the weights of a stage are needed once per pass. Lamy-Poirier,
 * "Breadth-First Pipeline Parallelism", MLSys 2023.
 */
#include "fixed.h"

static const struct pst_param params[] = {FIXED_CHUNKS_ROW};

static void deal(struct fixed_hand *hand)
{
    const struct fixed_question *q = hand->question;
    uint32_t c, j;

    for (c = 0; c < q->v; c++) {
        for (j = 0; j < q->m; j++) {
            fixed_deal(hand, PST_PASS_F, c);
        }
    }
    for (c = q->v; c-- > 0;) {
        for (j = q->m; j-- > 0;) {
            order_add(hand->order, hand->device, PST_PASS_BW, fixed_stage(q, hand->d, c), j);
        }
    }
}

static const struct fixed_rules rules = {
    .id = "looped-bfs",
    .placement = FIXED_LOOPED,
    .chunks = fixed_chunks_of,
    .deal = deal,
};

FIXED_PLUGIN(
    "looped-bfs", "1.0", SCHEDULER_WORDS("chain", "chunks", "placement=looped"),
    .summary = "All micro-batches through one stage, then the next: weights are needed once.",
    .reference = "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023",
    PST_PLUGIN_PARAMS(params, struct fixed_chunks))
