/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner on its own, asked from a test: a chain written down in the program, the answer and
 * what was remarked. Include once, after cmocka.
 */
#ifndef PENSTOCK_TESTS_CHAIN_RIG_H
#define PENSTOCK_TESTS_CHAIN_RIG_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ask/problem_partition.h"
#include "models/costed/costed_file.h"

#define CHAIN_NODES 512
#define CHAIN_SIZES 8

/* A problem under construction; change what you like before chain_ask. */
struct chain_rig {
    struct pst_costed_node nodes[CHAIN_NODES];
    struct pst_costed_edge edges[CHAIN_NODES];
    struct pst_costed_times times[CHAIN_NODES][CHAIN_SIZES];
    char names[CHAIN_NODES][12];
    struct pst_costed draft;
    struct pst_problem problem;
    uint32_t sizes[CHAIN_SIZES], degrees[CHAIN_SIZES];
};

/* A chain of n nodes that cost nothing; one device, one sample, no limit, weight multiplier 1. */
static inline void chain_init(struct chain_rig *s, uint32_t n)
{
    memset(s, 0, sizeof *s);
    for (uint32_t v = 0; v < n; v++) {
        snprintf(s->names[v], sizeof s->names[v], "n%u", v);
        s->nodes[v] = (struct pst_costed_node){.name = s->names[v], .op = "block"};
        if (v > 0) {
            s->edges[v - 1] = (struct pst_costed_edge){v - 1, v, 0};
        }
    }
    s->draft = (struct pst_costed){.name = "chain",
                                   .batch = 1,
                                   .n_nodes = n,
                                   .nodes = s->nodes,
                                   .n_edges = n - 1,
                                   .edges = s->edges};
    s->sizes[0] = s->degrees[0] = 1;
    s->problem = (struct pst_problem){.path = "test",
                                      .n_devices = 1,
                                      .memory_bytes = (double)INFINITY,
                                      .mini_batch = 1,
                                      .n_micro_batches = 1,
                                      .micro_batches = s->sizes,
                                      .n_degrees = 1,
                                      .degrees = s->degrees,
                                      .weight_multiplier = 1,
                                      .in_flight = 1,
                                      .link_directions = 1,
                                      .staging = 2};
}

/* All nodes alike: F and B in us at each size of `sizes`, bytes a node, a sample, an edge. */
static inline void chain_blocks(struct chain_rig *s, uint32_t n_sizes, const uint32_t *sizes,
                                const double (*us)[2], double weight, double saved, double message)
{
    for (uint32_t v = 0; v < s->draft.n_nodes; v++) {
        s->nodes[v].param_bytes = weight;
        s->nodes[v].saved_bytes = saved;
        s->nodes[v].output_bytes = message;
        s->nodes[v].n_times = n_sizes;
        s->nodes[v].times = s->times[v];
        for (uint32_t i = 0; i < n_sizes; i++) {
            s->times[v][i] = (struct pst_costed_times){.samples = sizes[i],
                                                       .ns = {us[i][0] * 1000, us[i][1] * 1000, 0}};
        }
        if (v > 0) {
            s->edges[v - 1].bytes = message;
        }
    }
    memcpy(s->sizes, sizes, n_sizes * sizeof *sizes);
    s->problem.n_micro_batches = n_sizes;
}

/* options: a JSON object, or NULL. The result is to be finished where the status is PST_OK. */
static inline pst_status chain_ask(struct chain_rig *s, const char *id, const char *options,
                                   struct pst_partition_result *ret_result,
                                   struct pst_error *ret_err)
{
    const struct pst_problem_job job = {.id = id, .problem = &s->problem};
    struct pst_error err = {0};
    pst_status st;

    if (pst_costed_create(&s->draft, &s->problem.graph, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    if (options != NULL) {
        s->problem.options = json_loads(options, 0, NULL);
        assert_non_null(s->problem.options);
    }
    memset(ret_err, 0, sizeof *ret_err);
    st = pst_problem_partition(&job, NULL, NULL, ret_result, ret_err);
    if (st != PST_OK && st != PST_ERR_INFEASIBLE) {
        fail_msg("%s: %s", ret_err->kind, ret_err->message);
    }
    json_decref(s->problem.options);
    s->problem.options = NULL;
    pst_costed_destroy(s->problem.graph);
    s->problem.graph = NULL;
    return st;
}

static inline const struct pst_partition_remark *chain_remark(
    const struct pst_partition_result *result, const char *key)
{
    for (uint32_t i = 0; i < result->n_remarks; i++) {
        if (strcmp(result->remarks[i].key, key) == 0) {
            return &result->remarks[i];
        }
    }
    fail_msg("no remark \"%s\"", key);
    return NULL;
}

static inline double chain_number(const struct pst_partition_result *result, const char *key)
{
    const struct pst_partition_remark *remark = chain_remark(result, key);

    assert_int_not_equal(remark->type, PST_REMARK_TEXT);
    return remark->number;
}

static inline const char *chain_text(const struct pst_partition_result *result, const char *key)
{
    return chain_remark(result, key)->text;
}

/* Equal but for rounding. */
static inline void chain_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b))) {
        fail_msg("%.15g is not %.15g", a, b);
    }
}

#endif
