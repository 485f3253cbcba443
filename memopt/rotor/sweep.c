/* SPDX-License-Identifier: Apache-2.0
 *
 * D(s, st): what the forward pass leaves, which parked micro-batches hold as well.
 */
#include "chain.h"

struct sweep {
    const struct rotor_chain *chain;
    struct rotor_tables tables;
    uint64_t *rows;  /* [n + 1][slots + 1] D of one kappa */
    uint32_t kappa;  /* st is at most this */
    uint32_t m0;     /* slots of the active micro-batch before it leaves anything */
    uint32_t budget; /* slots for it and all that is parked, but for inputs */
};

static uint64_t *row_of(const struct sweep *w, uint32_t s)
{
    return w->rows + (size_t)s * ((size_t)w->tables.slots + 1);
}

/* The forward pass may keep nothing of the last layers: those from s on are replayed as a whole. */
static uint64_t none_ns(const struct sweep *w, uint32_t s, uint32_t m)
{
    const struct rotor_tables *t = &w->tables;

    return m < t->passes[s][t->n] ? ROTOR_NEVER
                                  : t->forward[t->n] - t->forward[s] + rotor_row(t, s, t->n - 1)[m];
}

/* "all": what it needs, and what comes of it. */
static uint64_t all_ns(const struct sweep *w, uint32_t s, uint32_t st, uint32_t m)
{
    const struct rotor_tables *t = &w->tables;

    if (m < t->save_peak[s] || m < t->back_peak[s] || st + t->saved[s] > w->kappa) {
        return ROTOR_NEVER;
    }
    return t->forward[s + 1] - t->forward[s] + t->backward[s] + row_of(w, s + 1)[st + t->saved[s]];
}

/* "ck j", j < n. */
static uint64_t checkpoint_ns(const struct sweep *w, uint32_t s, uint32_t j, uint32_t st,
                              uint32_t m)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t x = t->x[j - 1];

    if (m < t->passes[s][j] || m < x || st + x > w->kappa) {
        return ROTOR_NEVER;
    }
    return t->forward[j] - t->forward[s] + row_of(w, j)[st + x] + rotor_row(t, s, j - 1)[m];
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* D of all s and st <= kappa. */
static void fill(struct sweep *w)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t top = w->kappa < w->m0 ? w->kappa : w->m0;

    for (uint32_t st = 0; st <= t->slots; st++) {
        row_of(w, t->n)[st] = st <= top ? 0 : ROTOR_NEVER;
    }
    for (uint32_t s = t->n; s-- > 0;) {
        uint64_t *row = row_of(w, s);

        for (uint32_t st = 0; st <= t->slots; st++) {
            row[st] = st <= top ? smaller(all_ns(w, s, st, w->m0 - st), none_ns(w, s, w->m0 - st))
                                : ROTOR_NEVER;
        }
        for (uint32_t j = s + 1; j < t->n; j++) {
            for (uint32_t st = 0; st <= top; st++) {
                row[st] = smaller(row[st], checkpoint_ns(w, s, j, st, w->m0 - st));
            }
        }
        for (uint32_t st = 0; st <= top; st++) {
            row[st] = smaller(row[st], ROTOR_NEVER);
        }
    }
}

/* m0 of a kappa; false: the parked bytes do not fit, or a smaller kappa is as good. */
static bool set_kappa(struct sweep *w, uint32_t kappa)
{
    uint64_t parked = (w->chain->in_flight - 1) * kappa;

    if (parked > w->budget) {
        return false;
    }
    w->kappa = kappa;
    w->m0 = w->budget - (uint32_t)parked;
    w->m0 = w->m0 < w->tables.slots ? w->m0 : w->tables.slots;
    /* what the active micro-batch has no room for is not parked either */
    return w->chain->in_flight == 1 || kappa <= w->m0;
}

