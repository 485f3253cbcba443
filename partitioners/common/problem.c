/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a partitioning problem from the host, and laying one out by hand.
 */
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a_, const void *b_)
{
    const uint32_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

/* Ascending, every value once. */
static uint32_t sort_unique(uint32_t *values, uint32_t n)
{
    uint32_t i, kept = 0;

    qsort(values, n, sizeof *values, by_value);
    for (i = 0; i < n; i++) {
        if (kept == 0 || values[kept - 1] != values[i]) {
            values[kept++] = values[i];
        }
    }
    return kept;
}

static void list_samples(struct part_problem *p)
{
    uint32_t s, k;

    CALL_TAKE(p->samples, (size_t)p->n_sizes * p->n_degrees);
    p->n_samples = 0;
    for (s = 0; s < p->n_sizes; s++) {
        for (k = 0; k < p->n_degrees; k++) {
            if (p->sizes[s] % p->degrees[k] == 0) {
                p->samples[p->n_samples++] = p->sizes[s] / p->degrees[k];
            }
        }
    }
    p->n_samples = sort_unique(p->samples, p->n_samples);
}

/* Rows for all b / d, zero. */
static void make_times(struct part_problem *p)
{
    list_samples(p);
    CALL_TAKE(p->forward_ns, (size_t)p->n_samples * p->n);
    CALL_TAKE(p->backward_ns, (size_t)p->n_samples * p->n);
}

void part_problem_init(struct part_problem *p)
{
    CALL_TAKE(p->from, p->n_edges);
    CALL_TAKE(p->to, p->n_edges);
    CALL_TAKE(p->first_out, (size_t)p->n + 1);
    CALL_TAKE(p->first_in, (size_t)p->n + 1);
    CALL_TAKE(p->in_edges, p->n_edges);
    CALL_TAKE(p->weight_bytes, p->n);
    CALL_TAKE(p->saved_bytes, p->n);
    CALL_TAKE(p->workspace_bytes, p->n);
    CALL_TAKE(p->edge_bytes, p->n_edges);
    make_times(p);
}

struct edge {
    uint32_t from, to;
    double bytes;
};

static int by_ends(const void *a_, const void *b_)
{
    const struct edge *a = a_, *b = b_;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

void part_index_edges(uint32_t n, uint32_t n_edges, const uint32_t *from, const uint32_t *to,
                      uint32_t *first_out, uint32_t *first_in, uint32_t *in_edges)
{
    uint32_t e, v;

    memset(first_out, 0, ((size_t)n + 1) * sizeof *first_out);
    memset(first_in, 0, ((size_t)n + 1) * sizeof *first_in);
    for (e = 0; e < n_edges; e++) {
        first_out[from[e] + 1]++;
        first_in[to[e] + 1]++;
    }
    for (v = 0; v < n; v++) {
        first_out[v + 1] += first_out[v];
        first_in[v + 1] += first_in[v];
    }
    /* Ascending by source, as edges are sorted; first_in moves by one place and back. */
    for (e = 0; e < n_edges; e++) {
        in_edges[first_in[to[e]]++] = e;
    }
    for (v = n; v > 0; v--) {
        first_in[v] = first_in[v - 1];
    }
    first_in[0] = 0;
}

void part_problem_index(struct part_problem *p)
{
    struct edge *edges = call_alloc(p->n_edges, sizeof *edges);
    uint32_t e;

    for (e = 0; e < p->n_edges; e++) {
        edges[e] = (struct edge){p->from[e], p->to[e], p->edge_bytes[e]};
    }
    qsort(edges, p->n_edges, sizeof *edges, by_ends);
    for (e = 0; e < p->n_edges; e++) {
        p->from[e] = edges[e].from;
        p->to[e] = edges[e].to;
        p->edge_bytes[e] = edges[e].bytes;
    }
    part_index_edges(p->n, p->n_edges, p->from, p->to, p->first_out, p->first_in, p->in_edges);
}

/* --- from a host -------------------------------------------------------------------------------*/

static void copy_lists(struct part_problem *p, const struct pst_partition_in *in)
{
    uint32_t i;

    CALL_TAKE(p->sizes, in->n_micro_batches);
    CALL_TAKE(p->degrees, in->n_degrees);
    for (i = 0; i < in->n_micro_batches; i++) {
        p->sizes[p->n_sizes++] = in->micro_batches[i];
    }
    for (i = 0; i < in->n_degrees; i++) {
        if (in->degrees[i] >= 1 && in->degrees[i] <= p->n_devices) {
            p->degrees[p->n_degrees++] = in->degrees[i];
        }
    }
    p->n_sizes = sort_unique(p->sizes, p->n_sizes);
    p->n_degrees = sort_unique(p->degrees, p->n_degrees);
}

/* A host of before pst.profile/1: what its view says, transfers free. */
static void old_figures(struct pst_figures *figures)
{
    *figures = (struct pst_figures){
        .size = sizeof *figures,
        .comm_model = PST_COMM_NONE,
        .weight_multiplier = 4,
    };
}

static void read_bytes(struct part_problem *p, const struct pst_graph_view *graph)
{
    uint32_t v, e;

    for (v = 0; v < p->n; v++) {
        const struct pst_node *node = pst_graph_node(graph, v);
        uint64_t work = node->forward_work_bytes > node->backward_work_bytes
                            ? node->forward_work_bytes
                            : node->backward_work_bytes;

        p->weight_bytes[v] = (double)node->param_bytes;
        p->saved_bytes[v] =
            p->figures.saved_bytes != NULL ? p->figures.saved_bytes[v] : (double)node->saved_bytes;
        p->workspace_bytes[v] = (double)work;
    }
    for (e = 0; e < p->n_edges; e++) {
        const struct pst_edge *edge = pst_graph_edge(graph, e);

        p->from[e] = edge->from;
        p->to[e] = edge->to;
        p->edge_bytes[e] =
            p->figures.edge_bytes != NULL ? p->figures.edge_bytes[e] : (double)edge->bytes;
    }
}

static void read_times(struct part_problem *p, const struct pst_profile *profile)
{
    const struct pst_cost *cost = p->host->get_extension(p->host, PST_COST);
    uint32_t i, v;

    if (profile == NULL && cost == NULL) {
        call_end(pst_failf(p->host, PST_ERR_UNSUPPORTED, "the host lacks %s and %s", PST_PROFILE,
                           PST_COST));
    }
    for (i = 0; i < p->n_samples; i++) {
        for (v = 0; v < p->n; v++) {
            struct pst_times times = {0, 0, 0};
            double ns[3] = {0, 0, 0};

            if (profile != NULL) {
                call_check(profile->node_ns(p->host, v, p->samples[i], ns));
            } else {
                call_check(cost->compute(p->host, &v, 1, p->samples[i], &times));
                ns[0] = (double)times.forward_ns;
                ns[1] = (double)times.backward_input_ns;
                ns[2] = (double)times.backward_weight_ns;
            }
            p->forward_ns[(size_t)i * p->n + v] = ns[0];
            p->backward_ns[(size_t)i * p->n + v] = ns[1] + ns[2];
            if ((v + 1) % 1024 == 0 || v + 1 == p->n) {
                call_go_on(p->host);
            }
        }
    }
}

static void read_links(struct part_problem *p)
{
    const struct pst_cost *cost = p->host->get_extension(p->host, PST_COST);
    uint32_t node = p->figures.node_size, n = p->in->n_devices;

    if (part_is_problem(p) || cost == NULL || n < 2) {
        return;
    }
    p->link_ns = (double)cost->transfer_ns(p->host, 0, 0, 1);
    if (node > 0 && node < n) {
        p->node_link_ns = (double)cost->transfer_ns(p->host, 0, 0, node);
    }
    if (node > 1 && node < n) {
        const uint64_t bytes = 1 << 30; /* as many pass a link */
        uint64_t ns = cost->allreduce_ns(p->host, bytes, 2) - cost->allreduce_ns(p->host, 0, 2);

        p->node_sync_bytes_per_s = ns > 0 ? (double)bytes / (double)ns * 1e9 : 0;
    }
}

void part_problem_read(const struct pst_host *host, const struct pst_partition_in *in,
                       struct part_problem *ret_problem)
{
    const struct pst_profile *profile = host->get_extension(host, PST_PROFILE);
    struct part_problem p = {.host = host, .in = in};

    if (profile != NULL) {
        p.figures = *profile->figures(host);
    } else {
        old_figures(&p.figures);
    }
    p.n = in->graph->n_nodes;
    p.n_edges = in->graph->n_edges;
    p.n_devices = in->n_stages > in->n_devices ? in->n_stages : in->n_devices;
    p.batch = in->batch;
    p.weight_multiplier = p.figures.weight_multiplier;
    p.capacity_bytes = in->capacity_bytes == UINT64_MAX ? INFINITY : (double)in->capacity_bytes;
    copy_lists(&p, in);
    if (p.n_degrees == 0) {
        call_end(pst_failf(host, PST_ERR_INFEASIBLE,
                           "no allowed degree is at most %u, the number of devices", p.n_devices));
    }
    part_problem_init(&p);
    read_bytes(&p, in->graph);
    part_problem_index(&p);
    read_times(&p, profile);
    read_links(&p);
    *ret_problem = p;
}

/* --- sizes that replicas ask for ---------------------------------------------------------------*/

uint64_t part_common_multiple(uint32_t a, uint32_t b)
{
    uint32_t x = a, y = b;

    while (y != 0) {
        uint32_t rest = x % y;

        x = y;
        y = rest;
    }
    return (uint64_t)a / x * b;
}

/* Adds a size; room for another one is made beforehand. */
static void add_size(struct part_problem *p, uint64_t size, uint32_t *room)
{
    uint32_t i;

    if (size > p->batch || p->batch % size != 0) {
        return;
    }
    for (i = 0; i < p->n_sizes; i++) {
        if (p->sizes[i] == size) {
            return;
        }
    }
    CALL_MAKE_ROOM(p->sizes, p->n_sizes, *room);
    p->sizes[p->n_sizes++] = (uint32_t)size;
}

static void add_sizes(struct part_problem *p)
{
    uint32_t n_offered = p->n_sizes, room = p->n_sizes, i, k;

    for (i = 0; i < p->n_sizes; i++) {
        for (k = 0; k < p->n_degrees; k++) {
            add_size(p, part_common_multiple(p->sizes[i], p->degrees[k]), &room);
            if (i < n_offered) {
                add_size(p, (uint64_t)p->sizes[i] * p->degrees[k], &room);
            }
        }
    }
    p->n_sizes = sort_unique(p->sizes, p->n_sizes);
}

void part_problem_enlarge(struct part_problem *p)
{
    const struct pst_profile *profile = p->host->get_extension(p->host, PST_PROFILE);
    uint32_t before = p->n_sizes;

    if (p->figures.reference != 0) {
        add_sizes(p);
    }
    if (p->n_sizes > before) {
        p->samples = NULL;
        p->forward_ns = p->backward_ns = NULL;
        make_times(p);
        read_times(p, profile);
    }
}

/* --- groups as nodes ---------------------------------------------------------------------------*/

static uint32_t *copy(const uint32_t *list, uint32_t n)
{
    uint32_t *made = call_alloc((size_t)n + 1, sizeof *made);

    memcpy(made, list, n * sizeof *made);
    return made;
}

static void add_up(const struct part_problem *p, const uint32_t *group_of, struct part_problem *g)
{
    uint32_t v, i, e, n = 0;

    for (v = 0; v < p->n; v++) {
        uint32_t to = group_of[v];

        g->weight_bytes[to] += p->weight_bytes[v];
        g->saved_bytes[to] += p->saved_bytes[v];
        if (p->workspace_bytes[v] > g->workspace_bytes[to]) {
            g->workspace_bytes[to] = p->workspace_bytes[v];
        }
        for (i = 0; i < g->n_samples; i++) {
            g->forward_ns[(size_t)i * g->n + to] += p->forward_ns[(size_t)i * p->n + v];
            g->backward_ns[(size_t)i * g->n + to] += p->backward_ns[(size_t)i * p->n + v];
        }
    }
    for (e = 0; e < p->n_edges; e++) {
        if (group_of[p->from[e]] != group_of[p->to[e]]) {
            g->from[n] = group_of[p->from[e]];
            g->to[n] = group_of[p->to[e]];
            g->edge_bytes[n++] = p->edge_bytes[e];
        }
    }
    g->n_edges = n;
}

/* Parallel edges become one. */
static void merge_edges(struct part_problem *g)
{
    uint32_t e, n = 0;

    part_problem_index(g);
    for (e = 0; e < g->n_edges; e++) {
        if (n > 0 && g->from[n - 1] == g->from[e] && g->to[n - 1] == g->to[e]) {
            g->edge_bytes[n - 1] += g->edge_bytes[e];
            continue;
        }
        g->from[n] = g->from[e];
        g->to[n] = g->to[e];
        g->edge_bytes[n++] = g->edge_bytes[e];
    }
    g->n_edges = n;
    part_problem_index(g);
}

void part_problem_merge(const struct part_problem *p, const uint32_t *group_of, uint32_t n_groups,
                        struct part_problem *ret_merged)
{
    struct part_problem g = {
        .host = p->host,
        .figures = p->figures,
        .n = n_groups,
        .n_edges = p->n_edges,
        .n_devices = p->n_devices,
        .batch = p->batch,
        .n_sizes = p->n_sizes,
        .sizes = copy(p->sizes, p->n_sizes),
        .n_degrees = p->n_degrees,
        .degrees = copy(p->degrees, p->n_degrees),
        .weight_multiplier = p->weight_multiplier,
        .capacity_bytes = p->capacity_bytes,
    };

    if (g.sizes != NULL && g.degrees != NULL) {
        part_problem_init(&g);
    }
    add_up(p, group_of, &g);
    merge_edges(&g);
    *ret_merged = g;
}

/* --- small questions ---------------------------------------------------------------------------*/

uint32_t part_samples_row(const struct part_problem *p, uint32_t samples)
{
    const uint32_t *found =
        bsearch(&samples, p->samples, p->n_samples, sizeof *p->samples, by_value);

    return found == NULL ? UINT32_MAX : (uint32_t)(found - p->samples);
}

const char *part_node_name(const struct part_problem *p, uint32_t v)
{
    return p->in == NULL || p->in->graph == NULL ? "?" : pst_graph_node(p->in->graph, v)->name;
}
