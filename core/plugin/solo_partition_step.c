/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of one step: every stage runs its passes in kFkB order as soon as their inputs are
 * there, then sums its gradients. Times become ticks, as fine as 62 bits allow.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/order_eval.h"
#include "plugin/solo.h"
#include "plugin/solo_partition_state.h"

struct step {
    const struct pst_problem *problem;
    const struct pst_partition_result *result;
    const struct pst_rcm_cost *costs;
    const struct pst_partition_edge *edges;
    uint32_t n_edges;
    double ticks_per_ns;
    struct pst_solo solo;
    struct pst_pass **passes; /* [n_stages], in one piece */
    uint32_t *n_passes;
};

/* One micro-batch's way to the next stage; the end with fewer ranks sets the pace. */
static double transfer_ns(const struct step *step, const struct pst_partition_edge *edge)
{
    const struct pst_partition_stage *from = &step->result->stages[edge->from];
    const struct pst_partition_stage *to = &step->result->stages[edge->to];
    uint32_t ranks = from->n_ranks < to->n_ranks ? from->n_ranks : to->n_ranks;

    return step->problem->comm_model == PST_COMM_NONE
               ? 0
               : pst_rcm_transfer_ns(step->problem, edge->bytes) * from->microbatch_size / ranks;
}

/* The last one may be smaller; it is counted as a whole one. */
static uint32_t microbatches(const struct step *step, uint32_t s)
{
    uint32_t size = step->result->stages[s].microbatch_size;

    return (step->problem->mini_batch + size - 1) / size;
}

/* No schedule without idle devices takes longer than everything one after the other. */
static void choose_tick(struct step *step)
{
    double all_ns = 0;
    int exponent;

    for (uint32_t s = 0; s < step->result->n_stages; s++) {
        all_ns += step->result->stages[s].compute_ns * microbatches(step, s);
    }
    for (uint32_t e = 0; e < step->n_edges; e++) {
        uint32_t from = microbatches(step, step->edges[e].from);
        uint32_t to = microbatches(step, step->edges[e].to);

        all_ns += 2.0 * transfer_ns(step, &step->edges[e]) * (from > to ? from : to);
    }
    frexp(all_ns, &exponent);
    step->ticks_per_ns = all_ns > 0 ? ldexp(1.0, 61 - exponent) : 1.0;
}

static uint64_t ticks(const struct step *step, double ns)
{
    return (uint64_t)llround(ns * step->ticks_per_ns);
}

static int by_to(const void *a_, const void *b_)
{
    const struct pst_schedule_link *a = a_, *b = b_;

    return a->to != b->to       ? (a->to < b->to ? -1 : 1)
           : a->from != b->from ? (a->from < b->from ? -1 : 1)
                                : 0;
}

static pst_status state(struct step *step, struct pst_error *err)
{
    uint32_t n = step->result->n_stages;
    pst_status st = pst_solo_alloc(&step->solo, n, n, step->n_edges, err);

    for (uint32_t s = 0; st == PST_OK && s < n; s++) {
        const struct pst_partition_stage *from = &step->result->stages[s];

        step->solo.stages[s] = (struct pst_schedule_stage){
            .device = s,
            .microbatch_size = from->microbatch_size,
            .n_microbatches = microbatches(step, s),
            .k = from->k,
            .forward_ns = ticks(step, step->costs[s].pass_ns[0]),
            .backward_input_ns = ticks(step, step->costs[s].pass_ns[1]),
            .backward_weight_ns = ticks(step, step->costs[s].pass_ns[2]),
        };
    }
    for (uint32_t e = 0; st == PST_OK && e < step->n_edges; e++) {
        step->solo.links[e] = (struct pst_schedule_link){
            .from = step->edges[e].from,
            .to = step->edges[e].to,
            .transfer_ns = ticks(step, transfer_ns(step, &step->edges[e])),
        };
    }
    if (st == PST_OK) {
        qsort(step->solo.links, step->n_edges, sizeof *step->solo.links, by_to);
        pst_solo_connect(&step->solo);
    }
    return st;
}

/* As many forwards as it may hold, then k backwards and k forwards in turn, then what is left. */
static void order_stage(const struct step *step, uint32_t s)
{
    const struct pst_partition_stage *stage = &step->result->stages[s];
    uint32_t m = microbatches(step, s), k = stage->k, f = 0, b = 0, n = 0;
    uint32_t first = stage->in_flight_samples / stage->microbatch_size;
    struct pst_pass *list = step->passes[s];

    while (f < m && f < first) {
        list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
    }
    while (b < m) {
        for (uint32_t i = 0; i < k && b < f; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_BW, .stage = s, .microbatch = b++};
        }
        for (uint32_t i = 0; i < k && f < m; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
        }
    }
    step->n_passes[s] = n;
}

static pst_status order(struct step *step, struct pst_error *err)
{
    uint32_t n = step->result->n_stages;

    step->passes = pst_arena_array(&step->solo.arena, n, sizeof *step->passes);
    step->n_passes = pst_arena_array(&step->solo.arena, n, sizeof *step->n_passes);
    if (step->passes == NULL || step->n_passes == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < n; s++) {
        step->passes[s] = pst_arena_array(&step->solo.arena, 2 * (size_t)microbatches(step, s),
                                          sizeof **step->passes);
        if (step->passes[s] == NULL) {
            return pst_fail_nomem(err);
        }
        order_stage(step, s);
    }
    return PST_OK;
}

static double end_of_step(const struct step *step, const struct pst_order_eval *eval)
{
    double latest = 0;

    for (uint32_t s = 0; s < step->result->n_stages; s++) {
        double end = (double)eval->end_ns[s][step->n_passes[s] - 1] / step->ticks_per_ns +
                     step->costs[s].reduce_ns * step->problem->mini_batch;

        latest = end > latest ? end : latest;
    }
    return latest;
}

pst_status pst_partition_step(const struct pst_problem *problem,
                              const struct pst_partition_result *result,
                              const struct pst_rcm_cost *costs,
                              const struct pst_partition_edge *edges, uint32_t n_edges,
                              double *ret_step_ns, struct pst_error *err)
{
    struct step step = {
        .problem = problem, .result = result, .costs = costs, .edges = edges, .n_edges = n_edges};
    struct pst_order_eval eval;
    pst_status st;

    choose_tick(&step);
    st = state(&step, err);
    if (st == PST_OK) {
        st = order(&step, err);
    }
    if (st == PST_OK) {
        st = pst_order_evaluate(&step.solo.in, (const struct pst_pass *const *)step.passes,
                                step.n_passes, &eval, err);
    }
    if (st == PST_OK) {
        *ret_step_ns = end_of_step(&step, &eval);
        pst_order_eval_finish(&eval);
    }
    pst_solo_finish(&step.solo);
    return st;
}
