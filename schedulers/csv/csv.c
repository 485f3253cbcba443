/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a file: PyTorch's schedule CSV (torch.distributed.pipelining), as other tools write
 * it, as a person edits it, or as `penstock export pytorch-csv` does. It decides nothing; the file
 * fixes devices, stages, their places and the number of micro-batches.
 */
#include <stdio.h>
#include <string.h>

#include "file.h"

struct config {
    const char *file;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, file, PST_PARAM_PATH, NULL, NULL,
              "The schedule: one row per rank, one action per cell, as in 0F0,0F1,0B0,0B1."),
};

struct question {
    const struct pst_host *host;
    const struct config *config;
    struct csv_file *file;
};

/* n bytes that live as long as the instance. */
static void *keep(const struct pst_host *host, const void *from, size_t n)
{
    void *kept = host->alloc(host, n, _Alignof(max_align_t));

    if (kept == NULL) {
        call_end(PST_ERR_NOMEM);
    }
    return memcpy(kept, from, n);
}

/* Reads and proves the file. A cell's row and column are for the proof alone. */
static pst_status open_file(void *question_)
{
    struct question *question = question_;
    const struct pst_host *host = question->host;
    struct csv_file file = {.host = host, .path = question->config->file};
    char note[200];

    csv_read(&file);
    if (file.n_dropped > 0) {
        snprintf(note, sizeof note,
                 "the schedule's %u UNSHARD, RESHARD, REDUCE_GRAD and WAIT actions are left out: "
                 "parameters are whole here, the host reduces gradients and waits for sends",
                 file.n_dropped);
        host->log(host, PST_LOG_WARN, note);
    }
    file.cells = keep(host, file.cells, file.n_cells * sizeof *file.cells);
    file.row_of_stage = keep(host, file.row_of_stage, file.n_stages * sizeof *file.row_of_stage);
    question->file = keep(host, &file, sizeof file);
    return PST_OK;
}

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct question question = {.host = host, .config = config};
    pst_status status = call_run(open_file, &question);

    if (status == PST_OK) {
        *ret_self = question.file;
    }
    return status;
}

PST_DESTROY_NOTHING

static pst_status shape(void *self, uint32_t *ret_n_devices, uint32_t *ret_n_stages,
                        uint32_t *ret_n_microbatches)
{
    const struct csv_file *file = self;

    *ret_n_devices = file->n_rows;
    *ret_n_stages = file->n_stages;
    *ret_n_microbatches = file->n_microbatches;
    return PST_OK;
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    const struct csv_file *file = self;

    if (n_devices != file->n_rows) {
        return pst_failf(file->host, PST_ERR_CONFIG,
                         "%s has %u rows, one per device, but there are %u devices", file->path,
                         file->n_rows, n_devices);
    }
    ret_topology->n_stages = file->n_stages;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = file->n_microbatches;
    ret_topology->microbatch_multiple = file->n_microbatches;
    return PST_OK;
}

static uint32_t device_of(void *self, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    const struct csv_file *file = self;

    (void)n_devices;
    (void)n_stages;
    return stage < file->n_stages ? file->row_of_stage[stage] : PST_NONE;
}

static pst_status check_instance(const struct csv_file *file, const struct pst_schedule_in *in)
{
    if (in->n_devices != file->n_rows || in->n_stages != file->n_stages) {
        return pst_failf(file->host, PST_ERR_UNSUPPORTED,
                         "%s is for %u stages on %u devices, not for %u on %u", file->path,
                         file->n_stages, file->n_rows, in->n_stages, in->n_devices);
    }
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        if (stage->n_microbatches != file->n_microbatches) {
            return pst_failf(file->host, PST_ERR_UNSUPPORTED,
                             "%s has %u micro-batches, but stage %u has %u here; it can run no "
                             "other number",
                             file->path, file->n_microbatches, s, stage->n_microbatches);
        }
        if (stage->device != file->row_of_stage[s]) {
            return pst_failf(file->host, PST_ERR_UNSUPPORTED,
                             "%s has stage %u on row %u, but here it is on device %u", file->path,
                             s, file->row_of_stage[s] + 1, stage->device);
        }
    }
    return PST_OK;
}

static pst_status schedule(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct csv_file *file = self;
    pst_status status = check_instance(file, in);

    for (uint32_t i = 0; status == PST_OK && i < file->n_cells; i++) {
        const struct csv_cell *cell = &file->cells[i];

        if (cell->opens_pair) {
            const struct csv_cell *back = &file->cells[++i];

            status = out->pair(out, cell->row - 1, cell->stage, cell->microbatch, back->kind,
                               back->stage, back->microbatch);
        } else if (cell->kind <= PST_PASS_BW) {
            status = out->emit(out, cell->row - 1, cell->kind, cell->stage, cell->microbatch);
        }
    }
    return status;
}

static const struct pst_scheduler scheduler = {
    .size = sizeof scheduler,
    .topology = topology,
    .device_of = device_of,
    .schedule = schedule,
};

static const struct pst_fixed_shape fixed_shape = {.size = sizeof fixed_shape, .shape = shape};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_SCHEDULER) == 0     ? (const void *)&scheduler
           : strcmp(id, PST_FIXED_SHAPE) == 0 ? (const void *)&fixed_shape
                                              : NULL;
}

static const char *const provides[] = {"chain",     "split-backward",     "chunks",
                                       "placement", "import=pytorch-csv", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "csv", "1.0"),
    .summary = "The order of a file in PyTorch's schedule CSV format, both dialects.",
    .reference = "PyTorch, torch.distributed.pipelining: the CSV form of pipeline schedules",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
