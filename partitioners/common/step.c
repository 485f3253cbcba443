/* SPDX-License-Identifier: Apache-2.0
 *
 * One mini-batch over a stage graph, every stage in the order of its kFkB schedule (Jeon et al.,
 * GraphPipe, ASPLOS 2025). Transfers delay the passes that need them (links.c).
 */
#include <math.h>

#include "stage_graph.h"

/* More passes than this are estimated. */
#define PASSES_MAX (UINT64_C(1) << 23)

struct run {
    uint32_t n_passes, warmup; /* micro-batches */
    uint32_t forwards, backwards;
    double now_ns, forward_ns, backward_ns;
    double *forward_end, *backward_end; /* [n_passes] */
};

struct step {
    const struct stage_graph *graph;
    const struct part_plan *plan;
    struct run *runs;
    double *ends;
    double *delay, least_ns; /* of links between nodes: [n_links] or NULL */
    uint32_t *queue, head, n_queued;
    bool *queued;
};

/* When the samples up to the end of this micro-batch are through stage t; -1: not yet. */
static double ready_at(const struct step *step, uint32_t s, uint32_t t, uint32_t m, bool forward)
{
    const struct run *run = &step->runs[t];
    uint64_t last = (uint64_t)(m + 1) * step->plan->stages[s].b - 1;
    uint64_t at = last / step->plan->stages[t].b;
    double delay = 0;

    if (at >= run->n_passes) {
        at = run->n_passes - 1;
    }
    if (at >= (forward ? run->forwards : run->backwards)) {
        return -1;
    }
    if (step->delay != NULL) {
        delay = step->delay[forward ? stage_graph_link(step->graph, t, s)
                                    : stage_graph_link(step->graph, s, t)];
    }
    return (forward ? run->forward_end[at] : run->backward_end[at]) + delay;
}

static bool advance(struct step *step, uint32_t s)
{
    const struct stage_graph *g = step->graph;
    struct run *run = &step->runs[s];
    uint32_t k = step->plan->stages[s].k, i, extra = run->forwards - run->warmup;
    bool forward = run->forwards < run->warmup ||
                   (run->forwards < run->n_passes && run->backwards >= (extra / k + 1) * k);
    uint32_t m = forward ? run->forwards : run->backwards;
    const uint32_t *first = forward ? g->first_in : g->first_out;
    double start = run->now_ns;

    if (m == run->n_passes || (!forward && m >= run->forwards)) {
        return false;
    }
    for (i = first[s]; i < first[s + 1]; i++) {
        double ready = ready_at(step, s, forward ? g->in[i] : g->out[i], m, forward);

        if (ready < 0) {
            return false;
        }
        start = fmax(start, ready);
    }
    run->now_ns = start + (forward ? run->forward_ns : run->backward_ns);
    if (forward) {
        run->forward_end[run->forwards++] = run->now_ns;
    } else {
        run->backward_end[run->backwards++] = run->now_ns;
    }
    return true;
}

static void enqueue(struct step *step, uint32_t s)
{
    if (!step->queued[s]) {
        step->queued[s] = true;
        step->queue[(step->head + step->n_queued++) % step->graph->n] = s;
    }
}

/* Every stage goes as far as it can, again whenever a neighbour has moved. */
static void run_all(struct step *step)
{
    const struct stage_graph *g = step->graph;
    uint32_t i, at;

    for (at = 0; at < g->n; at++) {
        enqueue(step, g->order[at]);
    }
    while (step->n_queued > 0) {
        uint32_t s = step->queue[step->head];
        bool moved = false;

        step->head = (step->head + 1) % g->n;
        step->n_queued--;
        step->queued[s] = false;
        while (advance(step, s)) {
            moved = true;
        }
        if (!moved) {
            continue;
        }
        for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
            enqueue(step, g->out[i]);
        }
        for (i = g->first_in[s]; i < g->first_in[s + 1]; i++) {
            enqueue(step, g->in[i]);
        }
    }
}

/* Longest path once, then the slowest stage for the rest of the samples. */
static double estimate(const struct stage_graph *g, const struct part_plan *plan,
                       const struct part_problem *p, double *path)
{
    double most = 0, slowest = 0;
    uint32_t at, i;

    for (at = g->n; at-- > 0;) {
        uint32_t s = g->order[at], b = plan->stages[s].b;
        double pass = g->sums[s].forward_ns + g->sums[s].backward_ns;
        double behind = 0;

        for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
            behind = fmax(behind, path[g->out[i]]);
        }
        path[s] = behind + pass;
        most = fmax(most, path[s]);
        slowest = fmax(slowest, pass / b * (p->batch - (b < p->batch ? b : p->batch)));
    }
    return most + slowest;
}

static void lay_out(struct step *step, const struct part_problem *p)
{
    const struct stage_graph *g = step->graph;
    double *end = step->ends;
    uint32_t s;

    for (s = 0; s < g->n; s++) {
        const struct part_stage *stage = &step->plan->stages[s];
        struct run *run = &step->runs[s];
        uint64_t warmup = g->in_flight[s] / stage->b;

        run->n_passes = (p->batch + stage->b - 1) / stage->b;
        run->warmup = warmup < 1 ? 1 : (uint32_t)warmup;
        run->warmup = run->warmup < run->n_passes ? run->warmup : run->n_passes;
        run->forward_ns = g->sums[s].forward_ns;
        run->backward_ns = g->sums[s].backward_ns;
        run->forward_end = end;
        run->backward_end = end + run->n_passes;
        end += 2 * (size_t)run->n_passes;
    }
}

static void init(struct step *step, const struct part_problem *p, uint64_t n_passes)
{
    const struct stage_graph *g = step->graph;
    double slowest_ns = 0;
    uint32_t s;

    for (s = 0; s < g->n; s++) {
        const struct part_stage *stage = &step->plan->stages[s];

        slowest_ns = fmax(slowest_ns, stage_tps_ns(p, stage, &g->sums[s]));
    }
    CALL_TAKE(step->ends, n_passes > PASSES_MAX ? g->n : n_passes);
    CALL_TAKE(step->runs, g->n);
    CALL_TAKE(step->queue, g->n);
    CALL_TAKE(step->queued, g->n);
    stage_graph_delays(g, step->plan, p, slowest_ns, &step->delay, &step->least_ns);
}

void stage_graph_step(const struct stage_graph *g, const struct part_plan *plan,
                      const struct part_problem *p, double *ret_ns)
{
    struct step step = {.graph = g, .plan = plan};
    uint64_t n_passes = 0;
    double most = 0;
    uint32_t s;

    for (s = 0; s < g->n; s++) {
        n_passes += 2 * (((uint64_t)p->batch + plan->stages[s].b - 1) / plan->stages[s].b);
    }
    init(&step, p, n_passes);
    if (n_passes > PASSES_MAX) {
        most = estimate(g, plan, p, step.ends);
    } else {
        lay_out(&step, p);
        run_all(&step);
        for (s = 0; s < g->n; s++) {
            const struct run *run = &step.runs[s];
            double end = run->backwards < run->n_passes ? INFINITY : run->now_ns;

            most = fmax(most, end + stage_sync_ns(p, plan->stages[s].d, g->sums[s].weight));
        }
    }
    *ret_ns = fmax(most, step.least_ns);
}
