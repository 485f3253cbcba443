/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights and gradients of an executor between steps. Parameters come from the state that a
 * checkpoint saves, on any device. Gradients, and copies that are not saved, are read where they
 * are, in memory of the host: ranks have ended their tasks.
 */
#ifndef TESTS_UNIT_EXEC_VALUES_H
#define TESTS_UNIT_EXEC_VALUES_H

#include <stdlib.h>
#include <string.h>

#include "exec/state.h"

struct values_sought {
    uint32_t parameter;
    uint64_t at, found, n; /* elements before this value; of the one sought, PST_NONE: not there */
};

static inline void values_visit(void *context, const struct pst_state_key *key, uint64_t elems)
{
    struct values_sought *sought = context;

    if (key->kind == PST_STATE_PARAMETER && key->index == sought->parameter) {
        sought->found = sought->at;
        sought->n = elems;
    }
    sought->at += elems;
}

/* PST_ERR_BUG: the plan has no such parameter; else as pst_exec_copy_state. */
static inline pst_status values_of_parameter(struct pst_exec *exec, uint32_t parameter,
                                             float *ret_values)
{
    const struct pst_exec_config *config = &exec->config;
    float **state = calloc(exec->n_ranks, sizeof *state);
    pst_status status = PST_ERR_BUG;
    struct values_sought *sought = calloc(exec->n_ranks, sizeof *sought);

    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        sought[r] = (struct values_sought){.parameter = parameter, .found = PST_NONE};
        pst_exec_state_of(config->plan, config->graph, config->programs[r], values_visit,
                          &sought[r]);
        state[r] = calloc(sought[r].at + 1, sizeof **state);
        status = sought[r].found != PST_NONE ? PST_OK : status;
    }
    status = status == PST_OK ? pst_exec_copy_state(exec, state, NULL) : status;
    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        if (status == PST_OK && sought[r].found != PST_NONE) {
            memcpy(ret_values, state[r] + sought[r].found, sought[r].n * sizeof **state);
        }
        free(state[r]);
    }
    free(sought);
    free(state);
    return status;
}

/* The copy of a rank: replicas and members of a tie have one each. False: it has none. */
static inline bool values_on_rank(const struct pst_exec *exec, uint32_t parameter, uint32_t rank,
                                  float *ret_values)
{
    const struct exec_rank *on = &exec->ranks[rank];

    for (uint32_t i = 0; i < on->n_params; i++) {
        if (on->params[i].parameter == parameter) {
            memcpy(ret_values, exec_master(on, &on->params[i], exec->n_collected),
                   on->params[i].elems * sizeof *ret_values);
            return true;
        }
    }
    return false;
}

/* The summed gradient of the last step, before clipping, of the parameter's owner. */
static inline void values_of_gradient(const struct pst_exec *exec, uint32_t parameter,
                                      float *ret_values)
{
    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        for (uint32_t i = 0; i < exec->ranks[r].n_params; i++) {
            const struct exec_param *param = &exec->ranks[r].params[i];

            if (param->parameter == parameter && param->owner) {
                memcpy(ret_values, param->grads[(exec->n_collected + 1) % 2],
                       param->elems * sizeof *ret_values);
            }
        }
    }
}

#endif
