/* SPDX-License-Identifier: Apache-2.0
 *
 * One job: its states, and a search over them for one size of micro-batches.
 */
#include <math.h>
#include <string.h>

#include "chain.h"
#include "places.h"
#include "pipedream.h"

/* Two levels cost the cube of the states. */
static uint32_t most_places(const struct pd_run *run)
{
    uint32_t places = (uint32_t)run->config->places;

    return run->config->levels == PD_NODE ? (places + 3) / 4 : places;
}

/* Work of the dag's nodes in parts of all of it; nodes alike where none takes time. */
static void weigh(const struct pd_run *run, int64_t *ret_work)
{
    const struct part_problem *p = run->problem;
    const struct pd_graph *g = &run->graph;
    double *ns = call_alloc((size_t)p->n + 1, sizeof *ns), total = 0;
    uint32_t v;

    part_sequence_times(p, p->sizes[p->n_sizes - 1], ns);
    for (v = 0; v < g->dag.n; v++) {
        total += ns[g->node[v]];
    }
    for (v = 0; v < g->dag.n; v++) {
        ret_work[v] = total > 0 ? llround(ns[g->node[v]] / total * 0x1p50) : 1;
    }
}

/* Prefixes of the order that end at a place worth looking at, if not all can be. */
static void list_places(struct pd_run *run, const uint32_t *order)
{
    const struct part_dag *dag = &run->graph.dag;
    uint32_t *first = call_alloc((size_t)dag->n + 1, sizeof *first), n_runs, e;
    int64_t *work = call_alloc((size_t)dag->n + 1, sizeof *work);
    double *bytes = call_alloc((size_t)dag->n_edges + 1, sizeof *bytes);

    weigh(run, work);
    for (e = 0; e < dag->n_edges; e++) {
        bytes[e] = run->problem->edge_bytes[run->graph.edge[e]];
    }
    part_runs(dag, bytes, work, order, most_places(run), first, &n_runs);
    part_downsets_runs(order, n_runs, first, &run->sets);
}

static void list_linear(struct pd_run *run)
{
    const struct part_problem *p = run->problem;
    uint32_t *order = call_alloc((size_t)p->n + 1, sizeof *order), v, n = 0;

    part_order(p, run->config->order == 0 ? PART_ORDER_INDEX : PART_ORDER_DFS, NULL, order);
    for (v = 0; v < p->n; v++) {
        if (run->graph.own[order[v]] != PST_NONE) {
            order[n++] = run->graph.own[order[v]];
        }
    }
    if (n > most_places(run)) {
        list_places(run, order);
    } else {
        part_downsets_linear(n, order, &run->sets);
    }
}

/* The empty set is no state. */
static pst_status list_states(struct pd_run *run)
{
    const struct part_dag *dag = &run->graph.dag;
    uint32_t max_sets = (uint32_t)run->config->max_states + 1, v, n_sources = 0;
    uint64_t count = 0;
    bool exact = true;
    pst_status status = PST_ERR_UNSUPPORTED;

    if (run->config->states == PD_LINEAR) {
        list_linear(run);
        return PST_OK;
    }
    for (v = 0; v < dag->n; v++) {
        n_sources += dag->first_in[v] == dag->first_in[v + 1];
    }
    if (run->config->states == PD_ANTICHAIN && n_sources > 1) {
        status = part_downsets_grown(dag, max_sets, run->problem->host, &run->sets, &count, &exact);
    }
    /* Where it is not connected one source does not lead to all of it. */
    if (status == PST_ERR_UNSUPPORTED) {
        run->all_sets = true;
        status = part_downsets_all(dag, max_sets, run->problem->host, &run->sets, &count, &exact);
    }
    if (status == PST_ERR_INFEASIBLE) {
        return part_sequence_too_many(run->problem, count - (count != UINT64_MAX), exact,
                                      run->config->max_states,
                                      "use states = \"linear\", or raise max_states");
    }
    return status;
}

