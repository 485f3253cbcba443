/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner of PipeDream: stages over nested sets of operators, replicated where that pays.
 */
#include "chain_plugin.h"
#include "pipedream.h"

PST_INSTANCE(pipedream, struct pd_config)

static const struct pst_param params[] = {
    PST_PARAM(
        struct pd_config, states, PST_PARAM_ENUM, "linear", "linear|antichain|downsets",
        "What a pipeline's first stages may hold: the first operators of one order; sets that "
        "grow from the first source along edges; all sets closed under predecessors."),
    PST_PARAM(struct pd_config, objective, PST_PARAM_ENUM, "released", "released|paper|reference",
              "Cost model of a stage: of the released optimizer, the paper, or the problem."),
    PST_PARAM(struct pd_config, memory, PST_PARAM_ENUM, "released", "released|corrected",
              "Memory model of a stage: that of the released optimizer, which never limits the "
              "last stage, or one with the stage's own work and all copies of weights."),
    PST_PARAM(struct pd_config, levels, PST_PARAM_ENUM, "device", "device|node",
              "Treat all devices alike, or plan nodes first and then all of them."),
    PST_PARAM(struct pd_config, inputs, PST_PARAM_ENUM, "first", "first|keep",
              "Put inputs into the first stage and sinks without cost to their producer before the "
              "search, or search over them as well."),
    PST_PARAM(struct pd_config, order, PST_PARAM_ENUM, "index", "index|dfs",
              "Order of linear states: as in the model, or depth first, branch after branch."),
    PST_PARAM(struct pd_config, use_fewer_machines, PST_PARAM_BOOL, "false", NULL,
              "Consider leaving devices idle even if all can be used."),
    PST_PARAM(struct pd_config, prune, PST_PARAM_BOOL, "true", NULL,
              "Skip states that cannot lead to an answer as good as that of one order; this "
              "changes no answer (antichain, downsets; not with reference). false: as published."),
    PST_PARAM(struct pd_config, max_states, PST_PARAM_INT, "40000", "1..4000000",
              "Maximum number of states; more are refused (antichain, downsets)."),
    PST_PARAM(
        struct pd_config, places, PST_PARAM_INT, "2000", "1..1000000",
        "Approximate maximum of places where a stage may end (linear; a quarter of them with two "
        "levels); in longer models they are spread evenly by time, where few bytes cross."),
    PST_PARAM(struct pd_config, inside_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second inside a node; 0: the value of the cluster or the problem."),
    PST_PARAM(struct pd_config, between_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second between nodes; 0: the value of the cluster or the problem."),
};

static pst_status init(struct part_searcher *searcher, const struct part_problem *problem)
{
    struct pd_run *run = searcher->self;

    return pd_run_init(run, problem, run->config);
}

/* A degree that is the product of two levels may be none of those allowed. */
static pst_status check_degrees(const struct part_problem *p, const struct pd_answer *answer)
{
    uint32_t s, k;

    for (s = 0; s < answer->n_stages; s++) {
        for (k = 0; k < p->n_degrees && p->degrees[k] != answer->stages[s].degree; k++) {
        }
        if (k == p->n_degrees) {
            return pst_failf(p->host, PST_ERR_INFEASIBLE,
                             "stage %u has %u replicas over both levels, which is not an allowed "
                             "degree; allow it, or use levels = \"device\"",
                             s, answer->stages[s].degree);
        }
    }
    return PST_OK;
}

/* Searches, with fewer machines where all of them cannot be used. */
static pst_status find(void *self, const struct part_limits *limits, struct part_sequence *ret)
{
    const struct pd_run *run = self;
    const struct part_problem *p = run->problem;
    bool corrected = run->config->memory == PD_MEMORY_CORRECTED || limits->attempt > 0;
    struct pd_answer answer = {0};
    pst_status status =
        pd_run_solve(run, limits, corrected, run->config->use_fewer_machines, &answer);

    if (status == PST_OK && answer.n_stages == 0 && !run->config->use_fewer_machines) {
        status = pd_run_solve(run, limits, corrected, true, &answer);
    }
    if (status == PST_OK && answer.n_stages > 0) {
        status = check_degrees(p, &answer);
    }
    if (status == PST_OK && answer.n_stages > 0) {
        CALL_TAKE(ret->stage_of, (size_t)p->n + 1);
        CALL_TAKE(ret->degrees, (size_t)answer.n_stages + 1);
        ret->bottleneck_ns = answer.bottleneck;
        ret->bytes = answer.bytes;
        ret->n_stages = answer.n_stages;
        pd_graph_assign(&run->graph, p, &run->sets, &answer, ret->stage_of, ret->degrees);
    }
    return status;
}

static pst_status answer(void *self, const struct part_best *best, struct pst_partition_out *out)
{
    static const char *const objectives[] = {"released", "paper", "reference"};
    const struct pd_run *run = self;
    const struct part_problem *p = run->problem;

    part_remark_number(p, "states", run->sets.n_sets - 1);
    if (run->config->states == PD_LINEAR) {
        part_remark_flag(p, "all_places", run->sets.n_sets - 1 == run->graph.dag.n);
    }
    part_remark_text(p, "objective", objectives[run->config->objective]);
    if (run->config->objective != PD_REFERENCE) {
        part_remark_number(p, "bottleneck_us_per_sample", best->bottleneck_ns / 1000);
    }
    part_plan_answer(&best->plan, p, out);
    return PST_OK;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct pipedream *self = self_;
    struct pd_run run = {.config = self->config};
    struct part_searcher searcher = {
        .self = &run,
        .init = init,
        .find = find,
        .answer = answer,
        .own_objective = self->config->objective != PD_REFERENCE,
        .free_attempts = self->config->memory == PD_MEMORY_RELEASED ? 1 : 0,
    };

    return part_sequence_partition(self->host, in, &searcher, out);
}

PART_CHAIN_PLUGIN(
    struct pd_config, "pipedream", "1.0",
    .summary = "PipeDream's planner: stages and their replicas by dynamic programming.",
    .reference = "Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, "
                 "SOSP 2019")
