/* SPDX-License-Identifier: Apache-2.0
 *
 * D(s, status): what the forward pass leaves, which parked micro-batches hold as well.
 */
#include "chain.h"

#include <stddef.h>

#include "mem_plugin.h"

struct sweep {
    const struct pst_host *host;
    const struct rotor_chain *chain;
    struct rotor_tables tables;
    uint64_t *rows;  /* [n + 1][slots + 1] D of one kappa */
    uint32_t kappa;  /* status is at most this */
    uint32_t m0;     /* slots of the active micro-batch before it leaves anything */
    uint32_t budget; /* slots for it and all that is parked, but for inputs */
};

static uint64_t *row_of(const struct sweep *w, uint32_t s)
{
    return w->rows + (size_t)s * ((size_t)w->tables.slots + 1);
}

/* "all": what it needs, and what comes of it. */
static uint64_t all_ns(const struct sweep *w, uint32_t s, uint32_t status, uint32_t m)
{
    const struct rotor_tables *t = &w->tables;

    if (m < t->save_peak[s] || m < t->back_peak[s] || status + t->saved[s] > w->kappa) {
        return ROTOR_NEVER;
    }
    return t->forward[s + 1] - t->forward[s] + t->backward[s] +
           row_of(w, s + 1)[status + t->saved[s]];
}

/* "ck j"; j = n: the forward pass keeps nothing of the last layers. */
static uint64_t checkpoint_ns(const struct sweep *w, uint32_t s, uint32_t j, uint32_t status,
                              uint32_t m)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t x = j < t->n ? t->x[j - 1] : 0;

    if (m < t->passes[s][j] || m < x || status + x > w->kappa) {
        return ROTOR_NEVER;
    }
    return t->forward[j] - t->forward[s] + row_of(w, j)[status + x] + rotor_row(t, s, j - 1)[m];
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* checkpoint_ns for all status, in loops without branches. */
static void checkpoint(const struct sweep *w, uint32_t s, uint32_t j, uint32_t top)
{
    const struct rotor_tables *t = &w->tables;
    const uint32_t x = j < t->n ? t->x[j - 1] : 0;
    const uint64_t *rest = row_of(w, j) + x, *left = rotor_row(t, s, j - 1) + w->m0;
    uint64_t *row = row_of(w, s), ns = t->forward[j] - t->forward[s];
    uint32_t least = t->passes[s][j] > x ? t->passes[s][j] : x;

    if (w->kappa < x || w->m0 < least) {
        return;
    }
    top = smaller(top, smaller(w->kappa - x, w->m0 - least));
    for (uint32_t status = 0; status <= top; status++) {
        uint64_t sum = ns + rest[status] + left[-(ptrdiff_t)status];

        row[status] = sum < row[status] ? sum : row[status];
    }
}

/* "all", likewise; nothing else is there yet. */
static void save(const struct sweep *w, uint32_t s, uint32_t top)
{
    const struct rotor_tables *t = &w->tables;
    const uint64_t *rest = row_of(w, s + 1) + t->saved[s];
    uint64_t *row = row_of(w, s), ns = t->forward[s + 1] - t->forward[s] + t->backward[s];
    uint32_t least = t->save_peak[s] > t->back_peak[s] ? t->save_peak[s] : t->back_peak[s];

    if (w->kappa < t->saved[s] || w->m0 < least) {
        return;
    }
    top = smaller(top, smaller(w->kappa - t->saved[s], w->m0 - least));
    for (uint32_t status = 0; status <= top; status++) {
        row[status] = ns + rest[status];
    }
}

/* D of all s and status <= kappa. */
ROTOR_WIDE static void fill(struct sweep *w)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t top = w->kappa < w->m0 ? w->kappa : w->m0;

    for (uint32_t status = 0; status <= t->slots; status++) {
        row_of(w, t->n)[status] = status <= top ? 0 : ROTOR_NEVER;
    }
    for (uint32_t s = t->n; s-- > 0;) {
        uint64_t *row = row_of(w, s);

        for (uint32_t status = 0; status <= t->slots; status++) {
            row[status] = ROTOR_NEVER;
        }
        save(w, s, top);
        for (uint32_t j = s + 1; j <= t->n; j++) {
            checkpoint(w, s, j, top);
        }
        for (uint32_t status = 0; status <= top; status++) {
            row[status] = smaller(row[status], ROTOR_NEVER);
        }
        call_go_on(w->host);
    }
}

/* D(0, 0) where up to `most` are left, and the active micro-batch has what `parked` leaves it: with
   both the same the time of a plan, with most above parked no more than that of any in between. */
static uint64_t time_of(struct sweep *w, uint32_t parked, uint32_t most)
{
    uint64_t bytes = (w->chain->in_flight - 1) * parked;

    if (bytes > w->budget) {
        return ROTOR_NEVER;
    }
    w->kappa = most;
    w->m0 = (uint32_t)smaller(w->budget - bytes, w->tables.slots);
    fill(w);
    return row_of(w, 0)[0];
}

struct search {
    uint64_t ns; /* of the best kappa so far */
    uint32_t kappa;
};