/* The steps behind D(0, 0), as replays. */
static void trace(const struct sweep *w, struct rotor_plan *plan)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t from[ROTOR_MOST_LAYERS], until[ROTOR_MOST_LAYERS], left[ROTOR_MOST_LAYERS];
    uint32_t s = 0, st = 0, n = 0;

    plan->n = 0;
    while (s < t->n) {
        uint64_t best = row_of(w, s)[st];
        uint32_t m = w->m0 - st, j = s + 1;

        if (best == all_ns(w, s, st, m)) {
            st += t->saved[s++];
            continue;
        }
        while (j < t->n && best != checkpoint_ns(w, s, j, st, m)) {
            j++;
        }
        from[n] = s;
        until[n] = j - 1;
        left[n++] = m;
        st += j < t->n ? t->x[j - 1] : 0;
        s = j;
    }
    while (n-- > 0) {
        rotor_tables_replays(t, w->chain, from[n], until[n], left[n], plan);
    }
}

/* Bytes that suffice for one micro-batch with everything saved. */
static uint64_t ample(const struct rotor_chain *chain)
{
    uint64_t saved = 0, most = 1;

    for (uint32_t l = 0; l < chain->n; l++) {
        const struct rotor_layer *layer = &chain->layers[l];
        uint64_t need = layer->save_peak > layer->back_peak ? layer->save_peak : layer->back_peak;

        most = saved + need > most ? saved + need : most;
        saved += layer->saved;
    }
    return most > saved ? most : saved;
}

/* Slots: parts of the memory that one micro-batch has at most, and needs at most. */
static bool set_slots(struct sweep *w, uint32_t slots)
{
    const struct rotor_chain *chain = w->chain;
    uint64_t inputs = chain->in_flight * chain->input_bytes, most = ample(chain), bytes;
    __extension__ typedef unsigned __int128 wide;
    wide budget;

    if (chain->capacity < chain->fixed_bytes || chain->capacity - chain->fixed_bytes < inputs) {
        return false;
    }
    bytes = chain->capacity - chain->fixed_bytes - inputs;
    most = most < bytes ? most : bytes;
    w->tables.slots = most < slots ? (uint32_t)most : slots; /* no finer than bytes */
    w->tables.unit_of = most;
    if (most == 0) {
        w->tables.slots = w->tables.unit_of = 1;
        bytes = 0;
    }
    budget = (wide)bytes * w->tables.slots / w->tables.unit_of;
    w->budget = budget < UINT32_MAX / 2 ? (uint32_t)budget : UINT32_MAX / 2;
    return true;
}

static bool make_room(struct sweep *w, struct rotor_room *room)
{
    size_t n = w->tables.n, row = (size_t)w->tables.slots + 1;
    size_t table = n * (n + 1) / 2 * row, all = table + (n + 1) * row;

    if (!rotor_room_reserve(room, all)) {
        return false;
    }
    w->tables.cells = room->cells;
    w->rows = room->cells + table;
    return true;
}

pst_status rotor_chain_solve(const struct rotor_chain *chain, uint32_t slots,
                             struct rotor_room *room, struct rotor_plan *ret_plan, uint64_t *ret_ns)
{
    struct sweep w = {.chain = chain, .tables.n = chain->n};
    uint32_t best_kappa = 0, least;
    pst_status st;

    *ret_ns = ROTOR_NEVER;
    if (!set_slots(&w, slots)) {
        return PST_OK;
    }
    if (!make_room(&w, room)) {
        return PST_ERR_NOMEM;
    }
    st = rotor_tables_fill(&w.tables, chain, room->host);
    /* one in flight: nothing is parked, so only the largest counts */
    least = chain->in_flight == 1 ? w.tables.slots : 0;
    for (uint32_t kappa = w.tables.slots + 1; st == PST_OK && kappa-- > least;) {
        if (room->host->cancelled != NULL && room->host->cancelled(room->host)) {
            return PST_ERR_CANCELLED;
        }
        if (!set_kappa(&w, kappa)) {
            continue;
        }
        fill(&w);
        if (row_of(&w, 0)[0] < *ret_ns) {
            *ret_ns = row_of(&w, 0)[0];
            best_kappa = kappa;
        }
    }
    if (st == PST_OK && *ret_ns < ROTOR_NEVER && set_kappa(&w, best_kappa)) {
        fill(&w);
        trace(&w, ret_plan);
    }
    return st;
}
