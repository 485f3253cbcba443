/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph of stages as a question to schedulers, and the time of one step: every stage runs its
 * passes in the order given as soon as their inputs are there, then sums its gradients.
 */
#include <math.h>
#include <stdlib.h>

#include "ask/problem_state.h"
#include "plan/order_eval.h"

/* By bytes at last, so that they are always added up in the same order. */
static int by_ends(const void *a_, const void *b_)
{
    const struct pst_problem_edge *a = a_, *b = b_;

    return a->from != b->from     ? (a->from < b->from ? -1 : 1)
           : a->to != b->to       ? (a->to < b->to ? -1 : 1)
           : a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1)
                                  : 0;
}

struct pst_problem_edge *pst_problem_connect(const struct pst_costed *graph,
                                             const struct pst_partition_result *answer,
                                             struct pst_arena *arena, uint32_t *ret_n_edges)
{
    struct pst_problem_edge *edges = pst_arena_array(arena, graph->n_edges, sizeof *edges);
    uint32_t *owner = pst_arena_array(arena, graph->n_nodes, sizeof *owner);
    uint32_t n = 0, kept = 0;

    for (uint32_t s = 0; s < answer->n_stages; s++) {
        for (uint32_t i = 0; i < answer->stages[s].n_nodes; i++) {
            owner[answer->stages[s].nodes[i]] = s;
        }
    }
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        uint32_t from = owner[graph->edges[e].from], to = owner[graph->edges[e].to];

        if (from != to) {
            edges[n++] = (struct pst_problem_edge){from, to, graph->edge_bytes[e]};
        }
    }
    qsort(edges, n, sizeof *edges, by_ends);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_problem_edge *last = kept > 0 ? &edges[kept - 1] : NULL;

        if (last != NULL && last->from == edges[i].from && last->to == edges[i].to) {
            last->bytes += edges[i].bytes;
        } else {
            edges[kept++] = edges[i];
        }
    }
    *ret_n_edges = kept;
    return edges;
}

/* One micro-batch's way to the next stage; the end with fewer ranks sets the pace. */
static double transfer_ns(const struct pst_problem_run *run, const struct pst_problem_edge *edge)
{
    const struct pst_partition_stage *from = &run->stages[edge->from], *to = &run->stages[edge->to];
    uint32_t ranks = from->n_ranks < to->n_ranks ? from->n_ranks : to->n_ranks;

    return run->problem->comm_model == PST_COMM_NONE || from->device == to->device
               ? 0
               : pst_rcm_transfer_ns(run->problem, edge->bytes) * from->microbatch_size / ranks;
}

struct pst_place pst_problem_run_place(const struct pst_problem_run *run, uint32_t s,
                                       uint32_t *edge, struct pst_successor *next)
{
    struct pst_place place = {.size = sizeof place,
                              .stage = s,
                              .n_stages = run->n_stages,
                              .n_devices = run->n_devices,
                              .n_microbatches = pst_problem_microbatches(run, s),
                              .microbatch_size = run->stages[s].microbatch_size,
                              .k = run->stages[s].k,
                              .successor_size = sizeof *next,
                              .successors = next};

    for (; *edge > 0 && run->edges[*edge - 1].from == s; (*edge)--) {
        next[place.n_successors++] = pst_problem_successor(&run->stages[run->edges[*edge - 1].to]);
    }
    return place;
}

/* No order that leaves no device idle for nothing takes longer than everything in a row. */
double pst_problem_run_scale(const struct pst_problem_run *run, uint32_t n_steps)
{
    double all_ns = 0;
    int exponent;

    for (uint32_t s = 0; s < run->n_stages; s++) {
        const double *ns = run->stages[s].pass_ns;

        all_ns += (ns[0] + ns[1] + ns[2]) * pst_problem_microbatches(run, s);
    }
    for (uint32_t e = 0; e < run->n_edges; e++) {
        uint32_t from = pst_problem_microbatches(run, run->edges[e].from);
        uint32_t to = pst_problem_microbatches(run, run->edges[e].to);

        all_ns += 2.0 * transfer_ns(run, &run->edges[e]) * (from > to ? from : to);
    }
    frexp(all_ns * n_steps, &exponent);
    return all_ns > 0 ? ldexp(1.0, 61 - exponent) : 1.0;
}

void pst_problem_run_state(const struct pst_problem_run *run, double scale,
                           struct pst_order_question *asked)
{
    pst_order_question_alloc(asked, run->n_devices, run->n_stages, run->n_edges);
    for (uint32_t s = 0; s < run->n_stages; s++) {
        const struct pst_partition_stage *stage = &run->stages[s];

        asked->stages[s] = (struct pst_schedule_stage){
            .device = stage->device,
            .microbatch_size = stage->microbatch_size,
            .n_microbatches = pst_problem_microbatches(run, s),
            .k = stage->k,
            .forward_ns = (uint64_t)llround(stage->pass_ns[0] * scale),
            .backward_input_ns = (uint64_t)llround(stage->pass_ns[1] * scale),
            .backward_weight_ns = (uint64_t)llround(stage->pass_ns[2] * scale),
            .saved_bytes = stage->kept_bytes,
            .saved_weight_bytes = stage->kept_bytes,
        };
    }
    for (uint32_t e = 0; e < run->n_edges; e++) {
        asked->links[e] = (struct pst_schedule_link){
            .from = run->edges[e].from,
            .to = run->edges[e].to,
            .transfer_ns = (uint64_t)llround(transfer_ns(run, &run->edges[e]) * scale),
        };
    }
    pst_order_question_connect(asked);
}

pst_status pst_problem_run_time(const struct pst_problem_run *run, const struct pst_schedule_in *in,
                                double scale, struct pst_pass *const *passes,
                                const uint32_t *n_passes, double *ret_ns, struct pst_error *err)
{
    struct pst_order_eval eval;
    double latest = 0;
    pst_status status =
        pst_order_evaluate(in, (const struct pst_pass *const *)passes, n_passes, &eval, err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t s = 0; s < run->n_stages; s++) {
        uint32_t d = run->stages[s].device;
        double end = n_passes[d] == 0 ? 0 : (double)eval.end_ns[d][n_passes[d] - 1] / scale;

        latest = fmax(latest, end + run->stages[s].reduce_ns);
    }
    pst_order_eval_finish(&eval);
    *ret_ns = latest;
    return PST_OK;
}
