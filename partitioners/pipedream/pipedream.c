/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner of PipeDream: stages over nested sets of operators, replicated where that pays.
 */
#include "pipedream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 8 };

struct pipedream {
    const struct pst_host *host;
    const struct pd_config *config;
};

/* The best plan so far. */
struct best {
    bool found;
    struct part_plan plan;
    struct part_value value;
    double bottleneck_ns; /* by the objective */
};

static const struct pst_param params[] = {
    PST_PARAM(
        struct pd_config, states, PST_PARAM_ENUM, "linear", "linear|antichain|downsets",
        "What a pipeline's first stages may hold: the first operators of one order; sets that "
        "grow from the first source along edges; all sets closed under predecessors."),
    PST_PARAM(struct pd_config, objective, PST_PARAM_ENUM, "released", "released|paper|reference",
              "Whose cost of a stage: of the released optimizer, of the paper, of the problem."),
    PST_PARAM(struct pd_config, memory, PST_PARAM_ENUM, "released", "released|corrected",
              "Whose memory of a stage: of the released optimizer, which never limits the last "
              "stage, or with the stage's own work and all copies of weights."),
    PST_PARAM(struct pd_config, levels, PST_PARAM_ENUM, "device", "device|node",
              "Treat all devices alike, or plan nodes first and then all of them."),
    PST_PARAM(struct pd_config, inputs, PST_PARAM_ENUM, "first", "first|keep",
              "Put inputs into the first stage and sinks without cost to their producer before the "
              "search, or search over them as well."),
    PST_PARAM(struct pd_config, order, PST_PARAM_ENUM, "index", "index|dfs",
              "Order of linear states: as in the model, or depth first, branch after branch."),
    PST_PARAM(struct pd_config, use_fewer_machines, PST_PARAM_BOOL, "false", NULL,
              "Consider leaving devices idle even where all can be used."),
    PST_PARAM(struct pd_config, max_states, PST_PARAM_INT, "40000", "1..4000000",
              "More states are refused (antichain, downsets)."),
    PST_PARAM(struct pd_config, inside_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second inside a node; 0: as the cluster or the problem says."),
    PST_PARAM(struct pd_config, between_bandwidth, PST_PARAM_RATE, "0", NULL,
              "Bytes per second between nodes; 0: as the cluster or the problem says."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct pipedream *self = host->alloc(host, sizeof *self, _Alignof(struct pipedream));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    *ret_self = self;
    return PST_OK;
}

static void destroy(void *self)
{
    (void)self; /* lives in the instance's memory */
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
                             "stage %u has %u replicas over both levels, which is none of the "
                             "allowed degrees; allow it, or use levels = \"device\"",
                             s, answer->stages[s].degree);
        }
    }
    return PST_OK;
}

/* The stages as a plan. *ret_size 0: no size of micro-batches goes with these degrees. */
static pst_status make_plan(const struct pd_run *run, const struct pd_answer *answer, uint32_t b,
                            uint32_t *ret_size, struct part_plan *ret_plan)
{
    const struct part_problem *p = run->problem;
    uint32_t *room = calloc((size_t)p->n + answer->n_stages + 1, sizeof *room);
    uint32_t *stage_of = room, *degrees = room + p->n;
    pst_status st = check_degrees(p, answer);

    if (room == NULL) {
        return pst_failf(p->host, PST_ERR_NOMEM, "out of memory for the plan");
    }
    if (st == PST_OK) {
        st = pd_graph_assign(&run->graph, p, &run->sets, answer, stage_of, degrees);
    }
    if (st == PST_OK) {
        *ret_size = part_sequence_size(p, b, degrees, answer->n_stages);
        if (*ret_size != 0) {
            st = part_sequence_plan(p, stage_of, answer->n_stages, degrees, *ret_size,
                                    run->n_wanted, ret_plan);
        }
    }
    free(room);
    return st;
}

/* Keeps the better one. Own objectives: of equals the larger size, which comes last. */
static void consider(const struct pd_run *run, struct best *best, struct part_plan *plan,
                     const struct part_value *value, double bottleneck_ns)
{
    bool better;

    if (run->problem->figures.reference == 0) {
        better = part_value_faster(value, &best->value);
    } else if (run->config->objective == PD_REFERENCE) {
        better = part_value_better(value, &best->value);
    } else {
        better = bottleneck_ns <= best->bottleneck_ns * (1 + 1e-12);
    }
    if (!best->found || better) {
        part_plan_finish(&best->plan);
        best->plan = *plan;
        best->value = *value;
        best->bottleneck_ns = bottleneck_ns;
        best->found = true;
        memset(plan, 0, sizeof *plan);
    }
    part_plan_finish(plan);
}

/* Searches, with fewer machines where all of them cannot be used, with degrees that divide b where
   others go with no size. *ret_plan is set where *ret_size is not 0. */
