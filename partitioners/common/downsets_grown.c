/* SPDX-License-Identifier: Apache-2.0
 *
 * Downsets as PipeDream's optimizer finds them: breadth first from the first source.
 */
#include "downsets_impl.h"

#include <string.h>

#include "map.h"

struct growth {
    const struct part_dag *dag;
    const struct pst_host *host;
    struct part_downsets *sets;
    size_t room, added_room; /* sets and added nodes that there is memory for */
    uint32_t max_sets;
    uint64_t *down;  /* [n * n_words] what a node needs, itself included */
    uint32_t *table; /* [table_size] set + 1, 0: free; a power of two, twice max_sets at least */
    size_t table_size;
};

static uint64_t hash(const uint64_t *bits, uint32_t n_words)
{
    uint64_t h = 0x9E3779B97F4A7C15;
    uint32_t w;

    for (w = 0; w < n_words; w++) {
        h = (h ^ bits[w]) * 0xBF58476D1CE4E5B9;
        h ^= h >> 29;
    }
    return h;
}

/* Room for one more set and for its added nodes. */
static void room_for(struct growth *g, uint32_t n_added)
{
    struct part_downsets *sets = g->sets;
    size_t need = (size_t)sets->n_sets + 2, room = g->room;
    size_t added = (sets->n_sets == 0 ? 0 : sets->first_added[sets->n_sets]) + (size_t)n_added;

    if (need > room) {
        size_t bits = g->room * sets->n_words;

        part_grow(&sets->bits, sizeof *sets->bits, (room * 2 + 256) * sets->n_words, &bits);
        room = g->room;
        part_grow(&sets->parent, sizeof *sets->parent, room * 2 + 256, &room);
        room = g->room;
        part_grow(&sets->size, sizeof *sets->size, room * 2 + 256, &room);
        room = g->room;
        part_grow(&sets->first_added, sizeof *sets->first_added, room * 2 + 256, &room);
        g->room = room;
    }
    part_grow(&sets->added, sizeof *sets->added, added + 1, &g->added_room);
}

/* Appends parent + what `with` has beyond it, unless the set is there. */
static pst_status append(struct growth *g, uint32_t parent, const uint64_t *with)
{
    struct part_downsets *sets = g->sets;
    uint32_t k = sets->n_sets, w, n_added = 0;
    uint64_t *bits;
    size_t h;

    room_for(g, sets->n);
    bits = sets->bits + (size_t)k * sets->n_words;
    for (w = 0; w < sets->n_words; w++) {
        bits[w] = with[w] | (k == 0 ? 0 : sets->bits[(size_t)parent * sets->n_words + w]);
    }
    for (h = hash(bits, sets->n_words) & (g->table_size - 1); g->table[h] != 0;
         h = (h + 1) & (g->table_size - 1)) {
        if (memcmp(sets->bits + (size_t)(g->table[h] - 1) * sets->n_words, bits,
                   sets->n_words * sizeof *bits) == 0) {
            return PST_OK;
        }
    }
    if (k == g->max_sets) {
        return PST_ERR_INFEASIBLE;
    }
    g->table[h] = k + 1;
    sets->first_added[0] = 0;
    for (w = 0; k > 0 && w < sets->n_words; w++) {
        uint64_t more = bits[w] & ~sets->bits[(size_t)parent * sets->n_words + w];

        for (; more != 0; more &= more - 1) {
            sets->added[sets->first_added[k] + n_added++] =
                w * 64 + (uint32_t)__builtin_ctzll(more);
        }
    }
    sets->parent[k] = parent;
    sets->size[k] = (k == 0 ? 0 : sets->size[parent]) + n_added;
    sets->first_added[k + 1] = sets->first_added[k] + n_added;
    sets->n_sets++;
    return PST_OK;
}

/* All sets that one edge out of set k leads to. */
static pst_status follow(struct growth *g, uint32_t k)
{
    const struct part_dag *dag = g->dag;
    uint32_t e;
    pst_status status = PST_OK;

    for (e = 0; status == PST_OK && e < dag->n_edges; e++) {
        const uint64_t *bits = g->sets->bits + (size_t)k * g->sets->n_words;
        uint32_t from = dag->from[e], to = dag->to[e];

        if ((bits[from / 64] >> from % 64 & 1) != 0 && (bits[to / 64] >> to % 64 & 1) == 0) {
            status = append(g, k, g->down + (size_t)to * g->sets->n_words);
        }
    }
    if (status == PST_OK && k % 64 == 1) {
        call_go_on(g->host);
    }
    return status;
}

static void close_down(struct growth *g)
{
    const struct part_dag *dag = g->dag;
    uint32_t v, e, w, n_words = g->sets->n_words;

    for (v = 0; v < dag->n; v++) {
        uint64_t *down = g->down + (size_t)v * n_words;

        down[v / 64] |= UINT64_C(1) << v % 64;
        for (e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
            for (w = 0; w < n_words; w++) {
                down[w] |= g->down[(size_t)dag->from[dag->in_edges[e]] * n_words + w];
            }
        }
    }
}

static pst_status run(struct growth *g, const uint64_t *empty)
{
    struct part_downsets *sets = g->sets;
    uint32_t k;
    pst_status status = append(g, 0, empty);

    close_down(g);
    if (status == PST_OK && sets->n > 0) {
        status = append(g, 0, g->down); /* node 0 is the first source */
    }
    for (k = 1; status == PST_OK && k < sets->n_sets; k++) {
        status = follow(g, k);
    }
    return status;
}

pst_status part_downsets_grown(const struct part_dag *dag, uint32_t max_sets,
                               const struct pst_host *host, struct part_downsets *ret_sets,
                               uint64_t *ret_count, bool *ret_exact)
{
    struct part_downsets sets = {.n = dag->n, .n_words = dag->n / 64 + 1};
    struct growth g = {.dag = dag, .host = host, .sets = &sets, .max_sets = max_sets};
    uint64_t *empty = call_alloc(sets.n_words, sizeof *empty);
    pst_status status = PST_OK;

    for (g.table_size = 256; g.table_size < 2 * (size_t)max_sets + 2;) {
        g.table_size *= 2;
    }
    CALL_TAKE(g.table, g.table_size);
    CALL_TAKE(g.down, (size_t)dag->n * sets.n_words + 1);
    status = run(&g, empty);
    *ret_exact = status == PST_OK;
    *ret_count = status == PST_ERR_INFEASIBLE ? (uint64_t)max_sets + 1 : sets.n_sets;
    if (status == PST_OK) {
        downsets_sort(&sets);
    }
    if (status == PST_OK && sets.size[sets.n_sets - 1] != sets.n) {
        status = PST_ERR_UNSUPPORTED;
    }
    if (status != PST_OK) {
        return status;
    }
    *ret_sets = sets;
    return PST_OK;
}
