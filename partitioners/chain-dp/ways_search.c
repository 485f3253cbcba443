/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest step. Below a limit for the longest stage, the least sum over stages is found by
 * dynamic programming over (stage, position, rank), exactly. A first answer says how long a stage
 * of a shorter step may be; from there the limit comes down, each time to just below the longest
 * stage of the answer, until no lower one can give a shorter step.
 */
#include <math.h>

#include "ways.h"

/* --- the search below a limit ------------------------------------------------------------------*/

static const struct cell *solve(struct ways *w, uint32_t tail_, uint32_t first, uint32_t rank);

/* A stage of nodes [first, end) from this rank on, and the best for the rest. */
static void consider(struct ways *w, const struct tail *tail, struct cell *cell, uint32_t way_,
                     uint32_t end, uint32_t rank, const struct known *known)
{
    static const struct cell none;
    const struct way *way = &w->ways[way_];
    const uint64_t ns = ways_cost(w, &w->places[tail->place], way, known, rank);
    const struct cell *rest = &none;
    uint64_t sum_ns, bytes;

    if (!known->fits || ns > w->limit_ns) {
        return;
    }
    if (tail->next != PST_NONE) {
        rest = solve(w, tail->next, end, rank + way->width);
    }
    if (__builtin_add_overflow(rest->sum_ns, ns, &sum_ns)) {
        return;
    }
    bytes = rest->bytes + known->peak_bytes * way->width;
    if (sum_ns < cell->sum_ns || (sum_ns == cell->sum_ns && bytes < cell->bytes)) {
        *cell = (struct cell){sum_ns, bytes, way_, end, w->round};
    }
}

static void try_way(struct ways *w, const struct tail *tail, struct cell *cell, uint32_t way_,
                    uint32_t first, uint32_t free_rank)
{
    const struct way *way = &w->ways[way_];
    const uint32_t n = w->chain.n, left = tail->n_stages - 1;
    const uint32_t rank = (free_rank + way->tensor - 1) / way->tensor * way->tensor;
    const uint64_t after = (uint64_t)rank + way->width;

    if (!w->allowed[way->at] || after + left > w->n_ranks) {
        return;
    }
    for (uint32_t i = 0; i < way->width; i += way->tensor) {
        if (ways_node(w, rank + i) != ways_node(w, rank + i + way->tensor - 1)) {
            return;
        }
    }
    for (uint32_t end = left == 0 ? n : first + 1; end + left <= n; end++) {
        const uint64_t rest = w->work[n] - w->work[end], n_rest = w->n_ranks - after;
        struct known known;

        if (way->least_ns[end] - way->least_ns[first] > w->limit_ns ||
            way->others[end] > way->others[first]) {
            return;
        }
        if (end < n && rest / n_rest > w->limit_ns) {
            continue;
        }
        known = *ways_price(w, tail->place, way_, first, end);
        if (known.hopeless) {
            return;
        }
        consider(w, tail, cell, way_, end, rank, &known);
    }
}

static const struct cell *solve(struct ways *w, uint32_t tail_, uint32_t first, uint32_t rank)
{
    const struct tail *tail = &w->tails[tail_];
    struct cell *cell = &tail->cells[first * ((size_t)w->n_ranks + 1) + rank];

    if (cell->round != w->round) {
        call_go_on(w->chain.host);
        *cell = (struct cell){.sum_ns = UINT64_MAX, .bytes = UINT64_MAX, .round = w->round};
        for (uint32_t i = 0; i < w->n_ways; i++) {
            try_way(w, tail, cell, i, first, rank);
        }
    }
    return cell;
}

static double step_ns(const struct ways *w, uint64_t longest_ns, uint64_t sum_ns)
{
    return part_chain_score(w->problem, w->chain.microbatch_size, (double)longest_ns,
                            (double)sum_ns);
}