static pst_status search(const struct pd_run *run, struct pd_limits limits, uint32_t *ret_size,
                         double *ret_ns, struct part_plan *ret_plan)
{
    struct pd_answer answer = {0};
    pst_status st = PST_OK;
    int round;

    *ret_size = 0;
    for (round = 0; st == PST_OK && round < 4 && *ret_size == 0; round++) {
        st = pd_run_solve(run, &limits, &answer);
        if (st != PST_OK) {
            break;
        }
        if (answer.n_stages == 0) {
            if (limits.fewer) {
                break;
            }
            limits.fewer = true;
        } else {
            *ret_ns = answer.bottleneck;
            st = make_plan(run, &answer, limits.b, ret_size, ret_plan);
            if (st == PST_OK && *ret_size == 0) {
                if (limits.whole) {
                    break;
                }
                limits.whole = true;
            }
        }
        pd_answer_finish(&answer);
    }
    pd_answer_finish(&answer);
    return st;
}

/* Is there more to ask about a plan than its objective? A simulated step takes longer than some
   searches. */
static bool must_judge(const struct pd_run *run)
{
    const struct part_problem *p = run->problem;

    return p->figures.reference == 0 || !isinf(p->capacity_bytes) ||
           (run->config->objective == PD_REFERENCE && p->n_sizes > 1);
}

/* One size; where the plan does not fit after all, again with less memory. */
static pst_status try_size(const struct pd_run *run, uint32_t b, struct best *best)
{
    const struct part_problem *p = run->problem;
    struct pd_limits limits = {b, false, run->config->memory, p->capacity_bytes,
                               run->config->use_fewer_machines};
    pst_status st = PST_OK;
    int attempt;

    for (attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct part_plan plan = {0};
        struct part_value value = {.fits = true};
        uint32_t size;
        double ns;

        st = search(run, limits, &size, &ns, &plan);
        if (st != PST_OK || size == 0) {
            return st;
        }
        if (must_judge(run)) {
            st = part_plan_value(&plan, p, p->figures.reference == 0, &value);
        }
        if (st == PST_OK && value.fits) {
            consider(run, best, &plan, &value, ns);
            return PST_OK;
        }
        part_plan_finish(&plan);
        if (st != PST_OK) {
            return st;
        }
        if (limits.memory == PD_MEMORY_RELEASED && run->config->objective != PD_REFERENCE) {
            limits.memory = PD_MEMORY_CORRECTED;
        } else {
            limits.capacity *= fmin(0.98, p->capacity_bytes / value.worst_bytes);
        }
    }
    return st;
}

static pst_status answer(const struct pd_run *run, const struct best *best,
                         struct pst_partition_out *out)
{
    static const char *const objectives[] = {"released", "paper", "reference"};
    const struct part_problem *p = run->problem;

    part_remark_number(p, "states", run->sets.n_sets - 1);
    part_remark_text(p, "objective", objectives[run->config->objective]);
    if (run->config->objective != PD_REFERENCE) {
        part_remark_number(p, "bottleneck_us_per_sample", best->bottleneck_ns / 1000);
    }
    return part_plan_answer(&best->plan, p, out);
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct pipedream *self = self_;
    struct part_problem problem = {0};
    struct pd_run run = {0};
    struct best best = {0};
    uint32_t i;
    pst_status st = part_problem_read(self->host, in, &problem);

    if (st != PST_OK) {
        return st;
    }
    st = pd_run_init(&run, &problem, self->config);
    for (i = 0; st == PST_OK && i < problem.n_sizes; i++) {
        st = try_size(&run, problem.sizes[i], &best);
    }
    if (st == PST_OK) {
        st = best.found ? answer(&run, &best, out) : part_infeasible(&problem, problem.sizes[0]);
    }
    part_plan_finish(&best.plan);
    pd_run_finish(&run);
    part_problem_finish(&problem);
    return st;
}

static const struct pst_partitioner partitioner = {
    .size = sizeof partitioner,
    .partition = partition,
};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_PARTITIONER) == 0 ? &partitioner : NULL;
}

static const char *const provides[] = {"chain", NULL};
static const char *const needs[] = {"chain", NULL};

static const struct pst_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = PST_ABI_MAJOR,
    .abi_minor = PST_ABI_MINOR,
    .kind = "partitioner",
    .id = "pipedream",
    .version = "1.0",
    .summary = "PipeDream's planner: stages and their replicas by dynamic programming.",
    .reference = "Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, "
                 "SOSP 2019",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    .params = params,
    .n_params = sizeof params / sizeof params[0],
    .param_size = sizeof params[0],
    .config_size = sizeof(struct pd_config),
    .create = create,
    .destroy = destroy,
    .get_interface = get_interface,
};

PST_PLUGIN(plugin)
