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

static bool times_init(struct greedy_times *t, uint32_t n_stages, uint32_t p)
{
    t->f = calloc((size_t)4 * n_stages + p, sizeof *t->f);
    if (t->f == NULL) {
        return false;
    }
    t->b = t->f + n_stages;
    t->w = t->b + n_stages;
    t->link = t->w + n_stages;
    t->work = t->link + n_stages;
    return true;
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

pst_status greedy_init(struct greedy *g, const struct fixed_question *question, bool makespan)
{
    uint64_t n_passes = (uint64_t)3 * question->p * question->v * question->m;
    size_t cells = (size_t)question->p * question->v * question->m;
    int64_t *scratch;

    memset(g, 0, sizeof *g);
    if (n_passes > UINT32_MAX / 8) {
        return PST_ERR_NOMEM;
    }
    g->in = question->in;
    g->p = question->p;
    g->v = question->v;
    g->m = question->m;
    g->n_stages = g->p * g->v;
    g->n_passes = (uint32_t)n_passes;
    g->makespan = makespan;
    g->best_cost = g->best_peak = g->above = INT64_MAX;
    g->saved = calloc(g->n_stages, sizeof *g->saved);
    g->saved_weight = calloc(g->n_stages, sizeof *g->saved_weight);
    g->dev = calloc(g->p, sizeof *g->dev);
    g->end_f = calloc(cells, sizeof *g->end_f);
    g->end_b = calloc(cells, sizeof *g->end_b);
    g->queue = calloc(cells, sizeof *g->queue);
    g->sequence = calloc(g->n_passes, sizeof *g->sequence);
    g->scratch = calloc((size_t)2 * g->p, sizeof *g->scratch);
    g->loads = calloc(g->p, sizeof *g->loads);
    g->best = calloc(g->n_passes, sizeof *g->best);
    scratch = calloc(g->n_stages, sizeof *scratch);
    if (g->saved == NULL || g->saved_weight == NULL || g->dev == NULL || g->end_f == NULL ||
        g->end_b == NULL || g->queue == NULL || g->sequence == NULL || g->best == NULL ||
        g->scratch == NULL || g->loads == NULL || scratch == NULL ||
        !times_init(&g->real, g->n_stages, g->p) || !times_init(&g->median, g->n_stages, g->p)) {
        free(scratch);
        return PST_ERR_NOMEM;
    }
    read_costs(g);
    take_medians(g, scratch);
    free(scratch);
    return PST_OK;
}

void greedy_finish(struct greedy *g)
{
    free(g->real.f);
    free(g->median.f);
    free(g->saved);
    free(g->saved_weight);
    free(g->dev);
    free(g->end_f);
    free(g->end_b);
    free(g->queue);
    free(g->sequence);
    free(g->scratch);
    free(g->loads);
    free(g->best);
    memset(g, 0, sizeof *g);
}
