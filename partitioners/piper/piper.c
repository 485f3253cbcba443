/* SPDX-License-Identifier: Apache-2.0
 *
 * Piper: stages over all sets that are closed under predecessors, with replicas, tensor degrees and
 * a way to run each operator.
 */
#include <math.h>
#include <string.h>

#include "chain_plugin.h"
#include "search.h"
#include "sequence.h"

struct config {
    bool recompute;
    int64_t max_states;
};

PST_INSTANCE(piper, struct config)

/* One job. */
struct run {
    const struct part_problem *problem;
    const struct config *config;
    const struct pst_profile *profile; /* NULL: none; stated ways count in reference runs alone */
    struct part_dag dag;
    struct part_downsets sets;
    uint32_t n_wanted;
    bool own_ways, workspace; /* does any node have more than the vanilla way; workspace? */
};

/* Ways of all nodes for one size of micro-batches. */
struct ways {
    uint32_t *first;
    struct piper_way *rows;
    double *edge_bytes, *ns;
};

/* Beside the plan. */
struct said {
    bool exact;
    uint32_t n_recomputed;
    char tensors[160]; /* "1,2,1"; empty: 1 everywhere */
    uint32_t n_stages;
    double bytes[]; /* of each */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, recompute, PST_PARAM_BOOL, "false", NULL,
              "Offer every operator without ways of its own a second one that keeps only its "
              "inputs and runs forward twice; `penstock partition` only."),
    PST_PARAM(struct config, max_states, PST_PARAM_INT, "40000", "1..4000000",
              "Maximum number of sets of operators; more are refused."),
};

static uint32_t n_stated(const struct run *run, uint32_t v)
{
    return run->profile == NULL ? 0 : run->profile->n_configs(run->problem->host, v);
}

static pst_status run_init(struct part_searcher *searcher, const struct part_problem *problem)
{
    struct run *run = searcher->self;
    const struct config *config = run->config;
    uint64_t count;
    uint32_t v;
    bool exact;
    pst_status status;

    run->problem = problem;
    run->dag = part_sequence_dag(problem);
    run->n_wanted = problem->in->n_stages;
    if (problem->figures.reference != 0) {
        run->profile = problem->host->get_extension(problem->host, PST_PROFILE);
        run->own_ways = config->recompute;
    }
    for (v = 0; v < problem->n; v++) {
        run->own_ways = run->own_ways || n_stated(run, v) > 0;
        run->workspace = run->workspace || problem->workspace_bytes[v] > 0;
    }
    searcher->own_memory = run->own_ways;
    status = part_downsets_all(&run->dag, (uint32_t)config->max_states, run->problem->host,
                               &run->sets, &count, &exact);
    if (status == PST_ERR_INFEASIBLE) {
        return part_sequence_too_many(problem, count, exact, config->max_states,
                                      "use pipedream, which works on one order, or raise "
                                      "max_states");
    }
    return status;
}

/* --- ways --------------------------------------------------------------------------------------*/

/* Forward time of b samples; a third of all where the problem has no such row. */
static double forward_ns(const struct run *run, uint32_t b, uint32_t v, double all)
{
    uint32_t row = part_samples_row(run->problem, b);

    return row == UINT32_MAX ? all / 3
                             : run->problem->forward_ns[(size_t)row * run->problem->n + v];
}

static void add_own(const struct run *run, uint32_t b, uint32_t v, struct ways *ways, uint32_t *n)
{
    const struct part_problem *p = run->problem;
    double saved = p->saved_bytes[v] * b, kept = 0;
    double weights = p->weight_multiplier * p->weight_bytes[v];
    uint32_t e;

    ways->rows[(*n)++] = (struct piper_way){1, ways->ns[v], p->weight_bytes[v], saved, weights};
    if (!run->config->recompute || run->profile == NULL) {
        return;
    }
    for (e = p->first_in[v]; e < p->first_in[v + 1]; e++) {
        kept += p->edge_bytes[p->in_edges[e]] * b;
    }
    kept = fmin(kept, saved);
    ways->rows[(*n)++] = (struct piper_way){1, ways->ns[v] + forward_ns(run, b, v, ways->ns[v]),
                                            p->weight_bytes[v], kept, weights + saved - kept};
}

static void add_stated(const struct run *run, uint32_t b, uint32_t v, struct ways *ways,
                       uint32_t *n)
{
    uint32_t i, count = n_stated(run, v);

    for (i = 0; i < count; i++) {
        struct pst_node_config c = {.size = sizeof c};

        call_check(run->profile->config(run->problem->host, v, i, &c));
        ways->rows[(*n)++] = (struct piper_way){c.tensor_degree, c.ns_per_sample * b, c.param_bytes,
                                                c.in_flight_bytes * b, c.fixed_bytes};
    }
}

static void ways_init(struct ways *ways, const struct run *run, uint32_t b)
{
    const struct part_problem *p = run->problem;
    size_t room = 2 * (size_t)p->n + 1;
    uint32_t v, e, n = 0;

    memset(ways, 0, sizeof *ways);
    for (v = 0; v < p->n; v++) {
        room += n_stated(run, v);
    }
    CALL_TAKE(ways->first, (size_t)p->n + 1);
    CALL_TAKE(ways->rows, room);
    CALL_TAKE(ways->edge_bytes, (size_t)p->n_edges + 1);
    CALL_TAKE(ways->ns, (size_t)p->n + 1);
    part_sequence_times(p, b, ways->ns);
    for (v = 0; v < p->n; v++) {
        ways->first[v] = n;
        if (n_stated(run, v) > 0) {
            add_stated(run, b, v, ways, &n);
        } else {
            add_own(run, b, v, ways, &n);
        }
    }
    ways->first[p->n] = n;
    for (e = 0; e < p->n_edges; e++) {
        ways->edge_bytes[e] = p->edge_bytes[e] * b;
    }
}

