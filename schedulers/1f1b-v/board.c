/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

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

void board_init(struct board *board, uint32_t p, uint32_t m)
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

void board_close_up(struct board *board)
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
