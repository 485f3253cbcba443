/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that links add to a step. The ranks of a job are those of the answer; devices of a node
 * share its outgoing bandwidth.
 */
#include <math.h>
#include <string.h>

#include "stage_graph.h"

struct traffic {
    const struct stage_graph *g;
    const struct part_plan *plan;
    const struct part_problem *p;
    uint32_t n_nodes, size, *first_rank; /* size: devices of a node */
    double *link_bytes;                  /* [n_links] per sample, as in g->out */
    double *leaving;                     /* [n_nodes] bytes per sample, both directions of passes */
    double *of_link;                     /* [n_nodes] scratch */
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

    CALL_TAKE(t->link_bytes, (size_t)t->g->n_links + 1);
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
    uint32_t size = t->size, ds = t->plan->stages[s].d, dt = t->plan->stages[to].d;
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

/* How long a message occupies the link between two devices of a node. */
static double occupied_ns(const struct traffic *t, uint32_t s, uint32_t link)
{
    const struct part_stage *from = &t->plan->stages[s], *to = &t->plan->stages[t->g->out[link]];
    uint32_t b = from->b > to->b ? from->b : to->b, d = from->d < to->d ? from->d : to->d;
    double rate = t->p->figures.p2p_bytes_per_s;

    return rate > 0 ? t->link_bytes[link] * b / (d * rate) * 1e9 : 0;
}

/* Where others want the link as well, bytes leave later by their part of the time; a message has
   all tensors of its link, and so one latency. */
static double delay_of(struct traffic *t, uint32_t s, uint32_t link, double slowest_ns)
{
    uint32_t to = t->g->out[link], node;
    uint32_t b =
        t->plan->stages[s].b > t->plan->stages[to].b ? t->plan->stages[s].b : t->plan->stages[to].b;
    double between = t->p->figures.allreduce_bytes_per_s;
    double ns = occupied_ns(t, s, link) + t->p->link_ns;

    memset(t->of_link, 0, t->n_nodes * sizeof *t->of_link);
    add_leaving(t, s, to, t->link_bytes[link], t->of_link);
    for (node = 0; node < t->n_nodes; node++) {
        double others = t->leaving[node] - t->of_link[node];
        double busy = slowest_ns > 0 && between > 0 ? others / between * 1e9 / slowest_ns : 0;
        double mine = between > 0 ? t->of_link[node] * b / between * 1e9 : 0;

        if (t->of_link[node] > 0) {
            ns = fmax(ns, mine / (1 - fmin(busy, 0.9)) + t->p->node_link_ns);
        }
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
            delay[i] = delay_of(t, s, i, slowest_ns);
        }
    }
    for (i = 0; i < t->n_nodes && t->p->figures.allreduce_bytes_per_s > 0; i++) {
        *ret_least_ns =
            fmax(*ret_least_ns, t->leaving[i] / t->p->figures.allreduce_bytes_per_s * 1e9);
    }
    *ret_least_ns *= t->p->batch;
    for (s = 0; s < t->g->n && t->n_nodes == 1; s++) {
        /* two devices of a node have a link of their own in each direction */
        for (i = t->g->first_out[s]; i < t->g->first_out[s + 1]; i++) {
            *ret_least_ns =
                fmax(*ret_least_ns, occupied_ns(t, s, i) * t->p->batch / t->plan->stages[s].b);
        }
    }
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
    if (n_ranks > p->n_devices) {
        return; /* with too many replicas it is no plan */
    }
    t.size = size == 0 || size > p->n_devices ? p->n_devices : size;
    t.n_nodes = (p->n_devices + t.size - 1) / t.size;
    CALL_TAKE(t.first_rank, (size_t)g->n + 1);
    CALL_TAKE(t.leaving, t.n_nodes);
    CALL_TAKE(t.of_link, t.n_nodes);
    CALL_TAKE(delay, (size_t)g->n_links + 1);
    if (t.n_nodes > 1) {
        stage_graph_place(g, plan, p, t.first_rank);
    }
    fill(&t, slowest_ns, delay, ret_least_ns);
    *ret_delay = delay;
}
