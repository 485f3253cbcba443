/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph that PipeDream's optimizer searches: without inputs and idle sinks, which have a place
 * whatever the cut.
 */
#include <string.h>
#include <strings.h>

#include "pipedream.h"

/* "input", "Input3" */
static bool is_input(const struct part_problem *p, uint32_t v)
{
    const char *op;

    if (p->first_in[v] != p->first_in[v + 1] || p->in == NULL || p->in->graph == NULL) {
        return false;
    }
    op = pst_graph_node(p->in->graph, v)->op;
    return op != NULL && strncasecmp(op, "input", 5) == 0 &&
           op[5 + strspn(op + 5, "0123456789")] == '\0';
}

static bool is_idle_sink(const struct part_problem *p, uint32_t v)
{
    size_t at = (size_t)(p->n_samples == 0 ? 0 : p->n_samples - 1) * p->n + v;

    return p->n_samples > 0 && p->first_out[v] == p->first_out[v + 1] &&
           p->first_in[v] != p->first_in[v + 1] && p->weight_bytes[v] == 0 &&
           p->forward_ns[at] == 0 && p->backward_ns[at] == 0;
}

/* own[v] = 0 for what stays. Something with a cost must remain at the end of the graph. */
static void choose(const struct part_problem *p, uint32_t inputs, uint32_t *own)
{
    uint32_t v, n_inputs = 0, n_sinks = 0, n_idle = 0;

    for (v = 0; v < p->n; v++) {
        n_inputs += is_input(p, v);
        n_sinks += p->first_out[v] == p->first_out[v + 1];
        n_idle += is_idle_sink(p, v);
    }
    for (v = 0; v < p->n; v++) {
        own[v] = 0;
        if (inputs == PD_FIRST && ((is_input(p, v) && n_inputs + n_idle < p->n) ||
                                   (is_idle_sink(p, v) && n_idle < n_sinks))) {
            own[v] = PST_NONE;
        }
    }
}

static void index_edges(struct pd_graph *g, const struct part_problem *p, uint32_t n,
                        uint32_t n_edges)
{
    uint32_t *from = g->arrays, *to = from + n_edges, *in_edges = to + n_edges;
    uint32_t *first_out = in_edges + n_edges, *first_in = first_out + n + 1;
    uint32_t e, kept = 0;

    for (e = 0; e < p->n_edges; e++) {
        if (g->own[p->from[e]] != PST_NONE && g->own[p->to[e]] != PST_NONE) {
            g->edge[kept] = e;
            from[kept] = g->own[p->from[e]];
            to[kept++] = g->own[p->to[e]];
        }
    }
    part_index_edges(n, n_edges, from, to, first_out, first_in, in_edges);
    g->dag = (struct part_dag){n, n_edges, from, to, first_out, first_in, in_edges};
}

void pd_graph_init(struct pd_graph *g, const struct part_problem *p, uint32_t inputs)
{
    uint32_t v, e, n = 0, n_edges = 0;

    memset(g, 0, sizeof *g);
    CALL_TAKE(g->own, (size_t)p->n + 1);
    CALL_TAKE(g->node, (size_t)p->n + 1);
    CALL_TAKE(g->edge, (size_t)p->n_edges + 1);
    CALL_TAKE(g->arrays, 3 * (size_t)p->n_edges + 2 * (size_t)p->n + 2);
    choose(p, inputs, g->own);
    for (v = 0; v < p->n; v++) {
        if (g->own[v] != PST_NONE) {
            g->own[v] = n;
            g->node[n++] = v;
        }
    }
    for (e = 0; e < p->n_edges; e++) {
        n_edges += g->own[p->from[e]] != PST_NONE && g->own[p->to[e]] != PST_NONE;
    }
    index_edges(g, p, n, n_edges);
}

void pd_graph_assign(const struct pd_graph *g, const struct part_problem *p,
                     const struct part_downsets *sets, const struct pd_answer *answer,
                     uint32_t *ret_stage_of, uint32_t *ret_degrees)
{
    uint32_t *nodes = call_alloc((size_t)p->n + 1, sizeof *nodes), s, i, v, n, e;

    memset(ret_stage_of, 0, p->n * sizeof *ret_stage_of);
    for (s = 0; s < answer->n_stages; s++) {
        const struct part_sets_stage *stage = &answer->stages[s];

        n = part_downsets_between(sets, stage->from, stage->to, nodes);
        for (i = 0; i < n; i++) {
            ret_stage_of[g->node[nodes[i]]] = s;
        }
        ret_degrees[s] = stage->degree;
    }
    for (v = 0; v < p->n; v++) {
        for (e = p->first_in[v]; g->own[v] == PST_NONE && e < p->first_in[v + 1]; e++) {
            s = ret_stage_of[p->from[p->in_edges[e]]];
            ret_stage_of[v] = s > ret_stage_of[v] ? s : ret_stage_of[v];
        }
    }
}
