/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a plan to the host: ranks along the branches of the stage graph, stages in topological
 * order.
 */

#include "stage_graph.h"

struct placing {
    const struct stage_graph *graph;
    const struct part_plan *plan;
    uint32_t n_ranks, node_size; /* node_size 0: one node */
    bool in_order;               /* the scheduler says where the s-th stage is */
    uint32_t *walk;              /* stages depth first */
    uint32_t *first_rank;        /* by stage */
    uint32_t *used;              /* per node, from its left end */
};

/* Depth first in topological order, as orders of nodes are. */
static void walk(struct placing *p)
{
    const struct stage_graph *g = p->graph;
    uint32_t *waits = call_alloc((size_t)g->n + 1, sizeof *waits);
    uint32_t *stack = call_alloc((size_t)g->n + 1, sizeof *stack);
    uint32_t at, i, n = 0, done = 0;

    for (at = g->n; at-- > 0;) {
        uint32_t s = g->order[at];

        waits[s] = g->first_in[s + 1] - g->first_in[s];
        if (waits[s] == 0) {
            stack[n++] = s;
        }
    }
    while (n > 0) {
        uint32_t s = stack[--n];

        p->walk[done++] = s;
        for (i = g->first_out[s + 1]; i-- > g->first_out[s];) {
            if (--waits[g->out[i]] == 0) {
                stack[n++] = g->out[i];
            }
        }
    }
}

static void place_in_row(struct placing *p)
{
    uint32_t at, next = 0;

    for (at = 0; at < p->graph->n; at++) {
        p->first_rank[p->walk[at]] = next;
        next += p->plan->stages[p->walk[at]].d;
    }
}

/* The first whole nodes in a row that are free, or room at the end of one; false: none. */
static bool place_one(struct placing *p, uint32_t s)
{
    uint32_t d = p->plan->stages[s].d, size = p->node_size;
    uint32_t n_nodes = (p->n_ranks + size - 1) / size, need = (d + size - 1) / size, node, run = 0;

    for (node = 0; node < n_nodes; node++) {
        uint32_t ranks = node + 1 == n_nodes ? p->n_ranks - node * size : size, i;

        if (d <= size) {
            if (p->used[node] + d <= ranks) {
                p->first_rank[s] = node * size + p->used[node];
                p->used[node] += d;
                return true;
            }
            continue;
        }
        run = p->used[node] == 0 ? run + 1 : 0;
        if (run >= need && (need - 1) * size + ranks >= d) {
            p->first_rank[s] = (node + 1 - need) * size;
            for (i = node + 1 - need; i < node; i++) {
                p->used[i] = size;
            }
            p->used[node] = d - (need - 1) * size;
            return true;
        }
    }
    return false;
}

/* In the order of the walk, or else wide stages first. */
static bool place_in_nodes(struct placing *p, bool wide_first)
{
    uint32_t n_nodes = (p->n_ranks + p->node_size - 1) / p->node_size;
    uint32_t at, node, d, least = wide_first ? 1 : p->n_ranks, most = p->n_ranks;

    for (node = 0; node < n_nodes; node++) {
        p->used[node] = 0;
    }
    for (d = most; d >= least; d--) {
        for (at = 0; at < p->graph->n; at++) {
            uint32_t s = p->walk[at];

            if ((!wide_first || p->plan->stages[s].d == d) && !place_one(p, s)) {
                return false;
            }
        }
    }
    return true;
}

static void place(struct placing *p)
{
    uint32_t at;

    for (at = 0; p->in_order && at < p->graph->n; at++) {
        p->first_rank[p->graph->order[at]] = at; /* as part_plan_decls counts them */
    }
    if (p->in_order) {
        return;
    }
    walk(p);
    if (p->node_size == 0 || p->node_size >= p->n_ranks ||
        (!place_in_nodes(p, false) && !place_in_nodes(p, true))) {
        place_in_row(p);
    }
}

static void placing_init(struct placing *p, const struct part_problem *problem)
{
    p->n_ranks = problem->n_devices;
    p->node_size = problem->figures.node_size;
    p->in_order = problem->in != NULL && problem->in->n_stages != 0;
    CALL_TAKE(p->walk, (size_t)p->plan->n_stages + 1);
    CALL_TAKE(p->first_rank, (size_t)p->plan->n_stages + 1);
    CALL_TAKE(p->used, (size_t)problem->n_devices + 1);
}

void stage_graph_place(const struct stage_graph *graph, const struct part_plan *plan,
                       const struct part_problem *problem, uint32_t *first_rank)
{
    struct placing p = {.graph = graph, .plan = plan};
    uint32_t s;

    placing_init(&p, problem);
    place(&p);
    for (s = 0; s < graph->n; s++) {
        first_rank[s] = p.first_rank[s];
    }
}

struct pst_stage_decl part_stage_decl(const struct part_stage *stage, const uint32_t *ranks)
{
    return (struct pst_stage_decl){
        .size = sizeof(struct pst_stage_decl),
        .nodes = stage->nodes,
        .n_nodes = stage->n_nodes,
        .ranks = ranks,
        .n_ranks = stage->d,
        .microbatch_size = stage->b,
        .k = stage->k,
    };
}

struct pst_stage_decl *part_plan_decls(const struct part_plan *plan,
                                       const struct part_problem *problem)
{
    struct stage_graph g;
    struct placing p = {.graph = &g, .plan = plan};
    struct pst_stage_decl *decls = call_alloc((size_t)plan->n_stages + 1, sizeof *decls);
    uint32_t at, i, *ranks;

    stage_graph_init(&g, plan, problem);
    if (!g.legal) {
        call_end(PST_ERR_BUG);
    }
    placing_init(&p, problem);
    place(&p);
    for (at = 0; at < g.n; at++) {
        const struct part_stage *stage = &plan->stages[g.order[at]];

        CALL_TAKE(ranks, stage->d);
        for (i = 0; i < stage->d; i++) {
            ranks[i] = p.first_rank[g.order[at]] + i;
        }
        decls[at] = part_stage_decl(stage, ranks);
    }
    return decls;
}

void part_plan_answer(const struct part_plan *plan, const struct part_problem *problem,
                      struct pst_partition_out *out)
{
    const struct pst_stage_decl *decls = part_plan_decls(plan, problem);
    uint32_t s;

    for (s = 0; s < plan->n_stages; s++) {
        call_check(out->stage(out, &decls[s]));
    }
}
