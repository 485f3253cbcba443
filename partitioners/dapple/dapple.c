/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's planner: stages, replicas and the machines that they are on, for the least time of a
 * whole step.
 */
#include <math.h>
#include <string.h>

#include "chain_plugin.h"
#include "chain.h"
#include "search.h"
#include "sequence.h"

struct config {
    uint32_t order;
    int64_t cuts, beam;
    uint64_t inside_bandwidth, between_bandwidth;
};

PST_INSTANCE(dapple, struct config)

/* One job. */
struct run {
    const struct part_problem *problem;
    const struct config *config;
    uint32_t *order;       /* [problem->n] */
    uint32_t n, *position; /* [n + 1] places in the order where stages may end */
    uint32_t n_wanted;
    struct part_links links;
};

/* Beside the plan: which ranks, stage after stage. */
struct said {
    uint64_t states;
    uint32_t ranks[];
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, order, PST_PARAM_ENUM, "index", "index|dfs",
              "Order of the operators: as in the model, or depth first, branch after branch."),
    PST_PARAM(struct config, cuts, PST_PARAM_INT, "512", "1..100000",
              "Maximum number of places where a stage may end; in longer models they are spread "
              "evenly by time."),
    PST_PARAM(struct config, beam, PST_PARAM_INT, "64", "0..1000000",
              "Continuations that are searched from one place, one occupancy of the machines and "
              "one last stage; 0: all that can be part of the best plan."),
    PST_PARAM(struct config, inside_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second inside a node; 0: the value of the cluster or the problem."),
    PST_PARAM(struct config, between_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second between nodes; 0: the value of the cluster or the problem."),
};

static double node_ns(const struct part_problem *p, uint32_t v)
{
    size_t at = (size_t)(p->n_samples - 1) * p->n + v;

    return p->n_samples == 0 ? 0 : p->forward_ns[at] + p->backward_ns[at];
}

/* Ends of the order, and places between, about as much time from one to the next. */
static void choose_places(struct run *run)
{
    const struct part_problem *p = run->problem;
    uint32_t most = run->config->cuts < p->n ? (uint32_t)run->config->cuts : p->n - 1, i;
    double total = 0, sum = 0;

    for (i = 0; i < p->n; i++) {
        total += node_ns(p, i);
    }
    run->position[0] = 0;
    for (i = 1; i < p->n; i++) {
        uint32_t left = p->n - i; /* places that are left, this one included */

        sum += node_ns(p, run->order[i - 1]);
        if (run->n < most && (left <= most - run->n || sum * (most + 1) >= total * (run->n + 1))) {
            run->position[++run->n] = i;
        }
    }
    run->position[++run->n] = p->n;
}

static pst_status run_init(struct part_searcher *searcher, const struct part_problem *problem)
{
    struct run *run = searcher->self;
    const struct config *config = run->config;

    run->problem = problem;
    run->n_wanted = problem->in->n_stages;
    part_sequence_links(problem, config->inside_bandwidth, config->between_bandwidth, &run->links);
    CALL_TAKE(run->order, (size_t)problem->n + 1);
    CALL_TAKE(run->position, (size_t)problem->n + 2);
    part_order(problem, config->order == 0 ? PART_ORDER_INDEX : PART_ORDER_DFS, NULL, run->order);
    choose_places(run);
    return PST_OK;
}

/* --- one size ----------------------------------------------------------------------------------*/

/* Arrays of a dapple_question. */
struct arrays {
    double *room, **forward, **backward;
    uint32_t *degrees;
};

/* ret[i] = sum of values over what is before position i. */
static void sum_places(const struct run *run, const double *values, double scale, double *ret)
{
    uint32_t i, x;

    ret[0] = 0;
    for (i = 0; i < run->n; i++) {
        ret[i + 1] = ret[i];
        for (x = run->position[i]; x < run->position[i + 1]; x++) {
            ret[i + 1] += values[run->order[x]] * scale;
        }
    }
}

/* Bytes of one sample that cross a place: edges from before it to after it. */
static void sum_cuts(const struct run *run, uint32_t b, double *ret)
{
    const struct part_problem *p = run->problem;
    uint32_t *place = call_alloc((size_t)p->n + 1, sizeof *place), i, x, e;

    for (i = 0; i < run->n; i++) {
        for (x = run->position[i]; x < run->position[i + 1]; x++) {
            place[run->order[x]] = i;
        }
    }
    for (e = 0; e < p->n_edges; e++) {
        for (i = place[p->from[e]] + 1; i <= place[p->to[e]]; i++) {
            ret[i] += p->edge_bytes[e] * b;
        }
    }
}

static void fill(const struct run *run, uint32_t b, struct arrays *a, struct dapple_question *q)
{
    const struct part_problem *p = run->problem;
    size_t width = (size_t)run->n + 1;
    double *weight, *saved, *workspace, *cut;
    uint32_t k, i, x;

    memset(a, 0, sizeof *a);
    CALL_TAKE(a->room, (4 + 2 * (size_t)p->n_degrees) * width);
    CALL_TAKE(a->forward, (size_t)p->n_degrees + 1);
    CALL_TAKE(a->backward, (size_t)p->n_degrees + 1);
    CALL_TAKE(a->degrees, (size_t)p->n_degrees + 1);
    weight = a->room;
    saved = weight + width;
    workspace = saved + width;
    cut = workspace + width;
    sum_places(run, p->weight_bytes, 1, weight);
    sum_places(run, p->saved_bytes, 1, saved);
    sum_cuts(run, b, cut);
    for (i = 0; i < run->n; i++) {
        for (x = run->position[i]; x < run->position[i + 1]; x++) {
            workspace[i] = fmax(workspace[i], p->workspace_bytes[run->order[x]]);
        }
    }
    for (k = 0; k < p->n_degrees; k++) {
        uint32_t d = p->degrees[k], row = b % d == 0 ? part_samples_row(p, b / d) : UINT32_MAX;

        if (row == UINT32_MAX || (run->n_wanted != 0 && d != 1)) {
            continue;
        }
        a->forward[q->n_degrees] = cut + (1 + 2 * (size_t)k) * width;
        a->backward[q->n_degrees] = a->forward[q->n_degrees] + width;
        sum_places(run, p->forward_ns + (size_t)row * p->n, 1, a->forward[q->n_degrees]);
        sum_places(run, p->backward_ns + (size_t)row * p->n, 1, a->backward[q->n_degrees]);
        a->degrees[q->n_degrees++] = d;
    }
    q->forward = (const double *const *)a->forward;
    q->backward = (const double *const *)a->backward;
    q->degrees = a->degrees;
    q->weight = weight;
    q->saved = saved;
    q->workspace = workspace;
    q->cut = cut;
}

static void take(const struct run *run, const struct dapple_answer *answer,
                 struct part_sequence *ret)
{
    const struct part_problem *p = run->problem;
    struct said *said = call_alloc(1, sizeof *said + (size_t)p->n_devices * sizeof said->ranks[0]);
    uint32_t s, x;

    ret->extra = said;
    CALL_TAKE(ret->stage_of, (size_t)p->n + 1);
    CALL_TAKE(ret->degrees, (size_t)answer->n_stages + 1);
    for (s = 0; s < answer->n_stages; s++) {
        const struct dapple_stage *stage = &answer->stages[s];

        for (x = run->position[stage->from]; x < run->position[stage->to]; x++) {
            ret->stage_of[run->order[x]] = s;
        }
        ret->degrees[s] = stage->degree;
    }
    said->states = answer->states;
    if (answer->n_stages > 0) {
        memcpy(said->ranks, answer->ranks, p->n_devices * sizeof said->ranks[0]);
    }
    ret->n_stages = answer->n_stages;
    ret->bottleneck_ns = answer->latency; /* of a whole step: all sizes have the same samples */
}

static pst_status find(void *self, const struct part_limits *limits, struct part_sequence *ret)
{
    const struct run *run = self;
    const struct part_problem *p = run->problem;
    struct dapple_answer answer = {0};
    struct arrays arrays;
    struct dapple_question q = {
        .n = run->n,
        .inside = run->links.inside,
        .between = run->links.between,
        .sync_inside = run->links.sync_inside,
        .sync_between = run->links.sync_between,
        .machines = dapple_machines_of(p->n_devices, p->figures.node_size),
        .m = p->batch / limits->b,
        .b = limits->b,
        .capacity = limits->capacity,
        .weight_multiplier = p->weight_multiplier,
        .beam = (uint32_t)run->config->beam,
        .host = run->problem->host,
    };

    fill(run, limits->b, &arrays, &q);
    if (q.n_degrees > 0) {
        dapple_solve(&q, &answer);
    }
    take(run, &answer, ret);
    return PST_OK;
}

/* Stages in order on the ranks that were chosen for them. */
static void emit(const struct part_plan *plan, const struct said *said,
                 struct pst_partition_out *out)
{
    const uint32_t *ranks = said->ranks;
    uint32_t s;

    for (s = 0; s < plan->n_stages; s++) {
        const struct pst_stage_decl decl = part_stage_decl(&plan->stages[s], ranks);

        call_check(out->stage(out, &decl));
        ranks += plan->stages[s].d;
    }
}

static pst_status answer(void *self, const struct part_best *best, struct pst_partition_out *out)
{
    const struct run *run = self;
    const struct said *said = best->extra;

    part_remark_number(run->problem, "latency_us", best->bottleneck_ns / 1000);
    part_remark_number(run->problem, "states", (double)said->states);
    part_remark_number(run->problem, "places", run->n - 1);
    if (run->n_wanted != 0) {
        part_plan_answer(&best->plan, run->problem, out);
        return PST_OK;
    }
    emit(&best->plan, said, out);
    return PST_OK;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct dapple *self = self_;
    struct run run = {.config = self->config};
    struct part_searcher searcher = {
        .self = &run,
        .init = run_init,
        .find = find,
        .answer = answer,
    };

    return part_sequence_partition(self->host, in, &searcher, out);
}

PART_CHAIN_PLUGIN(
    struct config, "dapple", "1.0",
    .summary = "DAPPLE's planner: stages, replicas and their machines for the shortest step.",
    .reference =
        "Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, "
        "PPoPP 2021")
