/* SPDX-License-Identifier: Apache-2.0
 *
 * What outlives a step: weights, older versions of them, slots of the optimizer, running
 * statistics. Where they begin.
 */
#include "exec/state.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/builder.h"

/* What the model's file has. */
static pst_status load_initial(const struct pst_graph *graph, const struct pst_state_key *key,
                               uint64_t elems, float *values, bool *ret_found,
                               struct pst_error *err)
{
    const bool parameter = key->kind == PST_STATE_PARAMETER;

    if (graph->initial.load == NULL || (!parameter && key->kind != PST_STATE_OPERATOR)) {
        return PST_OK;
    }
    return graph->initial.load(graph->initial.context,
                               parameter ? graph->params[key->index].name
                                         : graph->ops[key->index].name,
                               parameter ? PST_NONE : key->number, elems, values, ret_found, err);
}

/* Devices that hold no values begin with none. */
static pst_status load(const struct exec_rank *rank, uint32_t kind, uint32_t index, uint32_t number,
                       uint64_t elems, float *values, bool *ret_found, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_state_key key = {.kind = kind, .index = index, .number = number};

    pst_status status = PST_OK;

    *ret_found = false;
    if ((config->device->flags & PST_DEVICE_HOLLOW) != 0) {
        return PST_OK;
    }
    if (config->source != NULL) {
        status = config->source->load(config->source->context, &key, elems, values, ret_found, err);
    }
    return status != PST_OK || *ret_found
               ? status
               : load_initial(config->graph, &key, elems, values, ret_found, err);
}

/* --- parameters ------------------------------------------------------------------------------- */

/* The version that is `behind` the newest of before the first step. */
static void *version_at(const struct exec_rank *rank, const struct exec_param *param,
                        uint32_t behind)
{
    const uint64_t newest = rank->exec->config.first_step * rank->exec->n_updates;
    const uint32_t n = param->n_versions;

    return param->versions[(newest % n + n - behind) % n];
}

/* Older versions, where the source has them; the master is where working copies are made from. */
static pst_status load_versions(struct exec_rank *rank, const struct exec_param *param,
                                float *values, bool *ret_found, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const bool f32 = param->dtype == PST_F32;
    pst_status status = PST_OK;

    for (uint32_t k = 1; k < param->n_versions && status == PST_OK; k++) {
        void *version = version_at(rank, param, k);

        status = load(rank, PST_STATE_VERSION, param->parameter, k, param->elems, values,
                      &ret_found[k], err);
        if (status == PST_OK && ret_found[k]) {
            device->upload(rank->device, f32 ? version : param->weights, values,
                           param->elems * sizeof *values);
        }
        if (status == PST_OK && ret_found[k] && !f32) {
            device->refresh(rank->device, version, param->weights, param->dtype, param->elems);
        }
    }
    return status;
}

static pst_status begin_weights(struct exec_rank *rank, const struct exec_param *param,
                                float *values, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_device_ops *device = config->device;
    float *master = param->dtype == PST_F32 ? version_at(rank, param, 0) : param->weights;
    bool *found = pst_alloc(param->n_versions, sizeof *found); /* [0]: the newest */
    pst_status status = load_versions(rank, param, values, found, err);

    if (status == PST_OK) {
        status = load(rank, PST_STATE_PARAMETER, param->parameter, 0, param->elems, values,
                      &found[0], err);
    }
    if (status == PST_OK && !found[0] && (device->flags & PST_DEVICE_HOLLOW) == 0) {
        pst_parameter_init(&config->graph->params[param->parameter], config->seed, values);
    }
    if (status == PST_OK) {
        device->upload(rank->device, master, values, param->elems * sizeof *values);
    }
    for (uint32_t k = 0; k < param->n_versions && status == PST_OK; k++) {
        void *version = version_at(rank, param, k);

        if (version != master && (k == 0 || !found[k])) {
            device->refresh(rank->device, version, master, param->dtype, param->elems);
        }
    }
    free(found);
    return status;
}

static pst_status begin_slots(struct exec_rank *rank, const struct exec_param *param, float *values,
                              struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < 2 && status == PST_OK; s++) {
        bool found;

        if (param->slots[s] == NULL) {
            continue;
        }
        status = load(rank, PST_STATE_SLOT, param->parameter, s, param->elems, values, &found, err);
        if (status == PST_OK && found) {
            device->upload(rank->device, param->slots[s], values, param->elems * sizeof *values);
        } else if (status == PST_OK) {
            device->zero(rank->device, param->slots[s], param->elems * sizeof(float));
        }
    }
    return status;
}

static pst_status begin_params(struct exec_rank *rank, struct pst_error *err)
{
    const bool hollow = (rank->exec->config.device->flags & PST_DEVICE_HOLLOW) != 0;
    uint64_t most = 1;
    pst_status status = PST_OK;
    float *values;

    for (uint32_t i = 0; i < rank->n_params && !hollow; i++) {
        most = rank->params[i].elems > most ? rank->params[i].elems : most;
    }
    values = pst_alloc(most, sizeof *values);
    for (uint32_t i = 0; i < rank->n_params && status == PST_OK; i++) {
        status = begin_weights(rank, &rank->params[i], values, err);
        if (status == PST_OK) {
            status = begin_slots(rank, &rank->params[i], values, err);
        }
    }
    free(values);
    return status;
}

/* --- running statistics ----------------------------------------------------------------------- */

/* They start as those of a unit normal: mean 0, variance 1. */
static pst_status begin_operator(struct exec_rank *rank, uint32_t op, uint32_t number,
                                 struct pst_error *err)
{
    const struct pst_program *program = rank->exec->config.programs[rank->index];
    const uint32_t value = program->state_values[2 * (size_t)op + number];
    bool found;
    pst_status status;
    uint64_t n;
    float *values;

    if (value == PST_NONE) {
        return PST_OK;
    }
    n = program->values[value].bytes / sizeof *values;
    values = pst_alloc(n, sizeof *values);
    status = load(rank, PST_STATE_OPERATOR, op, number, n, values, &found, err);
    for (uint64_t i = 0; i < n && status == PST_OK && !found; i++) {
        values[i] = number == 0 ? 0.0f : 1.0f;
    }
    if (status == PST_OK) {
        rank->exec->config.device->upload(rank->device, exec_value(rank, program, value), values,
                                          n * sizeof *values);
    }
    free(values);
    return status;
}

pst_status exec_begin_state(struct exec_rank *rank, struct pst_error *err)
{
    pst_status status = begin_params(rank, err);

    for (uint32_t i = 0; i < 2 * rank->exec->config.graph->n_ops && status == PST_OK; i++) {
        status = begin_operator(rank, i / 2, i % 2, err);
    }
    return status;
}
