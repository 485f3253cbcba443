/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/solo_partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solo_partition_state.h"

/* Least bytes of a device that has this node alone, one micro-batch in flight. */
static double alone_bytes(struct pst_rcm *rcm, uint32_t node)
{
    const struct pst_problem *problem = rcm->problem;
    double least = INFINITY;

    for (uint32_t i = 0; i < problem->n_micro_batches; i++) {
        for (uint32_t k = 0; k < problem->n_degrees; k++) {
            uint32_t size = problem->micro_batches[i], d = problem->degrees[k];
            const struct pst_rcm_stage stage = {&node, 1, d, size};
            struct pst_rcm_cost cost;

            if (size % d == 0) {
                pst_rcm_cost(rcm, &stage, &cost);
                least = fmin(least, pst_rcm_memory(problem, &cost, d, size, 1));
            }
        }
    }
    return least;
}

/* Whatever a partitioner says: is there a node that no device can hold, and does it say so? */
static pst_status explain(const struct pst_problem *problem, pst_status st, struct pst_error *err)
{
    struct pst_rcm rcm = {NULL, NULL, 0};
    uint32_t worst = PST_NONE;
    double most = 0;
    char name[160];
    size_t used;

    if (st != PST_ERR_INFEASIBLE || err == NULL) {
        return st;
    }
    pst_rcm_init(&rcm, problem);
    for (uint32_t v = 0; v < problem->graph->n_nodes; v++) {
        const struct pst_costed_node *node = &problem->graph->nodes[v];
        double bytes = node->n_configs > 0 ? 0 : alone_bytes(&rcm, v);

        if (bytes > most && isfinite(bytes) && !pst_rcm_fits(problem->memory_bytes, bytes)) {
            worst = v;
            most = bytes;
        }
    }
    pst_rcm_finish(&rcm);
    if (worst != PST_NONE) {
        snprintf(name, sizeof name, "node \"%.140s\" alone", problem->graph->nodes[worst].name);
        used = strlen(err->message);
        if (strstr(err->message, name) == NULL) {
            snprintf(err->message + used, sizeof err->message - used,
                     "; %s is charged %.0f bytes, a device has %.0f", name, ceil(most),
                     problem->memory_bytes);
        }
    }
    return st;
}

pst_status pst_partition_solo_run(const struct pst_problem_job *job,
                                  const struct pst_solo_limits *limits, bool (*cancelled)(void),
                                  struct pst_partition_result *ret_result, struct pst_error *err)
{
    struct pst_partition_answer answer = {.n_stages = 0};
    pst_status st = limits == NULL ? pst_partition_ask(job, cancelled, &answer, err)
                                   : pst_partition_ask_apart(job, limits, &answer, err);

    if (st == PST_OK) {
        st = pst_partition_judge(job, &answer, ret_result, err);
    }
    pst_partition_answer_finish(&answer);
    return explain(job->problem, st, err);
}

void pst_partition_result_finish(struct pst_partition_result *result)
{
    pst_arena_finish(&result->arena);
    memset(result, 0, sizeof *result);
}
