/* SPDX-License-Identifier: Apache-2.0
 *
 * A planning job from TOML text: config, job, model, cluster, cost model in one struct.
 */
#ifndef TEST_JOB_RIG_H
#define TEST_JOB_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/builder.h"
#include "planner/planner.h"
#include "planner/state.h"
#include "tune/advise.h"
#include "job_defaults.h"

struct job_rig {
    struct pst_config *config;
    struct pst_job job;
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_error err;
};

/* Fills a struct from the table of that name; `use` is looked over. */
static inline pst_status job_rig_fill(struct job_rig *rig, const struct pst_param *rows,
                                      uint32_t n_rows, struct pst_config_node *table,
                                      const char *section, void *ret_struct)
{
    static const char *const others[] = {"use", NULL};

    return pst_params_fill(rows, n_rows, sizeof *rows, table, section, others, &rig->job.arena,
                           ret_struct, &rig->err);
}

static inline pst_status job_rig_init(struct job_rig *rig, const char *toml)
{
    const struct pst_model_builder *builder;
    uint64_t model_config[32] = {0};
    pst_status st;

    memset(rig, 0, sizeof *rig);
    st = pst_config_parse(toml, strlen(toml), "test.toml", &rig->config, &rig->err);
    if (st == PST_OK) {
        st = pst_job_read(rig->config, &rig->job, &rig->err);
    }
    if (st == PST_OK) {
        st = job_rig_fill(rig, pst_cluster_params, pst_cluster_n_params, rig->job.cluster,
                          "[cluster]", &rig->cluster);
    }
    if (st != PST_OK) {
        return st;
    }
    builder = pst_model_builder_find(pst_config_get(rig->job.model, "use")->value.string);
    if (builder == NULL || builder->config_size > sizeof model_config) {
        return PST_ERR_BUG;
    }
    st = job_rig_fill(rig, builder->params, builder->n_params, rig->job.model, "[model]",
                      model_config);
    if (st == PST_OK) {
        st = pst_model_build(builder, model_config, rig->job.run.dtype == 0 ? PST_F32 : PST_BF16,
                             &rig->graph, &rig->err);
    }
    if (st == PST_OK) {
        st = pst_graph_slice(rig->graph, pst_job_slices(&rig->job), &rig->err);
    }
    rig->cost.graph = rig->graph;
    rig->cost.cluster = &rig->cluster;
    return st;
}

static inline void job_rig_finish(struct job_rig *rig)
{
    pst_graph_destroy(rig->graph);
    pst_job_finish(&rig->job);
    pst_config_destroy(rig->config);
    memset(rig, 0, sizeof *rig);
}

/* From text to plan, as the program does it; rig->err says why not. */
static inline pst_status job_rig_plan(struct job_rig *rig, const char *toml,
                                      struct pst_planned *ret_planned)
{
    pst_status st = job_rig_init(rig, toml);

    return st == PST_OK ? pst_tune_plan(&rig->job, rig->graph, &rig->cluster, &rig->cost, NULL,
                                        NULL, ret_planned, &rig->err)
                        : st;
}

/* The memory of a device that a refusal says would do, in its words as in its field; 0: none. */
static inline uint64_t job_rig_enough(const struct pst_error *err)
{
    static const char key[] = "cluster.memory = ", least[] = "at least ";
    const char *at = strstr(err->hint, key), *needed = strstr(err->message, least);
    uint64_t bytes = at != NULL       ? strtoull(at + strlen(key), NULL, 10)
                     : needed != NULL ? strtoull(needed + strlen(least), NULL, 10)
                                      : 0;

    if (bytes != err->enough_bytes) {
        fprintf(stderr, "%llu bytes: %s\n", (unsigned long long)err->enough_bytes, err->hint);
        abort();
    }
    return bytes;
}

#endif
