/* SPDX-License-Identifier: Apache-2.0
 *
 * What links add to a step: of a problem file all of them, of a job those between nodes. Ranks are
 * those that the answer will have; devices of a node share what leaves it.
 */
#include <math.h>
#include <string.h>

#include "stage_graph.h"

struct traffic {
    const struct stage_graph *g;
    const struct part_plan *plan;
    const struct part_problem *p;
    uint32_t n_nodes, *first_rank;
    double *link_bytes; /* [n_links] per sample, as in g->out */
    double *leaving;    /* [n_nodes] bytes per sample, both directions of passes */
    double *of_link;    /* [n_nodes] scratch */
};

/* Index of s -> t in g->out. */
uint32_t stage_graph_link(const struct stage_graph *g, uint32_t s, uint32_t t)
{
    uint32_t low = g->first_out[s], high = g->first_out[s + 1];

    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;

        if (g->out[middle] <= t) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void add_bytes(struct traffic *t)
{
    uint32_t e;

    for (e = 0; e < t->p->n_edges; e++) {
        uint32_t from = t->g->stage_of[t->p->from[e]], to = t->g->stage_of[t->p->to[e]];

        if (from != to) {
            t->link_bytes[stage_graph_link(t->g, from, to)] += t->p->edge_bytes[e];
        }
    }
}

/* Part of what goes from s to t that leaves each node; forwards it leaves that of s, backwards that
   of t. Replicas share samples evenly, in their order. */
static void add_leaving(struct traffic *t, uint32_t s, uint32_t to, double bytes, double *leaving)
{
    uint32_t size = t->p->figures.node_size, ds = t->plan->stages[s].d, dt = t->plan->stages[to].d;
    uint32_t n = ds > dt ? ds : dt, i;

    for (i = 0; i < n; i++) {
        uint32_t a = (t->first_rank[s] + (uint32_t)((uint64_t)i * ds / n)) / size;
        uint32_t b = (t->first_rank[to] + (uint32_t)((uint64_t)i * dt / n)) / size;

        if (a != b) {
            leaving[a] += bytes / n;
            leaving[b] += bytes / n;
        }
    }
}

/* Where others want the link as well, a transfer takes longer by their part of the time. */
static double delay_of(struct traffic *t, uint32_t s, uint32_t to, double bytes, double slowest_ns)
{
    uint32_t ds = t->plan->stages[s].d, dt = t->plan->stages[to].d, node;
    uint32_t b =
        t->plan->stages[s].b > t->plan->stages[to].b ? t->plan->stages[s].b : t->plan->stages[to].b;
    double inside = t->p->figures.p2p_bytes_per_s, between = t->p->figures.allreduce_bytes_per_s;
    double ns = inside > 0 ? bytes * b / ((ds < dt ? ds : dt) * inside) * 1e9 : 0;

    memset(t->of_link, 0, t->n_nodes * sizeof *t->of_link);
    add_leaving(t, s, to, bytes, t->of_link);
    for (node = 0; node < t->n_nodes; node++) {
        double others = t->leaving[node] - t->of_link[node];
        double busy = slowest_ns > 0 ? others / between * 1e9 / slowest_ns : 0;

        ns = fmax(ns, t->of_link[node] * b / between * 1e9 / (1 - fmin(busy, 0.9)));
    }
    return ns;
}

static void fill(struct traffic *t, double slowest_ns, double *delay, double *ret_least_ns)
{
    uint32_t s, i;

    add_bytes(t);
    for (s = 0; s < t->g->n; s++) {
        for (i = t->g->first_out[s]; i < t->g->first_out[s + 1]; i++) {
            add_leaving(t, s, t->g->out[i], t->link_bytes[i], t->leaving);
        }
    }
    for (s = 0; s < t->g->n; s++) {
        for (i = t->g->first_out[s]; i < t->g->first_out[s + 1]; i++) {
            delay[i] = delay_of(t, s, t->g->out[i], t->link_bytes[i], slowest_ns);
        }
    }
    *ret_least_ns = 0;
    for (i = 0; i < t->n_nodes; i++) {
        *ret_least_ns =
            fmax(*ret_least_ns, t->leaving[i] / t->p->figures.allreduce_bytes_per_s * 1e9);
    }
    *ret_least_ns *= t->p->batch;
}

/* Nobody else wants a link of a problem file; the side with fewer replicas sets the pace. */
static void undisturbed(struct traffic *t, double **ret_delay)
{
    const struct stage_graph *g = t->g;
    double rate = t->p->figures.p2p_bytes_per_s;
    uint32_t s, i;

    if (rate <= 0 || t->p->figures.comm_model == PST_COMM_NONE) {
        return;
    }
    CALL_TAKE(t->link_bytes, (size_t)g->n_links + 1);
    add_bytes(t);
    for (s = 0; s < g->n; s++) {
        const struct part_stage *from = &t->plan->stages[s];

        for (i = g->first_out[s]; i < g->first_out[s + 1]; i++) {
            uint32_t d = t->plan->stages[g->out[i]].d;

            t->link_bytes[i] *= from->b / ((from->d < d ? from->d : d) * rate) * 1e9;
        }
    }
    *ret_delay = t->link_bytes;
}

void stage_graph_delays(const struct stage_graph *g, const struct part_plan *plan,
                        const struct part_problem *p, double slowest_ns, double **ret_delay,
                        double *ret_least_ns)
{
    uint32_t size = p->figures.node_size, s;
    uint64_t n_ranks = 0;
    struct traffic t = {.g = g, .plan = plan, .p = p};
    double *delay = NULL;

    *ret_delay = NULL;
    *ret_least_ns = 0;
    for (s = 0; s < g->n; s++) {
        n_ranks += plan->stages[s].d;
    }
    if (part_is_problem(p)) {
        undisturbed(&t, ret_delay);
        return;
    }
    if (p->in == NULL || size == 0 || size >= p->n_devices || n_ranks > p->n_devices ||
        p->figures.allreduce_bytes_per_s <= 0) {
        return; /* with too many replicas it is no plan */
    }
    t.n_nodes = (p->n_devices + size - 1) / size;
    CALL_TAKE(t.first_rank, (size_t)g->n + 1);
    CALL_TAKE(t.link_bytes, (size_t)g->n_links + 1);
    CALL_TAKE(t.leaving, t.n_nodes);
    CALL_TAKE(t.of_link, t.n_nodes);
    CALL_TAKE(delay, (size_t)g->n_links + 1);
    stage_graph_place(g, plan, p, t.first_rank);
    fill(&t, slowest_ns, delay, ret_least_ns);
    *ret_delay = delay;
}
