/* SPDX-License-Identifier: Apache-2.0
 *
 * Times and bytes of a question, as signed numbers whose sums cannot overflow.
 */
#include <stdlib.h>
#include <string.h>

#include "greedy.h"

static int compare(const void *a_, const void *b_)
{
    int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;

    return (a > b) - (a < b);
}

/* The upper one of the middle. */
static int64_t median_of(const int64_t *values, uint32_t n, int64_t *scratch)
{
    memcpy(scratch, values, n * sizeof *values);
    qsort(scratch, n, sizeof *scratch, compare);
    return scratch[n / 2];
}

static void times_init(struct greedy *g, struct greedy_times *t)
{
    CALL_TAKE(t->f, g->n_stages);
    CALL_TAKE(t->b, g->n_stages);
    CALL_TAKE(t->w, g->n_stages);
    CALL_TAKE(t->link, g->n_stages);
    CALL_TAKE(t->work, g->p);
}

static int64_t clamp(uint64_t value, uint64_t most)
{
    return (int64_t)(value < most ? value : most);
}

/* Transfers between neighbours of the chain; 0 where they are on one device or not linked. */
static void read_links(struct greedy *g, uint64_t most)
{
    uint32_t i;

    for (i = 0; i < g->in->n_links; i++) {
        const struct pst_schedule_link *link = pst_schedule_link_at(g->in, i);

        if (link->to == link->from + 1 && pst_schedule_stage_at(g->in, link->from)->device !=
                                              pst_schedule_stage_at(g->in, link->to)->device) {
            g->real.link[link->from] = clamp(link->transfer_ns, most);
        }
    }
}

static void sum_work(const struct greedy *g, const struct greedy_times *t)
{
    uint32_t d, chunk;

    for (d = 0; d < g->p; d++) {
        for (chunk = 0; chunk < g->v; chunk++) {
            uint32_t s = greedy_stage(g, d, chunk);

            t->work[d] += g->m * (t->f[s] + t->b[s] + t->w[s]);
        }
    }
}

static void read_costs(struct greedy *g)
{
    uint64_t most = (uint64_t)INT64_MAX / 8 / ((uint64_t)g->n_passes + g->n_stages + 1);
    uint32_t s;

    for (s = 0; s < g->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(g->in, s);

        g->real.f[s] = clamp(stage->forward_ns, most);
        g->real.b[s] = clamp(stage->backward_input_ns, most);
        g->real.w[s] = clamp(stage->backward_weight_ns, most);
        g->saved[s] = clamp(stage->saved_bytes, most);
        g->saved_weight[s] = clamp(stage->saved_weight_bytes, (uint64_t)g->saved[s]);
    }
    read_links(g, most);
    sum_work(g, &g->real);
}

static void take_medians(struct greedy *g, int64_t *scratch)
{
    const int64_t *const from[] = {g->real.f, g->real.b, g->real.w, g->real.link};
    int64_t *const to[] = {g->median.f, g->median.b, g->median.w, g->median.link};
    uint32_t k, s;

    for (k = 0; k < 4; k++) {
        uint32_t n = k < 3 ? g->n_stages : g->p - 1; /* a V comes back over the same links */
        int64_t middle = n == 0 ? 0 : median_of(from[k], n, scratch);

        for (s = 0; s < g->n_stages; s++) {
            bool turn = k == 3 && (s == g->n_stages - 1 || (g->v == 2 && s == g->p - 1));

            to[k][s] = turn ? 0 : middle;
            g->mixed |= to[k][s] != from[k][s];
        }
    }
    sum_work(g, &g->median);
}

void greedy_init(struct greedy *g, const struct fixed_question *question, bool makespan)
{
    uint64_t n_passes = (uint64_t)3 * question->p * question->v * question->m;
    size_t cells = (size_t)question->p * question->v * question->m;
    int64_t *sorted;

    if (n_passes > UINT32_MAX / 8) {
        call_end(PST_ERR_NOMEM);
    }
    *g = (struct greedy){.in = question->in,
                         .p = question->p,
                         .v = question->v,
                         .m = question->m,
                         .n_stages = question->p * question->v,
                         .n_passes = (uint32_t)n_passes,
                         .makespan = makespan,
                         .best_cost = INT64_MAX,
                         .best_peak = INT64_MAX,
                         .above = INT64_MAX};
    CALL_TAKE(g->saved, g->n_stages);
    CALL_TAKE(g->saved_weight, g->n_stages);
    CALL_TAKE(g->dev, g->p);
    CALL_TAKE(g->end_f, cells);
    CALL_TAKE(g->end_b, cells);
    CALL_TAKE(g->queue, cells);
    CALL_TAKE(g->sequence, g->n_passes);
    CALL_TAKE(g->counts, (size_t)2 * g->p);
    CALL_TAKE(g->loads, g->p);
    CALL_TAKE(g->best, g->n_passes);
    CALL_TAKE(sorted, g->n_stages);
    times_init(g, &g->real);
    times_init(g, &g->median);
    read_costs(g);
    take_medians(g, sorted);
}