/* Sums over each set, for one sample: weights, activations, and outputs read outside of it. */
static void sum_states(struct pd_run *run)
{
    const struct part_problem *p = run->problem;
    const struct part_dag *dag = &run->graph.dag;
    const struct part_downsets *sets = &run->sets;
    double *values = call_alloc((size_t)dag->n + 1, sizeof *values);
    uint32_t *readers = call_alloc((size_t)dag->n + 1, sizeof *readers);
    uint32_t *nodes = call_alloc((size_t)dag->n + 1, sizeof *nodes);
    uint32_t v, e, k, i, n = 0;

    CALL_TAKE(run->weight, sets->n_sets);
    CALL_TAKE(run->saved, sets->n_sets);
    CALL_TAKE(run->out, sets->n_sets);
    for (v = 0; v < dag->n; v++) {
        values[v] = p->weight_bytes[run->graph.node[v]];
    }
    part_downsets_sum(sets, values, run->weight);
    for (v = 0; v < dag->n; v++) {
        values[v] = p->saved_bytes[run->graph.node[v]];
    }
    part_downsets_sum(sets, values, run->saved);
    for (v = 0; v < dag->n; v++) {
        values[v] = 0;
        for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
            values[v] = fmax(values[v], p->edge_bytes[run->graph.edge[e]]);
        }
    }
    for (k = 1; run->config->objective == PD_PAPER && k < sets->n_sets; k++) {
        memset(readers, 0, dag->n * sizeof *readers);
        n = part_downsets_between(sets, 0, k, nodes);
        for (i = 0; i < n; i++) {
            for (e = dag->first_in[nodes[i]]; e < dag->first_in[nodes[i] + 1]; e++) {
                readers[dag->from[dag->in_edges[e]]]++;
            }
        }
        for (i = 0; i < n; i++) {
            v = nodes[i];
            run->out[k] += readers[v] < dag->first_out[v + 1] - dag->first_out[v] ? values[v] : 0;
        }
    }
}

pst_status pd_run_init(struct pd_run *run, const struct part_problem *problem,
                       const struct pd_config *config)
{
    uint32_t size = problem->figures.node_size, n = problem->n_devices;
    pst_status status = PST_OK;

    memset(run, 0, sizeof *run);
    run->problem = problem;
    run->config = config;
    run->n_wanted = problem->in == NULL ? 0 : problem->in->n_stages;
    part_sequence_links(problem, config->inside_bandwidth, config->between_bandwidth, &run->links);
    if (config->levels == PD_NODE && size > 1 && size < n && n % size != 0) {
        return problem->host == NULL
                   ? PST_ERR_INFEASIBLE
                   : pst_failf(problem->host, PST_ERR_INFEASIBLE,
                               "levels = \"node\" needs whole nodes, and %u devices are not a "
                               "multiple of %u; use levels = \"device\"",
                               n, size);
    }
    pd_graph_init(&run->graph, problem, config->inputs);
    status = list_states(run);
    if (status == PST_OK) {
        sum_states(run);
    }
    return status;
}

/* Degrees that the search may use; with stages counted beforehand each has one device. */
static uint32_t list_degrees(const struct pd_run *run, const struct part_limits *limits,
                             uint32_t *ret_degrees)
{
    const struct part_problem *p = run->problem;
    uint32_t k, n = 0;

    for (k = 0; k < p->n_degrees; k++) {
        uint32_t d = p->degrees[k];

        if ((!limits->whole || limits->b % d == 0) && (run->n_wanted == 0 || d == 1)) {
            ret_degrees[n++] = d;
        }
    }
    return n;
}

static void set_levels(const struct pd_run *run, struct pd_question *q)
{
    uint32_t size = run->problem->figures.node_size, n = run->problem->n_devices;
    bool joined = run->config->levels == PD_NODE && size > 1 && size < n;
    bool inside = joined || size == 0 || n <= size;

    q->n_levels = joined ? 2 : 1;
    q->levels[0] = (struct pd_level){joined ? size : n,
                                     inside ? run->links.sync_inside : run->links.sync_between,
                                     inside ? run->links.inside : run->links.between};
    q->levels[1] =
        (struct pd_level){joined ? n / size : 1, run->links.sync_between, run->links.between};
}

/* Arrays of one unit of work: a micro-batch of b samples on one machine. */
static void fill_unit(const struct pd_run *run, uint32_t b, double *time, double *saved,
                      double *out)
{
    const struct pd_graph *g = &run->graph;
    double *ns = call_alloc((size_t)run->problem->n + 1, sizeof *ns);
    uint32_t v, k;

    part_sequence_times(run->problem, b, ns);
    for (v = 0; v < g->dag.n; v++) {
        ns[v] = ns[g->node[v]]; /* node[v] >= v */
    }
    part_downsets_sum(&run->sets, ns, time);
    for (k = 0; k < run->sets.n_sets; k++) {
        saved[k] = run->saved[k] * b;
        out[k] = run->out[k] * b;
    }
}

