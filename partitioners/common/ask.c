/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan judged by the scheduler and the memory optimizer of the job.
 */
#include <math.h>

#include <penstock/ext/ask.h>

#include "stage_graph.h"

struct asking {
    const struct stage_graph *graph;
    const struct part_plan *plan;
    const struct part_problem *problem;
    const struct pst_ask *ask;
    uint32_t *place_of;    /* stage -> its number in topological order */
    struct pst_held *held; /* by stage */
    struct pst_successor *successors;
};

static void ask_in_flight(struct asking *a, uint32_t s)
{
    const struct stage_graph *g = a->graph;
    const struct part_stage *stage = &a->plan->stages[s];
    uint32_t i, n = 0;
    struct pst_place place = {
        .size = sizeof place,
        .stage = a->place_of[s],
        .n_stages = g->n,
        .n_devices = a->problem->in->n_devices,
        .n_microbatches = a->problem->batch / stage->b,
        .microbatch_size = stage->b,
        .k = stage->k,
        .n_successors = g->first_out[s + 1] - g->first_out[s],
        .successor_size = sizeof *a->successors,
        .successors = a->successors,
    };

    for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
        const struct part_stage *next = &a->plan->stages[g->out[i]];

        a->successors[n++] = (struct pst_successor){
            .microbatch_size = next->b,
            .k = next->k,
            .in_flight = a->held[g->out[i]].microbatches,
        };
    }
    a->held[s].size = sizeof a->held[s];
    call_check(a->ask->in_flight(a->problem->host, &place, &a->held[s]));
}

static void ask_price(struct asking *a, uint32_t s, struct pst_stage_price *price)
{
    const struct part_stage *stage = &a->plan->stages[s];
    struct pst_stage_question question = {
        .size = sizeof question,
        .nodes = stage->nodes,
        .n_nodes = stage->n_nodes,
        .stage = a->place_of[s],
        .n_stages = a->graph->n,
        .microbatch_size = stage->b,
        .n_ranks = stage->d,
        .in_flight = a->held[s].microbatches,
        .weight_versions = a->held[s].weight_versions,
        .capacity_bytes = a->problem->in->capacity_bytes,
    };

    *price = (struct pst_stage_price){.size = sizeof *price};
    call_check(a->ask->price(a->problem->host, &question, price));
}

/* The period of the price in place of the profile's compute time. */
static double priced_tps(const struct asking *a, uint32_t s, double period_ns)
{
    struct stage_sums sums = a->graph->sums[s];

    sums.forward_ns = period_ns;
    sums.backward_ns = 0;
    return stage_tps_ns(a->problem, &a->plan->stages[s], &sums);
}

static void ask_all(struct asking *a, struct part_value *value)
{
    const struct stage_graph *g = a->graph;
    uint32_t at;

    for (at = 0; at < g->n; at++) {
        a->place_of[g->order[at]] = at;
    }
    for (at = g->n; at-- > 0;) {
        ask_in_flight(a, g->order[at]);
    }
    value->fits = true;
    value->bottleneck_ns = 0;
    value->worst_bytes = -1;
    for (at = 0; at < g->n; at++) {
        struct pst_stage_price price;
        uint32_t s = g->order[at];

        ask_price(a, s, &price);
        value->fits = value->fits && price.fits != 0;
        value->bottleneck_ns =
            fmax(value->bottleneck_ns, priced_tps(a, s, (double)price.period_ns));
        if ((double)price.peak_bytes > value->worst_bytes) {
            value->worst_bytes = (double)price.peak_bytes;
            value->worst = s;
        }
    }
    value->peak_bytes = value->worst_bytes;
}

void stage_graph_ask(struct stage_graph *g, const struct part_plan *plan,
                     const struct part_problem *p, struct part_value *value)
{
    struct asking a = {
        .graph = g,
        .plan = plan,
        .problem = p,
        .ask = p->host->get_extension(p->host, PST_ASK),
        .place_of = call_alloc(g->n, sizeof *a.place_of),
        .held = call_alloc(g->n, sizeof *a.held),
        .successors = call_alloc(g->n, sizeof *a.successors),
    };
    uint32_t s;

    if (a.ask == NULL) {
        call_end(pst_failf(p->host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_ASK));
    }
    ask_all(&a, value);
    for (s = 0; s < g->n; s++) {
        uint64_t samples = (uint64_t)a.held[s].microbatches * plan->stages[s].b;

        g->in_flight[s] = samples < p->batch ? samples : p->batch;
    }
}
