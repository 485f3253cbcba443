/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that outlives a step: weights, older versions of them, slots of the optimizer, running
 * statistics. This file sets first values and copies the state for checkpoints.
 */
#include "exec/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/split.h"

/* Loads an initial value from the model's file, if the file has it. */
static pst_status load_initial(const struct pst_graph *graph, const struct pst_state_key *key,
                               uint64_t elems, float *values, bool *ret_found,
                               struct pst_error *err)
{
    const bool parameter = key->kind == PST_STATE_PARAMETER;
    const struct pst_initial *initial = &pst_graph_model(graph)->initial;

    if (initial->load == NULL || (!parameter && key->kind != PST_STATE_OPERATOR)) {
        return PST_OK;
    }
    return initial->load(initial->context,
                         parameter ? graph->params[key->index].name : graph->ops[key->index].name,
                         parameter ? PST_NONE : key->number, elems, values, ret_found, err);
}

/* Devices that hold no values begin with none. */
static pst_status load_value(const struct exec_rank *rank, uint32_t kind, uint32_t index,
                             uint32_t number, uint64_t elems, float *values, bool *ret_found,
                             struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_state_key key = {.kind = kind, .index = index, .number = number};

    pst_status status = PST_OK;

    *ret_found = false;
    if ((config->device->flags & PST_DEVICE_NO_DATA) != 0) {
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

/* After t steps: weights that are `behind` updates older than the newest, in the working type. */
static void *version_of(const struct exec_rank *rank, const struct exec_param *param, uint64_t t,
                        uint32_t behind)
{
    const uint64_t newest = t * rank->exec->n_updates;
    const uint32_t n = param->n_versions;

    return param->versions[(newest % n + n - behind) % n];
}

float *exec_master(const struct exec_rank *rank, const struct exec_param *param, uint64_t t)
{
    return param->dtype == PST_F32 ? exec_shard_of(param, version_of(rank, param, t, 0))
                                   : param->weights;
}

/* One of before the first step. */
static void *version_at(const struct exec_rank *rank, const struct exec_param *param,
                        uint32_t behind)
{
    return version_of(rank, param, rank->exec->config.first_step, behind);
}

/* Room for the values of any parameter of a rank. */
struct room {
    float *own;   /* the elements that the rank has; all where the parameter is not split */
    float *whole; /* all of a split one */
};

static const struct pst_parameter *parameter_of(const struct exec_rank *rank,
                                                const struct exec_param *param)
{
    return &rank->exec->config.graph->params[param->parameter];
}

static void take_run(void *context, uint64_t whole, uint64_t own, uint64_t n)
{
    const struct room *room = context;

    memcpy(room->own + own, room->whole + whole, n * sizeof *room->own);
}

/* Picks the elements of the rank's part out of a split parameter. */
static void take_own(const struct exec_rank *rank, const struct exec_param *param,
                     struct room *room)
{
    const struct pst_plan_stage *stage = &rank->exec->config.plan->stages[param->stage];
    const struct pst_parameter *parameter = parameter_of(rank, param);

    if (pst_is_split(parameter)) {
        if (parameter->box.padding > 0) {
            memset(room->own, 0, parameter->elems * sizeof *room->own);
        }
        pst_box_runs(parameter, pst_plan_part(stage, rank->index), take_run, room);
    }
}

/* Loads into room->own. Sources know whole parameters. */
static pst_status load_own(const struct exec_rank *rank, const struct exec_param *param,
                           uint32_t kind, uint32_t number, struct room *room, bool *ret_found,
                           struct pst_error *err)
{
    const bool split = pst_is_split(parameter_of(rank, param));
    const uint64_t elems = split ? pst_box_whole(parameter_of(rank, param)) : param->elems;
    pst_status status = load_value(rank, kind, param->parameter, number, elems,
                                   split ? room->whole : room->own, ret_found, err);

    if (status == PST_OK && *ret_found) {
        take_own(rank, param, room);
    }
    return status;
}

/* Makes values by the seed. An element has the value that it has without parts. */
static void make_own(const struct exec_rank *rank, const struct exec_param *param,
                     struct room *room)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_graph *graph = pst_graph_model(config->graph);
    const bool split = pst_is_split(parameter_of(rank, param));

    pst_parameter_init(&graph->params[param->parameter], config->seed,
                       split ? room->whole : room->own);
    take_own(rank, param, room);
}

/* The elements of a version: as they are, or rounded from where they are staged. */
static void upload_version(struct exec_rank *rank, const struct exec_param *param, uint32_t age,
                           const float *values)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    void *version = version_at(rank, param, age);

    if (param->kept.elems == 0) {
        return;
    }
    device->upload(rank->device, param->dtype == PST_F32 ? version : param->staging,
                   values + param->kept.first, param->kept.elems * sizeof *values);
    if (param->dtype != PST_F32) {
        device->refresh(rank->device, version, param->staging, param->dtype, param->kept.elems);
    }
}

