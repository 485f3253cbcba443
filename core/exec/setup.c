/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares a rank for its first step, on its own thread: device, arena, lists, first values.
 */
#include "exec/state.h"

#include "base/fault.h"
#include "graph/split.h"

uint64_t exec_arena_bytes(const struct pst_exec *exec, uint32_t rank)
{
    const struct pst_exec_config *config = &exec->config;
    const uint64_t train = config->programs[rank]->arena_bytes;
    const uint64_t eval = config->eval_plan != NULL ? config->eval_programs[rank]->arena_bytes : 0;

    return train > eval ? train : eval;
}

static pst_status open_device(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct pst_device_config device_config = config->device_config;
    void *base;
    pst_status status;

    device_config.index = rank->index;
    status = config->device->open(&device_config, &rank->device, err);
    if (status != PST_OK) {
        return status;
    }
    rank->exec->devices[rank->index] = rank->device;
    config->device->enter(rank->device);
    for (uint32_t i = 0; i < config->graph->n_tensors && status == PST_OK; i++) {
        const struct pst_tensor *tensor = &config->graph->tensors[i];

        if (tensor->role == PST_ROLE_ACTIVATION && tensor->dtype != PST_I32) {
            status = config->device->supports(rank->device, tensor->dtype, err);
        }
    }
    if (status != PST_OK) {
        return status;
    }
    rank->arena_bytes = exec_arena_bytes(rank->exec, rank->index);
    status = pst_fault("arena", rank->index)
                 ? pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                            "rank %u: PENSTOCK_FAULT at its arena", rank->index)
                 : config->device->arena(rank->device,
                                         rank->arena_bytes > 0 ? rank->arena_bytes : 1, &base, err);
    rank->base = status == PST_OK ? base : NULL;
    return status;
}

static void bind_versions(struct exec_rank *rank, const struct pst_program_param *from,
                          struct exec_param *to)
{
    to->n_versions = from->n_versions;
    to->versions = pst_arena_array(&rank->memory, from->n_versions, sizeof *to->versions);
    for (uint32_t v = 0; v < from->n_versions; v++) {
        to->versions[v] =
            exec_value(rank, rank->exec->config.programs[rank->index], from->versions[v]);
    }
}

/* Where an accumulator is a piece, the buffers of passes have room: a W leaves all of the gradient
   there. */
static float *staging_of(const struct exec_rank *rank, const struct pst_program_param *from,
                         uint64_t elems)
{
    const struct pst_program *program = rank->exec->config.programs[rank->index];
    const uint32_t whole = from->grads[0];

    if (whole != PST_NONE && program->values[whole].bytes >= elems * sizeof(float)) {
        return exec_value(rank, program, whole);
    }
    PST_ASSERT(program->arena_bytes - program->static_bytes >= elems * sizeof(float));
    return (float *)(rank->base + program->static_bytes);
}

static void bind_params(struct exec_rank *rank)
{
    const struct pst_graph *graph = rank->exec->config.graph;
    const struct pst_program *program = rank->exec->config.programs[rank->index];

    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *from = &program->params[i];
        const struct pst_parameter *parameter = &graph->params[from->parameter];
        const uint64_t begin = /* a sum is a shard */
            from->tie != PST_NONE ? 0 : from->shard.first - from->grad_first;
        uint32_t even = from->tie != PST_NONE ? from->tie : from->grads[0];
        uint32_t odd = from->tie == PST_NONE && rank->exec->config.plan->deferred_step
                           ? from->grads[from->n_grads]
                           : even;

        rank->params[i] = (struct exec_param){
            .parameter = from->parameter,
            .stage = from->stage,
            .dtype = parameter->dtype,
            .owner = from->owner,
            .kind = rank->exec->config.rules != NULL ? parameter->rule : parameter->decay,
            .elems = parameter->elems,
            .shard = from->shard,
            .rows = parameter->dims[0],
            .columns = parameter->rank == 2 ? parameter->dims[1] : 1,
            .factor = parameter->muon,
            .room = exec_value(rank, program, from->room),
            .weights = parameter->dtype == PST_F32 ? NULL : exec_value(rank, program, from->weight),
            .grads = {(float *)exec_value(rank, program, even) + begin,
                      (float *)exec_value(rank, program, odd) + begin},
            .staging = staging_of(rank, from, parameter->elems),
            .slots = {exec_value(rank, program, from->optimizer[0]),
                      exec_value(rank, program, from->optimizer[1])},
        };
        bind_versions(rank, from, &rank->params[i]);
    }
}

