/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a rank between steps: parameters, gradients, how far its arena was used; what an
 * evaluation leaves, which is the kept tensor of the last micro-batch, as f32.
 */
#include "exec/state.h"

#include <string.h>

#include "graph/split.h"

#define CHUNK 1024

pst_status exec_bind_output(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_graph *graph = rank->exec->config.graph;
    const struct pst_program *program = list->program;

    list->output = pst_arena_array(&rank->memory, program->n_sections, sizeof *list->output);
    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_value *kept;

        if (program->sections[s].kept_output == PST_NONE) {
            continue;
        }
        if (program->sections[s].kept_output >= program->n_values) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal", "rank %u keeps no such buffer",
                            rank->index);
        }
        kept = &program->values[program->sections[s].kept_output];
        list->output_dtype = graph->tensors[kept->what].dtype;
        if (list->output_dtype != PST_F32 && list->output_dtype != PST_BF16) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "tensor %s: its type cannot be read as f32",
                            graph->tensors[kept->what].name);
        }
        list->output[s] = rank->base + kept->offset;
    }
    return PST_OK;
}

/* Length of the last axis. */
static uint64_t last_of(const struct pst_tensor *tensor)
{
    return tensor->rank == 0 ? 1 : tensor->dims[tensor->rank - 1];
}

/* Each replica of a stage has its own rows of a micro-batch. Its parts have the same, or columns of
   them, some of which may be padding. */
struct exec_output exec_output_of(const struct pst_exec *exec, uint32_t rank, uint32_t section)
{
    const struct pst_exec_config *config = &exec->config;
    const struct pst_graph *graph = config->graph, *model = pst_graph_model(graph);
    const struct pst_program *program = config->eval_programs[rank];
    const uint32_t kept = program->sections[section].kept_output;
    struct exec_output output = {0};

    if (kept < program->n_values) {
        const struct pst_value *value = &program->values[kept];
        const struct pst_plan_stage *stage = &config->eval_plan->stages[value->stage];
        const uint32_t replica = pst_plan_replica(stage, rank), part = pst_plan_part(stage, rank);
        const struct pst_tensor *own = &graph->tensors[value->what];
        const uint64_t elems = value->bytes / pst_dtype_bytes(own->dtype);
        const uint64_t columns =
            value->what == graph->logits ? last_of(&model->tensors[model->logits]) : last_of(own);

        output = (struct exec_output){0, 1, elems, 0, part > 0 ? 0 : elems, elems};
        if (last_of(own) < columns) { /* with one class part 0 has all of it */
            output.stride = last_of(own);
            output.columns = columns;
            output.first = part * output.stride;
            output.n = pst_own_places(columns, output.stride, part);
            output.n_rows = elems / output.stride;
        }
        output.row = replica == PST_NONE ? 0 : replica * output.n_rows;
    }
    return output;
}

uint64_t exec_output_row(const struct exec_output *output, uint64_t row, uint64_t n_values,
                         uint64_t *ret_first)
{
    *ret_first = (output->row + row) * output->columns + output->first;
    return *ret_first >= n_values              ? 0
           : n_values - *ret_first < output->n ? n_values - *ret_first
                                               : output->n;
}

/* Values of a device as f32. No values have no place: of an empty piece there is no buffer. */
void exec_copy_floats(const struct exec_rank *rank, float *values, const void *src, uint32_t dtype,
                      uint64_t n_values)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    uint16_t halves[CHUNK];

    if (n_values == 0) {
        return;
    }
    if (dtype == PST_F32) {
        device->download(rank->device, values, src, n_values * sizeof *values);
        return;
    }
    for (uint64_t at = 0; at < n_values; at += CHUNK) {
        uint64_t n = n_values - at < CHUNK ? n_values - at : CHUNK;

        device->download(rank->device, halves, (const uint16_t *)src + at, n * sizeof *halves);
        for (uint64_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)halves[i] << 16;

            memcpy(&values[at + i], &bits, sizeof bits);
        }
    }
}

void exec_copy_output(struct exec_rank *rank, const struct exec_list *list, uint32_t section,
                      float *values, uint64_t n_values)
{
    const struct exec_output output = exec_output_of(rank->exec, rank->index, section);
    const char *src = list->output[section];

    for (uint64_t row = 0; row < output.n_rows; row++) {
        uint64_t first;
        const uint64_t n = exec_output_row(&output, row, n_values, &first);

        if (n > 0) {
            exec_copy_floats(rank, values + first, src, list->output_dtype, n);
        }
        src += output.stride * pst_dtype_bytes(list->output_dtype);
    }
}

/* --- memory and parameters -------------------------------------------------------------------- */

#define WORD 4u

/*
 * The arena starts out as 0xFF bytes, which no number is made of that a run writes: a NaN that
 * arithmetic makes has a zero in it, and no index is -1. But it may end in one (-infinity, NaN), so
 * the search goes by words. Workspace is counted as far as kernels got it: they need not fill it.
 */
static uint64_t scan_arena(const struct exec_rank *rank)
{
    unsigned char chunk[16384];
    uint64_t end = rank->arena_bytes, begin = end;

    while (begin > 0 && end == begin) {
        begin = end > sizeof chunk ? end - sizeof chunk : 0;
        rank->exec->config.device->download(rank->device, chunk, rank->base + begin, end - begin);
        while (end > begin && chunk[end - begin - 1] == 0xFF) {
            end--;
        }
    }
    end = (end + WORD - 1) / WORD * WORD;
    return end < rank->arena_bytes ? end : rank->arena_bytes;
}

uint64_t exec_scan_peak(const struct exec_rank *rank)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const uint64_t end = device->reached != NULL ? device->reached(rank->device) : scan_arena(rank);

    return end > rank->handed_bytes ? end : rank->handed_bytes;
}

/* The shards of all who answer for the parameter; or what one rank has of it. */
void exec_copy_parameter(struct exec_rank *rank, const struct exec_task *task)
{
    bool gradient = task->command == EXEC_GRADIENT;

    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];
        const struct pst_shard shard = param->shard;

        if (param->parameter != task->parameter ||
            (task->of_rank == PST_NONE ? !param->owner : task->of_rank != rank->index)) {
            continue;
        }
        if (task->of_rank != PST_NONE && param->dtype == PST_F32 && !gradient) {
            exec_copy_floats(rank, task->values + param->kept.first,
                             param->versions[task->t * rank->exec->n_updates % param->n_versions],
                             PST_F32, param->kept.elems);
        } else {
            exec_copy_floats(rank, task->values + shard.first,
                             gradient ? param->grads[(task->t + 1) % 2]
                                      : exec_master(rank, param, task->t),
                             PST_F32, shard.elems);
        }
    }
}
