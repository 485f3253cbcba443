/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B on a V with fused backwards: a block of one micro-batch, repeated every six slots, then
 * closed up. Two thirds of the memory of 1F1B. Qi et al., "Pipeline Parallelism with Controllable
 * Memory", NeurIPS 2024.
 */
#include "board.h"
#include "fixed.h"

enum { DOWN = 0, UP = 1 }; /* chunks */

/* The passes of device d in the order of their slots. */
static void read_device(const struct fixed_question *q, const struct board *board, uint32_t d,
                        struct order *order)
{
    struct fixed_hand hand;
    uint32_t slot;

    fixed_hand_init(&hand, q, order, d);
    for (slot = 0; slot < board->n_slots; slot++) {
        uint32_t cell = board->cells[(size_t)d * board->n_slots + slot];
        uint32_t kind = (cell - 1) % KINDS;

        if (cell != 0) {
            fixed_deal(&hand, kind < B1 ? PST_PASS_F : PST_PASS_BW,
                       kind == F0 || kind == B0 ? DOWN : UP);
            slot += board_length(kind) - 1;
        }
    }
}

static void build(const struct fixed_question *q, struct order *order)
{
    struct board board;

    board_init(&board, q->p, q->m);
    board_close_up(&board);
    for (uint32_t d = 0; d < q->p; d++) {
        read_device(q, &board, d, order);
    }
}

static const struct fixed_rules rules = {
    .id = "1f1b-v",
    .placement = FIXED_VSHAPE,
    .build = build,
};

FIXED_PLUGIN("1f1b-v", "1.0", SCHEDULER_WORDS("chain", "chunks=2", "placement=vshape"),
             .summary = "1F1B on a V of two stages per device: two thirds of the memory.",
             .reference = "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
             PST_PLUGIN_NO_PARAMS)