static void trace(struct ways *w, uint32_t tail_, struct plan *plan)
{
    uint32_t first = 0, rank = 0;

    plan->n = 0;
    plan->size = w->chain.microbatch_size;
    plan->longest_ns = 0;
    for (uint32_t at = tail_; at != PST_NONE; at = w->tails[at].next) {
        const struct tail *tail = &w->tails[at];
        const struct cell *cell = solve(w, at, first, rank);
        const struct way *way = &w->ways[cell->way];
        uint64_t ns;

        rank = (rank + way->tensor - 1) / way->tensor * way->tensor;
        ns = ways_cost(w, &w->places[tail->place], way,
                       ways_price(w, tail->place, cell->way, first, cell->end), rank);
        plan->longest_ns = ns > plan->longest_ns ? ns : plan->longest_ns;
        plan->first[plan->n] = first;
        plan->rank[plan->n] = rank;
        plan->way[plan->n++] = way;
        first = cell->end;
        rank += way->width;
    }
}

/* Fills w->found with the least sum of all rows. */
static void search_below(struct ways *w, uint64_t limit_ns, bool *ret_found)
{
    const struct cell *best = NULL;
    uint32_t row = 0;

    w->limit_ns = limit_ns;
    w->round++;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct cell *cell = solve(w, w->rows[i], 0, 0);

        if (cell->sum_ns != UINT64_MAX &&
            (best == NULL || cell->sum_ns < best->sum_ns ||
             (cell->sum_ns == best->sum_ns && cell->bytes < best->bytes))) {
            best = cell;
            row = w->rows[i];
        }
    }
    *ret_found = best != NULL;
    if (best != NULL) {
        trace(w, row, &w->found);
        w->found.sum_ns = best->sum_ns;
        w->found.bytes = best->bytes;
        w->found.step_ns = step_ns(w, w->found.longest_ns, best->sum_ns);
    }
}

/* --- limits ------------------------------------------------------------------------------------*/

static void keep_better(struct ways *w)
{
    if (w->found.step_ns < w->best.step_ns ||
        (w->found.step_ns == w->best.step_ns && w->found.bytes < w->best.bytes)) {
        const struct plan best = w->best;

        w->best = w->found;
        w->found = best;
    }
}

/* The longest stage of a step that is no longer than the best, where all stages together take no
   less than this sum: other micro-batches wait for it, and it is one of all. */
static uint64_t limit_of_best(const struct ways *w, uint64_t sum_ns)
{
    const double m = (double)w->problem->batch / w->chain.microbatch_size;
    const double rest = m > 1 ? (w->best.step_ns - (double)sum_ns) / (m - 1) : INFINITY;

    return (uint64_t)fmin(fmax(fmin(w->best.step_ns / m, rest), 0), (double)NO_LIMIT);
}

/* The first limit that will do; strides double, so that it is found without pricing wide ranges. */
static void find_first(struct ways *w, bool *ret_found)
{
    uint64_t limit = w->least_ns, step = limit / 64 + 1;

    search_below(w, limit, ret_found);
    while (!*ret_found && limit < NO_LIMIT) {
        limit = limit + step < NO_LIMIT ? limit + step : NO_LIMIT;
        step *= 2;
        search_below(w, limit, ret_found);
    }
}

/* With the degrees that tied nodes have now. */
void ways_improve(struct ways *w)
{
    bool found;

    for (uint32_t i = 0; i < w->n_ways; i++) {
        struct way *way = &w->ways[i];

        for (uint32_t v = 0; v < w->chain.n; v++) {
            way->others[v + 1] =
                way->others[v] + (w->group[v] != PST_NONE && w->degree_of[w->group[v]] != way->at);
        }
    }
    if (isinf(w->best.step_ns)) {
        find_first(w, &found);
        if (!found) {
            return;
        }
        keep_better(w);
    }
    search_below(w, limit_of_best(w, w->least_sum_ns), &found);
    while (found) { /* lower limits only make sums larger */
        const uint64_t longest_ns = w->found.longest_ns, sum_ns = w->found.sum_ns;
        uint64_t limit_ns;

        keep_better(w);
        limit_ns = limit_of_best(w, sum_ns);
        limit_ns = limit_ns < longest_ns ? limit_ns : longest_ns - 1;
        if (longest_ns == 0 || limit_ns < w->least_ns) {
            break;
        }
        search_below(w, limit_ns, &found);
    }
}
