/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of a plan.
 */
#include <math.h>

#include "stage_graph.h"

double stage_sync_ns(const struct part_problem *p, uint32_t d, double weight)
{
    double rate = part_sync_rate(p, d);

    return rate <= 0 || d <= 1 ? 0 : 2.0 * (d - 1) / d * weight / rate * 1e9;
}

double stage_tps_ns(const struct part_problem *p, const struct part_stage *stage,
                    const struct stage_sums *sums)
{
    double rate = p->figures.p2p_bytes_per_s;
    double comp = (sums->forward_ns + sums->backward_ns) / stage->b;
    double sync = stage_sync_ns(p, stage->d, sums->weight) / p->batch;
    double p2p = rate <= 0 ? 0 : 2 * sums->cut_bytes / (stage->d * rate) * 1e9;

    switch (p->figures.comm_model) {
    case PST_COMM_SUM:
        return comp + p2p + sync;
    case PST_COMM_MAX:
        return fmax(comp, fmax(p2p, sync));
    default:
        return comp + sync;
    }
}

int64_t part_plan_ticks(const struct part_plan *plan, const struct part_problem *p,
                        const struct part_costs *c)
{
    uint32_t *stage_of = call_alloc((size_t)p->n + 1, sizeof *stage_of);
    int64_t most = 0;
    uint32_t s, i, j, k;

    for (s = 0; s < plan->n_stages; s++) {
        for (i = 0; i < plan->stages[s].n_nodes; i++) {
            stage_of[plan->stages[s].nodes[i]] = s;
        }
    }
    for (s = 0; s < plan->n_stages; s++) {
        const struct part_stage *stage = &plan->stages[s];
        int64_t comp = 0, sync = 0, p2p = 0, ticks;

        for (k = 0; k < c->n_degrees && c->degrees[k] != stage->d; k++) {
        }
        if (k == c->n_degrees || stage->b != c->b) {
            call_end(PST_ERR_BUG);
        }
        for (i = 0; i < stage->n_nodes; i++) {
            uint32_t v = stage->nodes[i];

            comp += c->comp[k][v];
            sync += c->sync[k][v];
            for (j = p->first_out[v]; j < p->first_out[v + 1]; j++) {
                p2p += stage_of[p->to[j]] != s ? c->p2p[k][j] : 0;
            }
            for (j = p->first_in[v]; j < p->first_in[v + 1]; j++) {
                uint32_t e = p->in_edges[j];

                p2p += stage_of[p->from[e]] != s ? c->p2p[k][e] : 0;
            }
        }
        ticks = part_tps(c, comp, p2p, sync);
        most = ticks > most ? ticks : most;
    }
    call_free(stage_of);
    return most;
}

static void judge(const struct stage_graph *g, const struct part_plan *plan,
                  const struct part_problem *p, struct part_value *value)
{
    uint32_t s;

    value->fits = true;
    for (s = 0; s < g->n; s++) {
        const struct part_stage *stage = &plan->stages[s];
        const struct stage_sums *sums = &g->sums[s];
        double bytes =
            part_memory(p, sums->weight, sums->saved, sums->workspace, stage->d, g->in_flight[s]);

        value->bottleneck_ns = fmax(value->bottleneck_ns, stage_tps_ns(p, stage, sums));
        if (s == 0 || bytes > value->worst_bytes) {
            value->worst = s;
            value->worst_bytes = bytes;
        }
        value->fits = value->fits && part_fits(p, bytes);
        value->depth = g->depth[s] > value->depth ? g->depth[s] : value->depth;
        value->devices += stage->d;
    }
    value->peak_bytes = value->worst_bytes;
    value->legal = value->devices <= p->n_devices;
}

static void value_of(const struct part_plan *plan, const struct part_problem *p, bool ask,
                     bool with_step, struct part_value *ret_value)
{
    struct part_value value = {.step_ns = with_step ? INFINITY : PART_STEP_UNKNOWN};
    struct call_region region;
    struct stage_graph g;

    call_enter(&region);
    stage_graph_init(&g, plan, p);
    if (g.legal) {
        judge(&g, plan, p, &value);
        if (ask && p->host != NULL && p->figures.reference == 0) {
            stage_graph_ask(&g, plan, p, &value);
        }
        if (with_step) {
            stage_graph_step(&g, plan, p, &value.step_ns);
        }
    }
    call_leave(&region);
    *ret_value = value;
}

void part_plan_value(const struct part_plan *plan, const struct part_problem *p, bool ask,
                     struct part_value *ret_value)
{
    value_of(plan, p, ask, true, ret_value);
}

void part_plan_rank(const struct part_plan *plan, const struct part_problem *p,
                    struct part_value *ret_value)
{
    value_of(plan, p, false, false, ret_value);
}

/* -1: a is smaller, 0: equal but for rounding. */
static int compare(double a, double b)
{
    double room = 1e-12 * fmax(fabs(a), fabs(b));

    if (a == b || fabs(a - b) <= room) {
        return 0;
    }
    return a < b ? -1 : 1;
}

/* -1: a comes first, 1: b, 0: equal. */
static int compare_rest(const struct part_value *a, const struct part_value *b)
{
    int order = compare(a->bottleneck_ns, b->bottleneck_ns);

    if (order == 0) {
        order = compare(a->peak_bytes, b->peak_bytes);
    }
    if (order == 0 && a->depth != b->depth) {
        order = a->depth < b->depth ? -1 : 1;
    }
    if (order == 0 && a->devices != b->devices) {
        order = a->devices < b->devices ? -1 : 1;
    }
    return order;
}

static int compare_rules(const struct part_value *a, const struct part_value *b)
{
    if (a->legal != b->legal) {
        return a->legal ? -1 : 1;
    }
    return a->fits == b->fits ? 0 : a->fits ? -1 : 1;
}

bool part_value_better(const struct part_value *a, const struct part_value *b)
{
    int order = compare_rules(a, b);

    return (order != 0 ? order : compare_rest(a, b)) < 0;
}

bool part_value_faster(const struct part_value *a, const struct part_value *b)
{
    int order = compare_rules(a, b);

    if (order == 0) {
        order = compare(a->step_ns, b->step_ns);
    }
    return (order != 0 ? order : compare_rest(a, b)) < 0;
}