/* Older versions, where the source has them. */
static pst_status load_versions(struct exec_rank *rank, const struct exec_param *param,
                                struct room *room, bool *ret_found, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t k = 1; k < param->n_versions && status == PST_OK; k++) {
        status = load_own(rank, param, PST_STATE_VERSION, k, room, &ret_found[k], err);
        if (status == PST_OK && ret_found[k]) {
            upload_version(rank, param, k, room->own);
        }
    }
    return status;
}

static pst_status begin_weights(struct exec_rank *rank, const struct exec_param *param,
                                struct room *room, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    bool *found = pst_alloc(param->n_versions, sizeof *found); /* [0]: the newest */
    pst_status status = load_versions(rank, param, room, found, err);

    PST_TRY(status, load_own(rank, param, PST_STATE_PARAMETER, 0, room, &found[0], err));
    if (status == PST_OK && !found[0] && (device->flags & PST_DEVICE_NO_DATA) == 0) {
        make_own(rank, param, room);
    }
    for (uint32_t k = 0; k < param->n_versions && status == PST_OK; k++) {
        if (k == 0 || !found[k]) {
            upload_version(rank, param, k, room->own);
        }
    }
    if (status == PST_OK && param->weights != NULL) {
        device->upload(rank->device, param->weights, room->own + param->shard.first,
                       param->shard.elems * sizeof(float));
    }
    free(found);
    return status;
}

static pst_status begin_slots(struct exec_rank *rank, const struct exec_param *param,
                              struct room *room, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < 2 && status == PST_OK; s++) {
        bool found;

        if (param->slots[s] == NULL) {
            continue;
        }
        status = load_own(rank, param, PST_STATE_SLOT, s, room, &found, err);
        if (status == PST_OK && found) {
            device->upload(rank->device, param->slots[s], room->own + param->shard.first,
                           param->shard.elems * sizeof(float));
        } else if (status == PST_OK) {
            device->zero(rank->device, param->slots[s], param->shard.elems * sizeof(float));
        }
    }
    return status;
}

