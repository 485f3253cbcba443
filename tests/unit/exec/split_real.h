/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models (real.h) whose replicas are in parts.
 */
#ifndef PST_TEST_EXEC_SPLIT_REAL_H
#define PST_TEST_EXEC_SPLIT_REAL_H

#include "graph/split.h"

#include "unit/exec/real.h"

/* In the place of the one of threads; NULL: that one. */
static const struct pst_transport_ops *split_transport;

/* Of the plan of groups, whose programs all parts have. */
static inline void split_expand(struct real *real, uint32_t parts)
{
    struct pst_plan *plan = real->plan;
    struct pst_error err = {0};
    uint32_t ranks[MOST_RANKS];

    for (uint32_t k = 1; k < parts; k++) {
        MUST(pst_program_create(plan, real->graph, &real->cost, 0, &real->programs[k], &err));
        MUST(pst_program_create(real->eval_plan, real->graph, &real->cost, 0,
                                &real->eval_programs[k], &err));
        for (uint32_t i = 0; i < real->programs[k]->n_params; i++) {
            struct pst_program_param *param = &real->programs[k]->params[i];

            param->owner = pst_is_split(&real->graph->params[param->parameter]);
        }
    }
    for (uint32_t k = 0; k < parts; k++) {
        ranks[k] = k;
    }
    for (uint32_t e = 0; e < 2; e++, plan = real->eval_plan) {
        struct pst_plan_device *devices =
            pst_arena_array(&plan->arena, parts, sizeof *devices);

        for (uint32_t k = 0; k < parts; k++) {
            devices[k] = plan->devices[0];
        }
        plan->devices = devices;
        plan->n_devices = parts;
        plan->stages[0].ranks = pst_arena_copy(&plan->arena, ranks, parts, sizeof *ranks);
        plan->stages[0].n_ranks = plan->stages[0].tensor = parts;
    }
    real->n_ranks = parts;
}

/* All but the executor. */
static inline void split_plan(struct real *real, const char *model, const char *settings,
                              uint32_t dtype, const struct layout *layout, uint32_t batch,
                              uint32_t parts, struct pst_exec_config *ret_config)
{
    const struct pst_device_config device_config = {
        .threads = 1, .kernels = dtype == PST_BF16 ? "reference" : real_kernels};
    struct pst_error err = {0};

    memset(real, 0, sizeof *real);
    real->cluster = (struct pst_cluster){.devices = MOST_RANKS,
                                         .flops = 1e9,
                                         .bf16_flops = 1e9,
                                         .memory_bandwidth = 1000000000,
                                         .link_bandwidth = 1000000000,
                                         .link_latency = 1000,
                                         .host_bandwidth = 1000000000};
    MUST(pst_graph_split(make_model(model, settings, dtype), parts, &real->graph, &err));
    real->device_ops = load_device("cpu");
    if (real_watch != NULL) {
        real->device_ops = real_watch(real->device_ops);
    }
    real->batch = batch;
    MUST(real->device_ops->open(&device_config, &real->device, &err));
    real->cost = (struct pst_cost_model){.graph = real->graph,
                                         .cluster = &real->cluster,
                                         .workspace = real_workspace,
                                         .workspace_context = real};
    real_plan(real, layout, 0, true);
    split_expand(real, parts);
    *ret_config = (struct pst_exec_config){
        .graph = real->graph,
        .plan = real->plan,
        .programs = (const struct pst_program *const *)real->programs,
        .eval_plan = real->eval_plan,
        .eval_programs = (const struct pst_program *const *)real->eval_programs,
        .device = real->device_ops,
        .device_config = device_config,
        .transport = split_transport != NULL ? split_transport : load_threads(),
        .stall_ns = offloading.stall_ns > 0 ? offloading.stall_ns : 60000000000u,
        .seed = 3};
}

static inline void split_create(struct real *real, const char *model, const char *settings,
                                uint32_t dtype, const struct layout *layout, uint32_t batch,
                                uint32_t parts)
{
    struct pst_exec_config config;
    struct pst_error err = {0};

    split_plan(real, model, settings, dtype, layout, batch, parts, &config);
    MUST(pst_exec_create(&config, &real->exec, &err));
}

#endif
