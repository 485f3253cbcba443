/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots of all devices while the repeated block of 1f1b-v is laid out and closed up.
 */
#ifndef SCHEDULERS_1F1B_V_BOARD_H
#define SCHEDULERS_1F1B_V_BOARD_H

#include "plugin_call.h"

/* Passes of a micro-batch in the order in which they run. A forward takes one slot, a backward two.
 */
enum { F0 = 0, F1 = 1, B1 = 2, B0 = 3, KINDS = 4 };

struct board {
    uint32_t p, m, n_slots;
    uint32_t *cells; /* [p][n_slots] 1 + micro-batch * KINDS + kind; 0: idle */
    uint32_t *at;    /* [p][m][KINDS] first slot of a pass */
    uint32_t *live;  /* [p][n_slots] micro-batches held during a slot, of either stage */
    uint32_t most;   /* held anywhere by the block as it was laid out */
};

static inline uint32_t board_length(uint32_t kind)
{
    return kind < B1 ? 1 : 2;
}

/* The repeated block for m micro-batches. */
void board_init(struct board *board, uint32_t p, uint32_t m);
/* Moves passes to earlier slots, first come first served, while no device holds more than `most`.
 */
void board_close_up(struct board *board);

#endif