/* --- one size ----------------------------------------------------------------------------------*/

static void say(const struct piper_answer *answer, const struct ways *ways, uint32_t n,
                struct said *said)
{
    size_t used = 0;
    uint32_t s, v;
    bool any = false;

    said->n_stages = answer->n_stages;
    for (s = 0; s < answer->n_stages; s++) {
        said->bytes[s] = answer->stages[s].bytes;
    }
    said->exact = answer->exact;
    for (v = 0; v < n; v++) {
        double least = INFINITY;
        uint32_t w, chosen = answer->way[v];

        for (w = ways->first[v]; w < ways->first[v + 1]; w++) {
            if (ways->rows[w].tensor == ways->rows[chosen].tensor) {
                least = fmin(least, ways->rows[w].time);
            }
        }
        said->n_recomputed += ways->rows[chosen].time > least;
    }
    for (s = 0; s < answer->n_stages; s++) {
        any = any || answer->stages[s].tensor > 1;
        if (used < sizeof said->tensors - 12) {
            used += (size_t)snprintf(said->tensors + used, sizeof said->tensors - used, "%s%u",
                                     s == 0 ? "" : ",", answer->stages[s].tensor);
        }
    }
    if (!any) {
        said->tensors[0] = '\0';
    }
}

static void take(const struct run *run, const struct piper_answer *answer, const struct ways *ways,
                 uint32_t b, struct part_sequence *ret)
{
    const struct part_problem *p = run->problem;
    uint32_t *nodes = call_alloc((size_t)p->n + 1, sizeof *nodes), s, i, n;

    CALL_TAKE(ret->stage_of, (size_t)p->n + 1);
    CALL_TAKE(ret->degrees, (size_t)answer->n_stages + 1);
    ret->extra = call_alloc(1, sizeof(struct said) + answer->n_stages * sizeof(double));
    for (s = 0; s < answer->n_stages; s++) {
        const struct piper_stage *stage = &answer->stages[s];

        n = part_downsets_between(&run->sets, stage->from, stage->to, nodes);
        for (i = 0; i < n; i++) {
            ret->stage_of[nodes[i]] = s;
        }
        ret->degrees[s] = stage->degree;
    }
    ret->n_stages = answer->n_stages;
    ret->bottleneck_ns = answer->bottleneck / b;
    if (answer->n_stages > 0) {
        say(answer, ways, p->n, ret->extra);
    }
}

static pst_status find(void *self, const struct part_limits *limits, struct part_sequence *ret)
{
    const struct run *run = self;
    const struct part_problem *p = run->problem;
    uint32_t *degrees = call_alloc((size_t)p->n_degrees + 1, sizeof *degrees), k;
    struct part_links links;
    struct ways ways;
    struct piper_answer answer = {0};
    struct piper_question q = {
        .sets = &run->sets,
        .dag = &run->dag,
        .workspace = run->workspace ? p->workspace_bytes : NULL,
        .degrees = degrees,
        .n_devices = p->n_devices,
        .n_units = p->batch / limits->b,
        .capacity = limits->capacity,
        .host = run->problem->host,
    };
    pst_status status = PST_OK;

    ways_init(&ways, run, limits->b);
    part_sequence_links(p, 0, 0, &links);
    q.first_way = ways.first;
    q.ways = ways.rows;
    q.edge_bytes = ways.edge_bytes;
    q.sync_rate = links.sync_between;
    q.transfer_rate = links.between;
    for (k = 0; k < p->n_degrees; k++) {
        uint32_t d = p->degrees[k];

        if ((!limits->whole || limits->b % d == 0) && (run->n_wanted == 0 || d == 1)) {
            degrees[q.n_degrees++] = d;
        }
    }
    status = piper_solve(&q, &answer);
    if (status == PST_ERR_UNSUPPORTED) {
        status =
            pst_failf(p->host, PST_ERR_INFEASIBLE,
                      "%u states on %u devices make too large a table; use pipedream, or fewer "
                      "devices",
                      run->sets.n_sets, p->n_devices);
    }
    if (status == PST_OK) {
        take(run, &answer, &ways, limits->b, ret);
    }
    return status;
}

static pst_status answer(void *self, const struct part_best *best, struct pst_partition_out *out)
{
    const struct run *run = self;
    const struct part_problem *p = run->problem;
    const struct said *said = best->extra;

    part_remark_number(p, "states", run->sets.n_sets);
    part_remark_number(p, "bottleneck_us_per_sample", best->bottleneck_ns / 1000);
    part_remark_flag(p, "knapsack_exact", said->exact);
    if (run->own_ways) {
        part_remark_stage_bytes(p, said->bytes, said->n_stages);
        part_remark_number(p, "slower_ways", said->n_recomputed);
    }
    if (said->tensors[0] != '\0') {
        part_remark_text(p, "tensor_degrees", said->tensors);
        part_remark_flag(p, "executable", false);
    }
    part_plan_answer(&best->plan, p, out);
    return PST_OK;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct piper *self = self_;
    struct run run = {.config = self->config};
    struct part_searcher searcher = {
        .self = &run,
        .init = run_init,
        .find = find,
        .answer = answer,
        .own_objective = true,
    };

    return part_sequence_partition(self->host, in, &searcher, out);
}

PART_CHAIN_PLUGIN(
    struct config, "piper", "1.0",
    .summary = "Piper: stages, replicas, tensor degrees and recomputation by dynamic programming.",
    .reference = "Tarnawski et al., Piper: Multidimensional Planner for DNN Parallelization, "
                 "NeurIPS 2021")