/* The best that one order can do: a bound of what all sets can. */
static pst_status bound_by_order(const struct pd_run *run, const struct pd_question *all,
                                 uint32_t b, double *ret_bound)
{
    struct pd_run linear = *run;
    struct pd_question q = *all;
    struct pd_answer answer = {0};
    uint32_t n = run->graph.dag.n, v;
    uint32_t *order = call_alloc((size_t)n + 1, sizeof *order);
    double *room = call_alloc(5 * ((size_t)n + 1), sizeof *room);
    pst_status status = PST_OK;

    memset(&linear.sets, 0, sizeof linear.sets);
    linear.weight = linear.saved = linear.out = NULL;
    for (v = 0; v < n; v++) {
        order[v] = v;
    }
    part_downsets_linear(n, order, &linear.sets);
    sum_states(&linear);
    fill_unit(&linear, b, room, room + n + 1, room + 2 * ((size_t)n + 1));
    q.sets = &linear.sets;
    q.time = room;
    q.weight = linear.weight;
    q.saved = room + n + 1;
    q.out = room + 2 * ((size_t)n + 1);
    status = pd_levels_solve(&q, &answer);
    *ret_bound = status == PST_OK ? answer.bottleneck : (double)INFINITY;
    return status;
}

static pst_status solve_levels(const struct pd_run *run, const struct part_limits *limits,
                               bool corrected, bool fewer, const uint32_t *degrees,
                               uint32_t n_degrees, struct pd_answer *ret_answer)
{
    uint32_t n = run->sets.n_sets;
    double *room = call_alloc(3 * (size_t)n, sizeof *room);
    struct pd_question q = {
        .sets = &run->sets,
        .time = room,
        .weight = run->weight,
        .saved = room + n,
        .out = room + 2 * (size_t)n,
        .degrees = degrees,
        .n_degrees = n_degrees,
        .objective = run->config->objective,
        .memory = corrected ? PD_MEMORY_CORRECTED : PD_MEMORY_RELEASED,
        .capacity = limits->capacity,
        .weight_multiplier = run->problem->weight_multiplier,
        .use_fewer_machines = fewer && run->n_wanted == 0,
        .bound = INFINITY,
        .host = run->problem->host,
    };
    pst_status status = PST_OK;

    fill_unit(run, limits->b, room, room + n, room + 2 * (size_t)n);
    set_levels(run, &q);
    if (run->all_sets && run->config->prune) {
        status = bound_by_order(run, &q, limits->b, &q.bound);
    }
    if (status == PST_OK) {
        status = pd_levels_solve(&q, ret_answer);
    }
    if (status == PST_OK) {
        ret_answer->bottleneck /= limits->b;
    } else if (status == PST_ERR_UNSUPPORTED && run->problem->host != NULL) {
        status = pst_failf(
            run->problem->host, PST_ERR_INFEASIBLE,
            "%u states are too many for two levels; the maximum is %d; use levels = \"device\"",
            n - 1, PD_MOST_SETS_IN_LEVELS - 1);
    }
    return status;
}

/* By the cost model of the problem: stages cost what everybody else's cost and hold what 1F1B
   holds. For comparisons on equal terms. */
static pst_status solve_fair(const struct pd_run *run, const struct part_limits *limits,
                             struct pd_answer *ret_answer)
{
    struct part_costs costs;
    struct part_sets_question q = {
        .problem = run->problem,
        .costs = &costs,
        .sets = &run->sets,
        .dag = &run->graph.dag,
        .node = run->graph.node,
        .edge = run->graph.edge,
        .n_devices = run->problem->n_devices,
        .capacity = limits->capacity,
        .below = INT64_MAX,
        .host = run->problem->host,
    };
    struct part_sets_answer found = {0};
    pst_status status;

    part_costs_init(run->problem, limits->b, &costs);
    if (run->n_wanted != 0 && costs.n_degrees > 1) {
        costs.n_degrees = 1; /* the least; part_sequence_plan takes care of the number */
    }
    status = part_sets_solve(&q, &found);
    *ret_answer = (struct pd_answer){
        .stages = found.stages,
        .n_stages = found.n_stages,
        .bottleneck =
            found.n_stages > 0 ? (double)found.ticks * costs.ns_per_tick : (double)INFINITY,
    };
    return status;
}

pst_status pd_run_solve(const struct pd_run *run, const struct part_limits *limits, bool corrected,
                        bool fewer, struct pd_answer *ret_answer)
{
    uint32_t *degrees = call_alloc((size_t)run->problem->n_degrees + 1, sizeof *degrees);
    uint32_t n = list_degrees(run, limits, degrees);

    return run->config->objective == PD_REFERENCE
               ? solve_fair(run, limits, ret_answer)
               : solve_levels(run, limits, corrected, fewer, degrees, n, ret_answer);
}
