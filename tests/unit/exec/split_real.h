/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models (real.h) whose replicas are in parts.
 */
#ifndef PST_TEST_EXEC_SPLIT_REAL_H
#define PST_TEST_EXEC_SPLIT_REAL_H

#include "graph/split.h"

#include "unit/exec/real.h"
#include "unit/plan/groups.h"

/* In the place of the one of threads; NULL: that one. */
static const struct pst_transport_ops *split_transport;

/* "emulated": the caller sets times and links. */
static const char *split_device = "cpu";

/* [stage] of each; NULL: `parts` for all. */
static const uint16_t *split_degrees;

/* Rows of tokens are divided, too. */
static bool split_rows;

static inline void split_graph(struct real *real, struct pst_graph *whole, uint32_t n_stages,
                               uint32_t parts)
{
    struct pst_division how = {.parts = parts, .sequence = split_rows};
    struct pst_error err = {0};
    uint16_t *degree_of = calloc(whole->n_ops, sizeof *degree_of);

    for (uint32_t s = 0; split_degrees != NULL && s < n_stages; s++) {
        const uint32_t begin = whole->n_ops * s / n_stages, end = whole->n_ops * (s + 1) / n_stages;

        for (uint32_t v = begin; v < end; v++) {
            degree_of[v] = split_degrees[s];
        }
        how.degree_of = degree_of;
    }
    MUST(pst_graph_split(whole, &how, &real->graph, &err));
    free(degree_of);
}

/* From groups, which are planned, to their parts. */
static inline void split_expand(struct real *real)
{
    struct pst_plan *groups[2] = {real->plan, real->eval_plan};
    struct pst_error err = {0};

    for (uint32_t r = 0; r < real->n_ranks; r++) {
        pst_program_destroy(real->programs[r]);
        pst_program_destroy(real->eval_programs[r]);
    }
    expand_groups(groups[0], real->graph, &real->plan);
    expand_groups(groups[1], real->graph, &real->eval_plan);
    pst_plan_destroy(groups[0]);
    pst_plan_destroy(groups[1]);
    real->n_ranks = real->plan->n_devices;
    assert_true(real->n_ranks <= MOST_RANKS);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        MUST(pst_program_create(real->plan, real->graph, &real->cost, r, &real->programs[r], &err));
        MUST(pst_program_create(real->eval_plan, real->graph, &real->cost, r,
                                &real->eval_programs[r], &err));
    }
}

/* All but the executor. */
static inline void split_plan(struct real *real, const char *model, const char *settings,
                              uint32_t dtype, const struct layout *layout, uint32_t batch,
                              uint32_t parts, double clip, struct pst_exec_config *ret_config)
{
    const struct pst_device_config device_config = {
        .threads = 1, .kernels = dtype == PST_BF16 ? "reference" : real_kernels};
    struct pst_error err = {0};

    memset(real, 0, sizeof *real);
    real->cluster = real_cluster;
    split_graph(real, make_model(model, settings, dtype), layout->n_stages, parts);
    real->device_ops = load_device(split_device);
    if (real_watch != NULL) {
        real->device_ops = real_watch(real->device_ops);
    }
    real->batch = batch;
    MUST(real->device_ops->open(&device_config, &real->device, &err));
    real->cost = (struct pst_cost_model){.graph = real->graph,
                                         .cluster = &real->cluster,
                                         .workspace = real_workspace,
                                         .workspace_context = real};
    real_plan(real, layout, 1, layout->order < ORDER_2BW || clip > 0);
    split_expand(real);
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
        .seed = 3,
        .clip = clip};
}

static inline void split_create(struct real *real, const char *model, const char *settings,
                                uint32_t dtype, const struct layout *layout, uint32_t batch,
                                uint32_t parts, double clip)
{
    struct pst_exec_config config;
    struct pst_error err = {0};

    split_plan(real, model, settings, dtype, layout, batch, parts, clip, &config);
    MUST(pst_exec_create(&config, &real->exec, &err));
}

#endif
