/* SPDX-License-Identifier: Apache-2.0
 *
 * Long models: stages end at chosen places alone. Tensors into and out of the nodes between two
 * places are counted once, node by node, so nothing about such a stage is an estimate.
 */
#include <math.h>

#include "places.h"
#include "twobw.h"

static size_t pair(const struct twobw *search, uint32_t first, uint32_t end)
{
    return 2 * ((size_t)end * ((size_t)search->n_places + 1) + first);
}

void twobw_grow(struct twobw *search)
{
    struct part_span *span = &search->span;

    if (search->crossing == NULL) {
        part_span_grow(span);
        return;
    }
    span->first--;
    span->in_bytes = search->crossing[pair(search, span->first, span->end)];
    span->out_bytes = search->crossing[pair(search, span->first, span->end) + 1];
}

static void choose(struct twobw *search, const struct part_dag *dag)
{
    const struct part_problem *p = search->problem;
    int64_t *work = call_alloc((size_t)p->n + 1, sizeof *work);
    uint32_t *order = call_alloc((size_t)p->n + 1, sizeof *order), v;
    double total;

    CALL_TAKE(search->place, (size_t)p->n + 1);
    part_ranges_times(p, p->sizes[p->n_sizes - 1], search->sum_ns, NULL);
    total = search->sum_ns[p->n];
    for (v = 0; v < p->n; v++) {
        double ns = search->sum_ns[v + 1] - search->sum_ns[v];

        order[v] = v;
        work[v] = total > 0 ? llround(ns / total * 0x1p50) : 1;
    }
    part_runs(dag, p->edge_bytes, work, order, (uint32_t)search->config->places, search->place,
              &search->n_places);
}

/* Bytes of everything between two places. */
static void tell(struct twobw *search)
{
    uint32_t end, first;
    size_t width = (size_t)search->n_places + 1;
    double *crossing = call_alloc(width * width, 2 * sizeof *crossing);

    for (end = 1; end <= search->n_places; end++) {
        part_span_begin(&search->span, search->place[end]);
        for (first = end; first-- > 0;) {
            while (search->span.first > search->place[first]) {
                part_span_grow(&search->span);
            }
            crossing[pair(search, first, end)] = search->span.in_bytes;
            crossing[pair(search, first, end) + 1] = search->span.out_bytes;
        }
        call_go_on(search->problem->host);
    }
    search->crossing = crossing;
}

void twobw_sample(const struct twobw *search, double *sums)
{
    uint32_t r;

    for (r = 0; search->crossing != NULL && r <= search->n_places; r++) {
        sums[r] = sums[search->place[r]]; /* place[r] >= r */
    }
}

void twobw_choose_places(struct twobw *search)
{
    const struct part_problem *p = search->problem;
    const struct part_dag dag = {p->n,         p->n_edges,  p->from,    p->to,
                                 p->first_out, p->first_in, p->in_edges};

    if (p->figures.reference == 0 || search->equal || p->n <= search->config->places) {
        return;
    }
    choose(search, &dag);
    tell(search);
    twobw_sample(search, search->ranges.weight);
    twobw_sample(search, search->ranges.saved);
    search->ranges.n = search->n_places;
}