/* Looks at all kappas from first to last, halves by which no plan gets better left out. */
static void search(struct sweep *w, uint32_t first, uint32_t last, struct search *best)
{
    uint32_t middle = first + (last - first) / 2;
    uint64_t ns = time_of(w, first, last);

    if (ns >= best->ns) {
        return;
    }
    if (first == last) {
        *best = (struct search){ns, first};
        return;
    }
    search(w, middle + 1, last, best);
    search(w, first, middle, best);
}

/* The steps that give D(0, 0), as replays. */
static void trace(const struct sweep *w, struct rotor_plan *plan)
{
    const struct rotor_tables *t = &w->tables;
    uint32_t from[ROTOR_MOST_LAYERS], until[ROTOR_MOST_LAYERS], left[ROTOR_MOST_LAYERS];
    uint32_t s = 0, status = 0, n = 0;

    plan->n = 0;
    while (s < t->n) {
        uint64_t best = row_of(w, s)[status];
        uint32_t m = w->m0 - status, j = s + 1;

        if (best == all_ns(w, s, status, m)) {
            status += t->saved[s++];
            continue;
        }
        while (j < t->n && best != checkpoint_ns(w, s, j, status, m)) {
            j++;
        }
        from[n] = s;
        until[n] = j - 1;
        left[n++] = m;
        status += j < t->n ? t->x[j - 1] : 0;
        s = j;
    }
    while (n-- > 0) {
        rotor_tables_replays(t, w->chain, from[n], until[n], left[n], plan);
    }
}

static uint64_t largest(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t most = a > b ? a : b;

    return most > c ? most : c;
}

/* Bytes of one micro-batch beyond which no plan gets better: everything saved, and while the last
   of it runs again the largest gradient that can wait meanwhile. */
static uint64_t ample(const struct rotor_chain *chain)
{
    uint64_t before = 0, waiting = 0, most = 1;

    for (uint32_t l = 0; l < chain->n; l++) {
        before += chain->layers[l].saved;
    }
    most = largest(most, before, 0);
    for (uint32_t l = chain->n; l-- > 0;) {
        const struct rotor_layer *layer = &chain->layers[l];

        before -= layer->saved;
        waiting = largest(waiting, layer->gradient, 0);
        most = largest(most, before + layer->back_peak,
                       before + waiting + largest(layer->save_peak, layer->pass_peak, 0));
    }
    return most;
}

/* The greatest common divisor of all sizes: finer slots are of no use. */
static uint64_t grain(const struct rotor_chain *chain)
{
    uint64_t bytes = 0;

    for (uint32_t l = 0; l < chain->n; l++) {
        const struct rotor_layer *layer = &chain->layers[l];
        const uint64_t sizes[] = {layer->x,         layer->gradient,  layer->saved,
                                  layer->save_peak, layer->pass_peak, layer->back_peak};

        for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            bytes = mem_divisor(bytes, sizes[i]);
        }
    }
    return bytes > 0 ? bytes : 1;
}

/* Slots: parts of the memory that one micro-batch has at most, and needs at most; exact where the
   sizes are multiples of enough bytes. */
static bool set_slots(struct sweep *w, uint32_t slots)
{
    const struct rotor_chain *chain = w->chain;
    uint64_t inputs = chain->in_flight * chain->input_bytes, least = grain(chain), most, bytes;
    __extension__ typedef unsigned __int128 wide;
    wide budget;

    if (chain->capacity < chain->fixed_bytes || chain->capacity - chain->fixed_bytes < inputs) {
        return false;
    }
    bytes = chain->capacity - chain->fixed_bytes - inputs;
    most = smaller(ample(chain), bytes);
    w->tables.slots = slots;
    w->tables.unit_of = most;
    if (most / least <= slots) {
        w->tables.slots = most / least > 0 ? (uint32_t)(most / least) : 1;
        w->tables.unit_of = w->tables.slots * least;
    }
    budget = (wide)bytes * w->tables.slots / w->tables.unit_of;
    w->budget = budget < UINT32_MAX / 2 ? (uint32_t)budget : UINT32_MAX / 2;
    return true;
}

static void take_rows(struct sweep *w)
{
    size_t n = w->tables.n, row = (size_t)w->tables.slots + 1;
    size_t table = n * (n + 1) / 2 * row;

    CALL_TAKE(w->tables.cells, table + (n + 1) * row);
    w->rows = w->tables.cells + table;
}

uint64_t rotor_chain_solve(const struct rotor_chain *chain, uint32_t slots,
                           const struct pst_host *host, struct rotor_plan *ret_plan)
{
    struct sweep w = {.host = host, .chain = chain, .tables.n = chain->n};
    struct search best = {.ns = ROTOR_NEVER};

    if (!set_slots(&w, slots)) {
        return ROTOR_NEVER;
    }
    take_rows(&w);
    rotor_tables_fill(&w.tables, chain, host);
    if (chain->in_flight == 1) { /* nothing is parked: only the largest counts */
        best.kappa = w.tables.slots;
        best.ns = time_of(&w, 0, w.tables.slots);
    } else {
        /* the active micro-batch has to have room for what it leaves, too */
        search(&w, 0, (uint32_t)smaller(w.budget / chain->in_flight, w.tables.slots), &best);
    }
    if (best.ns < ROTOR_NEVER) {
        time_of(&w, best.kappa, best.kappa);
        trace(&w, ret_plan);
    }
    call_free(w.tables.cells);
    return best.ns;
}
