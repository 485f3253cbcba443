/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B on a V with fused backwards: a block of one micro-batch, repeated every six slots, then
 * closed up. Two thirds of the memory of 1F1B. Qi et al., "Pipeline Parallelism with Controllable
 * Memory", NeurIPS 2024.
 */
#include "fixed.h"

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

#define PERIOD 6

static uint32_t *at_of(const struct board *board, uint32_t d, uint32_t j, uint32_t kind)
{
    return &board->at[((size_t)d * board->m + j) * KINDS + kind];
}

/* First slots of micro-batch 0. Backwards go down the V and up again, two slots each; after every
   third the period is full of others' passes, and they wait for three slots. */
static void lay_block(struct board *board)
{
    uint32_t p = board->p, slot = 2 * p + (p % 3 == 0 ? 3 : 0), full = p % 3 == 1 ? 0 : 2, i;

    for (i = 0; i < p; i++) {
        *at_of(board, i, 0, F0) = i;
        *at_of(board, i, 0, F1) = 2 * p - 1 - i;
    }
    for (i = 0; i < 2 * p; i++) {
        uint32_t d = i < p ? i : 2 * p - 1 - i;

        *at_of(board, d, 0, i < p ? B1 : B0) = slot;
        slot += 2;
        if (++full == 3) {
            full = 0;
            slot += 3;
        }
    }
    board->n_slots = slot + PERIOD * (board->m - 1);
}

static void occupy(struct board *board, uint32_t d, uint32_t j, uint32_t kind, uint32_t slot,
                   bool there)
{
    uint32_t *cell = &board->cells[(size_t)d * board->n_slots + slot], i;

    for (i = 0; i < board_length(kind); i++) {
        cell[i] = there ? 1 + j * KINDS + kind : 0;
    }
}

static void count_live(struct board *board, uint32_t d)
{
    uint32_t *live = &board->live[(size_t)d * board->n_slots], now = 0, ended = 0, slot;

    for (slot = 0; slot < board->n_slots; slot++) {
        uint32_t cell = board->cells[(size_t)d * board->n_slots + slot];
        uint32_t kind = (cell - 1) % KINDS, j = (cell - 1) / KINDS;

        now -= ended;
        ended = 0;
        if (cell != 0) {
            now += kind < B1;
            ended = kind >= B1 && *at_of(board, d, j, kind) < slot;
        }
        live[slot] = now;
        board->most = now > board->most ? now : board->most;
    }
}

/* The repeated block for m micro-batches. */
static void board_init(struct board *board, uint32_t p, uint32_t m)
{
    uint32_t d, j, kind;

    *board = (struct board){.p = p, .m = m};
    if (m > (UINT32_MAX / 2 - 16 * (uint64_t)p) / PERIOD) {
        call_end(PST_ERR_NOMEM);
    }
    CALL_TAKE(board->at, (size_t)p * m * KINDS);
    lay_block(board);
    CALL_TAKE(board->cells, (size_t)p * board->n_slots);
    CALL_TAKE(board->live, (size_t)p * board->n_slots);
    for (d = 0; d < p; d++) {
        for (j = 0; j < m; j++) {
            for (kind = 0; kind < KINDS; kind++) {
                *at_of(board, d, j, kind) = *at_of(board, d, 0, kind) + PERIOD * j;
                occupy(board, d, j, kind, *at_of(board, d, j, kind), true);
            }
        }
        count_live(board, d);
    }
}

/* First slot after a pass. */
static uint32_t end_of(const struct board *board, uint32_t d, uint32_t j, uint32_t kind)
{
    return *at_of(board, d, j, kind) + board_length(kind);
}

/* When all that the pass needs, and the micro-batch before it, has ended. */
static uint32_t earliest(const struct board *board, uint32_t d, uint32_t j, uint32_t kind)
{
    const bool down = kind == F0 || kind == B1;
    const uint32_t first = down ? 0 : board->p - 1, neighbour = down ? d - 1 : d + 1;
    uint32_t need = 0, before = j > 0 ? end_of(board, d, j - 1, kind) : 0;

    if (d != first) {
        need = end_of(board, neighbour, j, kind);
    } else if (kind != F0) {
        need = end_of(board, d, j, kind - 1);
    }
    return need > before ? need : before;
}

/* A forward that moves is held for longer: not where the device is full. */
static uint32_t leftmost(const struct board *board, uint32_t d, uint32_t j, uint32_t kind)
{
    const uint32_t *live = &board->live[(size_t)d * board->n_slots];
    uint32_t bound = earliest(board, d, j, kind), slot = *at_of(board, d, j, kind);

    if (kind >= B1) {
        return bound;
    }
    while (slot > bound && live[slot - 1] < board->most) {
        slot--;
    }
    return slot;
}

static bool is_free(const struct board *board, uint32_t d, uint32_t slot, uint32_t length)
{
    const uint32_t *cell = &board->cells[(size_t)d * board->n_slots + slot];

    return cell[0] == 0 && (length == 1 || cell[1] == 0);
}

static void move(struct board *board, uint32_t d, uint32_t j, uint32_t kind)
{
    uint32_t *live = &board->live[(size_t)d * board->n_slots];
    uint32_t old = *at_of(board, d, j, kind), slot = leftmost(board, d, j, kind), i;
    uint32_t length = board_length(kind);

    occupy(board, d, j, kind, old, false);
    while (slot < old && !is_free(board, d, slot, length)) {
        slot++;
    }
    occupy(board, d, j, kind, slot, true);
    *at_of(board, d, j, kind) = slot;
    for (i = slot; i < old; i++) {
        if (kind < B1) {
            live[i]++;
        } else {
            live[i + length]--;
        }
    }
}

/* Moves passes to earlier slots, first come first served, while no device holds more than `most`.
 */
static void close_up(struct board *board)
{
    uint32_t slot, d;

    for (slot = 0; slot < board->n_slots; slot++) {
        for (d = 0; d < board->p; d++) {
            uint32_t cell = board->cells[(size_t)d * board->n_slots + slot];
            uint32_t j = (cell - 1) / KINDS, kind = (cell - 1) % KINDS;

            if (cell != 0 && *at_of(board, d, j, kind) == slot) {
                move(board, d, j, kind);
            }
        }
    }
}

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
    close_up(&board);
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