/* Elements of a split parameter have other places in each part. */
static bool is_of_part(const struct exec_rank *rank, const struct pst_program_param *row,
                       const struct pst_square_tree *tree)
{
    const struct pst_exec_config *config = &rank->exec->config;

    return !pst_is_split(&config->graph->params[row->parameter]) ||
           tree->part == pst_plan_part(&config->plan->stages[row->stage], rank->index);
}

/* With NORM those that the rank tells; else of all its parameters, whose update asks for them. */
static void bind_squares(struct exec_rank *rank)
{
    const struct pst_exec *exec = rank->exec;
    const struct pst_program *program = exec->config.programs[rank->index];

    rank->squared = pst_arena_array(&rank->memory, exec->n_trees, sizeof *rank->squared);
    for (uint32_t t = 0, i = 0; t < exec->n_trees; t++) {
        const struct pst_square_tree *tree = &exec->trees[t];
        const struct pst_program_param *row;

        while (i < program->n_params && program->params[i].parameter < tree->parameter) {
            i++;
        }
        row = &program->params[i];
        if (i < program->n_params && row->parameter == tree->parameter &&
            is_of_part(rank, row, tree) && tree->first - row->shard.first < row->shard.elems) {
            rank->squared[rank->n_squared++] =
                (struct exec_square){i, row->owner ? t : PST_NONE, tree->first, tree->elems};
        }
    }
}

static void allocate(struct exec_rank *rank)
{
    const struct pst_exec_config *config = &rank->exec->config;
    uint32_t batch = config->plan->batch;

    if (config->eval_plan != NULL && config->eval_plan->batch > batch) {
        batch = config->eval_plan->batch;
    }
    rank->n_params = config->programs[rank->index]->n_params;
    rank->kernels = pst_arena_array(&rank->memory, config->graph->n_ops, sizeof *rank->kernels);
    rank->params = pst_arena_array(&rank->memory, rank->n_params, sizeof *rank->params);
    rank->n_losses = batch;
    bind_squares(rank);
    rank->squares = pst_arena_array(&rank->memory, rank->n_squared, sizeof *rank->squares);
    rank->losses = pst_arena_array(&rank->memory, 2 * (size_t)batch, sizeof *rank->losses);
    for (uint32_t i = 0; i < PST_EXEC_IN_FLIGHT; i++) {
        rank->results[i].table = pst_arena_array(&rank->memory, rank->exec->n_sums, sizeof(double));
    }
}

pst_status exec_setup(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    pst_status status;

    allocate(rank);
    status = open_device(rank, err);
    PST_TRY(status, exec_bind(rank, &rank->train, config->graph, config->plan,
                              config->programs[rank->index], err));
    PST_TRY(status, exec_copies_init(rank, &rank->train, err));
    if (status == PST_OK && config->eval_plan != NULL) {
        status = exec_bind(rank, &rank->eval,
                           config->eval_graph != NULL ? config->eval_graph : config->graph,
                           config->eval_plan, config->eval_programs[rank->index], err);
        PST_TRY(status, exec_bind_output(rank, &rank->eval, err));
    }
    PST_TRY(status, exec_async_init(rank, err));
    if (status == PST_OK) {
        exec_graphs_init(rank);
        bind_params(rank);
        status = exec_begin_state(rank, err);
    }
    return status;
}

void exec_teardown(struct exec_rank *rank)
{
    exec_graphs_finish(rank);
    exec_kernels_destroy(rank);
    if (rank->device != NULL) {
        rank->exec->config.device->close(rank->device);
        rank->device = NULL;
    }
    pst_arena_finish(&rank->memory);
}
