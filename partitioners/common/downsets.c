/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists downsets. Each is reached once: nodes are added in ascending order, so the parent of a set
 * is the set without its largest node.
 */
#include "downsets_impl.h"

#include <string.h>

/* Arrays for sets->n_sets sets, but for bits. */
static void make_room(struct part_downsets *sets, size_t n_added)
{
    CALL_TAKE(sets->parent, sets->n_sets);
    CALL_TAKE(sets->size, sets->n_sets);
    CALL_TAKE(sets->first_added, (size_t)sets->n_sets + 1);
    CALL_TAKE(sets->added, n_added + 1);
}

void part_downsets_runs(const uint32_t *order, uint32_t n_runs, const uint32_t *first,
                        struct part_downsets *ret_sets)
{
    struct part_downsets sets = {.n = first[n_runs], .n_sets = n_runs + 1};
    uint32_t k;

    make_room(&sets, sets.n);
    for (k = 1; k <= n_runs; k++) {
        sets.parent[k] = k - 1;
        sets.size[k] = first[k];
        sets.first_added[k] = first[k - 1];
    }
    sets.first_added[n_runs + 1] = sets.n;
    for (k = 0; k < sets.n; k++) {
        sets.added[k] = order[k];
    }
    *ret_sets = sets;
}

void part_downsets_linear(uint32_t n, const uint32_t *order, struct part_downsets *ret_sets)
{
    uint32_t *first = call_alloc((size_t)n + 1, sizeof *first), k;

    for (k = 0; k <= n; k++) {
        first[k] = k;
    }
    part_downsets_runs(order, n, first, ret_sets);
}

/* --- listing -----------------------------------------------------------------------------------*/

/* A walk over all downsets in depth-first order; `missing` and `ready` follow the set at hand. */
struct walk {
    const struct part_dag *dag;
    const struct pst_host *host;
    uint32_t *missing; /* [n] predecessors of a node that are not in the set */
    uint32_t *ready;   /* stack of candidates, ascending within a level */
    size_t n_ready, room;
    struct part_downsets *sets;
    uint32_t n_found, polls;
    bool overflow; /* there are more than sets->n_sets */
};

static void push_ready(struct walk *w, uint32_t v)
{
    CALL_MAKE_ROOM(w->ready, w->n_ready, w->room);
    w->ready[w->n_ready++] = v;
}

/* Candidates of the set with `v`: those of its parent after `v`, and what `v` made ready. */
static void enter(struct walk *w, size_t first, size_t end, uint32_t v)
{
    const struct part_dag *dag = w->dag;
    uint32_t e = dag->first_out[v], stop = dag->first_out[v + 1];
    size_t i;

    for (i = e; i < stop; i++) {
        w->missing[dag->to[i]]--;
    }
    i = first;
    while (i < end && w->ready[i] <= v) {
        i++;
    }
    while (i < end || e < stop) {
        if (e < stop && w->missing[dag->to[e]] != 0) {
            e++;
        } else if (e == stop || (i < end && w->ready[i] < dag->to[e])) {
            push_ready(w, w->ready[i++]);
        } else {
            uint32_t to = dag->to[e++];

            while (e < stop && dag->to[e] == to) {
                e++; /* parallel edges */
            }
            push_ready(w, to);
        }
    }
}

static void leave(struct walk *w, uint32_t v)
{
    uint32_t e;

    for (e = w->dag->first_out[v]; e < w->dag->first_out[v + 1]; e++) {
        w->missing[w->dag->to[e]]++;
    }
}

/* Notes one set; false: there are more than there is room for. */
static bool note(struct walk *w, uint32_t parent, uint32_t v, uint32_t *ret_set)
{
    struct part_downsets *sets = w->sets;
    uint32_t k = w->n_found;

    if ((++w->polls & 0x3FFF) == 0) {
        call_go_on(w->host);
    }
    if (k == sets->n_sets) {
        w->overflow = true;
        return false;
    }
    sets->parent[k] = parent;
    sets->size[k] = sets->size[parent] + 1;
    sets->added[k - 1] = v;
    sets->first_added[k] = k - 1;
    sets->first_added[k + 1] = k;
    memcpy(sets->bits + (size_t)k * sets->n_words, sets->bits + (size_t)parent * sets->n_words,
           sets->n_words * sizeof *sets->bits);
    sets->bits[(size_t)k * sets->n_words + v / 64] |= UINT64_C(1) << v % 64;
    *ret_set = k;
    w->n_found++;
    return true;
}

/* A level of the walk: a set, and its candidates ready[at..end). */
struct level {
    size_t first, at, end;
    uint32_t set;
};

static void walk_all(struct walk *w, struct level *levels)
{
    uint32_t depth = 0, set;

    levels[0] = (struct level){0, 0, w->n_ready, 0};
    for (;;) {
        struct level *l = &levels[depth];

        if (l->at < l->end) {
            uint32_t v = w->ready[l->at++];

            if (!note(w, l->set, v, &set)) {
                return;
            }
            enter(w, l->first, l->end, v);
            levels[++depth] = (struct level){l->end, l->end, w->n_ready, set};
            continue;
        }
        if (depth == 0) {
            return;
        }
        w->n_ready = l->first;
        leave(w, w->sets->added[l->set - 1]);
        depth--;
    }
}

