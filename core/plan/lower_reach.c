/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the ranks of an unrolled plan get when each halts before some pass: transfers meet at
 * both ends, each queue first in, first out. Where all stand then, a meeting of all can be put.
 */
#include <stdlib.h>

#include "plan/lower.h"

struct rank {
    const struct pst_instr *list;
    bool *done;
    uint32_t halt, pc, send, recv;
};

/* The first instruction behind the pass before pass `n`, and what it sends. */
static uint32_t end_of_pass(const struct pst_plan_device *device, uint32_t n)
{
    uint32_t i = 0, passes = 0;

    for (; i < device->n_instrs && passes < n; i++) {
        passes += device->body[i].op <= PST_I_R;
    }
    while (n > 0 && i < device->n_instrs && device->body[i].op != PST_I_RECV &&
           device->body[i].op > PST_I_R) {
        i++;
    }
    return n > 0 ? i : 0;
}

static bool walk(struct rank *rank)
{
    uint32_t before = rank->pc;

    for (; rank->pc < rank->halt; rank->pc++) {
        const struct pst_instr *instr = &rank->list[rank->pc];

        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (!rank->done[instr->waits[w]]) {
                return rank->pc > before;
            }
        }
        rank->done[rank->pc] = instr->op != PST_I_SEND && instr->op != PST_I_RECV;
    }
    return rank->pc > before;
}

/* The first open transfer of a kind; pc: none. */
static uint32_t head(const struct rank *rank, uint32_t from, uint8_t op)
{
    while (from < rank->pc && (rank->list[from].op != op || rank->done[from])) {
        from++;
    }
    return from;
}

static bool meet(struct rank *ranks, uint32_t r)
{
    struct rank *self = &ranks[r], *peer;
    const struct pst_instr *send, *recv;

    self->send = head(self, self->send, PST_I_SEND);
    if (self->send == self->pc) {
        return false;
    }
    send = &self->list[self->send];
    peer = &ranks[send->peer];
    peer->recv = head(peer, peer->recv, PST_I_RECV);
    if (peer->recv == peer->pc) {
        return false;
    }
    recv = &peer->list[peer->recv];
    if (recv->peer != r || recv->stage != send->stage || recv->payload != send->payload ||
        recv->first_sample != send->first_sample) {
        return false;
    }
    self->done[self->send] = peer->done[peer->recv] = true;
    return true;
}

pst_status pst_lowering_reach(const struct pst_plan *unrolled, uint32_t *io_passes,
                              struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct rank *ranks = pst_arena_array(&arena, unrolled->n_devices, sizeof *ranks);
    bool moved = ranks != NULL;

    for (uint32_t r = 0; ranks != NULL && r < unrolled->n_devices; r++) {
        const struct pst_plan_device *device = &unrolled->devices[r];

        ranks[r].list = device->body;
        ranks[r].halt = end_of_pass(device, io_passes[r]);
        ranks[r].done = pst_arena_array(&arena, device->n_instrs, sizeof *ranks[r].done);
        if (ranks[r].done == NULL) {
            ranks = NULL;
        }
    }
    if (ranks == NULL) {
        pst_arena_finish(&arena);
        return pst_fail_nomem(err);
    }
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < unrolled->n_devices; r++) {
            moved |= walk(&ranks[r]);
            while (meet(ranks, r)) {
                moved = true;
            }
        }
    }
    for (uint32_t r = 0; r < unrolled->n_devices; r++) {
        io_passes[r] = 0;
        for (uint32_t i = 0; i < ranks[r].pc; i++) {
            io_passes[r] += ranks[r].list[i].op <= PST_I_R;
        }
    }
    pst_arena_finish(&arena);
    return PST_OK;
}