static pst_status begin_params(struct exec_rank *rank, struct pst_error *err)
{
    const bool hollow = (rank->exec->config.device->flags & PST_DEVICE_NO_DATA) != 0;
    uint64_t most = 1, most_whole = 1;
    pst_status status = PST_OK;
    struct room room;

    for (uint32_t i = 0; i < rank->n_params && !hollow; i++) {
        const struct pst_parameter *parameter = parameter_of(rank, &rank->params[i]);
        const uint64_t whole = pst_is_split(parameter) ? pst_box_whole(parameter) : 0;

        most = parameter->elems > most ? parameter->elems : most;
        most_whole = whole > most_whole ? whole : most_whole;
    }
    room.own = pst_alloc(most, sizeof *room.own);
    room.whole = pst_alloc(most_whole, sizeof *room.whole);
    for (uint32_t i = 0; i < rank->n_params && status == PST_OK; i++) {
        status = begin_weights(rank, &rank->params[i], &room, err);
        PST_TRY(status, begin_slots(rank, &rank->params[i], &room, err));
    }
    free(room.whole);
    free(room.own);
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

    if (value == PST_NONE || rank->exec->config.graph->ops[op].positions > 0) {
        return PST_OK; /* what attention has seen: nothing */
    }
    n = program->values[value].bytes / sizeof *values;
    values = pst_alloc(n, sizeof *values);
    status = load_value(rank, PST_STATE_OPERATOR, op, number, n, values, &found, err);
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

/* --- copies ----------------------------------------------------------------------------------- */

static uint64_t state_elems(const struct pst_program *program, uint32_t op, uint32_t number)
{
    const uint32_t value = program->state_values[2 * (size_t)op + number];

    return value == PST_NONE ? 0 : program->values[value].bytes / sizeof(float);
}

void pst_exec_state_of(const struct pst_plan *plan, const struct pst_program *program,
                       pst_state_visit *visit, void *context)
{
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *param = &program->params[i];
        const struct pst_shard shard = param->shard;
        const bool saves = param->owner && shard.elems > 0;
        struct pst_state_key key = {.index = param->parameter};

        for (uint32_t k = 0; k < param->n_versions && saves; k++) {
            key.kind = k == 0 ? PST_STATE_PARAMETER : PST_STATE_VERSION;
            key.number = k;
            visit(context, &key, shard.first, shard.elems);
        }
        key.kind = PST_STATE_SLOT;
        for (uint32_t s = 0; s < 2 && saves; s++) {
            key.number = s;
            if (param->optimizer[s] != PST_NONE) {
                visit(context, &key, shard.first, shard.elems);
            }
        }
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        for (uint32_t i = 0; i < 2 * stage->n_nodes && stage->ranks[0] == program->rank; i++) {
            const struct pst_state_key key = {
                .kind = PST_STATE_OPERATOR, .index = stage->nodes[i / 2], .number = i % 2};
            const uint64_t elems = state_elems(program, key.index, key.number);

            if (elems > 0) {
                visit(context, &key, 0, elems);
            }
        }
    }
}

/* Where the next copy goes. */
struct copying {
    struct exec_rank *rank;
    uint64_t t;
    float *values;
};

static const struct exec_param *find_param(const struct exec_rank *rank, uint32_t parameter)
{
    uint32_t i = 0;

    while (rank->params[i].parameter != parameter) {
        i++;
    }
    return &rank->params[i];
}

static void copy_one(void *context, const struct pst_state_key *key, uint64_t first, uint64_t elems)
{
    struct copying *copying = context;
    struct exec_rank *rank = copying->rank;
    const struct pst_program *program = rank->exec->config.programs[rank->index];
    const struct exec_param *param = NULL;
    const void *src;
    uint32_t dtype = PST_F32;

    (void)first; /* what is here begins with it */
    if (key->kind != PST_STATE_OPERATOR) {
        param = find_param(rank, key->index);
    }
    if (param == NULL) {
        src =
            exec_value(rank, program, program->state_values[2 * (size_t)key->index + key->number]);
    } else if (key->kind == PST_STATE_SLOT) {
        src = param->slots[key->number];
    } else if (key->kind == PST_STATE_VERSION) {
        src = exec_shard_of(param, version_of(rank, param, copying->t, key->number));
        dtype = param->dtype;
    } else {
        src = exec_master(rank, param, copying->t);
    }
    exec_copy_floats(rank, copying->values, src, dtype, elems);
    copying->values += elems;
}

void exec_copy_state(struct exec_rank *rank, const struct exec_task *task)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct copying copying = {
        .rank = rank, .t = task->t, .values = task->state[rank->index - rank->exec->first_local]};

    if ((config->device->flags & PST_DEVICE_NO_DATA) == 0) {
        pst_exec_state_of(config->plan, config->programs[rank->index], copy_one, &copying);
    }
}
