/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the plugins of this search, graphpipe and stage-graph: parameters, which differ in the
 * default of refine, and the description.
 */
#ifndef GRAPHPIPE_GRAPH_PLUGIN_H
#define GRAPHPIPE_GRAPH_PLUGIN_H

#include <penstock/penstock.h>

#include "problem.h"

struct gp_config {
    const char *microbatch, *k, *degrees;
    bool per_stage, exact, force_chain;
    uint32_t grouping, sp, refine, objective;
    double tolerance, time_limit_s;
    int64_t max_degree, max_states, threads, refine_steps;
};

#define GRAPHPIPE_PARAMS(refine_default, objective_default)                                        \
    PST_PARAM(struct gp_config, microbatch, PST_PARAM_STRING, "auto", "1..",                       \
              "Samples of a micro-batch; \"all\": the best of all sizes offered; \"auto\": "       \
              "train.microbatch in jobs, all in problems."),                                       \
        PST_PARAM(struct gp_config, per_stage, PST_PARAM_BOOL, "false", NULL,                      \
                  "Choose the micro-batch size and k of each stage; slow."),                       \
        PST_PARAM(                                                                                 \
            struct gp_config, k, PST_PARAM_STRING, "1", "1..",                                     \
            "With per_stage: numbers of forwards and backwards in turn to choose from, with "      \
            "commas."),                                                                            \
        PST_PARAM(struct gp_config, grouping, PST_PARAM_ENUM, "contiguous",                        \
                  "contiguous|sorted|any",                                                         \
                  "Which branches may share a stage: neighbours in the model; also neighbours by " \
                  "work; any."),                                                                   \
        PST_PARAM(                                                                                 \
            struct gp_config, sp, PST_PARAM_ENUM, "auto",                                          \
            "flexible|strata|escribano|require|auto",                                              \
            "Graphs that are not series-parallel: how to rewrite what cannot be reduced; auto: "   \
            "flexible; require: refuse them."),                                                    \
        PST_PARAM(                                                                                 \
            struct gp_config, refine, PST_PARAM_ENUM, refine_default, "auto|true|false",           \
            "Search beyond plans of the family: other orders and local moves; up to 10 operators " \
            "the optimum of all plans. auto: in jobs, and in problems of up to 256 operators."),   \
        PST_PARAM(                                                                                 \
            struct gp_config, objective, PST_PARAM_ENUM, objective_default, "bottleneck|step",     \
            "With refine, in problems that the reference model judges: the least time of the "     \
            "slowest stage, and of equal ones the shortest step; or the shortest step. Else "      \
            "the step."),                                                                          \
        PST_PARAM(                                                                                 \
            struct gp_config, refine_steps, PST_PARAM_INT, "5000000", "1..1000000000000",          \
            "With refine: approximate number of looks at an operator, for all sizes together."),   \
        PST_PARAM(struct gp_config, exact, PST_PARAM_BOOL, "true", NULL,                           \
                  "Search until the least bottleneck is proven; else to within `tolerance`."),     \
        PST_PARAM(struct gp_config, tolerance, PST_PARAM_FLOAT, "1e-4", "0..1",                    \
                  "Without exact: how far from the least bottleneck, as a fraction."),             \
        PST_PARAM(struct gp_config, degrees, PST_PARAM_STRING, "auto", "1..",                      \
                  "Numbers of replicas of a stage to choose from, separated by commas, or "        \
                  "\"auto\": those of the job."),                                                  \
        PST_PARAM(struct gp_config, max_degree, PST_PARAM_INT, "0", "0..1000000",                  \
                  "Most replicas of a stage; 0: no limit."),                                       \
        PST_PARAM(                                                                                 \
            struct gp_config, force_chain, PST_PARAM_BOOL, "false", NULL,                          \
            "Treat the model as a chain of operators in their order, and count samples in flight " \
            "likewise: what the graph saves is then the difference."),                             \
        PST_PARAM(struct gp_config, time_limit_s, PST_PARAM_FLOAT, "60", "0..1e9",                 \
                  "Seconds to search before the best plan so far is used; 0: no limit."),          \
        PST_PARAM(struct gp_config, max_states, PST_PARAM_INT, "50000000", "0..1000000000000",     \
                  "States to visit for each micro-batch size before the best plan so far is "      \
                  "used; 0: no limit."),                                                           \
        PST_PARAM(struct gp_config, threads, PST_PARAM_INT, "0", "0..1024",                        \
                  "Ignored: every search uses one thread.")

pst_status gp_partition(const struct pst_host *host, const struct gp_config *config,
                        const struct pst_partition_in *in, struct pst_partition_out *out);

/* `params` stands before it; then fields: summary, reference. */
#define GRAPHPIPE_PLUGIN(plugin_id, plugin_version, ...)                                           \
    PST_INSTANCE(self, struct gp_config)                                                           \
    static pst_status partition(void *self_, const struct pst_partition_in *in,                    \
                                struct pst_partition_out *out)                                     \
    {                                                                                              \
        const struct self *self = self_;                                                           \
                                                                                                   \
        return gp_partition(self->host, self->config, in, out);                                    \
    }                                                                                              \
    PART_PARTITIONER(partition)                                                                    \
    static const char *const provides[] = {"dag", "replicas", "per-stage-microbatch", NULL};       \
    static const char *const needs[] = {"dag", NULL};                                              \
    static const struct pst_plugin plugin = {                                                      \
        PST_PLUGIN_HEAD("partitioner", plugin_id, plugin_version),                                 \
        .license = "Apache-2.0",                                                                   \
        .provides = provides,                                                                      \
        .needs = needs,                                                                            \
        PST_PLUGIN_PARAMS(params, struct gp_config),                                               \
        PST_PLUGIN_FUNCTIONS,                                                                      \
        __VA_ARGS__};                                                                              \
    PST_PLUGIN(plugin)

#endif
