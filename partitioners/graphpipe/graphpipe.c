/* SPDX-License-Identifier: Apache-2.0
 *
 * GraphPipe: stages as a graph, so that branches of a model run side by side.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_for.h"

struct config {
    const char *microbatch, *k, *degrees;
    bool per_stage, exact, force_chain;
    uint32_t grouping, sp, refine;
    double tolerance, time_limit_s;
    int64_t max_degree, max_states, threads, refine_steps;
};

PST_INSTANCE(graphpipe, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, microbatch, PST_PARAM_STRING, "auto", "1..",
              "Samples of a micro-batch; \"all\": the best of all that are offered; \"auto\": "
              "train.microbatch in jobs, all in problems."),
    PST_PARAM(struct config, per_stage, PST_PARAM_BOOL, "false", NULL,
              "Every stage chooses its own micro-batch size and k: slow."),
    PST_PARAM(struct config, k, PST_PARAM_STRING, "1", "1..",
              "With per_stage: numbers of forwards and backwards in turn to choose from, with "
              "commas."),
    PST_PARAM(struct config, grouping, PST_PARAM_ENUM, "contiguous", "contiguous|sorted|any",
              "Which branches may share a stage: neighbours in the model; also neighbours by "
              "work; any."),
    PST_PARAM(struct config, sp, PST_PARAM_ENUM, "auto", "flexible|strata|escribano|require|auto",
              "Graphs that are not series-parallel: how to rewrite what cannot be reduced; auto: "
              "flexible; require: refuse them."),
    PST_PARAM(struct config, refine, PST_PARAM_ENUM, "auto", "auto|true|false",
              "Go on beyond plans of the family: other orders and local moves; up to 10 operators "
              "the optimum of all plans. auto: in jobs, and in problems of up to 256 operators."),
    PST_PARAM(struct config, refine_steps, PST_PARAM_INT, "5000000", "1..1000000000000",
              "With refine: about as many looks at an operator, for all sizes together."),
    PST_PARAM(struct config, exact, PST_PARAM_BOOL, "true", NULL,
              "Search until the least bottleneck is proven; else to within `tolerance`."),
    PST_PARAM(struct config, tolerance, PST_PARAM_FLOAT, "1e-4", "0..1",
              "Without exact: how far from the least bottleneck, as a fraction."),
    PST_PARAM(struct config, degrees, PST_PARAM_STRING, "auto", "1..",
              "Numbers of replicas of a stage to choose from, with commas, or \"auto\": those of "
              "the job."),
    PST_PARAM(struct config, max_degree, PST_PARAM_INT, "0", "0..1000000",
              "Most replicas of a stage; 0: no limit."),
    PST_PARAM(struct config, force_chain, PST_PARAM_BOOL, "false", NULL,
              "Treat the model as a chain of operators in their order, and count samples in flight "
              "likewise: what the graph saves is then the difference."),
    PST_PARAM(struct config, time_limit_s, PST_PARAM_FLOAT, "60", "0..1e9",
              "Seconds to search, then the best plan so far; 0: no limit."),
    PST_PARAM(struct config, max_states, PST_PARAM_INT, "50000000", "0..1000000000000",
              "States to look at for each micro-batch size, then the best plan so far; 0: no "
              "limit."),
    PST_PARAM(struct config, threads, PST_PARAM_INT, "0", "0..1024",
              "Threads to search with; 0: as many as there are processors. The plan is the same."),
};

/* "1,2,4" */
static pst_status parse_list(const struct pst_host *host, const char *key, const char *text,
                             uint32_t *list, uint32_t room, uint32_t *ret_n)
{
    const char *at = text;
    uint32_t n = 0;

    for (;;) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);

        if (end == at || *at == '-' || value == 0 || value > 1000000 || n == room) {
            break;
        }
        list[n++] = (uint32_t)value;
        end += strspn(end, " ");
        if (*end == '\0') {
            *ret_n = n;
            return PST_OK;
        }
        if (*end != ',') {
            break;
        }
        at = end + 1 + strspn(end + 1, " ");
    }
    return pst_failf(host, PST_ERR_CONFIG, "%s = \"%s\": want whole numbers from 1 on with commas",
                     key, text);
}

static bool is_in(const uint32_t *list, uint32_t n, uint32_t value)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