/* place[k]: where set k goes, smaller sets first, of equal size in the order found. */
static void find_places(const struct part_downsets *sets, uint32_t *place)
{
    uint32_t *next = call_alloc((size_t)sets->n + 2, sizeof *next), k;

    for (k = 0; k < sets->n_sets; k++) {
        next[sets->size[k] + 1]++;
    }
    for (k = 0; k < sets->n; k++) {
        next[k + 1] += next[k];
    }
    for (k = 0; k < sets->n_sets; k++) {
        place[k] = next[sets->size[k]]++;
    }
}

static void copy_set(struct part_downsets *sets, uint32_t to, const struct part_downsets *old,
                     uint32_t k, const uint32_t *place)
{
    uint32_t n = old->first_added[k + 1] - old->first_added[k];

    sets->parent[to] = place[old->parent[k]];
    sets->size[to] = old->size[k];
    sets->first_added[to + 1] = sets->first_added[to] + n;
    memcpy(sets->added + sets->first_added[to], old->added + old->first_added[k],
           n * sizeof *sets->added);
    memcpy(sets->bits + (size_t)to * sets->n_words, old->bits + (size_t)k * sets->n_words,
           sets->n_words * sizeof *sets->bits);
}

void downsets_sort(struct part_downsets *sets)
{
    struct part_downsets old = *sets;
    uint32_t *place = call_alloc(sets->n_sets, sizeof *place);
    uint32_t *from = call_alloc(sets->n_sets, sizeof *from), k;

    CALL_TAKE(sets->bits, (size_t)sets->n_sets * sets->n_words + 1);
    make_room(sets, old.first_added[old.n_sets]);
    find_places(&old, place);
    for (k = 0; k < old.n_sets; k++) {
        from[place[k]] = k;
    }
    for (k = 0; k < old.n_sets; k++) {
        copy_set(sets, k, &old, from[k], place);
    }
    call_free(old.bits);
}

/* sets->n_sets: room, then what there is; PST_ERR_INFEASIBLE: not enough room. */
static pst_status list_all(const struct part_dag *dag, const struct pst_host *host,
                           struct part_downsets *sets)
{
    struct walk w = {.dag = dag, .host = host, .sets = sets, .n_found = 1};
    struct level *levels = call_alloc((size_t)dag->n + 1, sizeof *levels);
    uint32_t v;

    CALL_TAKE(w.missing, (size_t)dag->n + 1);
    CALL_TAKE(sets->bits, (size_t)sets->n_sets * sets->n_words + 1);
    make_room(sets, sets->n_sets);
    for (v = 0; v < dag->n; v++) {
        w.missing[v] = dag->first_in[v + 1] - dag->first_in[v];
        if (w.missing[v] == 0) {
            push_ready(&w, v);
        }
    }
    walk_all(&w, levels);
    sets->n_sets = w.n_found;
    return w.overflow ? PST_ERR_INFEASIBLE : PST_OK;
}

pst_status part_downsets_all(const struct part_dag *dag, uint32_t max_sets,
                             const struct pst_host *host, struct part_downsets *ret_sets,
                             uint64_t *ret_count, bool *ret_exact)
{
    struct part_downsets sets = {.n = dag->n, .n_words = dag->n / 64 + 1};
    pst_status status = PST_OK;

    part_downsets_count(dag, host, ret_count, ret_exact);
    if (*ret_count > max_sets) {
        return PST_ERR_INFEASIBLE;
    }
    sets.n_sets = *ret_exact ? (uint32_t)*ret_count : max_sets;
    status = list_all(dag, host, &sets);
    if (status == PST_OK) {
        downsets_sort(&sets);
    }
    *ret_count = status == PST_ERR_INFEASIBLE ? (uint64_t)max_sets + 1 : sets.n_sets;
    *ret_exact = status == PST_OK;
    if (status != PST_OK) {
        return status;
    }
    *ret_sets = sets;
    return PST_OK;
}

/* --- questions ---------------------------------------------------------------------------------*/

uint32_t part_downsets_between(const struct part_downsets *sets, uint32_t a, uint32_t b,
                               uint32_t *ret_nodes)
{
    uint32_t count = 0, w;

    if (sets->bits == NULL) {
        for (w = sets->first_added[a + 1]; w < sets->first_added[b + 1]; w++) {
            ret_nodes[count++] = sets->added[w];
        }
        return count;
    }
    for (w = 0; w < sets->n_words; w++) {
        uint64_t left =
            sets->bits[(size_t)b * sets->n_words + w] & ~sets->bits[(size_t)a * sets->n_words + w];

        for (; left != 0; left &= left - 1) {
            ret_nodes[count++] = w * 64 + (uint32_t)__builtin_ctzll(left);
        }
    }
    return count;
}

void part_downsets_sum(const struct part_downsets *sets, const double *values, double *ret_sums)
{
    uint32_t k, i;

    ret_sums[0] = 0;
    for (k = 1; k < sets->n_sets; k++) {
        ret_sums[k] = ret_sums[sets->parent[k]];
        for (i = sets->first_added[k]; i < sets->first_added[k + 1]; i++) {
            ret_sums[k] += values[sets->added[i]];
        }
    }
}