static pst_status limit_degrees(const struct graphpipe *self, struct part_problem *p)
{
    uint32_t list[64], n = 0, kept = 0, i;
    bool all = strcmp(self->config->degrees, "auto") == 0;
    pst_status st =
        all ? PST_OK : parse_list(self->host, "degrees", self->config->degrees, list, 64, &n);

    if (st != PST_OK) {
        return st;
    }
    for (i = 0; i < n; i++) {
        if (list[i] <= p->n_devices && !is_in(p->degrees, p->n_degrees, list[i])) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "degrees: the job does not allow %u replicas", list[i]);
        }
    }
    for (i = 0; i < p->n_degrees; i++) {
        uint32_t d = p->degrees[i];

        if ((all || is_in(list, n, d)) &&
            (self->config->max_degree == 0 || d <= (uint64_t)self->config->max_degree)) {
            p->degrees[kept++] = d;
        }
    }
    p->n_degrees = kept;
    return kept > 0 ? PST_OK
                    : pst_failf(self->host, PST_ERR_CONFIG,
                                "degrees and max_degree leave no number of replicas");
}

static bool is_size(const char *text)
{
    return strcmp(text, "all") != 0 && strcmp(text, "auto") != 0;
}

/* A job's own size stays unless it is asked for another: losses depend on it. */
static pst_status limit_sizes(const struct graphpipe *self, struct part_problem *p)
{
    const char *text = self->config->microbatch;
    bool automatic = strcmp(text, "auto") == 0;
    uint32_t size = p->in->micro_batches[0], n;
    pst_status st;

    if (strcmp(text, "all") == 0 ||
        (automatic && (p->figures.reference != 0 || self->config->per_stage))) {
        return PST_OK;
    }
    st = automatic ? PST_OK : parse_list(self->host, "microbatch", text, &size, 1, &n);
    if (st != PST_OK) {
        return st;
    }
    if (!is_in(p->sizes, p->n_sizes, size)) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "microbatch = %u is none of the job's micro-batch sizes", size);
    }
    p->sizes[0] = size;
    p->n_sizes = 1;
    return PST_OK;
}

enum { REFINE_AUTO = 0, REFINE = 1 };
enum { REFINED_NODES = 256 }; /* a second or two of one core at the most */

static struct gp_options options_of(const struct config *c, const struct part_problem *p,
                                    const uint32_t *ks, uint32_t n_ks)
{
    return (struct gp_options){
        .grouping = c->grouping,
        .sp = c->sp,
        .per_stage = c->per_stage,
        .refine = c->refine == REFINE || (c->refine == REFINE_AUTO && !c->per_stage &&
                                          (p->figures.reference == 0 || p->n <= REFINED_NODES)),
        .exact = c->exact,
        .force_chain = c->force_chain,
        .tolerance = c->tolerance,
        .ks = ks,
        .n_ks = n_ks,
        .max_states = (uint64_t)c->max_states,
        .refine_steps = (uint64_t)c->refine_steps,
        .time_limit_s = c->time_limit_s,
        .threads = (uint32_t)c->threads,
    };
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct graphpipe *self = self_;
    struct part_problem problem = {0};
    uint32_t ks[32], n_ks = 0;
    pst_status st = parse_list(self->host, "k", self->config->k, ks, 32, &n_ks);

    if (st == PST_OK) {
        st = part_problem_read(self->host, in, &problem);
    }
    if (st != PST_OK) {
        return st;
    }
    problem.in_row = self->config->force_chain;
    if (problem.in_row) {
        part_remark_flag(&problem, "in_row", true);
    }
    st = limit_degrees(self, &problem);
    if (st == PST_OK) {
        st = limit_sizes(self, &problem);
    }
    if (st == PST_OK) {
        struct gp_options options = options_of(self->config, &problem, ks, n_ks);

        /* A size that was asked for stays. */
        if (options.refine && !is_size(self->config->microbatch)) {
            st = part_problem_enlarge(&problem);
        }
        if (st == PST_OK) {
            st = gp_plan_for(&problem, &options, out);
        }
    }
    part_problem_finish(&problem);
    return st;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

static const char *const provides[] = {"dag", "replicas", "per-stage-microbatch", NULL};
static const char *const needs[] = {"dag", NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("partitioner", "graphpipe", "1.0"),
    .summary = "Stages as a graph: branches of a model run side by side.",
    .reference = "Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training "
                 "with Graph Pipeline Parallelism, ASPLOS 2025",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
